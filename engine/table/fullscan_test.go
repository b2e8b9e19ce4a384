package table_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
)

// TestRangesOfEverythingAreRanges: a condition that statistics know to be true of all rows
// still makes a range, not a full scan.
func TestRangesOfEverythingAreRanges(t *testing.T) {
	db := open(t, &table.Options{RefuseFullScan: true})
	people := create(t, db, peopleText)
	for i := range 100 {
		ok(t, people.Insert(ctx, row(t, i, nil, "Rom", i)))
	}
	ok(t, second(db.Analyze(ctx, "people", nil)))
	where := expr.Cmp{Op: expr.Lt, L: col(people, "city"), R: expr.Const{Value: expr.String("Zug")}}
	sel := from(people, where)
	if got := all(t, db, sel); len(got) != 100 {
		t.Errorf("%d rows", len(got))
	}
}
