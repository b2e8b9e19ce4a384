package typed_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// pair is a row of a table joined with itself.
type pair struct{ Left, Right trip }

// openPairs opens a table of trips with an index of distances, and its join with itself.
func openPairs(t *testing.T) (*table.DB, *tripTable, typed.Query[pair]) {
	t.Helper()
	trips := newTrips("trips")
	trips.Index("by_dist", trips.dist.Asc())
	db := openTyped(t, trips)
	ok(t, second(trips.InsertMany(ctx, db, queryTrips())))
	j := typed.NewJoin[pair](trips.Table, trips.Table)
	left := typed.Col(j, func(p *pair) *int64 { return &p.Left.Seq })
	right := typed.Col(j, func(p *pair) *int64 { return &p.Right.Seq })
	return db, trips, j.On(left.EqColumn(right))
}

func explained(t *testing.T, x *plan.Explanation, err error) string {
	t.Helper()
	ok(t, err)
	return x.String()
}

// Promise (tables): Hints of a query are merged, and its maps and slices are its own: those of a
// caller are neither written nor read later.
func TestHintsAreMergedAndOwned(t *testing.T) {
	db, trips, pairs := openPairs(t)
	index := map[int]string{0: plan.PrimaryIndex, 1: "by_dist"}
	before := maps.Clone(index)
	q := pairs.Hint(plan.Hints{Index: index}).UseIndex("by_dist")
	x, err := q.Explain(ctx, db)
	if text := explained(t, x, err); strings.Count(text, "by_dist") != 2 {
		t.Errorf("UseIndex and the hint of the second table are not both in the plan:\n%s", text)
	}
	if !maps.Equal(index, before) {
		t.Errorf("the caller's map is %v, was %v", index, before)
	}

	q = pairs.Hint(plan.Hints{Index: index})
	x, err = q.Explain(ctx, db)
	want := explained(t, x, err)
	index[0], index[1] = "unknown", "unknown"
	x, err = q.Explain(ctx, db)
	if got := explained(t, x, err); got != want {
		t.Errorf("after the caller has changed its map:\n%s\nwant\n%s", got, want)
	}

	order := []typed.Term[trip]{trips.seq.Desc()}
	sorted := trips.Where().OrderBy(order...)
	order[0] = trips.seq.Asc()
	rows, cursor, err := sorted.Limit(2).Page(ctx, db)
	if err != nil || len(rows) != 2 || rows[0].Seq < rows[1].Seq {
		t.Fatalf("%v %v, want the order that OrderBy was given", rows, err)
	}
	next := sorted.Limit(2).After(cursor)
	clear(cursor)
	if rows, _, err := next.Page(ctx, db); err != nil || len(rows) != 2 {
		t.Errorf("%d rows, %v, after the caller has changed the cursor", len(rows), err)
	}
}
