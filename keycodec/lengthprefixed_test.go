package keycodec_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
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

func TestDecodeLengthPrefixedRefuses(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		offset      int64
	}{
		{"nothing", "", 0},
		{"half a length", "00 00", 2},
		{"no PK", "00000000 00000000", 0},
		{"PK cut", "00000003 61 62", 6},
		{"PK over the limit", "00010001 61", 0},
		{"length of all ones", "ffffffff 61", 0},
		{"SK length missing", "00000001 61", 5},
		{"SK cut", "00000001 61 00000002 62", 10},
		{"SK over the limit", "00000001 61 00010001 62", 5},
	} {
		_, _, err := keycodec.DecodeLengthPrefixed(unhex(t, c.bytes))
		var e *corrupt.Error
		if !errors.As(err, &e) || e.Offset != c.offset {
			t.Errorf("%s: error %v, want a corruption at %d", c.name, err, c.offset)
		}
	}
}
