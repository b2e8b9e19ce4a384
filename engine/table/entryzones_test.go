package table_test

import (
	"fmt"
	"slices"
	"strings"
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
		ok(t, err)
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
		ok(t, err)
		if got := texts(t, rows); len(got) != 3 {
			t.Fatalf("%d rows, want 3: %q", len(got), got)
		}
		x, err := rows.ExplainAnalyze()
		ok(t, err)
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
	ok(t, err)
	defer again.Close()
	write(n/2, n)
	read(false)
}

// TestZonesOfStaleEntries finds no row by an entry that a block left out has a tombstone for: the
// condition is on an included column and on one that only the row has, so that nothing of it is
// tested before the row is fetched, which has another status by now, or is gone.
//
// The entry is read because its block lies above one that is wanted.
//
// Promise (tables): Entries that a block left out has deleted bring no row back.
func TestZonesOfStaleEntries(t *testing.T) {
	db := openOn(t, engine.Options{MaxRuns: 64}, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"status","type":"string"},{"name":"at","type":"int64"},
	 {"name":"text","type":"string"}],"primary_key":["id"],
	 "indexes":[{"name":"by_status","columns":["status"],"include":["at"]}]}`)
	put := func(from, to int, status string, at int, text string) {
		t.Helper()
		for i := from; i < to; i++ {
			row := []expr.Value{expr.Int(int64(i)), expr.String(status), expr.Int(int64(at)),
				expr.String(text)}
			ok(t, tab.Put(ctx, row))
		}
	}
	flush := func() {
		t.Helper()
		ok(t, local.Engine(db).Flush(ctx))
	}
	put(5, 6, "open", 20, "x0")
	flush()
	put(0, 5, "open", 1, "-")
	put(6, 100, "open", 1, "-")
	flush()
	put(20, 99, "open", 2, "-") // a block whose tombstones are among entries
	for _, id := range []int64{50, 60} {
		ok(t, tab.Delete(ctx, []expr.Value{expr.Int(id)}))
	}
	flush()
	put(50, 51, "done", 20, "x0")
	var either expr.Or
	for i := range 20 { // too many for a union
		either.Terms = append(either.Terms, expr.And{Terms: []expr.Expr{
			expr.Cmp{Op: expr.Gt, L: col(tab, "at"), R: expr.Const{Value: expr.Int(int64(5 + i))}},
			eq(col(tab, "text"), fmt.Sprint("x", i))}})
	}
	sel := from(tab, expr.And{Terms: []expr.Expr{eq(col(tab, "status"), "open"), either}})
	sel.Hints.Index = map[int]string{0: "by_status"}
	rows, err := db.Query(ctx, sel)
	ok(t, err)
	if got := texts(t, rows); !slices.Equal(got, []string{"5, 'open', 20, 'x0'"}) {
		t.Errorf("found %q", got)
	}
}

// TestZonesOfEntriesAreCounted has two indexes to choose from: a tenth of the entries of a source,
// and all of a status but those that zones leave out, which are none without files.
//
// Promise (plans): The blocks that conditions leave of the entries of an index are counted when a
// query is planned, as those of rows are.
func TestZonesOfEntriesAreCounted(t *testing.T) {
	const n = 30_000
	for _, sharded := range []string{"", `,"shard":"mix64:4"`} {
		db := openOn(t, engine.Options{}, nil)
		tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
		 {"name":"status","type":"int64"},{"name":"source","type":"int64"},
		 {"name":"at","type":"int64"}],"primary_key":["id"],
		 "indexes":[{"name":"by_status","columns":["status"],"include":["at"]`+sharded+`},
		 {"name":"by_source","columns":["source"]}]}`)
		_, err := tab.InsertMany(ctx, func(yield func([]expr.Value) bool) {
			for i := range int64(n) {
				row := []expr.Value{expr.Int(i), expr.Int(i % 3), expr.Int(i % 10), expr.Int(i)}
				if !yield(row) {
					return
				}
			}
		})
		ok(t, err)
		for at, want := range []string{"by_source", "by_status"} {
			if at == 1 {
				ok(t, local.Engine(db).Compact(ctx))
			}
			late := expr.Const{Value: expr.Int(int64(n - 90 - at))} // another plan
			sel := from(tab, expr.And{Terms: []expr.Expr{eq(col(tab, "status"), 1),
				eq(col(tab, "source"), 7), expr.Cmp{Op: expr.Ge, L: col(tab, "at"), R: late}}})
			x := explain(t, db, sel)
			if !strings.Contains(x, "index: "+want) {
				t.Errorf("%s: not by %s:\n%s", sharded, want, x)
			}
		}
	}
}

// TestFilesAreLeftOutWithinBounds reads a range of keys in which neither of two files has what is
// looked for; elsewhere the older one has.
//
// Promise (tables): A file that has nothing of what is looked for is left out as a whole, if no
// older one has it among the keys that are read.
func TestFilesAreLeftOutWithinBounds(t *testing.T) {
	db := openOn(t, engine.Options{MaxRuns: 50}, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"src","type":"int64"},
	 {"name":"id","type":"int64"},{"name":"at","type":"int64"}],"primary_key":["src"],
	 "sort_key":["id"]}`)
	const n = 10_000
	for odd, at := range []int{0, 10 * n} {
		var rows [][]expr.Value
		for i := odd; i < n; i += 2 {
			rows = append(rows, row(t, 0, i, at+i))
		}
		_, err := tab.PutMany(ctx, slices.Values(rows))
		if err == nil {
			err = local.Engine(db).Flush(ctx)
		}
		ok(t, err)
	}
	compared := func(name string, op expr.Op, v int64) expr.Expr {
		return expr.Cmp{Op: op, L: col(tab, name), R: expr.Const{Value: expr.Int(v)}}
	}
	rows, err := db.Query(ctx, from(tab, expr.And{Terms: []expr.Expr{
		eq(col(tab, "src"), 0), compared("id", expr.Ge, n-n/10), compared("id", expr.Lt, n),
		compared("at", expr.Lt, n/2)}}))
	if err != nil || len(texts(t, rows)) != 0 {
		t.Fatal("there are rows, or", err)
	}
	e, err := rows.ExplainAnalyze()
	ok(t, err)
	for e.Actual.Blocks == (store.BlockCounts{}) && len(e.Children) > 0 {
		e = e.Children[0]
	}
	if b := e.Actual.Blocks; b.Whole == 0 || b.Whole == b.Skipped {
		t.Errorf("%d of %d blocks are those of a file\n%s", b.Whole, b.Skipped, e)
	}
}
