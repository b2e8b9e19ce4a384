package cache_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/cache"
)

// A span is found by both of its ends; one without an end is not one that ends at once.
func TestSpansAreFoundByBothEnds(t *testing.T) {
	var s cache.Spans[int]
	s.Keep([]byte("b"), []byte("d"), 1)
	s.Keep([]byte("b"), nil, 2)
	for _, c := range []struct {
		lo, hi []byte
		want   int // 0: not known
	}{
		{[]byte("b"), []byte("d"), 1},
		{[]byte("b"), nil, 2},
		{[]byte("b"), []byte("c"), 0},
		{[]byte("b"), []byte{}, 0},
		{[]byte("a"), []byte("d"), 0},
		{nil, []byte("d"), 0},
	} {
		got := 0
		if known := s.Find(c.lo, c.hi); known != nil {
			got = *known
		}
		if got != c.want {
			t.Errorf("[%q, %q): %d is known, want %d", c.lo, c.hi, got, c.want)
		}
	}
}
