package table_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestInsertManyCopiesValues checks that the memory after the values may be used again, as
// that of rows of a query is.
func TestInsertManyCopiesValues(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"s","type":"string"}],"primary_key":["id"]}`)
	rows := func(yield func([]expr.Value) bool) {
		buf := make([]byte, 4)
		view := unsafe.String(&buf[0], len(buf))
		for i := range 10 {
			copy(buf, fmt.Sprintf("%04d", i))
			if !yield([]expr.Value{expr.Int(int64(i)), expr.String(view)}) {
				return
			}
		}
	}
	for _, write := range []func(context.Context, iter.Seq[[]expr.Value]) (int, error){
		tab.InsertMany, tab.PutMany} {
		if n, err := write(ctx, rows); err != nil || n != 10 {
			t.Fatal(n, err)
		}
		for i := range 10 {
			got, err := tab.Get(ctx, expr.Int(int64(i)))
			if want := fmt.Sprintf("%d, '%04d'", i, i); err != nil || text(got) != want {
				t.Fatalf("row %d is %s, want %s: %v", i, text(got), want, err)
			}
		}
	}
}

// TestPartialIndexOfConvertedValues checks that the condition of a partial index sees the
// values that are stored, also when those given are cut or are texts.
func TestPartialIndexOfConvertedValues(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"at","type":"time","unit":"s"},{"name":"f","type":"float32","nullable":true}],
		"primary_key":["id"]}`)
	second := time.Unix(1000, 0).UTC()
	v, _ := expr.From(second)
	x := indexOn(t, tab, "late", "id")
	x.Where = expr.Cmp{Op: expr.Gt, L: col(tab, "at"), R: expr.Const{Value: v}}
	ok(t, db.CreateIndex(ctx, "a", x, nil))
	ok(t, tab.Insert(ctx, row(t, 1, second.Add(time.Millisecond), nil)))
	verify(t, tab)
	ok(t, tab.Put(ctx, row(t, 1, second.Add(2*time.Millisecond), nil)))
	verify(t, tab)
	ok(t, tab.Insert(ctx, row(t, 2, "1970-01-01T00:20:00Z", nil)))
	verify(t, tab)
	ok(t, tab.Delete(ctx, row(t, 1)))
	verify(t, tab)
}

func indexOn(t *testing.T, tab *table.Table, name, column string) schema.Index {
	t.Helper()
	return schema.Index{Name: name, Columns: []schema.IndexColumn{
		{KeyColumn: schema.KeyColumn{Ordinal: tab.Schema().Column(column)}}}}
}

// TestDuplicatesDeletedDuringBuild deletes rows in one commit that had the same values in a
// unique index being built, when one of each pair has its entry already.
func TestDuplicatesDeletedDuringBuild(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"v","type":"int64"},{"name":"x","type":"int64"}],"primary_key":["id"],
		"indexes":[{"name":"by_x","columns":["x"]}]}`)
	const pairs, second = 20, 1100
	_, err := tab.InsertMany(ctx, func(yield func([]expr.Value) bool) {
		for i := range int64(1200) {
			v, x := i, i
			if i >= second && i < second+pairs {
				v -= second
			}
			if v < pairs {
				x = 10_000 - i // found from the last one to the first
			}
			if !yield([]expr.Value{expr.Int(i), expr.Int(v), expr.Int(x)}) {
				return
			}
		}
	})
	ok(t, err)
	deleted := 0
	x := indexOn(t, tab, "u", "v")
	x.Unique = true
	err = db.CreateIndex(ctx, "a", x, func(table.Progress) {
		where := expr.Cmp{Op: expr.Gt, L: col(tab, "x"), R: expr.Const{Value: expr.Int(5000)}}
		n, err := tab.DeleteWhere(ctx, where)
		if err != nil {
			t.Error(err)
		}
		deleted += n
	})
	if err != nil || deleted != 2*pairs {
		t.Fatal(deleted, err)
	}
	verify(t, tab)
	for v := range int64(pairs) {
		ok(t, tab.Insert(ctx, row(t, v, v, v)))
	}
}

// TestBuildGoesOnAmongNewEntries goes on with a unique index when rows that it has not come to were
// written since, with their entries.
func TestBuildGoesOnAmongNewEntries(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"v","type":"int64"}],"primary_key":["id"]}`)
	insert := func(from, to int) {
		for i := from; i < to; i++ {
			ok(t, tab.Insert(ctx, row(t, i, i)))
		}
	}
	insert(0, 600)
	x := indexOn(t, tab, "u", "v")
	x.Unique = true
	own, cancel := context.WithCancel(ctx)
	wantIs(t, tab.CreateIndex(own, x, func(table.Progress) { cancel() }), context.Canceled)
	insert(600, 700)
	ok(t, db.Resume(ctx, nil))
	if r := verify(t, tab); r.Entries["u"] != 700 || db.Unfinished() {
		t.Fatalf("%+v", r)
	}
}

