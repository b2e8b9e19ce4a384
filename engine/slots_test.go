package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// shortScans is how many of them make the map of slots, whatever the build.
const shortScans = 150

// slotKey returns key i of some that share a partition, some long beginnings, and none.
func slotKey(i int) engine.Key {
	switch i % 3 {
	case 0:
		return engine.K("together", fmt.Sprintf("%04d", i))
	case 1:
		return engine.K(fmt.Sprintf("a long beginning of many keys %05d", i))
	}
	return engine.K(fmt.Sprintf("%c%d", 'a'+i%26, i))
}

// A reading of nothing, by an Iterator that has left windows unread, shows nothing.
func TestIteratorLeavesWindows(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for i := range 2000 {
		ok(t, db.Put(slotKey(i), nil))
	}
	for range shortScans {
		for _, err := range db.Scan(ctx, engine.Scan{Limit: 1}) {
			ok(t, err)
		}
	}
	it, err := db.ScanIterator(ctx, engine.Scan{From: engine.K("k"), Reverse: true})
	ok(t, err)
	defer func() { ok(t, it.Close()) }()
	if !it.Seek(engine.K("x")) {
		t.Error("there is an item before x")
	}
	if it.Seek(engine.K("b")) {
		t.Errorf("%v is not between k and b", it.Item().Key)
	}
}

// keysOf returns what a scan shows.
func keysOf(t *testing.T, snap *engine.Snapshot, s engine.Scan) (keys []engine.Key) {
	t.Helper()
	for it, err := range snap.Scan(ctx, s) {
		ok(t, err)
		keys = append(keys, it.Clone().Key)
	}
	return keys
}

// checkShortScans compares some short scans of a snapshot, both ways, with all of its items, and
// an Iterator that turns around.
func checkShortScans(t *testing.T, rng *rand.Rand, snap *engine.Snapshot, n int) {
	t.Helper()
	all := keysOf(t, snap, engine.Scan{})
	for range n {
		s := engine.Scan{Limit: 1 + rng.IntN(40), Reverse: rng.IntN(2) == 0}
		from := slotKey(rng.IntN(6000))
		if rng.IntN(4) > 0 {
			s.StartAfter = from
		}
		i, found := slices.BinarySearchFunc(all, from, compareKeys)
		var want []engine.Key
		switch {
		case s.StartAfter.PK == nil && s.Reverse:
			want = slices.Clone(all[max(0, len(all)-s.Limit):])
		case s.StartAfter.PK == nil:
			want = all[:min(s.Limit, len(all))]
		case s.Reverse:
			want = slices.Clone(all[max(0, i-s.Limit):i])
		default:
			if found {
				i++
			}
			want = all[i:min(i+s.Limit, len(all))]
		}
		if s.Reverse {
			slices.Reverse(want)
		}
		if got := keysOf(t, snap, s); slices.CompareFunc(got, want, compareKeys) != 0 {
			t.Fatalf("after %v, reverse %v, limit %d: %v, want %v", from, s.Reverse, s.Limit, got,
				want)
		}
	}
}

// Short ordered scans show what long ones do, before, while and after the map of slots is made,
// whatever is written, deleted, flushed and merged meanwhile.
//
// Promise (reads and writes): Short ordered scans, which read few stripes, show what long ones do,
// also in snapshots and beside writers. Also `TestShortScansOfThePast`,
// `TestShortScansBesideWriters`, `TestIteratorLeavesWindows`;
// `TestShortScansOpenFewStripes`, `TestSlotsWaitForCommits` in `engine/internal/read`.
func TestShortScansAreParts(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process, MaxRuns: 2})
	rng := testutil.Rand(t)
	for round := range testutil.Effort(24, 300) {
		for range rng.IntN(200) {
			switch i := rng.IntN(6000); rng.IntN(8) {
			case 0, 1:
				ok(t, db.Delete(slotKey(i)))
			default:
				ok(t, db.Put(slotKey(i), []byte("value")))
			}
		}
		switch round % 8 {
		case 3:
			ok(t, db.Flush(ctx))
		case 5:
			i := rng.IntN(26)
			ok(t, db.DeleteScan(engine.K(string(rune('a'+i))), engine.K(string(rune('b'+i)))))
		case 7:
			ok(t, db.Compact(ctx))
		}
		snap := snapshotOf(t, db)
		checkShortScans(t, rng, snap, shortScans/8)
		snap.Close()
	}
}

// A snapshot that is older than the map of slots has the keys that were deleted before the map was
// made.
func TestShortScansOfThePast(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for i := range 2000 {
		ok(t, db.Put(slotKey(i), nil))
	}
	snap, err := db.Snapshot()
	ok(t, err)
	defer snap.Close()
	for i := range 2000 {
		if i%4 > 0 {
			ok(t, db.Delete(slotKey(i)))
		}
	}
	ok(t, db.Compact(ctx))
	now := snapshotOf(t, db)
	defer now.Close()
	rng := testutil.Rand(t)
	checkShortScans(t, rng, now, shortScans)
	checkShortScans(t, rng, snap, shortScans)
	checkShortScans(t, rng, now, shortScans)
}

// Short scans miss nothing of what was committed before them, while others write and the map of
// slots is made.
func TestShortScansBesideWriters(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process, MaxRuns: 2})
	rng := testutil.Rand(t)
	for i := range 1000 {
		ok(t, db.Put(slotKey(6*i), nil))
	}
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		own := rand.New(rand.NewPCG(rng.Uint64(), 0))
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				key := slotKey(own.IntN(6000))
				err := db.Put(key, nil)
				if own.IntN(3) == 0 {
					err = db.Delete(key)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer writers.Wait()
	defer close(stop)
	for range testutil.Effort(12, 300) {
		snap := snapshotOf(t, db)
		checkShortScans(t, rng, snap, shortScans/10)
		snap.Close()
	}
}
