package base_test

import (
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

func TestStripeSet(t *testing.T) {
	listOf := func(s *base.StripeSet) (ids []uint8) {
		s.Each(func(id uint8) { ids = append(ids, id) })
		return ids
	}
	for a := range base.NumStripes {
		for _, b := range []int{0, 1, 63, 64, 65, 127, 128, 191, 192, 254, 255, a} {
			var s, other base.StripeSet
			s.Add(uint8(a))
			other.Add(uint8(b))
			s.Union(&other)
			want := []uint8{uint8(min(a, b)), uint8(max(a, b))}
			if got := listOf(&s); !slices.Equal(got, slices.Compact(want)) {
				t.Fatalf("set of %d and %d has %d", a, b, got)
			}
		}
	}
	if got := listOf(&base.StripeSet{}); len(got) > 0 {
		t.Errorf("the empty set has %d", got)
	}
	var all base.StripeSet
	all.Fill()
	if got := listOf(&all); len(got) != base.NumStripes || got[255] != 255 {
		t.Errorf("the set of all stripes has %d", got)
	}
}
