package engine_test

import (
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: the hot paths allocate what the documentation says: nothing for reads into a
// buffer, nothing per item of an iteration, at most one object per write on average.
//
// Promise (manners): No allocation on hot paths. Also `TestRangesDoNotAllocate`;
// `TestLocalDoesNotAllocate` in `engine/store`; `TestCachedReadsDoNotAllocate` in `sst`,
// `TestAppendDoesNotAllocate` in `wal`.
func TestHotPathsDoNotAllocate(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db := openMemory(t, engine.Options{Durability: engine.Process})
	const n = 20000
	buf, value := make([]byte, 0, 64), make([]byte, 100)
	put := func(i int) {
		ok(t, db.Put(benchKey(buf, uint64(i)), value))
	}
	next := 0
	check := func(what string, runs int, most float64, f func()) {
		t.Helper()
		if got := testutil.AllocsPerRun(runs, f); got > most {
			t.Errorf("%s allocates %.2f objects, want at most %.2f", what, got, most)
		}
	}
	check("put", n, 1, func() { put(next); next++ })
	check("overwrite", n/2, 1, func() { put(next % 100); next++ })
	for _, state := range []string{"memtables", "files"} {
		out := make([]byte, 0, 256)
		i := 0
		get := func(offset int) func() {
			return func() {
				i++
				_, err := db.AppendGet(out, benchKey(buf, uint64(i%n+offset)))
				if (err == nil) != (offset == 0) {
					t.Fatal(err)
				}
			}
		}
		check("get hit in "+state, n, 0, get(0))
		check("get miss in "+state, n, 0, get(10*n))
		count := func(s engine.Scan) func() {
			return func() {
				items := 0
				for _, err := range db.Scan(ctx, s) {
					ok(t, err)
					items++
				}
				if items < n {
					t.Fatalf("%d items", items)
				}
			}
		}
		// Per scan, not per item: 20,000 items and 256 cursors.
		check("ordered scan of "+state, 3, 3*256, count(engine.Scan{}))
		check("unordered scan of "+state, 3, 64, count(engine.Scan{Unordered: true}))
		ok(t, db.Compact(ctx))
	}
}
