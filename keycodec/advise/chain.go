package advise

import (
	"cmp"
	"slices"
)

// A key serves several queries if they form a chain: the fields that one needs, the range
// field included, are all compared for equality by the next. Then the key is the fields of
// the first, followed by the further ones of the second, and so on. As few keys as possible
// means as few chains as possible that cover all queries, which is a maximum matching of
// queries with successors (Dilworth's theorem, by König and Fulkerson).

// cover returns the fewest chains of queries, each from the query with the fewest fields to
// the one with the most, as indexes into queries. The chain with the query given first comes
// first. A query without fields is in none.
//
// Often there are several covers of as few chains. The one taken depends on the order in
// which queries are looked at: those at its beginning share keys first.
func cover(queries []Query, order []int) [][]int {
	m := matching{queries: queries, order: order, after: make([]int, len(queries)),
		before: make([]int, len(queries))}
	for i := range queries {
		m.after[i], m.before[i] = -1, -1
	}
	for _, i := range order {
		if needed(queries[i]) {
			m.augment(i, make([]bool, len(queries)))
		}
	}
	var chains [][]int
	for i := range queries {
		if !needed(queries[i]) || m.before[i] >= 0 {
			continue
		}
		var chain []int
		for j := i; j >= 0; j = m.after[j] {
			chain = append(chain, j)
		}
		chains = append(chains, chain)
	}
	slices.SortStableFunc(chains, func(a, b []int) int { return slices.Min(a) - slices.Min(b) })
	return chains
}

// given is the order in which the queries are given.
func given(queries []Query) []int {
	order := make([]int, len(queries))
	for i := range order {
		order[i] = i
	}
	return order
}

// canonical is an order that depends on the queries alone, not on how they are given.
func canonical(queries []Query) []int {
	order := given(queries)
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := queries[i], queries[j]
		return cmp.Or(slices.Compare(slices.Sorted(slices.Values(a.Equal)),
			slices.Sorted(slices.Values(b.Equal))),
			cmp.Compare(a.next(), b.next()), cmp.Compare(a.Order, b.Order))
	})
	return order
}

func needed(q Query) bool { return len(q.Equal) > 0 || q.next() != "" }

// matching gives queries a successor in their chain, and a predecessor; -1 for none.
type matching struct {
	queries       []Query
	order         []int
	after, before []int
}

// augment finds a successor for query i, if need be by giving others another one.
func (m *matching) augment(i int, tried []bool) bool {
	for _, j := range m.order {
		if tried[j] || !needed(m.queries[j]) || !m.precedes(i, j) {
			continue
		}
		tried[j] = true
		if m.before[j] < 0 || m.augment(m.before[j], tried) {
			m.after[i], m.before[j] = j, i
			return true
		}
	}
	return false
}

// precedes reports whether query i can stand directly or indirectly before j in a chain. It
// is a strict partial order: of queries with the same fields the one given first precedes.
func (m *matching) precedes(i, j int) bool {
	a, b := m.queries[i], m.queries[j]
	if i == j {
		return false
	}
	if a.next() == b.next() && subset(a.Equal, b.Equal) && subset(b.Equal, a.Equal) {
		return i < j
	}
	return subset(a.Equal, b.Equal) && (a.next() == "" || slices.Contains(b.Equal, a.next()))
}

func subset(a, b []string) bool {
	for _, name := range a {
		if !slices.Contains(b, name) {
			return false
		}
	}
	return true
}
