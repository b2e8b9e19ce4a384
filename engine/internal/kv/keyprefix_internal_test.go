package kv

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// TestKeyPrefix decodes keys after each of their prefixes as they are decoded without, whole ones
// and damaged ones.
func TestKeyPrefix(t *testing.T) {
	rng := testutil.Rand(t)
	some := func(least int) []byte {
		b := make([]byte, least+rng.IntN(6))
		for i := range b {
			b[i] = []byte{0, 0, 1, 2, 'a', 0xff}[rng.IntN(6)]
		}
		return b
	}
	check := func(b []byte) {
		t.Helper()
		want, _, failed := keycodec.DecodeOrdered(b, nil)
		var p keyPrefix
		for cut := range len(b) + 1 {
			p.init(b[:cut])
			for range 2 {
				got, _, err := p.decode(b, nil)
				if fmt.Sprint(err) != fmt.Sprint(failed) || !bytes.Equal(got.PK, want.PK) ||
					!bytes.Equal(got.SK, want.SK) || (got.SK == nil) != (want.SK == nil) {
					t.Fatalf("%x after %d bytes: %x %v, want %x %v", b, cut, got, err, want, failed)
				}
			}
		}
	}
	for range testutil.Effort(5000, 500_000) {
		k := Key{PK: some(1), SK: some(0)}
		if len(k.SK) == 0 {
			k.SK = nil
		}
		check(keycodec.AppendOrdered(nil, k))
		check(some(0))
	}
	long := bytes.Repeat([]byte{7}, keycodec.MaxKeyBytes+1)
	var p keyPrefix
	for _, b := range [][]byte{append(long, 0, 0), append([]byte{7, 0, 0}, long...)} {
		for _, cut := range []int{2, 3, 5} {
			p.init(b[:cut])
			if _, _, err := p.decode(b, nil); err == nil {
				t.Errorf("a key of %d bytes is decoded after %d", len(b), cut)
			}
		}
	}
}
