package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// BenchmarkFilterNew asks about 200,000 keys, nine of ten new, in a database of 2 million,
// and, by turns, about each of them by Has. The ratio is how much longer that takes.
func BenchmarkFilterNew(b *testing.B) {
	const rows, asked = 2_000_000, 200_000
	db := openBench(b, engine.Options{Durability: engine.Process})
	load(b, db, rows)
	ok(b, db.Flush(ctx))
	rnd := rand.New(rand.NewPCG(1, 2))
	keys, bufs := make([]engine.Key, asked), make([][32]byte, asked)
	choose := func() {
		for i := range keys {
			n := rows + rnd.Uint64N(1<<40)
			if i%10 == 0 {
				n = rnd.Uint64N(rows)
			}
			keys[i] = benchKey(bufs[i][:0], n)
		}
	}
	for name, o := range map[string]*engine.FilterOptions{
		"exact": nil, "approximate": {Approximate: true},
	} {
		b.Run(name, func(b *testing.B) {
			var many, single time.Duration
			var isNew []bool
			var stats engine.DedupStats
			for range b.N {
				choose()
				start := time.Now()
				var err error
				if isNew, stats, err = db.FilterNew(ctx, keys, isNew, o); err != nil {
					b.Fatal(err)
				}
				many += time.Since(start)
				choose()
				start = time.Now()
				for i := range keys {
					if _, err := db.Has(keys[i]); err != nil {
						b.Fatal(err)
					}
				}
				single += time.Since(start)
			}
			n := float64(b.N * asked)
			b.ReportMetric(float64(many)/n, "ns/key")
			b.ReportMetric(float64(single)/n, "ns/has")
			b.ReportMetric(float64(single)/float64(many), "ratio")
			b.ReportMetric(float64(stats.FilterProbes)/asked, "probes/key")
			b.ReportMetric(float64(stats.DataReads)/asked, "reads/key")
		})
	}
}
