package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// BenchmarkMultiGet reads 1,000 keys of a database at once and, by turns, one by one; the
// reported ratio is how much longer the latter takes. "near" are keys of few partitions,
// "random" ones of all, "absent" ones that are not there.
func BenchmarkMultiGet(b *testing.B) {
	const rows, group = 2_000_000, 1000
	var near []uint64
	for n := uint64(0); len(near) < group; n++ {
		if n*0x9e3779b97f4a7c15>>48 < 50 { // as benchKey chooses the partition
			near = append(near, n)
		}
	}
	for _, cache := range []int64{1 << 30, 16 << 20} {
		db := openBench(b, engine.Options{Durability: engine.Process, CacheBytes: cache})
		load(b, db, rows)
		ok(b, db.Flush(ctx))
		for range db.Scan(ctx, engine.Scan{Unordered: true}) { // fills the cache
		}
		next := rand.New(rand.NewPCG(1, 2))
		keys, bufs := make([]engine.Key, group), make([][32]byte, group)
		for name, pick := range map[string]func(i int) uint64{
			"random": func(int) uint64 { return next.Uint64N(rows) },
			"absent": func(int) uint64 { return rows + next.Uint64N(rows) },
			"near":   func(i int) uint64 { return near[i] },
		} {
			b.Run(fmt.Sprintf("%s/cache=%dMiB", name, cache>>20), func(b *testing.B) {
				compareMultiGet(b, db, keys, func() {
					for i := range keys {
						keys[i] = benchKey(bufs[i][:0], pick(i))
					}
				})
			})
		}
	}
}

func compareMultiGet(b *testing.B, db *engine.DB, keys []engine.Key, choose func()) {
	var many, single time.Duration
	var r engine.Results
	out := make([]byte, 0, 256)
	for range b.N {
		choose()
		start := time.Now()
		ok(b, db.MultiGet(ctx, keys, &r))
		many += time.Since(start)
		choose()
		start = time.Now()
		for i := range keys {
			if v, err := db.AppendGet(out, keys[i]); err == nil {
				out = v[:0]
			}
		}
		single += time.Since(start)
	}
	n := float64(b.N * len(keys))
	b.ReportMetric(float64(many)/n, "ns/key")
	b.ReportMetric(float64(single)/n, "ns/get")
	b.ReportMetric(float64(single)/float64(many), "ratio")
}
