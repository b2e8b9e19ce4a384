package table_test

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// TestConditionsOfIndexesAreChecked checks that an index is refused whose condition fails for
// every row, and that rows can still be written then.
func TestConditionsOfIndexesAreChecked(t *testing.T) {
	db := open(t, nil)
	const columns = `"columns":[{"name":"id","type":"int64"},{"name":"s","type":"string"}],
	 "primary_key":["id"]`
	tab := create(t, db, `{"name":"t",`+columns+`}`)
	five := expr.Const{Value: expr.Int(5)}
	for _, where := range []expr.Expr{
		expr.Cmp{Op: expr.Gt, L: tab.Schema().Ref(0, 1), R: five},
		expr.Cmp{Op: expr.Gt, L: expr.Arith{Op: expr.Add, L: tab.Schema().Ref(0, 1), R: five},
			R: five},
		expr.Like{X: tab.Schema().Ref(0, 1), Pattern: tab.Schema().Ref(0, 0)},
	} {
		x := schema.Index{Name: "x", Where: where,
			Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 0}}}}
		if err := db.CreateIndex(ctx, "t", x, nil); !errors.Is(err, table.ErrInvalid) {
			t.Errorf("CREATE INDEX with the condition %s: %v", where, err)
		}
		x.State = schema.Ready
		def, err := tab.Schema().AddIndex(x)
		if err != nil {
			t.Fatal(err)
		}
		def.Name = "u"
		if _, err := db.CreateTable(ctx, def); !errors.Is(err, table.ErrInvalid) {
			t.Errorf("CREATE TABLE with the condition %s: %v", where, err)
		}
	}
	if err := tab.Insert(ctx, row(t, 1, "a")); err != nil {
		t.Fatal(err)
	}
	verify(t, tab)
}
