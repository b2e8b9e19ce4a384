package exec

import (
	"cmp"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// Heads of any number of rows, that differ in any bytes, come into order, and no row is lost.
func TestSortHeads(t *testing.T) {
	rng := testutil.Rand(t)
	byHead := func(a, b placed) int { return cmp.Compare(a.head, b.head) }
	var spare []placed
	for range testutil.Effort(300, 10_000) {
		n := rng.IntN(3 * fewHeads)
		mask, list := rng.Uint64()&rng.Uint64()&rng.Uint64(), make([]placed, n)
		for i := range list {
			list[i] = placed{rng.Uint64() & mask, rowPlace(i)}
		}
		if rng.IntN(10) == 0 {
			slices.SortFunc(list, byHead)
			for i := range list {
				list[i].at = rowPlace(i)
			}
		}
		before := slices.Clone(list)
		list, spare, _ = sortHeads(list, spare, func() error { return nil })
		ordered := slices.IsSortedFunc(list, byHead)
		seen := make([]bool, n)
		for _, p := range list {
			if seen[p.at] || before[p.at] != p {
				t.Fatalf("%d heads of %x: %v was %v, or comes twice", n, mask, p, before[p.at])
			}
			seen[p.at] = true
		}
		if !ordered || len(list) != n {
			t.Fatalf("%d heads of %x are not in order", n, mask)
		}
	}
}
