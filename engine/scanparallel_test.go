package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// A parallel scan calls its function once for each item in its bounds that the filter accepts,
// whatever is written meanwhile.
func TestScanParallel(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	loadBuckets(t, db, 300, 5000)
	var want []engine.Key
	s := engine.Scan{From: engine.K("index/1"), To: engine.K("index/2"),
		Filter: func(it engine.Item) bool { return it.Key.SK[7]%2 == 0 }}
	for it, err := range db.Scan(ctx, s) {
		ok(t, err)
		want = append(want, it.Clone().Key)
	}
	for _, workers := range []int{0, 1, 3, 1000} {
		var mu sync.Mutex
		var got []engine.Key
		ok(t, db.ScanParallel(ctx, s, workers, func(it engine.Item) error {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, it.Clone().Key)
			return db.Put(engine.K("index/1", "added"), nil) // is not seen
		}))
		slices.SortFunc(got, compareKeys)
		if slices.CompareFunc(got, want, compareKeys) != 0 {
			t.Errorf("%d workers: %d items, want %d", workers, len(got), len(want))
		}
		ok(t, db.Delete(engine.K("index/1", "added")))
	}
}

// A parallel scan ends with the first error of its function, with the context's, or with its
// own; and refuses what it has no meaning for.
func TestScanParallelFails(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	loadBuckets(t, db, 300, 1000)
	errFull := errors.New("full")
	wantIs(t, db.ScanParallel(ctx, engine.Scan{}, 2, func(engine.Item) error { return errFull }),
		errFull)
	stop, cancel := context.WithCancel(ctx)
	cancel()
	none := func(engine.Item) error { return nil }
	wantIs(t, db.ScanParallel(stop, engine.Scan{}, 2, none), context.Canceled)
	for _, s := range []engine.Scan{{Segments: 2}, {Limit: 1}, {StartAfter: engine.K("a")},
		{Reverse: true}, {After: engine.Cursor("x")}} {
		wantIs(t, db.ScanParallel(ctx, s, 2, none), engine.ErrInvalid)
	}
	wantIs(t, db.ScanParallel(ctx, engine.Scan{}, -1, none), engine.ErrInvalid)
	snap := snapshotOf(t, db)
	ok(t, snap.Close())
	wantIs(t, snap.ScanParallel(ctx, engine.Scan{}, 2, none), engine.ErrClosed)
}

// The size of a value is that of what Get returns.
func TestValueSize(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(engine.K("k"), make([]byte, 1234)))
	for range 2 {
		n, err := db.ValueSize(engine.K("k"))
		if err != nil || n != 1234 {
			t.Errorf("%d bytes, %v", n, err)
		}
		ok(t, db.Compact(ctx))
	}
	wantIs(t, second(db.ValueSize(engine.K("none"))), engine.ErrNotFound)
	wantIs(t, second(db.ValueSize(engine.Key{})), engine.ErrEmptyPK)
}
