package keycodec_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// awkward generates strings made of the bytes that escaping and bounds can get wrong.
func awkward(minLen int) *rapid.Generator[[]byte] {
	b := rapid.OneOf(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), rapid.Byte())
	return rapid.SliceOfN(b, minLen, 6)
}

func keys() *rapid.Generator[keycodec.Key] {
	return rapid.Custom(func(t *rapid.T) keycodec.Key {
		k := keycodec.Key{PK: awkward(1).Draw(t, "pk")}
		if rapid.Bool().Draw(t, "has SK") {
			k.SK = awkward(1).Draw(t, "sk")
		}
		return k
	})
}

// unhex reads hexadecimal digits, which may be grouped by spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	ok(t, err)
	return b
}

func TestOrderedSortsLikeKeys(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		a, b := keys().Draw(t, "a"), keys().Draw(t, "b")
		want := bytes.Compare(a.PK, b.PK)
		if want == 0 && (a.SK == nil) != (b.SK == nil) {
			want = 1
			if a.SK == nil {
				want = -1
			}
		} else if want == 0 {
			want = bytes.Compare(a.SK, b.SK)
		}
		x, y := keycodec.AppendOrdered(nil, a), keycodec.AppendOrdered(nil, b)
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("%x and %x compare %d, want %d", x, y, got, want)
		}
		if got := a.Compare(b); got != want {
			t.Fatalf("Key.Compare = %d, want %d", got, want)
		}
	})
}

func TestOrderedRoundTrip(t *testing.T) {
	scratch := make([]byte, 0, 64)
	testutil.Check(t, func(t *rapid.T) {
		k := keys().Draw(t, "key")
		head := []byte("head")
		b := keycodec.AppendOrdered(head, k)
		if !bytes.HasPrefix(b, head) {
			t.Fatalf("AppendOrdered changed what was in dst: %x", b)
		}
		b = b[len(head):]
		got, s, err := keycodec.DecodeOrdered(b, scratch)
		if err != nil || !bytes.Equal(got.PK, k.PK) || !bytes.Equal(got.SK, k.SK) ||
			(got.SK == nil) != (k.SK == nil) {
			t.Fatalf("%x decodes to %x, %v; want %x", b, got, err, k)
		}
		scratch = s
		pk := keycodec.AppendOrderedPK(nil, k.PK)
		n, ok := keycodec.OrderedPKLen(b)
		if !ok || !bytes.Equal(b[:n], pk) {
			t.Fatalf("partition of %x is its first %d bytes (%v), want %x", b, n, ok, pk)
		}
	})
}

// TestPartitionRange checks that [AppendOrderedPK, PrefixEnd) holds a partition and
// nothing else.
func TestPartitionRange(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		pk, k := awkward(1).Draw(t, "pk"), keys().Draw(t, "key")
		start := keycodec.AppendOrderedPK(nil, pk)
		end, ok := keycodec.PrefixEnd(nil, start)
		if !ok {
			t.Fatal("a partition without an end")
		}
		for _, sk := range [][]byte{k.SK, nil} {
			for _, owner := range [][]byte{k.PK, pk} {
				b := keycodec.AppendOrdered(nil, keycodec.Key{PK: owner, SK: sk})
				in := bytes.Compare(start, b) <= 0 && bytes.Compare(b, end) < 0
				if in != bytes.Equal(owner, pk) {
					t.Fatalf("%x in [%x, %x) is %v", b, start, end, in)
				}
			}
		}
	})
}

func TestDecodeOrderedCopiesOnlyEscapes(t *testing.T) {
	b := keycodec.AppendOrdered(nil, key("plain", "sk"))
	k, _, err := keycodec.DecodeOrdered(b, nil)
	if err != nil || &k.PK[0] != &b[0] || &k.SK[0] != &b[7] {
		t.Errorf("key without zero bytes was copied (error %v)", err)
	}
	// A caller that appends to one part must not reach the other.
	if cap(k.PK) != len(k.PK) {
		t.Errorf("capacity of the PK is %d, want %d", cap(k.PK), len(k.PK))
	}
	scratch := make([]byte, 5, 64)
	b = keycodec.AppendOrdered(nil, key("a\x00b", "sk"))
	k, again, err := keycodec.DecodeOrdered(b, scratch)
	if err != nil || &k.PK[0] != &scratch[0] || &again[0] != &scratch[0] {
		t.Errorf("key with zero bytes is not in scratch (error %v)", err)
	}
	if cap(k.PK) != len(k.PK) {
		t.Errorf("capacity of the PK in scratch is %d, want %d", cap(k.PK), len(k.PK))
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	plain, zeros := key("user#12345", "post#2024-01-15#789"), key("a\x00\x00b", "c")
	ordered, escaped := keycodec.AppendOrdered(nil, plain), keycodec.AppendOrdered(nil, zeros)
	dst, scratch := make([]byte, 0, 256), make([]byte, 0, 256)
	prefixed := keycodec.AppendLengthPrefixed(nil, plain)
	text := keycodec.AppendBytes(nil, zeros.PK)
	for name, f := range map[string]func(){
		"AppendOrdered":        func() { dst = keycodec.AppendOrdered(dst[:0], plain) },
		"AppendOrdered/zeros":  func() { dst = keycodec.AppendOrdered(dst[:0], zeros) },
		"AppendOrderedPK":      func() { dst = keycodec.AppendOrderedPK(dst[:0], plain.PK) },
		"DecodeOrdered":        func() { _, scratch, _ = keycodec.DecodeOrdered(ordered, scratch) },
		"DecodeOrdered/zeros":  func() { _, scratch, _ = keycodec.DecodeOrdered(escaped, scratch) },
		"OrderedPKLen":         func() { keycodec.OrderedPKLen(ordered) },
		"Stripe":               func() { keycodec.Stripe(plain.PK) },
		"AppendLengthPrefixed": func() { dst = keycodec.AppendLengthPrefixed(dst[:0], plain) },
		"DecodeLengthPrefixed": func() { _, _, _ = keycodec.DecodeLengthPrefixed(prefixed) },
		"PrefixEnd":            func() { dst, _ = keycodec.PrefixEnd(dst[:0], ordered) },
		"AppendString":         func() { dst = keycodec.AppendString(dst[:0], "a\x00b") },
		"AppendBytes":          func() { dst = keycodec.AppendBytes(dst[:0], plain.PK) },
		"DecodeAppendBytes": func() {
			scratch, _, _ = keycodec.DecodeAppendBytes(scratch[:0], text)
		},
		"AppendFloat64": func() { dst = keycodec.AppendFloat64(dst[:0], math.Pi) },
		"AppendScaled":  func() { dst = keycodec.AppendScaled(dst[:0], -1234567, 2) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times, want 0", name, n)
		}
	}
}
