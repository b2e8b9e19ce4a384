package read

import (
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// notes notes reads of partitions that a function draws.
func notes(h *hotReads, n int, draw func() byte) {
	for range n {
		pk := []byte{draw(), 0, 'x'}
		h.note(keycodec.Stripe(pk), keycodec.AppendOrdered(nil, keycodec.Key{PK: pk, SK: pk}))
	}
}

// Promise (manners): The partitions that are read most are found in memory that does not grow,
// never with more reads than they had, and are forgotten when they are not read any more.
func TestHotReads(t *testing.T) {
	s := New(Env{})
	h := &s.counters.hot
	r := testutil.Rand(t)
	z := rand.NewZipf(r, 1.3, 1, 255)
	real := map[byte]uint64{}
	notes(h, hotWindow-1, func() byte {
		b := byte(z.Uint64())
		real[b]++
		return b
	})
	hot := s.Hot()
	if hot.Reads != (hotWindow-1)*hotEvery || len(hot.Partitions) > hotEntries {
		t.Fatalf("%d reads, %d partitions", hot.Reads, len(hot.Partitions))
	}
	for i, p := range hot.Partitions {
		had := real[p.PK[0]] * hotEvery
		if p.Reads > had || i < 5 && (p.PK[0] != byte(i) || p.Reads < had*9/10) {
			t.Errorf("number %d is %v with %d reads of %d", i, p.PK, p.Reads, had)
		}
	}
	if hot.Stripes[keycodec.Stripe(hot.Partitions[0].PK)] < hot.Partitions[0].Reads {
		t.Error("the stripe has fewer reads than its partition")
	}
	notes(h, 5*hotWindow, func() byte { return byte(100 + r.IntN(100)) })
	for _, p := range s.Hot().Partitions {
		if p.PK[0] < 100 && p.Reads > s.Hot().Reads/50 {
			t.Errorf("%v is not read any more, and has %d reads", p.PK, p.Reads)
		}
	}
	pk := make([]byte, 300)
	if n := testing.AllocsPerRun(1000, func() { h.note(0, pk[:1+r.IntN(3)]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
