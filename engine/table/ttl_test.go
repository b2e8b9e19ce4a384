package table_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
)

// clock is a time that only moves when it is told to.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func TestRowsExpireWithTheirEntries(t *testing.T) {
	c := new(clock)
	c.ms.Store(1_000_000)
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	db, err := table.Open(ctx, e, &table.Options{Clock: c.now})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	c.ms.Add(6000)
	err = tab.Update(ctx, row(t, 2), func(r []expr.Value) error {
		r[2] = expr.Time(c.now())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, tab)
	c.ms.Add(5000) // row 1 is over, row 2 is not
	if r := verify(t, tab); r.Rows != 2 || r.Entries["by_user"] != 2 || r.Entries["by_seen"] != 2 {
		t.Fatalf("%+v", r)
	}
	if err := put(4, "a", c.now()); err != nil { // what has expired is free
		t.Fatal(err)
	}
	if err := put(5, "b", c.now()); !errors.Is(err, table.ErrUnique) {
		t.Fatal(err)
	}
	c.ms.Add(6000)
	if r := verify(t, tab); r.Rows != 2 {
		t.Fatalf("%+v", r)
	}
}
