package keycodec_test

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestLengthPrefixedVectors(t *testing.T) {
	for _, c := range []struct {
		key keycodec.Key
		hex string
	}{
		{key("user#123", ""), "00000008 75 73 65 72 23 31 32 33 00000000"},
		{key("user#123", "post#001"), "00000008 7573657223313233 00000008 706f737423303031"},
	} {
		if got := keycodec.AppendLengthPrefixed(nil, c.key); !bytes.Equal(got, unhex(t, c.hex)) {
			t.Errorf("%v: got %x, want %s", c.key, got, c.hex)
		}
	}
}

func TestLengthPrefixedRoundTrip(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		k, tail := keys().Draw(t, "key"), awkward(0).Draw(t, "tail")
		b := append(keycodec.AppendLengthPrefixed(nil, k), tail...)
		got, rest, err := keycodec.DecodeLengthPrefixed(b)
		if err != nil || got.Compare(k) != 0 || (got.SK == nil) != (k.SK == nil) {
			t.Fatalf("%x decodes to %x, %v; want %x", b, got, err, k)
		}
		if !bytes.Equal(rest, tail) {
			t.Fatalf("rest %x, want %x", rest, tail)
		}
		if &got.PK[0] != &b[4] || cap(got.PK) != len(got.PK) {
			t.Fatal("the PK is no view into b of its own length")
		}
	})
}
