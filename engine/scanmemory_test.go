package engine_test

import (
	"encoding/binary"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestOrderedScanInLittleMemory: in the middle of an ordered scan of more data than the cache
// holds, each run has a few KiB in memory, however large it is.
func TestOrderedScanInLittleMemory(t *testing.T) {
	testutil.SkipUnderRace(t, "it measures memory")
	const perRun = 7 << 10
	n := testutil.Effort(30_000, 400_000)
	db := openDir(t, t.TempDir(), &engine.Options{Memory: 64 << 20, Durability: engine.Process})
	rnd, value := testutil.Rand(t), make([]byte, 1000)
	for i := range n {
		for at := 0; at < len(value)/2; at += 8 {
			binary.LittleEndian.PutUint64(value[at:], rnd.Uint64())
		}
		x := uint64(i*7919) % uint64(n) // in no order
		ok(t, db.Put(engine.Key{PK: bytesOf(x / 100), SK: bytesOf(x)}, value))
	}
	ok(t, db.Flush(ctx))
	used := func() int64 { return int64(liveHeap()) - db.Metrics().CacheBytes }
	before, runs, i := used(), int64(db.Metrics().Total.Runs), 0
	for _, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		if i++; i == n/2 {
			if each := (used() - before) / runs; each > perRun {
				t.Errorf("%d items: %d bytes for each of %d runs", n, each, runs)
			}
		}
	}
	if i != n {
		t.Errorf("%d items of %d", i, n)
	}
	ok(t, db.Close())
}
