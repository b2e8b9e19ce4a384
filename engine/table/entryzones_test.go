package table_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestZonesOfEntries reads 3 of the rows of a status by a time that rises with the key, which the
// index of the status includes.
//
// Promise (tables): Blocks of index entries are left out by conditions on the columns after the
// first one and on included ones; those that were written before entries had zones are read.
func TestZonesOfEntries(t *testing.T) {
	n := testutil.Effort(30_000, 300_000)
	db := openOn(t, engine.Options{}, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"status","type":"string"},{"name":"at","type":"time","unit":"ms"},
	 {"name":"text","type":"string"}],"primary_key":["id"],
	 "indexes":[{"name":"by_status","columns":["status"],"include":["at"]}]}`)
	e := local.Engine(db)
	write := func(from, to int) {
		t.Helper()
		_, err := tab.PutMany(ctx, func(yield func([]expr.Value) bool) {
			for i := from; i < to; i++ {
				status := fmt.Sprint("status ", i%3)
				if !yield([]expr.Value{expr.Int(int64(i)), expr.String(status), zoneTime(i),
					expr.String("text")}) {
					return
				}
			}
		})
		if err == nil {
			err = e.Compact(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(whole bool) (blocks store.BlockCounts) {
		t.Helper()
		sel := from(tab, expr.And{Terms: []expr.Expr{eq(col(tab, "status"), "status 1"),
			expr.Cmp{Op: expr.Ge, L: col(tab, "at"), R: expr.Param{}}}})
		sel.Hints.Index = map[int]string{0: "by_status"}
		if !whole {
			sel.Columns = []plan.Output{{Expr: col(tab, "id")}, {Expr: col(tab, "at")}}
		}
		rows, err := db.Query(ctx, sel, zoneTime(n-9))
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(t, rows); len(got) != 3 {
			t.Fatalf("%d rows, want 3: %q", len(got), got)
		}
		x, err := rows.ExplainAnalyze()
		if err != nil {
			t.Fatal(err)
		}
		for x.Actual.Blocks == (store.BlockCounts{}) && len(x.Children) > 0 {
			x = x.Children[0]
		}
		t.Log(x)
		return x.Actual.Blocks
	}
	write(0, n)
	for _, whole := range []bool{false, true} {
		if b := read(whole); b.Read == 0 || b.Read*10 > b.Skipped {
			t.Errorf("%d blocks were read, %d skipped", b.Read, b.Skipped)
		}
	}
	e.Describe(func(items *engine.ZoneItems, b *engine.ZoneBuilder) { b.Rows(0, items.Len()) })
	write(0, n)
	if b := read(false); b.Skipped > 0 {
		t.Errorf("%d blocks without zones were read, %d skipped", b.Read, b.Skipped)
	}
	again, err := table.OpenStore(ctx, local.New(e), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	write(n/2, n)
	read(false)
}
