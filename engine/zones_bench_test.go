package engine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// BenchmarkLoad loads rows of 100 bytes with and without column zones: the difference is the cost
// of collecting, file bytes that of storing.
func BenchmarkLoad(b *testing.B) {
	for _, described := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("columns=%d", described), func(b *testing.B) {
			for b.Loop() {
				loadRows(b, described)
			}
		})
	}
}

// loadRows loads rows of random text, and describes their first columns of 8 bytes.
func loadRows(b *testing.B, columns int) {
	const rows = 200_000
	db := openMemory(b, engine.Options{MemtableBytes: 8 << 20})
	if columns > 0 {
		db.Describe(func(items *engine.ZoneItems, z *engine.ZoneBuilder) {
			z.Rows(1, items.Len())
			for i := range items.Len() {
				for c := range columns {
					v := items.Value(i)[8*c : 8*c+8]
					z.Values(uint64(c), 1, v, v)
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	batch := engine.NewBatch()
	for i := range rows {
		v := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(i))
		for len(v) < 100 {
			v = fmt.Appendf(v, "%x", rnd.Uint64())
		}
		ok(b, batch.Put(pksk(fmt.Sprint("p", i>>10), fmt.Sprintf("row %d", i)), v[:100]))
		if batch.Len() == 1000 {
			ok(b, db.Apply(ctx, batch))
			batch.Reset()
		}
	}
	ok(b, db.Compact(ctx))
	m := db.Metrics()
	b.ReportMetric(float64(m.Total.DiskBytes), "file-bytes")
}
