package keycodec_test

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
)

// TestStripeIsCRC: the tables for short keys and the computation for long ones give the
// lowest byte of the CRC-32, for every length around where they meet, and for every byte in
// every place.
func TestStripeIsCRC(t *testing.T) {
	check := func(pk []byte) {
		t.Helper()
		if got, want := keycodec.Stripe(pk), uint8(crc32.ChecksumIEEE(pk)); got != want {
			t.Fatalf("Stripe(%x) = %d, want %d", pk, got, want)
		}
	}
	rnd := rand.New(rand.NewPCG(31, 1))
	for n := range 150 {
		pk := make([]byte, n)
		check(pk)
		for i := range pk {
			for b := range 256 {
				pk[i] = byte(b)
				check(pk)
			}
			pk[i] = byte(rnd.Uint32())
		}
	}
}
