package typed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// Calls on tables report a nil context as an invalid argument.
func TestNilContextOfTables(t *testing.T) {
	type pair struct {
		A int64 `kstone:"a,pk"`
		B int64 `kstone:"b"`
	}
	var none context.Context
	e, err := engine.Open("test", &engine.Options{InMemory: true})
	fatal(t, err)
	defer e.Close()
	pairs := typed.NewTable[pair]("pairs")
	db, err := local.Open(context.Background(), e, nil)
	fatal(t, err)
	fatal(t, typed.Migrate(context.Background(), db, pairs))
	a := typed.Col(pairs, func(p *pair) *int64 { return &p.A })
	_, opened := local.Open(none, e, nil)
	_, found := pairs.Get(none, db, a.Eq(1))
	_, counted := pairs.Where(a.Gt(1)).Count(none, db)
	_, deleted := pairs.DeleteWhere(none, db, a.Gt(1))
	_, inserted := pairs.InsertMany(none, db, []pair{{1, 2}})
	for name, err := range map[string]error{
		"Open": opened, "Get": found, "Count": counted, "DeleteWhere": deleted,
		"InsertMany": inserted, "Insert": pairs.Insert(none, db, &pair{1, 2}),
		"Put": pairs.Put(none, db, &pair{1, 2}), "Delete": pairs.Delete(none, db, a.Eq(1)),
		"Update":      db.Update(none, func(*table.Tx) error { return nil }),
		"DropTable":   db.DropTable(none, "pairs", nil),
		"RenameTable": db.RenameTable(none, "pairs", "couples"),
		"Resume":      db.Resume(none, nil),
	} {
		if !errors.Is(err, table.ErrInvalid) {
			t.Errorf("%s with a nil context: %v", name, err)
		}
	}
}
