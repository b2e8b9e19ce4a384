package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// An Iterator shows the state of its creation, whatever is written, flushed and merged while
// it is open.
func TestIteratorsStayAtTheirState(t *testing.T) {
	_, stored := boundaryKeys()
	db := openKeys(t, stored)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	j, err := db.QueryIterator(ctx, engine.Query{PK: []byte("a")})
	ok(t, err)
	if !i.Next() || !j.Next() {
		t.Fatal("no first item")
	}
	ok(t, db.DeleteRange([]byte("a"), engine.SKCondition{}))
	ok(t, db.Put(engine.K("a", "new"), nil))
	ok(t, db.Compact(ctx))
	n := 1
	for i.Next() {
		n++
	}
	for i.Prev() {
		n--
	}
	if n != 0 || i.Err() != nil {
		t.Errorf("%d items more forward than backward, %v", n, i.Err())
	}
	n = 1
	for j.Next() {
		n++
	}
	if n != 5 {
		t.Errorf("%d items of the partition, want 5", n)
	}
	ok(t, errors.Join(i.Close(), j.Close()))
}

func TestIteratorsThatAreClosed(t *testing.T) {
	_, stored := boundaryKeys()
	db := openKeys(t, stored)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	ok(t, i.Close())
	ok(t, i.Close())
	if i.Next() || i.Prev() || i.Seek(engine.K("a")) || i.Item().Key.PK != nil {
		t.Error("a closed iterator moves")
	}
	wantIs(t, i.Err(), engine.ErrClosed)

	stop, cancel := context.WithCancel(ctx)
	i, err = db.QueryIterator(stop, engine.Query{PK: []byte("a")})
	ok(t, err)
	cancel()
	for i.Next() {
		t.Log("read ahead")
	}
	wantIs(t, i.Err(), context.Canceled)
	wantIs(t, i.Close(), context.Canceled)

	db = openDir(t, "leaks", &engine.Options{InMemory: true})
	ok(t, db.Put(engine.K("a"), nil))
	i, err = db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	if !i.Next() {
		t.Error(i.Err())
	}
	wantIs(t, db.Close(), engine.ErrLeaked)
	if i.Next() {
		t.Error("the iterator of a closed database moves")
	}
	wantIs(t, i.Err(), engine.ErrClosed)
	wantIs(t, i.Close(), engine.ErrClosed)
}

func TestBadIterators(t *testing.T) {
	db := openKeys(t, nil)
	for what, s := range map[string]engine.Scan{
		"limit": {Limit: 1}, "unordered": {Unordered: true}, "segment": {Segment: 3},
	} {
		if i, err := db.ScanIterator(ctx, s); i != nil || !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantIs(t, second(db.QueryIterator(ctx, engine.Query{})), engine.ErrEmptyPK)
	q := engine.Query{PK: []byte("p"), Limit: 1}
	wantIs(t, second(db.QueryIterator(ctx, q)), engine.ErrInvalid)
	i, err := db.ScanIterator(ctx, engine.Scan{})
	ok(t, err)
	if i.Seek(engine.Key{SK: []byte("s")}) {
		t.Error("a seek of a sort key alone")
	}
	wantIs(t, i.Close(), engine.ErrEmptyPK)
}
