package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// hand is a clock that a test moves.
type hand struct{ ms atomic.Int64 }

func (h *hand) now() time.Time { return time.UnixMilli(h.ms.Load()) }

func (h *hand) pass(d time.Duration) { h.ms.Add(d.Milliseconds()) }

// An item is there until the millisecond of its expiry and then nowhere, in memory and in
// files, for every way to read.
func TestExpiredItemsAreInvisible(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		var clock hand
		clock.ms.Store(1_000)
		db := openMemory(t, engine.Options{Clock: clock.now})
		ok(t, db.Put(pksk("p", "short"), []byte("v"), engine.TTL(50*time.Millisecond)))
		ok(t, db.Put(pksk("p", "tiny"), []byte("v"), engine.TTL(time.Nanosecond))) // rounds up
		ok(t, db.Put(pksk("p", "stays"), []byte("v")))
		snap, err := db.Snapshot()
		ok(t, err)
		defer snap.Close()
		if flushed {
			ok(t, db.Flush(ctx))
		}
		want := func(list string) {
			t.Helper()
			q := engine.Query{PK: []byte("p")}
			for name, seq := range map[string]func(func(engine.Item, error) bool){
				"query": db.Query(ctx, q), "scan": db.Scan(ctx, engine.Scan{}),
				"unordered": db.Scan(ctx, engine.Scan{Unordered: true}),
				"snapshot":  snap.Query(ctx, q),
			} {
				if got := listing(seq); got != list {
					t.Errorf("flushed %v, %s at %d: %q, want %q",
						flushed, name, clock.ms.Load(), got, list)
				}
			}
		}
		want("p / short=v p / stays=v p / tiny=v")
		it, err := db.GetItem(pksk("p", "short"))
		ok(t, err)
		if at, yes := it.ExpiresAt(); !yes || at.UnixMilli() != 1_050 {
			t.Errorf("expires %v at %v", yes, at)
		}
		clock.pass(time.Millisecond)
		want("p / short=v p / stays=v")
		clock.pass(48 * time.Millisecond)
		want("p / short=v p / stays=v")
		clock.pass(time.Millisecond)
		want("p / stays=v")
		k := pksk("p", "short")
		wantValue(t, db, k, nil)
		wantIs(t, second(db.GetItem(k)), engine.ErrNotFound)
		wantIs(t, second(snap.Get(k)), engine.ErrNotFound)
		if there, err := db.Has(k); there || err != nil {
			t.Errorf("has %v, %v", there, err)
		}
		ok(t, db.View(ctx, func(tx *engine.Tx) error {
			wantIs(t, second(tx.Get(k)), engine.ErrNotFound)
			return nil
		}))
	}
}

// For conditions and transactions an expired item is absent, and writing over it works.
func TestConditionsOnExpiredItems(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	k := pk("k")
	for round := range 4 {
		ok(t, db.Put(k, []byte("old"), engine.TTL(time.Second)))
		it, err := db.GetItem(k)
		ok(t, err)
		if round%2 == 1 {
			ok(t, db.Flush(ctx))
		}
		wantIs(t, db.PutIf(k, nil, engine.IfAbsent()), engine.ErrConditionFailed)
		clock.pass(time.Second)
		wantIs(t, db.PutIf(k, nil, engine.IfPresent()), engine.ErrConditionFailed)
		wantIs(t, db.PutIf(k, nil, engine.IfValue([]byte("old"))), engine.ErrConditionFailed)
		wantIs(t, db.DeleteIf(k, engine.IfVersion(it.Version)), engine.ErrConditionFailed)
		if round < 2 {
			ok(t, db.PutIf(k, []byte("new"), engine.IfAbsent()))
		} else {
			ok(t, db.Update(ctx, func(tx *engine.Tx) error {
				return tx.PutIf(k, []byte("new"), engine.IfAbsent(), engine.TTL(time.Minute))
			}))
		}
		wantValue(t, db, k, []byte("new"))
	}
}

