package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Promise (reads and writes): Counts of ranges that follow each other, and of those of a table that
// has grown, are of the range and the moment asked for.
func TestCountsOfChangingRanges(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for i := range 100 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%03d", i)), []byte("v")))
	}
	ok(t, db.Flush(ctx))
	count := func(from, to, want int) {
		t.Helper()
		n, err := db.CountScan(ctx, engine.Scan{From: pksk("p", fmt.Sprintf("%03d", from)),
			To: pksk("p", fmt.Sprintf("%03d", to))})
		if ok(t, err); n != int64(want) {
			t.Errorf("%d keys from %d to %d, want %d", n, from, to, want)
		}
	}
	for _, r := range [][2]int{{0, 50}, {0, 50}, {0, 50}, {0, 70}, {20, 70}, {20, 70}, {0, 300}} {
		count(r[0], r[1], min(r[1], 100)-r[0])
	}
	for _, r := range [][2]int{{3, 8}, {3, 8}, {3, 8}, {3, 9}, {4, 9}, {4, 9}, {4, 9}, {3, 9}} {
		n := 0
		ok(t, db.ScanBlocks(ctx, engine.Scan{From: pksk("p", fmt.Sprintf("%03d", r[0])),
			To: pksk("p", fmt.Sprintf("%03d", r[1]))}, func(b *engine.Block) bool {
			n += b.Len()
			return true
		}))
		if n != r[1]-r[0] {
			t.Errorf("blocks have %d keys from %d to %d", n, r[0], r[1])
		}
	}
	for i := range 50 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%03d", 100+i)), []byte("v")))
	}
	ok(t, db.Flush(ctx))
	count(0, 300, 150)
	ok(t, db.Compact(ctx))
	count(0, 300, 150)
}

// Counts of what files and memtables have together, while keys are written over each other, deleted
// and flushed, are those of readings of the same keys.
//
// Promise (reads and writes): A count is the number of items that a scan of the same range and
// moment shows, wherever they are.
func TestCountsAreThoseOfScans(t *testing.T) {
	rng := testutil.Rand(t)
	for range testutil.Effort(4, 100) {
		db := openMemory(t, engine.Options{MaxRuns: 3 + 20*rng.IntN(2)})
		keys := 1 + rng.IntN(400)
		key := func(i int) engine.Key { return pksk("p", fmt.Sprintf("%03d", i)) }
		var snaps []*engine.Snapshot
		for range 40 {
			from := rng.IntN(keys)
			to := from + 1 + rng.IntN([]int{3, keys}[rng.IntN(2)])
			switch rng.IntN(9) {
			case 0:
				ok(t, db.Flush(ctx))
			case 1:
				ok(t, db.Compact(ctx))
			case 2:
				s := snapshotOf(t, db)
				snaps = append(snaps, s)
			case 3, 4:
				for i := from; i < to; i++ {
					ok(t, db.Delete(key(i)))
				}
			case 5:
				if rng.IntN(3) == 0 {
					ok(t, db.Put(key(from), []byte("v"), engine.TTL(time.Hour)))
				}
			default:
				for i := from; i < min(to, keys); i++ {
					ok(t, db.Put(key(i), []byte("v")))
				}
			}
			sameCounts(t, db, key(from), key(to))
			for _, s := range snaps {
				sameCounts(t, s, key(from), key(to))
			}
		}
		for _, s := range snaps {
			ok(t, s.Close())
		}
	}
}

// sameCounts compares the count of a range, and of all, with what a reading shows.
func sameCounts(t *testing.T, r engine.Reader, from, to engine.Key) {
	t.Helper()
	for _, s := range []engine.Scan{{}, {From: from, To: to}} {
		got, err := r.CountScan(ctx, s)
		ok(t, err)
		s.Filter = func(engine.Item) bool { return true }
		want, err := r.CountScan(ctx, s)
		if ok(t, err); got != want {
			t.Fatalf("%d keys from %s to %s, a scan shows %d", got, from.SK, to.SK, want)
		}
	}
}
