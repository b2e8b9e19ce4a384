package keycodec_test

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/keycodec"
)

var benchUUID = keycodec.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// best runs op, which does n operations, in short rounds and reports the time of the
// fastest as best-ns/op: what an operation takes where nothing else gets in between.
func best(b *testing.B, op func(n int)) {
	b.Helper()
	const ops = 512
	least := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		op(ops)
		least = min(least, time.Since(start))
	}
	b.ReportMetric(float64(least)/ops, "best-ns/op")
	b.ReportMetric(testing.AllocsPerRun(10, func() { op(1) }), "allocs/op")
	b.ReportMetric(0, "ns/op")
}

// benchOrder is the tuple (string, int64 ms, UUID) that other codecs are measured on.
type benchOrder struct {
	User string        `kstone:"user"`
	At   int64         `kstone:"at"`
	ID   keycodec.UUID `kstone:"id"`
}

var (
	benchValue = benchOrder{"USR_12345", 1737100800000, benchUUID}
	benchSink  benchOrder
)

// BenchmarkTuple encodes and decodes it by one call for each field.
func BenchmarkTuple(b *testing.B) {
	buf := make([]byte, 0, 256)
	var key []byte
	b.Run("append", func(b *testing.B) {
		best(b, func(n int) {
			for range n {
				dst := keycodec.AppendString(buf, benchValue.User)
				dst = keycodec.AppendInt64(dst, benchValue.At)
				key = keycodec.AppendUUID(dst, benchValue.ID)
			}
		})
	})
	b.Run("decode", func(b *testing.B) {
		best(b, func(n int) {
			for range n {
				user, rest, _ := keycodec.DecodeBytes(key)
				benchSink.At, rest, _ = keycodec.DecodeInt64(rest)
				benchSink.ID, _, _ = keycodec.DecodeUUID(rest)
				benchSink.User = unsafe.String(unsafe.SliceData(user), len(user))
			}
		})
	})
}

// BenchmarkCodec is BenchmarkTuple from and to a struct.
func BenchmarkCodec(b *testing.B) {
	c := must(keycodec.NewCodec[benchOrder]())
	buf := make([]byte, 0, 256)
	key, _ := c.Append(nil, &benchValue)
	b.Run("append", func(b *testing.B) {
		best(b, func(n int) {
			for range n {
				_, _ = c.Append(buf, &benchValue)
			}
		})
	})
	b.Run("view", func(b *testing.B) {
		best(b, func(n int) {
			for range n {
				_ = c.DecodeView(key, &benchSink)
			}
		})
	})
	b.Run("decode", func(b *testing.B) {
		best(b, func(n int) {
			for range n {
				_ = c.Decode(key, &benchSink)
			}
		})
	})
}

// BenchmarkSchema is the tuple by a schema: from and to any values.
func BenchmarkSchema(b *testing.B) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "user", Type: keycodec.TypeString},
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Millisecond, Desc: true},
		keycodec.Field{Name: "id", Type: keycodec.TypeUUID},
	))
	values := []any{"USR_12345", time.UnixMilli(1737100800000), benchUUID}
	buf, key := make([]byte, 0, 256), must(s.Append(nil, values...))
	for name, op := range map[string]func(){
		"append":        func() { _, _ = s.Append(buf, values...) },
		"decode":        func() { _, _ = s.Decode(key) },
		"prefix length": func() { _, _ = s.PrefixLen(key, 2) },
	} {
		b.Run(name, func(b *testing.B) {
			best(b, func(n int) {
				for range n {
					op()
				}
			})
		})
	}
}