// A value without TTL replaces one that would expire, and a batch counts its TTLs from
// the moment it is applied, each time.
func TestTTLStartsWithTheWrite(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	b := engine.NewBatch()
	ok(t, b.Put(pk("k"), []byte("v"), engine.TTL(time.Second)))
	clock.pass(time.Hour)
	for range 2 {
		ok(t, db.Apply(ctx, b))
		clock.pass(999 * time.Millisecond)
		wantValue(t, db, pk("k"), []byte("v"))
		clock.pass(time.Millisecond)
		wantValue(t, db, pk("k"), nil)
	}
	ok(t, db.Apply(ctx, b))
	ok(t, db.Put(pk("k"), []byte("for ever")))
	clock.pass(1000 * time.Hour)
	wantValue(t, db, pk("k"), []byte("for ever"))
}

// What has expired is reclaimed by Compact, also under an open snapshot, which does not
// see it either.
func TestCompactReclaimsExpired(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	fsys := vfs.NewMem()
	o := engine.Options{Clock: clock.now}
	db := openOn(t, fsys, o)
	for i := range 500 {
		ok(t, db.Put(pk(fmt.Sprint(i)), make([]byte, 100), engine.TTL(time.Minute)))
	}
	ok(t, db.Put(pk("stays"), nil, engine.TTL(time.Hour)))
	snap := snapshotOf(t, db)
	ok(t, db.Flush(ctx))
	clock.pass(time.Minute)
	ok(t, db.Compact(ctx))
	ok(t, snap.Close())
	ok(t, db.Compact(ctx))
	if m := db.Metrics().Total; m.Records != 1 || m.Tombstones != 0 {
		t.Errorf("%d records, %d tombstones after Compact", m.Records, m.Tombstones)
	}
	mustClose(t, db)
	db = openOn(t, fsys, o)
	if got := content(t, db); len(got) != 1 {
		t.Errorf("%d items after reopening", len(got))
	}
	mustClose(t, db)
}

// A clock that shows a time before 1970, one far in the future, or one that jumps, changes
// what is visible and nothing else: the log can always be replayed. What expires beyond the
// last moment there is is not gone at once.
func TestOddClocks(t *testing.T) {
	for _, start := range []int64{-1_000_000, -1, 0, 1 << 50, 1<<63 - 10_000, -1 << 62} {
		var clock hand
		clock.ms.Store(start)
		fsys := vfs.NewMem()
		o := engine.Options{Clock: clock.now}
		db := openOn(t, fsys, o)
		ok(t, db.Put(pk("k"), []byte("v"), engine.TTL(time.Hour)))
		ok(t, db.Put(pk("max"), []byte("v"), engine.TTL(1<<63-1)))
		ok(t, db.Update(ctx, func(tx *engine.Tx) error {
			ok(t, tx.Put(pk("tx"), []byte("v"), engine.TTL(time.Hour)))
			v, err := tx.Get(pk("tx"))
			if err != nil || string(v) != "v" {
				t.Errorf("clock %d: the transaction reads %q, %v", start, v, err)
			}
			return nil
		}))
		mustClose(t, db)
		db = openOn(t, fsys, o)
		wantValue(t, db, pk("k"), []byte("v"))
		ok(t, db.Flush(ctx))
		clock.ms.Store(start - 5_000) // backwards
		wantValue(t, db, pk("k"), []byte("v"))
		mustClose(t, db)
		db = openOn(t, fsys, o)
		wantValue(t, db, pk("max"), []byte("v"))
		mustClose(t, db)
	}
}

// What has expired does not come back when the clock is set back a little, in memory and in files,
// and times to live go on from then; a clock that was far ahead is followed.
//
// Promise (reads and writes): An expired item does not come back with a clock that is set back by
// up to a minute.
func TestClockGoesBack(t *testing.T) {
	var clock hand
	clock.ms.Store(10_000_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	k := pk("k")
	for range 2 {
		ok(t, db.Put(k, []byte("v"), engine.TTL(time.Second)))
		clock.pass(time.Second)
		wantValue(t, db, k, nil)
		clock.pass(-time.Minute)
		wantValue(t, db, k, nil)
		ok(t, db.PutIf(pk("other"), []byte("v"), engine.IfAbsent(), engine.TTL(time.Second)))
		clock.pass(time.Minute)
		wantValue(t, db, pk("other"), []byte("v"))
		clock.pass(time.Second)
		wantValue(t, db, pk("other"), nil)
		ok(t, db.Flush(ctx))
	}
	ok(t, db.Put(k, []byte("v"), engine.TTL(time.Second)))
	clock.pass(time.Hour)
	wantValue(t, db, k, nil)
	clock.pass(-time.Hour)
	wantValue(t, db, k, []byte("v"))
}
