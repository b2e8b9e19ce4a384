package plan

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// A subquery goes one of three ways.
//
// A conjunct of WHERE that is x IN (SELECT …), EXISTS (…) or the negation of one is a
// semi or anti join. If the subquery is simple (one table, no groups, no limit), its table
// is joined directly, and what its WHERE says about columns of the query around becomes
// the condition of the join. If not, it is planned by itself, and must not be correlated.
//
// Every other subquery must not be correlated, and is a parameter: the executor runs it
// first, so that its value can serve for spans.

// resolveSubquery resolves the query inside an expression.
func (q *query) resolveSubquery(x expr.Subquery) (expr.Expr, error) {
	if s, ok := x.Query.(*subquery); ok && s != nil {
		return x, nil
	}
	sel, ok := x.Query.(*Select)
	if !ok || sel == nil {
		return nil, queryError(q.position(x), "a subquery is of type %T", x.Query)
	}
	depth := 0
	for o := q; o != nil; o = o.outer {
		depth++
	}
	if depth > maxDepth {
		return nil, queryError(q.position(x), "subqueries are nested more than %d deep", maxDepth)
	}
	inner, err := resolve(sel, q, q.scope)
	if err != nil {
		return nil, err
	}
	if x.Kind == expr.Scalar && len(inner.outputs) != 1 {
		return nil, queryError(q.position(x), "a subquery for one value has %d columns",
			len(inner.outputs))
	}
	kind := [...]SubplanKind{SubplanScalar, SubplanExists, SubplanList}[x.Kind%3]
	return expr.Subquery{Query: &subquery{query: inner, kind: kind}, Kind: x.Kind}, nil
}

// maxDepth bounds the nesting of subqueries.
const maxDepth = 16

// String is what EXPLAIN shows of a subquery inside an expression.
func (s *subquery) String() string { return fmt.Sprintf("subquery $%d", s.param+1) }

// absorb turns a conjunct of WHERE into a join if it is a subquery that can be one.
func (q *query) absorb(term expr.Expr) (joined bool, err error) {
	if len(q.sel.From) == 0 {
		return false, nil // there is nothing to join with
	}
	not := false
	if n, ok := term.(expr.Not); ok {
		term, not = n.X, true
	}
	switch t := term.(type) {
	case expr.In:
		if len(t.List) != 1 {
			return false, nil
		}
		if s, ok := t.List[0].(expr.Subquery); ok {
			sub, anti := s.Query.(*subquery), not != t.Not
			if anti && oneSided(t.X, sub.query) {
				return false, nil
			}
			return true, q.joinSubquery(sub, anti, t.X)
		}
	case expr.Subquery:
		s := t.Query.(*subquery)
		if t.Kind == expr.Exists && s.query.correlated {
			return true, q.joinSubquery(s, not, nil)
		}
	}
	return false, nil
}

// oneSided says whether the equality of an IN has columns on one of its sides at most. Then no
// join could tell NOT IN that is unknown, for a NULL, from NOT IN that is true.
func oneSided(x expr.Expr, inner *query) bool {
	if inner.correlated || len(inner.outputs) != 1 {
		return false
	}
	return sourcesOf(x) == 0 || inner.simple() && sourcesOf(inner.outputs[0].Expr) == 0
}

// joinSubquery adds a semi or anti join; x is the left side of IN, nil of EXISTS.
func (q *query) joinSubquery(s *subquery, anti bool, x expr.Expr) error {
	if len(q.rels) >= maxSources {
		return queryError(0, "more than %d tables", maxSources)
	}
	left := []expr.Expr{x}
	if row, ok := x.(expr.Row); ok {
		left = row.Items
	}
	inner := s.query
	if x != nil && len(left) != len(inner.outputs) {
		return queryError(q.position(x), "%s is compared with a subquery of %d columns", x,
			len(inner.outputs))
	}
	r := &relation{source: len(q.rels), kind: Semi}
	if anti {
		r.kind = Anti
	}
	var right []expr.Expr
	if inner.simple() {
		r.name, r.table = inner.rels[0].name, inner.rels[0].table
		for _, w := range inner.where {
			r.on = append(r.on, lift(w, r.source))
		}
		for _, o := range inner.outputs {
			right = append(right, lift(o.Expr, r.source))
		}
	} else {
		if inner.correlated {
			return &UnsupportedError{inner.position(nil),
				"a correlated subquery with joins, groups, LIMIT or subqueries of its own"}
		}
		r.name, r.sub = "subquery", s
		for i := range inner.outputs {
			right = append(right, expr.Column{Source: r.source, Ordinal: i, Table: r.name,
				Name: inner.outputs[i].Name, Collation: expr.CollationOf(inner.outputs[i].Expr)})
		}
	}
	q.rels = append(q.rels, r)
	if x == nil {
		return nil
	}
	return q.compareRows(r, left, right, anti)
}

