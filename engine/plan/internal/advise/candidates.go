package advise

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/schema"
)

// advised is an index that might help.
type advised struct {
	table   *schema.Table
	columns []schema.KeyColumn
	include []int
}

// maxInclude is how many columns are proposed for INCLUDE.
const maxInclude = 4

// candidates returns the indexes to price: for each query and table of it the columns
// compared for equality, those that are joined by, then those of a range or of the order,
// with and without the other columns that the query needs.
func (a *adviser) candidates(costs []float64) (all []advised) {
	var asked []Wish
	for i := range a.env.Weights {
		if costs[i] > 0 {
			asked = append(asked, a.env.Wishes(i, a.now, a)...)
		}
	}
	popular := popularity(asked)
	seen := map[string]bool{}
	add := func(w Wish, columns []schema.KeyColumn) {
		columns = dropRepeated(columns)
		if len(columns) == 0 {
			return
		}
		for _, include := range [][]int{nil, w.rest(columns)} {
			c := advised{w.Table, columns, include}
			key := fmt.Sprint(w.Table.ID, columns, include)
			if !seen[key] && len(include) <= maxInclude {
				seen[key] = true
				all = append(all, c)
			}
		}
	}
	for _, w := range asked {
		equal := ascending(a.arrange(w, w.Equal, popular))
		joined := ascending(w.Joined)
		ranged := ascending(w.Ranged)
		for _, j := range [][]schema.KeyColumn{nil, joined} {
			start := slices.Concat(equal, j)
			add(w, start)
			add(w, slices.Concat(start, w.Sorted))
			add(w, slices.Concat(j, ranged))
			for i := range ranged {
				add(w, append(slices.Clone(start), ranged[i]))
				add(w, slices.Concat(start, w.Sorted, ranged[i:i+1]))
			}
		}
	}
	return all
}

// arrange orders the columns that are compared for equality: first those that most
// queries share, so that one index serves several, then those with more values. Columns
// with few values go last, or, after others, away.
func (a *adviser) arrange(w Wish, columns []int, popular map[[2]int]int) []int {
	e := estimate.ForTable(w.Table, a.Table(w.Table), nil)
	out := slices.Clone(columns)
	class := func(o int) int {
		switch v := e.Values(o); {
		case v < lowCardinality:
			return 2
		case v <= highCardinality:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(x, y int) int {
		id := int(w.Table.ID)
		low := cmp.Compare(class(x)/2, class(y)/2)
		return cmp.Or(low, cmp.Compare(popular[[2]int{id, y}], popular[[2]int{id, x}]),
			cmp.Compare(class(x), class(y)), cmp.Compare(e.Values(y), e.Values(x)))
	})
	return out
}

// The classes of cardinality of the composite-key specification.
const (
	lowCardinality  = 1e3
	highCardinality = 1e6
)

func popularity(asked []Wish) map[[2]int]int {
	n := map[[2]int]int{}
	for _, w := range asked {
		for _, o := range slices.Concat(w.Equal, w.Joined) {
			n[[2]int{int(w.Table.ID), o}]++
		}
	}
	return n
}

func ascending(ordinals []int) (keys []schema.KeyColumn) {
	for _, o := range ordinals {
		keys = append(keys, schema.KeyColumn{Ordinal: o})
	}
	return keys
}

func dropRepeated(columns []schema.KeyColumn) (out []schema.KeyColumn) {
	for _, c := range columns {
		same := func(o schema.KeyColumn) bool { return o.Ordinal == c.Ordinal }
		if !slices.ContainsFunc(out, same) {
			out = append(out, c)
		}
	}
	return out
}

// rest returns the further columns that a covering index needs.
func (w *Wish) rest(columns []schema.KeyColumn) (out []int) {
	for _, o := range w.Needed {
		inKey := slices.ContainsFunc(slices.Concat(columns, w.Table.PK, w.Table.SK),
			func(c schema.KeyColumn) bool { return c.Ordinal == o })
		if !inKey {
			out = append(out, o)
		}
	}
	return out
}
