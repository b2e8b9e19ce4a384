package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// distribute sends every term of WHERE and ON to where it can be tested first, and finds
// out which columns each relation has to deliver. Terms without columns go to gates, terms
// on one relation to that, and the rest stays for the joins.
func (q *query) distribute() (gates []expr.Expr) {
	q.leftToInner()
	derived := q.propagated()
	q.where = append(q.where, derived...)
	q.propagateOn()
	normal := len(derived) == 0 && len(q.rels) == 1 && !q.narrowed
	joins := q.where[:0:0]
	for _, t := range q.where {
		set := sourcesOf(t)
		switch r := q.single(set); {
		case set == 0:
			gates = append(gates, t)
		case r != nil && r.kind == Inner:
			if r.pred == nil {
				r.pred = make([]expr.Expr, 0, len(q.where))
			}
			r.pred = append(r.pred, t)
		default:
			joins = append(joins, t)
		}
	}
	q.where = joins
	for _, r := range q.rels {
		on := r.on[:0:0]
		for _, t := range r.on {
			// A term without columns decides whether the right side has rows at all.
			set := sourcesOf(t)
			if r.kind != Full && !applies(t) && (set == 0 || q.single(set) == r) {
				r.pred = append(r.pred, t)
			} else {
				on = append(on, t)
			}
		}
		r.on = on
		switch {
		case len(r.pred) == 0:
		case normal:
			r.pred = spans.Conjuncts(r.pred)
		default:
			r.pred = expr.Terms(nil, q.normalise(expr.AllOf(r.pred)))
		}
	}
	q.collectNeeds()
	return gates
}

// single returns the only relation of a set of sources, nil if there are none or several.
func (q *query) single(set uint64) *relation {
	for _, r := range q.rels {
		if set == 1<<r.source {
			return r
		}
	}
	return nil
}

// leftToInner makes inner joins of left joins whose added rows, all NULL on the right, a
// term of WHERE leaves out anyway, and left joins of full ones.
func (q *query) leftToInner() {
	q.fullToLeft()
	for i := 0; i < len(q.where); i++ {
		for _, r := range q.rels {
			if r.kind == Left && rejectsNull(q.where[i], r.source) {
				r.kind = Inner
				q.where = append(q.where, r.on...)
				r.on = nil
			}
		}
	}
}

// fullToLeft makes a left join of a full one if a term of WHERE leaves out the rows that it adds on
// one of its sides.
func (q *query) fullToLeft() {
	if len(q.rels) < 2 || q.rels[0].kind != Full {
		return
	}
	rejects := func(source int) bool {
		test := func(t expr.Expr) bool { return rejectsNull(t, source) }
		return slices.ContainsFunc(q.where, test)
	}
	left, right := q.rels[0], q.rels[1]
	switch {
	case rejects(0):
		left.kind, right.kind = Inner, Left
	case rejects(1):
		left.kind, right.kind = Left, Inner
		left.on, right.on = right.on, nil
	}
}

// rejectsNull says whether a term cannot be true where the columns of a source are NULL.
func rejectsNull(t expr.Expr, source int) bool {
	isColumn := func(e expr.Expr) bool {
		c, ok := e.(expr.Column)
		return ok && c.Source == source
	}
	switch t := t.(type) {
	case expr.Cmp:
		return (isColumn(t.L) || isColumn(t.R)) &&
			(t.Op != expr.Ne || !mayBeEmpty(t.L) && !mayBeEmpty(t.R))
	case expr.In:
		return isColumn(t.X) && (!t.Not || !slices.ContainsFunc(t.List, mayBeEmpty))
	case expr.BeginsWith:
		return isColumn(t.X)
	case expr.Contains:
		return isColumn(t.X)
	case expr.IsNull:
		return t.Not && isColumn(t.X)
	}
	return false
}

// mayBeEmpty reports whether an operand may be a list without values: a parameter or a subquery.
// What differs from no value is true, also of NULL.
func mayBeEmpty(e expr.Expr) bool {
	switch e := e.(type) {
	case expr.Column:
		return false
	case expr.Const:
		return e.Value.Kind() == expr.KindList
	}
	return true
}

// propagated returns what follows from equalities of columns: a = b AND a = 5 gives b = 5,
// and likewise for lists and ranges. Nothing is said about buckets, ever: they follow from
// finished spans.
func (q *query) propagated() (derived []expr.Expr) {
	classes := q.equalColumns()
	if classes == nil {
		return nil
	}
	for _, t := range q.where {
		column, with, ok := restriction(t)
		if !ok {
			continue
		}
		class := classes[plain(column)]
		if class == nil {
			continue
		}
		for _, other := range class.columns {
			if other == plain(column) {
				continue
			}
			n := with(q.column(other.Source, other.Ordinal))
			same := func(x expr.Expr) bool { return expr.Equal(x, n) }
			if !slices.ContainsFunc(q.where, same) && !slices.ContainsFunc(derived, same) {
				derived = append(derived, n)
			}
		}
	}
	return derived
}