// compareRows adds the equality of an IN to the condition of its join. NOT IN is not a
// plain anti join where a NULL could be compared.
func (q *query) compareRows(r *relation, left, right []expr.Expr, anti bool) error {
	mine := uint64(1) << r.source
	for i := range left {
		if err := q.checkPair(left[i], left[i], right[i]); err != nil {
			return err
		}
		r.nullAware = r.nullAware ||
			anti && (q.nullable(left[i]) || q.nullable(right[i]))
	}
	if r.nullAware {
		for _, on := range r.on {
			if sourcesOf(on)&^mine != 0 {
				return &UnsupportedError{q.position(left[0]),
					"a correlated NOT IN over values that may be NULL (use NOT EXISTS)"}
			}
		}
		if len(left) > 1 {
			return &UnsupportedError{q.position(left[0]),
				"NOT IN over rows of values that may be NULL (use NOT EXISTS)"}
		}
	}
	for i := range left {
		r.on = append(r.on, expr.Cmp{Op: expr.Eq, L: left[i], R: right[i]})
	}
	return nil
}

// simple says whether a subquery can be joined as its table.
func (q *query) simple() bool {
	return len(q.rels) == 1 && q.rels[0].table != nil && !q.grouped && q.limit == nil &&
		q.offset == nil && q.sel.After == nil && len(q.subs) == 0
}

// lift moves an expression of a subquery to the query around, where its table has the
// given number.
func lift(e expr.Expr, source int) expr.Expr {
	out, _ := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		if c, ok := x.(expr.Column); ok {
			if c.Source >= 0 {
				c.Source = source
			} else {
				c.Source = -2 - c.Source
			}
			return c, nil
		}
		return x, nil
	})
	return out
}

// nullable says whether an expression may be NULL.
func (q *query) nullable(e expr.Expr) bool {
	switch e := e.(type) {
	case expr.Const:
		return e.IsNull()
	case expr.Column:
		r := q.relationOf(e.Source)
		if r == nil {
			// It belongs to the relation that is being added.
			return true
		}
		c, _ := r.columnOf(e.Ordinal)
		return c.Nullable || r.padded()
	}
	return true
}

// asParams replaces the subqueries that are left in an expression by parameters.
func (q *query) asParams(e expr.Expr) (expr.Expr, error) {
	return expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		if in, ok := x.(expr.In); ok {
			return q.collated(in)
		}
		sub, ok := x.(expr.Subquery)
		if !ok {
			return x, nil
		}
		s := sub.Query.(*subquery)
		if s.query.correlated {
			return nil, &UnsupportedError{s.query.position(nil),
				"a correlated subquery that is no term of the AND of WHERE"}
		}
		if s.kind == SubplanList && len(s.query.outputs) != 1 {
			return nil, &UnsupportedError{s.query.position(nil),
				"IN over rows of a subquery that is no term of the AND of WHERE"}
		}
		if !s.asParam {
			s.asParam = true
			s.param = q.scope.params + q.scope.values
			q.scope.values++
			q.subs = append(q.subs, s)
		}
		if s.kind == SubplanList {
			q.scope.listed[s.param] = true
			p := expr.Param{Index: s.param, Name: s.String()}
			return expr.Func{Name: spans.ListFunc, Args: []expr.Expr{p}}, nil
		}
		return expr.Param{Index: s.param, Name: s.String()}, nil
	})
}

// collated gives X of an IN the collation of the subquery whose values are its list, if
// that takes more texts for equal: values have none. No index is used for a column under
// another collation than its own.
func (q *query) collated(in expr.In) (expr.Expr, error) {
	if len(in.List) != 1 {
		return in, nil
	}
	p, ok := spans.IsList(in.List[0])
	i := slices.IndexFunc(q.subs, func(s *subquery) bool { return ok && s.param == p.Index })
	if i < 0 {
		return in, nil
	}
	c := expr.CollationOf(q.subs[i].query.outputs[0].Expr)
	if c <= expr.CollationOf(in.X) {
		return in, nil
	}
	x, ok := in.X.(expr.Column)
	if !ok {
		return nil, &UnsupportedError{q.position(in.X), "IN of what is no column over " +
			"values with a collation that is no term of the AND of WHERE"}
	}
	x.Collation = c
	in.X = x
	return in, nil
}

// countParams returns the number of parameters of a query and its subqueries.
func countParams(sel *Select) (n int) {
	sel.Walk(func(q *Select) {
		q.places(func(e *expr.Expr) {
			expr.Walk(*e, func(x expr.Expr) bool {
				if p, ok := x.(expr.Param); ok {
					n = max(n, p.Index+1)
				}
				return true
			})
		})
	})
	return n
}
