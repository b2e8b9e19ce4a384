package keycodec_test

import (
	"testing"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

var (
	benchKey   = key("user#12345", "post#2024-01-15#789")
	benchZeros = keycodec.Key{PK: keycodec.AppendInt64([]byte("user"), 12345), SK: []byte("post#1")}
	benchUUID  = keycodec.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

func BenchmarkAppendOrdered(b *testing.B) {
	for name, k := range map[string]keycodec.Key{"text": benchKey, "zeros": benchZeros} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				dst = keycodec.AppendOrdered(dst[:0], k)
			}
		})
	}
}

func BenchmarkDecodeOrdered(b *testing.B) {
	for name, k := range map[string]keycodec.Key{"text": benchKey, "zeros": benchZeros} {
		b.Run(name, func(b *testing.B) {
			ordered, scratch := keycodec.AppendOrdered(nil, k), make([]byte, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				_, scratch, _ = keycodec.DecodeOrdered(ordered, scratch)
			}
		})
	}
}

func BenchmarkOrderedPKLen(b *testing.B) {
	ordered := keycodec.AppendOrdered(nil, benchKey)
	b.ReportAllocs()
	for b.Loop() {
		keycodec.OrderedPKLen(ordered)
	}
}

func BenchmarkStripe(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		keycodec.Stripe(benchKey.PK)
	}
}

func BenchmarkLengthPrefixed(b *testing.B) {
	dst := make([]byte, 0, 256)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = keycodec.AppendLengthPrefixed(dst[:0], benchKey)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = keycodec.DecodeLengthPrefixed(dst)
		}
	})
}

// BenchmarkTuple is the tuple (string, int64 ms, UUID) that other codecs are measured on.
func BenchmarkTuple(b *testing.B) {
	encode := func(dst []byte) []byte {
		dst = keycodec.AppendString(dst, "USR_12345")
		dst = keycodec.AppendInt64(dst, 1737100800000)
		return keycodec.AppendUUID(dst, benchUUID)
	}
	b.Run("append", func(b *testing.B) {
		dst := make([]byte, 0, 256)
		b.ReportAllocs()
		for b.Loop() {
			dst = encode(dst[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		in := encode(nil)
		b.ReportAllocs()
		for b.Loop() {
			_, rest, _ := keycodec.DecodeBytes(in)
			_, rest, _ = keycodec.DecodeInt64(rest)
			_, _, _ = keycodec.DecodeUUID(rest)
		}
	})
}

func BenchmarkSchema(b *testing.B) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "user", Type: keycodec.TypeString},
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Millisecond, Desc: true},
		keycodec.Field{Name: "id", Type: keycodec.TypeUUID},
	))
	values := []any{"USR_12345", time.UnixMilli(1737100800000), benchUUID}
	dst := make([]byte, 0, 256)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst, _ = s.Append(dst[:0], values...)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Decode(dst)
		}
	})
	b.Run("prefix length", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.PrefixLen(dst, 2)
		}
	})
}

func BenchmarkDecimal(b *testing.B) {
	dst := make([]byte, 0, 64)
	d := keycodec.NewDecimal(1234567, 2)
	b.Run("append scaled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = keycodec.AppendScaled(dst[:0], 1234567, 2)
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = keycodec.AppendDecimal(dst[:0], d)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = keycodec.DecodeDecimal(dst)
		}
	})
}
