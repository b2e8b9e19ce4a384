package table_test

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// clock is a time that only moves when a test moves it.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// Promise (tables): Rows and entries expire together; also those of a TTL that the table has no
// more, and no query takes their entries for damage. Also `TestRowsOfAFormerTTLExpireQuietly`.
func TestRowsExpireWithTheirEntries(t *testing.T) {
	c := new(clock)
	c.ms.Store(1_000_000)
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: c.now})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(ctx, e, &table.Options{Clock: c.now})
	ok(t, err)
	defer db.Close()
	tab := create(t, db, `{"name":"sessions","columns":[
	 {"name":"id","type":"int64"},{"name":"user","type":"string"},
	 {"name":"seen","type":"time","unit":"ms","nullable":true}],"primary_key":["id"],
	 "ttl":{"column":"seen","after":"10s"},
	 "indexes":[{"name":"by_user","columns":["user"],"unique":true},
	            {"name":"by_seen","columns":["seen"],"local":true}]}`)
	put := func(id int, user string, at any) error {
		return tab.Insert(ctx, row(t, id, user, at))
	}
	err = errors.Join(put(1, "a", c.now()), put(2, "b", c.now()), put(3, "c", nil))
	ok(t, err)
	c.ms.Add(6000)
	err = tab.Update(ctx, row(t, 2), func(r []expr.Value) error {
		r[2] = expr.Time(c.now())
		return nil
	})
	ok(t, err)
	verify(t, tab)
	c.ms.Add(5000) // row 1 is over, row 2 is not
	if r := verify(t, tab); r.Rows != 2 || r.Entries["by_user"] != 2 || r.Entries["by_seen"] != 2 {
		t.Fatalf("%+v", r)
	}
	if err := put(4, "a", c.now()); err != nil { // what has expired is free
		t.Fatal(err)
	}
	wantIs(t, put(5, "b", c.now()), table.ErrUnique)
	ok(t, put(6, "last", time.UnixMilli(math.MaxInt64))) // and later, with what is after it
	if _, err := tab.Get(ctx, expr.Int(6)); err != nil {
		t.Error(err)
	}
	ok(t, tab.Delete(ctx, row(t, 6)))
	c.ms.Add(6000)
	if r := verify(t, tab); r.Rows != 2 {
		t.Fatalf("%+v", r)
	}
}

// TestRowsOfAFormerTTLExpireQuietly: a row that was written under a TTL expires after the
// TTL has been dropped, too, whatever a query has read of it by then, and a row that is
// written again stays.
func TestRowsOfAFormerTTLExpireQuietly(t *testing.T) {
	c := new(clock)
	c.ms.Store(1_000_000)
	var calls, jumpAt atomic.Int64
	now := func() time.Time { // jumps over the expiry at one of the looks at the clock
		if jumpAt.Load() > 0 && calls.Add(1) == jumpAt.Load() {
			c.ms.Add(60_000)
		}
		return c.now()
	}
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: now})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(ctx, e, &table.Options{Clock: now})
	ok(t, err)
	defer db.Close()
	tab := create(t, db, `{"name":"sessions","columns":[
	 {"name":"id","type":"int64"},{"name":"user","type":"string"},
	 {"name":"seen","type":"time","unit":"ms"}],"primary_key":["id"],
	 "ttl":{"column":"seen","after":"10s"},
	 "indexes":[{"name":"by_user","columns":["user"]},{"name":"by_seen","columns":["seen"]}]}`)
	ok(t, errors.Join(tab.Insert(ctx, row(t, 0, "a", c.now())),
		db.SetTTL(ctx, "sessions", nil)))
	if !tab.Schema().HadTTL {
		t.Fatal("the table has forgotten its TTL")
	}
	err = tab.Update(ctx, row(t, 0), func(r []expr.Value) error { return nil })
	ok(t, err)
	sel := from(tab, expr.Cmp{L: col(tab, "user"), R: expr.Const{Value: expr.String("a")}})
	sorted := from(tab, sel.Where)
	sorted.OrderBy = []plan.Order{{Expr: expr.Arith{Op: expr.Neg, L: col(tab, "id")}}}
	sorted.Hints.Index = map[int]string{0: "by_user"}
	for _, q := range []*plan.Select{sel, sorted} {
		jumpEverywhere(t, db, tab, q, c, &calls, &jumpAt)
	}
}

// jumpEverywhere runs a query again and again while another row of a former TTL expires: at
// the first look at the clock, at the second, and so on.
func jumpEverywhere(t *testing.T, db *table.DB, tab *table.Table, sel *plan.Select, c *clock,
	calls, jumpAt *atomic.Int64) {
	t.Helper()
	for at := int64(1); ; at++ {
		// Another row that expires, under the TTL that is then dropped again.
		ttl := schema.TTL{Ordinal: 2, After: 10 * time.Second}
		ok(t, errors.Join(db.SetTTL(ctx, "sessions", &ttl),
			tab.Insert(ctx, row(t, at, "a", c.now())),
			db.SetTTL(ctx, "sessions", nil)))
		calls.Store(0)
		jumpAt.Store(at)
		got := all(t, db, sel) // fails the test if an entry is said to dangle
		looks := calls.Load()
		jumpAt.Store(0)
		if len(got) == 0 {
			t.Fatalf("jump at %d: the row that was written again has expired", at)
		}
		c.ms.Add(60_000)
		if r := verify(t, tab); r.Rows != 1 || r.Entries["by_user"] != 1 {
			t.Fatalf("jump at %d: %+v", at, r)
		}
		if looks < at {
			break // the query has ended before the clock jumped
		}
	}
}
