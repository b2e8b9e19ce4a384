package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// want is an order that would save work: a sequence of columns, or, for groups, columns
// in any sequence.
type want struct {
	order []operator.OrderColumn
	part  bool  // its first columns are of use, too, of many rows
	group []int // ordinals of one relation
}

// fewSorted is how many rows are sorted in less time than it takes to plan how not to.
const fewSorted = 256

// maxConstants bounds the columns of a subquery that are looked at: a table has no more.
const maxConstants = 256

// constants returns the columns of a relation that have the same value in every row.
func (r *relation) constants() (fixed schema.ColumnSet) {
	for _, t := range r.pred {
		if _, contains := t.(expr.Contains); contains {
			continue
		}
		if c, _, ok := conjunct.Equality(t, r.source); ok {
			own, _ := r.columnOf(c.Ordinal)
			if c.Collation == own.Collation && c.Ordinal >= 0 && c.Ordinal < maxConstants {
				fixed.Add(c.Ordinal)
			}
		}
	}
	return fixed
}

// orderFrom returns the order of a path whose streams fix the first columns: the columns
// of the key after those, without those that are constant. total says that they tell any
// two rows apart.
func (p *path) orderFrom(fixed int) (order []operator.OrderColumn, total bool) {
	constants := p.rel.constants()
	var seen schema.ColumnSet
	order = make([]operator.OrderColumn, 0, len(p.key.Fields)-fixed)
	for i := fixed; i < len(p.key.Fields); i++ {
		o := p.key.Ordinals[i]
		if p.key.IsEach(i) && !constants.Has(o) {
			return order, false
		}
		if p.key.IsEach(i) || constants.Has(o) || seen.Has(o) {
			continue
		}
		seen.Add(o)
		f := p.key.Fields[i]
		order = append(order, operator.OrderColumn{Source: p.rel.source, Ordinal: o, Desc: f.Desc,
			NullsLast: f.NullsLast && f.Nullable, Nullable: f.Nullable})
	}
	return order, fixed == 0 && p.tellsRowsApart()
}

// tellsRowsApart says whether no two rows have equal keys.
func (p *path) tellsRowsApart() bool {
	if p.index == nil || !p.index.Unique {
		return true // the row's key is part of it
	}
	for _, c := range p.index.Columns {
		if p.rel.table.Columns[c.Ordinal].Nullable {
			return false
		}
	}
	return true
}

// satisfied returns by how many first columns rows that come in an order, or in the reverse of it,
// are ordered as wanted. Columns that are constant need no order. apart says that no two rows are
// equal in those columns, as total says of have.
func satisfied(want, have []operator.OrderColumn, total bool,
	constants func(operator.OrderColumn) bool) (n int, apart, reverse bool) {
	i := 0
	for ; n < len(want); n++ {
		w := want[n]
		if constants(w) {
			continue
		}
		if i == len(have) {
			break
		}
		h := have[i]
		turned := h.Desc != w.Desc
		if h.Source != w.Source || h.Ordinal != w.Ordinal || i > 0 && turned != reverse ||
			w.Nullable && (h.NullsLast != w.NullsLast) != turned {
			break
		}
		reverse = turned
		i++
	}
	if i == 0 && n < len(want) {
		n = 0 // constants alone are no order
	}
	return n, total && i == len(have), reverse
}

// groups says whether rows with equal values of the columns are neighbours.
func groups(columns []int, have []operator.OrderColumn, source int,
	constants schema.ColumnSet) bool {
	var left []int
	for _, c := range columns {
		if !constants.Has(c) && !slices.Contains(left, c) {
			left = append(left, c)
		}
	}
	if len(left) > len(have) {
		return false
	}
	for _, h := range have[:len(left)] {
		if h.Source != source || !slices.Contains(left, h.Ordinal) {
			return false
		}
	}
	return true
}

// listPrefix returns how many first columns are each a point or a list, up to the last
// list, or element of a list; 0 without those.
func (p *path) listPrefix() (fixed int) {
	for i := range p.key.Ordinals {
		_, list := conjunct.ListOn(&p.key, i, p.pred)
		if _, ok := conjunct.PointOn(&p.key, i, p.pred); !ok && !list {
			break
		}
		if list || p.key.IsEach(i) {
			fixed = i + 1
		}
	}
	return fixed
}

// variants appends a path of a table of so many rows, and again for each way in which its order
// serves a want.
func (q *query) variants(all []*path, p *path, wants []want, rows float64) []*path {
	first := len(all)
	all = append(all, p)
	constants := p.rel.constants()
	isConstant := func(c operator.OrderColumn) bool {
		return c.Source == p.rel.source && constants.Has(c.Ordinal)
	}
	for _, w := range wants {
		for i, fixed := range [...]int{0, p.listPrefix()} {
			if i > 0 && fixed == 0 {
				break
			}
			order, total := p.orderFrom(fixed)
			ok, reverse := false, false
			if w.order != nil {
				n, apart, turned := satisfied(w.order, order, total, isConstant)
				ok, reverse = apart || n == len(w.order) ||
					n > 0 && w.part && rows > fewSorted, turned
			} else {
				ok = groups(w.group, order, p.rel.source, constants)
			}
			if !ok {
				continue
			}
			if reverse {
				order = reversed(order)
			}
			v := *p
			v.ordered, v.reverse, v.fixed, v.order, v.total = true, reverse, fixed, order, total
			v.key.Keep = max(v.key.Keep, fixed) // each value of a list is a stream
			if !slices.ContainsFunc(all[first:], v.sameOrder) {
				all = append(all, &v)
			}
			break
		}
	}
	return all
}

func (p *path) sameOrder(other *path) bool {
	return other.ordered && other.reverse == p.reverse && other.fixed == p.fixed &&
		other.index == p.index
}

func reversed(order []operator.OrderColumn) []operator.OrderColumn {
	out := slices.Clone(order)
	for i := range out {
		out[i].Desc = !out[i].Desc
		out[i].NullsLast = out[i].Nullable && !out[i].NullsLast
	}
	return out
}
