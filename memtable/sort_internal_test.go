package memtable

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortItems sorts items whose prefixes differ in all sorts of bits.
func TestSortItems(t *testing.T) {
	compare := func(a, b item) int {
		if c := cmp.Compare(a.prefix, b.prefix); c != 0 {
			return c
		}
		return cmp.Compare(a.tail, b.tail)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, mask := range []uint64{
		0, 1, 0xff, 1 << 63, ^uint64(0), 0xff00ff00ff00ff00, 0x00ffffff, 0xffffff << 13, 3 << 40,
	} {
		for _, n := range []int{0, 1, radixLeast - 1, radixLeast, 3000} {
			for _, order := range []string{
				"random", "ascending", "descending", "second first", "last first",
				"0 above", "1 above", "2 above",
			} {
				items := make([]item, n)
				for i := range items {
					items[i] = item{prefix: rnd.Uint64()&mask | 1<<62, tail: rnd.Uint32()}
				}
				if i := slices.Index([]string{"0 above", "1 above", "2 above"}, order); i >= 0 &&
					i < n {
					items[i].prefix |= 1 << 63 // a bit that no other has
				}
				want := slices.Clone(items)
				slices.SortStableFunc(want, compare)
				switch order {
				case "second first", "last first":
					copy(items, want)
					if i := map[string]int{"second first": 1, "last first": n - 1}[order]; i < n &&
						n > 0 {
						items[0], items[i] = items[i], items[0]
					}
				case "ascending":
					copy(items, want)
				case "descending":
					copy(items, want)
					slices.Reverse(items)
				}
				if got := sortItems(items, compare); !slices.Equal(got, want) {
					t.Fatalf("%d items, mask %x, %s: wrong order", n, mask, order)
				}
			}
		}
	}
}

func BenchmarkSortItems(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	items := make([]item, 3000)
	for i := range items {
		items[i] = item{prefix: rnd.Uint64(), tail: rnd.Uint32(), node: uint32(i)}
	}
	compare := func(a, b item) int { return cmp.Compare(a.prefix, b.prefix) }
	for name, sort := range map[string]func([]item){
		"distribute": func(x []item) { sortItems(x, compare) },
		"compare":    func(x []item) { slices.SortFunc(x, compare) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				sort(slices.Clone(items))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(items)), "ns/item")
		})
	}
}
