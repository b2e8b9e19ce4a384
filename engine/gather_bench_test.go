package engine_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// benchTen reads ten entries from somewhere on.
func benchTen(b *testing.B, db *engine.DB, pks [][]byte, entries int, reverse bool) {
	b.ReportAllocs()
	spans, at := make([]keycodec.Span, 1), make([]byte, 0, 8)
	for i := range b.N {
		at = fmt.Appendf(at[:0], "%08d", i*7919%entries)
		if spans[0].Start = at; reverse {
			spans[0] = keycodec.Span{End: at}
		}
		g := engine.Gather{PKs: pks, Spans: spans, Limit: 10, Reverse: reverse}
		for _, err := range db.Gather(ctx, g) {
			if err != nil { // Why not ok: it takes longer than a row
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkGather reads from an index of 200,000 entries that is spread over partitions:
// ten entries from somewhere on, and all of them, per entry.
func BenchmarkGather(b *testing.B) {
	for _, partitions := range []int{1, 16, 256} {
		db := openMemory(b, engine.Options{Durability: engine.Process})
		const entries = 200_000
		loadBuckets(b, db, partitions, entries)
		pks := buckets(partitions)
		for _, state := range []string{"memtables", "files"} {
			name := fmt.Sprintf("partitions=%d/%s", partitions, state)
			for _, reverse := range []bool{false, true} {
				b.Run(fmt.Sprintf("limit=10/reverse=%v/%s", reverse, name), func(b *testing.B) {
					benchTen(b, db, pks, entries, reverse)
				})
			}
			for _, by := range []bool{false, true} {
				b.Run(fmt.Sprintf("all/bypartition=%v/%s", by, name), func(b *testing.B) {
					b.ReportAllocs()
					for n := 0; n < b.N; {
						g := engine.Gather{PKs: pks, ByPartition: by, Limit: b.N - n}
						for _, err := range db.Gather(ctx, g) {
							ok(b, err)
							n++
						}
					}
				})
			}
			b.Run("count/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for n := int64(0); n < int64(b.N); {
					g := engine.Gather{PKs: pks, Limit: b.N - int(n)}
					m, err := db.CountGather(ctx, g)
					ok(b, err)
					n += m
				}
			})
			ok(b, db.Compact(ctx))
		}
	}
}
