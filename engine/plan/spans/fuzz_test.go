package spans_test

import (
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/internal/testutil"
)

// source makes the bytes of a fuzzer into random numbers, so that it decides about every
// part of a predicate. When they are used up it goes on at random.
type source struct {
	data []byte
	rest rand.Source
}

func (s *source) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.rest.Uint64()
	}
	b := uint64(s.data[0])
	s.data = s.data[1:]
	// Small numbers are taken from the high bits.
	return b<<56 | b<<24
}

// FuzzSpans turns bytes into a key, rows and a predicate, and checks that its spans find
// what looking at all rows finds.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a predicate over some columns with a few constants"))
	f.Add([]byte{0x10, 0x80, 0xff, 0x00, 0x40, 0xc0, 0x33, 0x99, 0xe0, 0x01, 0x7f})
	var builder spans.Builder
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		if len(data) > 4<<10 {
			return
		}
		seed := uint64(len(data))
		w := newWorld(rand.New(rand.NewPCG(seed, 1)))
		w.r = rand.New(&source{data, rand.NewPCG(seed, 2)})
		c := w.newCheck()
		if err := c.run(&builder); err != nil {
			t.Fatalf("%v\n%s", err, c)
		}
	})
}