// propagateOn adds to ON what follows from WHERE for the right side of a left, semi or anti join:
// rows that are equal to those of the left side in a column satisfy what is true of it there. Not
// for an anti join of NOT IN, where rows that are not equal count, too.
func (q *query) propagateOn() {
	for _, r := range q.rels {
		if r.kind == Inner || r.nullAware {
			continue
		}
		for _, t := range slices.Clone(r.on) {
			c, ok := t.(expr.Cmp)
			if !ok || c.Op != expr.Eq {
				continue
			}
			left, lOK := c.L.(expr.Column)
			right, rOK := c.R.(expr.Column)
			if lOK && rOK && left.Source == r.source {
				left, right = right, left
			}
			if !lOK || !rOK || left.Source == r.source || right.Source != r.source ||
				left.Source < 0 || left.Collation != 0 || right.Collation != 0 {
				continue
			}
			on := slices.Clone(r.on)
			for _, w := range q.where {
				if column, with, ok := restriction(w); ok && plain(column) == plain(left) {
					r.on = append(r.on, with(q.column(right.Source, right.Ordinal)))
				}
			}
			if r.kind == Semi && q.rels[left.Source].kind == Inner {
				q.propagateSemi(left, right, on)
			}
		}
	}
}

// propagateSemi adds to WHERE what follows for the left side of a semi join: its rows are equal to
// some of the right side, which satisfy a condition.
func (q *query) propagateSemi(left, right expr.Column, on []expr.Expr) {
	for _, t := range on {
		column, with, ok := restriction(t)
		if !ok || plain(column) != plain(right) {
			continue
		}
		n := with(q.column(left.Source, left.Ordinal))
		if !slices.ContainsFunc(q.where, func(x expr.Expr) bool { return expr.Equal(x, n) }) {
			q.where = append(q.where, n)
		}
	}
}

// plain is a column without what it is shown as.
func plain(c expr.Column) expr.Column {
	return expr.Column{Source: c.Source, Ordinal: c.Ordinal}
}

// equalColumns returns, for each column that WHERE sets equal to another one, all columns
// that are equal to it. Collated columns are left out, since equal texts may differ, and
// so are columns of different kinds.
func (q *query) equalColumns() map[expr.Column]*columnClass {
	var classes map[expr.Column]*columnClass
	class := func(c expr.Column) *columnClass {
		found := classes[c]
		if found == nil {
			found = &columnClass{[]expr.Column{c}}
			if classes == nil {
				classes = map[expr.Column]*columnClass{}
			}
			classes[c] = found
		}
		return found
	}
	for _, t := range q.where {
		c, ok := t.(expr.Cmp)
		if !ok || c.Op != expr.Eq {
			continue
		}
		l, lOK := c.L.(expr.Column)
		r, rOK := c.R.(expr.Column)
		if !lOK || !rOK || l.Collation != 0 || r.Collation != 0 || l.Source < 0 || r.Source < 0 {
			continue
		}
		a, b := class(plain(l)), class(plain(r))
		if a == b {
			continue
		}
		a.columns = append(a.columns, b.columns...)
		for _, m := range b.columns {
			classes[m] = a
		}
	}
	return classes
}

// columnClass are columns that are equal to each other.
type columnClass struct{ columns []expr.Column }

// restriction takes a term on one column and constants apart; with makes the same term on
// another column.
func restriction(t expr.Expr) (c expr.Column, with func(expr.Column) expr.Expr, ok bool) {
	switch t := t.(type) {
	case expr.Cmp:
		if c, ok = t.L.(expr.Column); ok && c.Collation == 0 && t.Op != expr.Ne &&
			spans.IsConstant(t.R) {
			return c, sameCmp(t), true
		}
	case expr.In:
		c, ok = t.X.(expr.Column)
		for _, item := range t.List {
			ok = ok && spans.IsConstant(item)
		}
		return c, func(o expr.Column) expr.Expr { return expr.In{X: o, List: t.List} },
			ok && c.Collation == 0 && !t.Not
	}
	return c, nil, false
}

// sameCmp returns what makes a comparison of another column. Why a function: it takes memory.
func sameCmp(t expr.Cmp) func(expr.Column) expr.Expr {
	return func(o expr.Column) expr.Expr { return expr.Cmp{Op: t.Op, L: o, R: t.R} }
}

// collectNeeds notes the columns that are used above the access of each relation.
func (q *query) collectNeeds() {
	var room [usualExprs]expr.Expr
	used := q.visible(room[:0])
	for _, r := range q.rels {
		used = append(used, r.on...)
	}
	q.needs(used)
	if q.sel.RowKeys {
		q.rels[0].need.rowKey = true
	}
	if q.page && !q.grouped && !q.sel.Distinct {
		q.needs(q.ties())
	}
}

// needs notes that relations have to give the columns of expressions.
func (q *query) needs(exprs []expr.Expr) {
	for _, e := range exprs {
		for c := range expr.Columns(e) {
			if r := q.relationOf(c.Source); r != nil {
				r.need.add(c.Ordinal)
			}
		}
	}
}
