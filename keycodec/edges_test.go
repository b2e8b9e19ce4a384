package keycodec_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
)

func textKey(parts ...string) []byte {
	var key []byte
	for _, p := range parts {
		key = keycodec.AppendString(key, p)
	}
	return key
}

// pairs lists all tuples of up to two strings of up to two of the bytes given.
func pairs(alphabet ...string) [][]string {
	texts := append([]string{""}, alphabet...)
	for _, a := range alphabet {
		for _, b := range alphabet {
			texts = append(texts, a+b)
		}
	}
	list := [][]string{{}}
	for _, a := range texts {
		list = append(list, []string{a})
		for _, b := range texts {
			list = append(list, []string{a, b})
		}
	}
	return list
}

// Tuples with every byte that serves others as a delimiter inside of their values sort as these
// do, and have as many parts when they are read.
//
// Promise (keys): Known edge cases of key codecs. Also `TestEdgeOneByteTerminator`,
// `TestPrefixEndVectors`, `TestSpansShareNoMemory`, `TestFloatsHaveOneZeroAndOneNaN`,
// `TestTimeRange`, `TestValidate` in `keycodec`.
func TestEdgeDelimiters(t *testing.T) {
	list := pairs("\x00", "\x01", "\x1f", "\xff")
	for i, a := range list {
		key := textKey(a...)
		for _, b := range list[:i+1] {
			if got, want := bytes.Compare(key, textKey(b...)), slices.Compare(a, b); got != want {
				t.Fatalf("%q and %q compare %d, want %d", a, b, got, want)
			}
		}
		got := []string{}
		for rest := key; len(rest) > 0; {
			part, after, err := keycodec.DecodeString(rest)
			ok(t, err)
			got, rest = append(got, part), after
		}
		if !slices.Equal(got, a) {
			t.Fatalf("%q reads back as %q", a, got)
		}
	}
}

// A number after a string may begin like an escape.
func TestEdgeOneByteTerminator(t *testing.T) {
	for _, second := range []byte{0x00, 0x01, 0x7f, 0xff} {
		number := int64(uint64(second)<<56|0x41<<40) ^ math.MinInt64
		a := keycodec.AppendInt64(textKey("a"), number)
		b := keycodec.AppendInt64(textKey("a\x00"), number)
		if bytes.Compare(a, b) >= 0 || bytes.HasPrefix(b, a) {
			t.Errorf("(a, %x...) = %x and (a 00, ...) = %x", second, a, b)
		}
	}
}
