package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
)

// A semi join says little about its left side: how many rows have a partner depends on which
// values the right side has, and the most frequent one may be among them. If the right side is
// far cheaper than the whole, its values are read first, as those of a subquery that is a
// parameter, and then the query is planned for them: what they find in an index is counted.
//
// That is bounded, too: if the right side has more than maxFirstValues, the semi join is run.

const (
	maxFirstValues = 4096
	// expectedFirst is how many values at most the right side is expected to have.
	expectedFirst = 1000
	// firstShare is the part of the cost of the plan that the right side costs at most, and
	// leastWhole what the plan costs at least, in nanoseconds: planning again costs, too.
	firstShare = 0.2
	leastWhole = 100_000
	// maxFirst is how many semi joins of a query are looked at.
	maxFirst = 64
)

// valuesOfSemi returns a term of WHERE that would become a semi join by one column as column
// IN (subquery), where the subquery stands alone; ok is false of any other term.
func (q *query) valuesOfSemi(term expr.Expr) (x expr.Column, s *subquery, ok bool) {
	if q.outer != nil || q.holder != nil || len(q.sel.From) == 0 || q.refusesFullScan() {
		return x, nil, false
	}
	switch t := term.(type) {
	case expr.In:
		if x, ok = t.X.(expr.Column); !ok || t.Not || len(t.List) != 1 {
			return x, nil, false
		}
		sub, ok := t.List[0].(expr.Subquery)
		if !ok {
			return x, nil, false
		}
		s = sub.Query.(*subquery)
		return x, s, !s.query.correlated && len(s.query.outputs) == 1
	case expr.Subquery:
		if t.Kind == expr.Exists {
			s = t.Query.(*subquery)
			x, _, ok = s.query.equality()
			return x, s, ok
		}
	}
	return x, nil, false
}

// equality returns the only condition with columns of queries around of a subquery, if that is
// the equality of one of them and its own column.
func (q *query) equality() (around, own expr.Column, ok bool) {
	if !q.correlated || !q.simple() {
		return around, own, false
	}
	for _, t := range q.where {
		if !hasOuter(t) {
			continue
		}
		c, isCmp := t.(expr.Cmp)
		if ok || !isCmp || c.Op != expr.Eq {
			return around, own, false
		}
		l, lOK := c.L.(expr.Column)
		r, rOK := c.R.(expr.Column)
		if lOK && rOK && l.Source < 0 {
			l, r = r, l
		}
		steps, _ := OuterOf(r.Source)
		if !lOK || !rOK || l.Source < 0 || steps != 1 || l.Collation != 0 || r.Collation != 0 {
			return around, own, false
		}
		around, own, ok = inward(r), l, true
	}
	return around, own, ok
}

func hasOuter(e expr.Expr) bool {
	for c := range expr.Columns(e) {
		if c.Source <= Outer(0) {
			return true
		}
	}
	return false
}

// standAlone makes of EXISTS with an equality the subquery for the values of its own column.
func (q *query) standAlone() {
	if !q.correlated {
		return
	}
	_, own, _ := q.equality()
	q.where = slices.DeleteFunc(q.where, hasOuter)
	q.outputs, q.correlated = []Output{{Expr: own, Name: own.Name}}, false
}

// listed returns a term of WHERE as an IN of a list that is known first, if that is what the
// options ask for, and otherwise gives the next relation, should it be a semi join, its number.
func (q *query) listed(term expr.Expr) (expr.Expr, bool) {
	x, s, ok := q.valuesOfSemi(term)
	if !ok || q.scope.semis == maxFirst {
		return term, false
	}
	at := q.scope.semis
	q.scope.semis++
	if q.scope.opt.first>>at&1 == 0 {
		q.semis = append(q.semis, semiValues{relation: len(q.rels), bit: 1 << at, x: x})
		return term, false
	}
	s.query.standAlone()
	s.kind, s.most = SubplanList, maxFirstValues
	q.firsts = append(q.firsts, firstValues{x, s})
	return expr.In{X: x, List: []expr.Expr{expr.Subquery{Query: s, Kind: expr.Rows}}}, true
}

// firstValues is a subquery that is read first, and the column that is compared with its values.
type firstValues struct {
	x expr.Column
	s *subquery
}

// narrow adds to the subqueries that are read first what WHERE says about the column that is
// compared with their values: others are of no use.
func (q *query) narrow() {
	for _, f := range q.firsts {
		inner := f.s.query
		own, ok := inner.outputs[0].Expr.(expr.Column)
		if !ok || own.Source < 0 || own.Collation != 0 || f.x.Collation != 0 || !inner.simple() {
			continue
		}
		for _, w := range q.where {
			column, with, ok := restriction(w)
			if ok && plain(column) == plain(f.x) &&
				!hasResolved([]expr.Expr{w}, q.scope.params) {
				inner.where, inner.narrowed = append(inner.where, with(own)), true
			}
		}
	}
}

// semiValues is a semi join whose right side could be read first.
type semiValues struct {
	relation int
	bit      uint64
	x        expr.Column // of the left side
}

// worthFirst returns the bits of the semi joins whose right sides are worth reading first: few
// values for little of what the plan costs, of a column of a table where they can be counted.
func (q *query) worthFirst(root Node) (bits uint64) {
	expected := root.Estimate().Cost
	whole := expected
	if f, ok := root.(*fallback); ok { // it may cost more
		whole = max(whole, f.Bound.Cost)
	}
	if whole < leastWhole || q.sel.Hints.ForceOrder || q.sel.Hints.ForceJoin != "" {
		return 0
	}
	for _, s := range q.semis {
		left := q.relationOf(s.x.Source)
		if left == nil || left.table == nil || left.kind != Inner ||
			!newEstimator(left, &q.scope.opt).Counts() {
			continue
		}
		if r := q.rels[s.relation]; r.kind == Semi {
			cost, rows := q.alone(r)
			if rows <= expectedFirst && cost <= min(expected, firstShare*whole) {
				bits |= s.bit
			}
		}
	}
	return bits
}

// alone returns what reading a relation costs, and how many rows it has.
func (q *query) alone(r *relation) (cost, rows float64) {
	if r.table == nil {
		e := r.sub.tree.Estimate()
		return e.Cost, e.Rows
	}
	e := newEstimator(r, &q.scope.opt)
	if rows = estimate.Clamp(e.Rows() * e.Selectivity(r.pred)); rows > expectedFirst {
		return 0, rows
	}
	found, err := q.candidates(r, nil)
	if err != nil || len(found) == 0 {
		return leastWhole, 2 * expectedFirst
	}
	return found[0].cost(), rows
}
