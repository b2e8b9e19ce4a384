package crosscheck

import (
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/keycodec"
)

var sample = order{
	User: "USR_12345",
	At:   1737100800000,
	ID:   keycodec.UUID{0x01, 0x94, 0x73, 0x3f, 0x7a, 0, 0x7b, 0x34, 0x8f, 0x2a, 1, 2, 3, 4, 5, 6},
}

// ours lists the ways of keycodec: a call for each field, and a struct.
func ours() []peer {
	c := must(keycodec.NewCodec[order]())
	return []peer{
		{
			name: "kstone, call by call",
			append: func(dst []byte, v *order) []byte {
				dst = keycodec.AppendString(dst, v.User)
				dst = keycodec.AppendInt64(dst, v.At)
				return keycodec.AppendUUID(dst, v.ID)
			},
			decode: func(key []byte, v *order) error {
				user, rest, err := keycodec.DecodeBytes(key)
				if err != nil {
					return err
				}
				v.User = unsafe.String(unsafe.SliceData(user), len(user))
				if v.At, rest, err = keycodec.DecodeInt64(rest); err != nil {
					return err
				}
				v.ID, _, err = keycodec.DecodeUUID(rest)
				return err
			},
		},
		{
			name: "kstone, struct",
			append: func(dst []byte, v *order) []byte {
				dst, _ = c.Append(dst, v)
				return dst
			},
			decode: func(key []byte, v *order) error { return c.DecodeView(key, v) },
		},
	}
}

func allCodecs() []peer { return append(ours(), peers...) }

// BenchmarkCodecs encodes and decodes the tuple with every codec. The codecs take turns in
// short rounds, so that what else the machine does meets all of them, and each is reported
// by its fastest round: ns per operation, and how many times that of the first codec.
func BenchmarkCodecs(b *testing.B) {
	codecs := allCodecs()
	buf, keys := make([]byte, 0, 256), make([][]byte, len(codecs))
	for i, c := range codecs {
		keys[i] = c.append(nil, &sample)
	}
	b.Run("encode", func(b *testing.B) {
		compare(b, codecs, func(i int) { codecs[i].append(buf, &sample) })
	})
	b.Run("decode", func(b *testing.B) {
		var out order
		compare(b, codecs, func(i int) { _ = codecs[i].decode(keys[i], &out) })
	})
}

func compare(b *testing.B, codecs []peer, op func(i int)) {
	const ops = 256
	least := make([]time.Duration, len(codecs))
	for i := range least {
		least[i] = math.MaxInt64
	}
	for b.Loop() {
		for i := range codecs {
			start := time.Now()
			for range ops {
				op(i)
			}
			least[i] = min(least[i], time.Since(start))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, c := range codecs {
		name := strings.NewReplacer(" ", "-", ",", "").Replace(c.name)
		b.ReportMetric(float64(least[i])/ops, name+"-ns")
		b.ReportMetric(float64(least[i])/float64(least[0]), name+"-x")
		b.ReportMetric(testing.AllocsPerRun(20, func() { op(i) }), name+"-allocs")
	}
}