// TestUniqueValuesOfAllRowsMove exchanges the unique values, and then the keys, of more rows than a
// commit has, in a transaction.
func TestUniqueValuesOfAllRowsMove(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"v","type":"int64"}],"primary_key":["id"],
		"indexes":[{"name":"by_v","columns":["v"],"unique":true}]}`)
	const rows = rowio.MaxRows + 2
	_, err := tab.InsertMany(ctx, func(yield func([]expr.Value) bool) {
		for i := int64(0); i < rows && yield([]expr.Value{expr.Int(i), expr.Int(i)}); i++ {
		}
	})
	ok(t, err)
	for _, name := range []string{"v", "id"} {
		turned := []table.Assignment{{Column: tab.Schema().Column(name), Value: expr.Arith{
			Op: expr.Sub, L: expr.Const{Value: expr.Int(rows - 1)}, R: col(tab, name)}}}
		ok(t, db.Update(ctx, func(tx *table.Tx) error {
			n, err := tab.In(tx).UpdateWhere(ctx, nil, turned)
			if n != rows {
				t.Errorf("%d rows", n)
			}
			return err
		}))
	}
	verify(t, tab)
	if r, err := tab.Get(ctx, expr.Int(1)); err != nil || text(r) != "1, 1" {
		t.Errorf("row %s: %v", text(r), err)
	}
}

// TestTransactionsReadInOneGoroutine runs a query that would be parallel in a transaction.
func TestTransactionsReadInOneGoroutine(t *testing.T) {
	db := open(t, &table.Options{Workers: 4})
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"v","type":"int64"}],"primary_key":["id"],
		"indexes":[{"name":"by_v","columns":["v"],"shard":"mix64:16"}]}`)
	for i := range 100 {
		ok(t, tab.Insert(ctx, row(t, i, i%7)))
	}
	sel := from(tab, nil)
	sel.Hints.Index = map[int]string{0: "by_v"}
	sel.Aggregates = []plan.Aggregate{{Func: plan.Sum, Arg: col(tab, "v")}}
	err := db.Update(ctx, func(tx *table.Tx) error {
		if err := tab.In(tx).Insert(ctx, row(t, 100, 1000)); err != nil {
			return err
		}
		if got := all(t, tx, sel); len(got) != 1 || got[0] != "1295" {
			t.Errorf("the sum is %s", got)
		}
		return nil
	})
	ok(t, err)
}

// TestLargeRowsAreChangedInSeveralCommits checks that a statement by predicate does not
// collect more than its 16 MiB for one commit.
func TestLargeRowsAreChangedInSeveralCommits(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := open(t, nil)
	tab := create(t, db, `{"name":"a","columns":[{"name":"id","type":"int64"},
		{"name":"n","type":"int64"},{"name":"b","type":"bytes"}],"primary_key":["id"]}`)
	big := make([]byte, 1<<20)
	for i := range 24 {
		ok(t, tab.Insert(ctx, row(t, i, 0, big)))
	}
	set := []table.Assignment{{Column: 1, Value: expr.Const{Value: expr.Int(1)}}}
	if n, err := tab.UpdateWhere(ctx, nil, set); n != 24 || err != nil {
		t.Fatal(n, err)
	}
	versions := map[uint64]bool{}
	for i := range 24 {
		got, version, err := tab.GetVersion(ctx, expr.Int(int64(i)))
		if n, _ := got[1].AsInt(); err != nil || n != 1 {
			t.Fatal(got[1], err)
		}
		versions[version] = true
	}
	if len(versions) != 2 {
		t.Errorf("%d commits", len(versions))
	}
}

// Verify keeps few large rows at a time.
func TestVerifyOfLargeRows(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"v","type":"string"}],"primary_key":["id"]}`)
	for i := range 3 {
		ok(t, tab.Insert(ctx, row(t, i, strings.Repeat("x", 1<<20))))
	}
	parts := 0
	report, err := tab.Verify(ctx, func(table.Progress) { parts++ })
	if err != nil || report.Rows != 3 || parts != 3 {
		t.Errorf("%+v in %d parts, %v", report, parts, err)
	}
}

// A statement in a transaction ends when its rows are more than that can write, before it has all
// of them in memory, and if their keys are, before it reads the first one.
func TestTransactionsOfTooManyRows(t *testing.T) {
	for _, c := range []struct{ keyBytes, valueBytes, unread int }{{0, 1000, 99}, {400, 0, 0}} {
		storage := remotetest.New(true, 64)
		storage.Most.CommitBytes = 1 << 15
		db, err := table.OpenStore(ctx, storage, nil)
		ok(t, err)
		defer db.Close()
		tab := create(t, db, `{"name":"t","columns":[{"name":"p","type":"int64"},
		 {"name":"id","type":"string"},{"name":"n","type":"int64"},{"name":"s","type":"string"}],
		 "primary_key":["p"],"sort_key":["id"]}`)
		for i := range 100 {
			n := int64(0)
			if i == c.unread {
				n = math.MaxInt64
			}
			id := fmt.Sprintf("%02d", i) + strings.Repeat("x", c.keyBytes)
			ok(t, tab.Insert(ctx, row(t, 1, id, n, strings.Repeat("x", c.valueBytes))))
		}
		more := []table.Assignment{{Column: 2, Value: expr.Arith{Op: expr.Add, L: col(tab, "n"),
			R: expr.Const{Value: expr.Int(1)}}}}
		wantIs(t, db.Update(ctx, func(tx *table.Tx) error {
			return second(tab.In(tx).UpdateWhere(ctx, nil, more))
		}), table.ErrTooLarge)
	}
}
