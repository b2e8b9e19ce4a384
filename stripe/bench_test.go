package stripe_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// benchRows is the number of keys of a benchmark's stripe: 16 bytes, shared out over
// its sources, with values of 100 bytes; all blocks fit the cache.
const benchRows = 100_000

func benchKey(i int) string { return fmt.Sprintf("user#%011d", i) }

// benchStripe has its rows in n sources: the first is the memtable if memtable is set,
// all others are runs.
func benchStripe(b *testing.B, n int, memtable bool) *world {
	w := newWorld(b, vfs.NewMem())
	w.env.Cache, w.env.BlockBytes = cache.New(256<<20), 16<<10
	w.s = new(stripe.Stripe)
	w.s.Init(stripeID, &w.env, nil)
	value := fmt.Sprintf("%0100d", 1)
	for source := range n {
		for i := source; i < benchRows; i += n {
			w.commit(put(benchKey(i), value))
		}
		if source < n-1 || !memtable {
			w.flush()
		}
	}
	return w
}

// benchSources runs f over stripes with 1, 2 and 4 sources.
func benchSources(b *testing.B, f func(b *testing.B, w *world)) {
	b.Run("memtable", func(b *testing.B) { f(b, benchStripe(b, 1, true)) })
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) { f(b, benchStripe(b, n, false)) })
	}
	b.Run("memtable+runs=3", func(b *testing.B) { f(b, benchStripe(b, 4, true)) })
}

func BenchmarkCursorNext(b *testing.B) {
	benchSources(b, func(b *testing.B, w *world) {
		for _, reverse := range []bool{false, true} {
			b.Run(fmt.Sprintf("reverse=%v", reverse), func(b *testing.B) {
				var c stepper
				all := bounds("", "", w.seq, reverse)
				ok(b, c.Open(w.s, all))
				b.ReportAllocs()
				for b.Loop() {
					if !c.Next() {
						c.Close()
						ok(b, c.Open(w.s, all))
					}
				}
				c.Close()
			})
		}
	})
}

// BenchmarkSeek20 opens a cursor in the middle and reads 20 rows.
func BenchmarkSeek20(b *testing.B) {
	benchSources(b, func(b *testing.B, w *world) {
		var c stepper
		starts := make([][]byte, 1024)
		for i := range starts {
			starts[i] = []byte(benchKey(i * 7919 * 97 % (benchRows - 20)))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ok(b, c.Open(w.s, stripe.Bounds{Lo: starts[i%len(starts)], Snap: w.seq}))
			for range 20 {
				if !c.Next() {
					b.Fatal("end")
				}
			}
			c.Close()
		}
	})
}

// BenchmarkSeek20Ranges is the same in a stripe whose run has range tombstones elsewhere.
func BenchmarkSeek20Ranges(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := benchStripe(b, 1, false)
			for i := range n {
				w.commit(delRange(fmt.Sprintf("zone#%07d", i), fmt.Sprintf("zone#%07dx", i)))
			}
			w.flush()
			var c stepper
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				lo := []byte(benchKey(i * 7919 * 97 % (benchRows - 20)))
				hi := []byte("user~")
				ok(b, c.Open(w.s, stripe.Bounds{Lo: lo, Hi: hi, Snap: w.seq}))
				for range 20 {
					if !c.Next() {
						b.Fatal("end")
					}
				}
				c.Close()
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	benchSources(b, func(b *testing.B, w *world) {
		for _, c := range []struct {
			name   string
			format string
		}{{"hit", "user#%011d"}, {"miss", "user#%010dx"}} {
			b.Run(c.name, func(b *testing.B) {
				keys := make([][]byte, 1<<14)
				for i := range keys {
					keys[i] = fmt.Appendf(nil, c.format, i*7919*97%benchRows)
				}
				var e base.Entry
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					key := keys[i%len(keys)]
					found, err := w.s.Get(key, hashOf(key), w.seq, &e)
					if err != nil || found != (c.name == "hit") {
						b.Fatal(found, err)
					}
				}
			})
		}
	})
}
