package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// Goal: a search for many keys that fails in the middle leaves nothing behind that the
// next one, with the same buffers, would answer. Method: range tombstones of one stripe
// cannot be loaded, after questions to the file of another one have been noted.
func TestFailedMultiGetLeavesNoQuestions(t *testing.T) {
	b := &breaker{match: onFile(".sst", vfstest.OpReadAt), err: errDisk}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{})
	defer mustClose(t, db)
	names := []string{"a", "b"}
	slices.SortFunc(names, func(a, b string) int {
		return int(keycodec.Stripe([]byte(a))) - int(keycodec.Stripe([]byte(b)))
	})
	low, high := names[0], names[1]
	var keys []engine.Key
	for i := range 20 {
		keys = append(keys, pksk(low, fmt.Sprint(i)))
		ok(t, db.Put(keys[i], []byte("old")))
	}
	keys = append(keys, pksk(high, "1"))
	ok(t, db.Put(keys[20], []byte("old")))
	ok(t, db.Flush(ctx))
	ok(t, db.DeleteRange([]byte(high), engine.SKEqual([]byte("2"))))
	ok(t, db.Flush(ctx))

	var r engine.Results
	b.broken.Store(true)
	wantIs(t, db.MultiGet(ctx, keys, &r), errDisk)
	b.broken.Store(false)
	ok(t, db.MultiGet(ctx, keys[20:], &r))
	if v, there := r.Value(0); !there || string(v) != "old" {
		t.Errorf("found %q, %v", v, there)
	}
}

// Goal: InsertNew inserts what is new at the moment of its commit, also if nothing in the
// stripe tells any more that there has been a delete. Method: the clock, which is asked
// between the search and the commit, deletes an item and flushes, which drops all of it.
func TestInsertNewAfterAForgottenDelete(t *testing.T) {
	var db *engine.DB
	var armed atomic.Bool
	asked := 0
	now := func() time.Time {
		if armed.Load() {
			if asked++; asked == 2 {
				armed.Store(false)
				ok(t, db.Delete(pk("deleted")))
				ok(t, db.Flush(ctx))
			}
		}
		return time.UnixMilli(1_000_000)
	}
	db = openOn(t, vfs.NewMem(), engine.Options{Clock: now})
	defer mustClose(t, db)
	ok(t, db.Put(pk("deleted"), []byte("before")))
	armed.Store(true)
	items := []engine.Item{{Key: pk("deleted"), Value: []byte("v")}, {Key: pk("other")}}
	inserted, _, err := db.InsertNew(ctx, items, nil, engine.TTL(time.Hour))
	ok(t, err)
	if armed.Load() {
		t.Fatal("the clock was not asked between search and commit")
	}
	if !inserted[0] || !inserted[1] {
		t.Errorf("inserted %v, want both", inserted)
	}
	wantValue(t, db, pk("deleted"), []byte("v"))
}

// Ranges that hold nothing, because they end before they begin, change nothing, wherever
// they stand in the list.
func TestGatherPassesOverEmptySpans(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for round := range 2 { // a run, then a memtable
		for i := range 10 {
			for _, p := range []string{"a", "b"} {
				ok(t, db.Put(pksk(p, fmt.Sprint(i)), []byte{byte(round)}))
			}
		}
		if round == 0 {
			ok(t, db.Flush(ctx))
		}
	}
	span := func(lo, hi string) keycodec.Span {
		return keycodec.Span{Start: []byte(lo), End: []byte(hi)}
	}
	for _, spans := range [][]keycodec.Span{
		{span("5", "3"), span("4", "6")},
		{span("4", "6"), span("6", "5")},
		{span("9", "1"), span("4", "6"), span("5", "0")},
		{span("4", "5"), span("5", "2"), span("5", "6")},
	} {
		for i := range 4 {
			g := engine.Gather{
				PKs: [][]byte{[]byte("a"), []byte("b")}, Spans: spans,
				ByPartition: i&1 > 0, Reverse: i&2 > 0,
			}
			n := 0
			for item, err := range db.Gather(ctx, g) {
				ok(t, err)
				if sk := string(item.Key.SK); sk != "4" && sk != "5" {
					t.Errorf("%q: %s", spans, sk)
				}
				n++
			}
			if n != 4 {
				t.Errorf("%q, by partition %v, reverse %v: %d items, want 4", spans,
					g.ByPartition, g.Reverse, n)
			}
		}
	}
	overlap := engine.Gather{
		PKs:   [][]byte{[]byte("a")},
		Spans: []keycodec.Span{span("1", "9"), span("9", "4"), span("5", "7")},
	}
	_, err := db.CountGather(ctx, overlap)
	wantIs(t, err, engine.ErrInvalid)
}

// lateCancel is a context that is found cancelled when it is looked at for the second time.
type lateCancel struct {
	context.Context
	looks atomic.Int64
}

func (c *lateCancel) Err() error {
	if c.looks.Add(1) > 1 {
		return context.Canceled
	}
	return nil
}

// Who gathers from many partitions that hold nothing can be stopped, too.
func TestGatherOfNothingHeedsItsContext(t *testing.T) {
	db := openMemory(t, engine.Options{})
	var g engine.Gather
	for i := range 1000 {
		g.PKs = append(g.PKs, fmt.Appendf(nil, "%04d", i))
	}
	for _, g.ByPartition = range []bool{false, true} {
		var err error
		for _, err = range db.Gather(&lateCancel{Context: ctx}, g) {
		}
		wantIs(t, err, context.Canceled)
	}
	_, err := db.CountGather(&lateCancel{Context: ctx}, g)
	wantIs(t, err, context.Canceled)
}

// An operation that only requires something counts, whatever it requires, until Reset.
func TestResetForgetsRequirements(t *testing.T) {
	b := engine.NewBatch()
	ok(t, b.Require(pk("a"), engine.Condition{}))
	if b.Len() != 1 {
		t.Errorf("%d operations, want 1", b.Len())
	}
	b.Reset()
	if b.Len() != 0 {
		t.Errorf("%d operations after Reset", b.Len())
	}
}

// doOnce is a context that calls a function when it is looked at for the first time.
type doOnce struct {
	context.Context
	once sync.Once
	do   func()
}

func (c *doOnce) Err() error {
	c.once.Do(c.do)
	return nil
}

// A search in a snapshot that is closed meanwhile keeps what it needs, as iterations do.
func TestMultiGetOutlivesItsSnapshot(t *testing.T) {
	db := openMemory(t, engine.Options{})
	keys := []engine.Key{pk("a"), pk("b"), pk("c")}
	put := func(value string) {
		for _, k := range keys {
			ok(t, db.Put(k, []byte(value)))
		}
	}
	put("old")
	s, err := db.Snapshot()
	ok(t, err)
	var r engine.Results
	ok(t, s.MultiGet(&doOnce{Context: ctx, do: func() {
		ok(t, s.Close())
		put("new")
		ok(t, db.Flush(ctx))
	}}, keys, &r))
	for i := range keys {
		if v, there := r.Value(i); !there || string(v) != "old" {
			t.Errorf("found %q, %v", v, there)
		}
	}
	wantIs(t, s.MultiGet(ctx, keys, &r), engine.ErrClosed)
}
