package estimate

import (
	"math"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/schema"
)

// Likeness reports which values of a query are alike to the planner: by the statistics they
// leave about the same part of the rows, up to a factor of two, so that a plan made for one
// of them is a good one for the others. It is made of the comparisons of a query, all of
// which must be true; Restrict takes them one after the other.
type Likeness struct {
	estimator Estimator
	list      []restricted
}

// restricted is what is known about one column.
type restricted struct {
	ordinal int
	equal   bool
	value   expr.Value
	bounds  bounds
}

// Begin starts with a table of which s is known, nil if nothing.
func (l *Likeness) Begin(t *schema.Table, s *stats.Table) {
	l.estimator = Estimator{table: t, stats: s}
	clear(l.list)
	l.list = l.list[:0]
}

// Restrict takes a comparison of a column with a value, which is not NULL.
func (l *Likeness) Restrict(ordinal int, op expr.Op, v expr.Value) {
	if l.estimator.stats == nil {
		return
	}
	if op == expr.Eq || op == expr.Ne {
		l.list = append(l.list, restricted{ordinal: ordinal, equal: true, value: v})
		return
	}
	for i := range l.list {
		if r := &l.list[i]; r.ordinal == ordinal && !r.equal {
			r.bounds.add(op, v, true)
			return
		}
	}
	r := restricted{ordinal: ordinal}
	r.bounds.add(op, v, true)
	l.list = append(l.list, r)
}

// Append appends the class of the values, which is the same for all that are alike.
func (l *Likeness) Append(dst []byte) []byte {
	e := &l.estimator
	for i := range l.list {
		r := &l.list[i]
		f := 0.0
		if r.equal {
			f = e.equalTo(r.ordinal, r.value)
		} else {
			f = e.within(r.ordinal, r.bounds)
		}
		dst = append(dst, byte(-math.Floor(math.Log2(max(f, 1e-30)))))
	}
	return dst
}
