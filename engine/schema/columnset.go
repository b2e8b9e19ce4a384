package schema

import (
	"iter"
	"math/bits"
)

// ColumnSet is a set of columns, by their ordinals. The zero ColumnSet is empty. It is
// compared with ==.
type ColumnSet struct{ words [maxColumns / 64]uint64 }

// Columns returns the set of the given columns.
func Columns(ordinals ...int) ColumnSet {
	var s ColumnSet
	for _, i := range ordinals {
		s.Add(i)
	}
	return s
}

// Add adds a column. Requires: 0 <= ordinal < maxColumns.
func (s *ColumnSet) Add(ordinal int) { s.words[ordinal>>6] |= 1 << (ordinal & 63) }

// Has reports whether the column is in the set.
func (s *ColumnSet) Has(ordinal int) bool {
	return uint(ordinal) < maxColumns && s.words[ordinal>>6]>>(ordinal&63)&1 != 0
}

// Union adds the columns of another set.
func (s *ColumnSet) Union(other ColumnSet) {
	for i := range s.words {
		s.words[i] |= other.words[i]
	}
}

// Without returns the columns that are not in the other set.
func (s ColumnSet) Without(other ColumnSet) ColumnSet {
	for i := range s.words {
		s.words[i] &^= other.words[i]
	}
	return s
}

// Within reports whether all columns are in the other set.
func (s ColumnSet) Within(other ColumnSet) bool { return s.Without(other) == ColumnSet{} }

// meets reports whether the sets have a column in common.
func (s *ColumnSet) meets(other *ColumnSet) bool {
	common := uint64(0)
	for i := range s.words {
		common |= s.words[i] & other.words[i]
	}
	return common != 0
}

// Empty reports whether no column is in the set.
func (s ColumnSet) Empty() bool { return s == ColumnSet{} }

// Len returns the number of columns.
func (s ColumnSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// All iterates over the columns in ascending order.
func (s ColumnSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
