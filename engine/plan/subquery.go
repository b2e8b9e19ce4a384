package plan

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// A subquery goes one of three ways.
//
// A conjunct of WHERE that is x IN (SELECT …), EXISTS (…) or the negation of one is a
// semi or anti join. If the subquery is simple (one table, no groups, no limit), its table
// is joined directly, and what its WHERE says about columns of the query around becomes
// the condition of the join. If not, and if it is not correlated, it is planned by itself.
//
// Every other subquery without columns of queries around is a parameter: the executor runs it
// first, so that its value can serve for spans.
//
// The rest is applied: the columns of queries around become parameters of the subquery, which is
// prepared once. An expr.Apply stands for it, whose operands are these columns, and the executor
// binds and runs the subquery for each of their values that it meets. Conditions with one are
// tested after all joins.

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
	inner, err := resolve(sel, q, nil, q.scope)
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
		if s, ok := t.List[0].(expr.Subquery); ok && !expr.HasSubquery(t.X) {
			sub, anti := s.Query.(*subquery), not != t.Not
			return q.joinSubquery(sub, anti, t.X)
		}
	case expr.Subquery:
		s := t.Query.(*subquery)
		if t.Kind == expr.Exists && s.query.correlated {
			return q.joinSubquery(s, not, nil)
		}
	}
	return false, nil
}

// joinSubquery adds a semi or anti join, if it can be one; x is the left side of IN, nil of EXISTS.
func (q *query) joinSubquery(s *subquery, anti bool, x expr.Expr) (joined bool, err error) {
	if len(q.rels) >= logical.MaxSources {
		return false, queryError(0, "more than %d tables", logical.MaxSources)
	}
	left := []expr.Expr{x}
	if row, ok := x.(expr.Row); ok {
		left = row.Items
	}
	inner := s.query
	if x != nil && len(left) != len(inner.outputs) {
		return false, queryError(q.position(x), "%s is compared with a subquery of %d columns", x,
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
			return false, nil
		}
		r.name, r.sub = "subquery", s
		for i := range inner.outputs {
			right = append(right, expr.Column{Source: r.source, Ordinal: i, Table: r.name,
				Name: inner.outputs[i].Name, Collation: expr.CollationOf(inner.outputs[i].Expr)})
		}
	}
	q.rels = append(q.rels, r)
	if x == nil {
		return true, nil
	}
	joined, err = q.compareRows(r, left, right, anti)
	if !joined {
		q.rels = q.rels[:r.source]
	}
	return joined, err
}

// compareRows adds the equality of an IN to the condition of its join. NOT IN is not a plain anti
// join where a NULL could be compared, and no join if it is correlated then, or where it
// has columns on one of its sides at most: such a join could not tell NOT IN that is unknown, for
// a NULL, from NOT IN that is true, and would compare all pairs of rows.
func (q *query) compareRows(r *relation, left, right []expr.Expr, anti bool) (bool, error) {
	mine := uint64(1) << r.source
	for i := range left {
		err := q.typing().Comparable(left[i], left[i], right[i])
		if err = q.mistyped(left[i], err); err != nil {
			return false, err
		}
		r.nullAware = r.nullAware ||
			anti && (q.nullable(left[i]) || q.nullable(right[i]))
	}
	if anti && len(left) == 1 && (sourcesOf(left[0]) == 0 || sourcesOf(right[0]) != mine) {
		return false, nil
	}
	if r.nullAware {
		if len(left) > 1 {
			return false, nil
		}
		for _, on := range r.on {
			if sourcesOf(on)&^mine != 0 {
				return false, nil
			}
		}
	}
	for i := range left {
		r.on = append(r.on, expr.Cmp{Op: expr.Eq, L: left[i], R: right[i]})
	}
	return true, nil
}

// simple says whether a subquery can be joined as its table.
func (q *query) simple() bool {
	return len(q.rels) == 1 && q.rels[0].table != nil && !q.grouped && q.limit == nil &&
		q.offset == nil && q.sel.After == nil && len(q.subs) == 0 && len(q.applied) == 0
}

// lift moves an expression of a subquery to the query around, where its table has the
// given number.
func lift(e expr.Expr, source int) expr.Expr {
	return expr.MapColumns(e, func(c expr.Column) expr.Expr {
		if c.Source < 0 {
			return inward(c)
		}
		c.Source = source
		return c
	})
}

// inward returns a column of a query around for the query that is one step further out.
func inward(c expr.Column) expr.Column {
	steps, source := OuterOf(c.Source)
	if c.Source = source; steps > 1 {
		c.Source = OuterAt(steps-1, source)
	}
	return c
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

// asParams replaces the subqueries that are left in an expression by parameters, or applies them.
func (q *query) asParams(e expr.Expr) (expr.Expr, error) {
	if !q.scope.lists {
		return e, nil
	}
	e, err := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		if in, ok := x.(expr.In); ok && len(in.List) == 1 {
			return q.rowIn(in)
		}
		return x, nil
	})
	if err != nil {
		return nil, err
	}
	return expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		if in, ok := x.(expr.In); ok {
			if q.scope.isEmpty(in.List) {
				return expr.In{X: in.X, Not: in.Not}, nil
			}
			return q.collated(in), nil
		}
		sub, ok := x.(expr.Subquery)
		if !ok {
			return x, nil
		}
		s := sub.Query.(*subquery)
		if s.query.correlated {
			return q.apply(s, sub.Kind), nil
		}
		if same := s.among(q.subs); same != nil {
			s = same
		} else if !s.asParam {
			s.asParam = true
			s.param = q.scope.newParam()
			q.subs = append(q.subs, s)
		}
		if s.kind == SubplanList {
			q.scope.mayBeList(s.param)
			p := expr.Param{Index: s.param, Name: s.String()}
			return expr.Func{Name: spans.ListFunc, Args: []expr.Expr{p}}, nil
		}
		return expr.Param{Index: s.param, Name: s.String()}, nil
	})
}

// isEmpty reports whether a list is a subquery that has no values.
func (sc *scope) isEmpty(list []expr.Expr) bool {
	if len(list) != 1 {
		return false
	}
	p, ok := spans.IsList(list[0])
	return ok && slices.Contains(sc.opt.empty, p.Index)
}

// rowIn makes of (a, b) IN (SELECT …) a subquery for one value: the greatest of what comparisons
// with its rows return, where 2 stands for true and 1 for unknown. So it does of what is no column
// and is compared under the collation of the subquery's, which a list of values does not have.
func (q *query) rowIn(in expr.In) (expr.Expr, error) {
	sub, ok := in.List[0].(expr.Subquery)
	if !ok {
		return in, nil
	}
	inner := sub.Query.(*subquery).query
	row, ok := in.X.(expr.Row)
	if n := len(inner.outputs); ok && n != len(row.Items) || !ok && n != 1 {
		return nil, queryError(q.position(in.X), "%s is compared with a subquery of %d columns",
			in.X, n)
	}
	if !ok {
		_, column := in.X.(expr.Column)
		if column || expr.CollationOf(inner.outputs[0].Expr) <= expr.CollationOf(in.X) {
			return in, nil
		}
		row.Items = []expr.Expr{in.X}
	}
	var equal []expr.Expr
	for i, item := range row.Items {
		o := inner.outputs[i]
		equal = append(equal, expr.Cmp{Op: expr.Eq, L: q.seenFrom(item),
			R: expr.Column{Ordinal: i, Name: o.Name, Collation: expr.CollationOf(o.Expr)}})
	}
	number := func(n int64) expr.Expr { return expr.Const{Value: expr.Int(n)} }
	level := expr.Case{Whens: []expr.When{{If: expr.And{Terms: equal}, Then: number(2)},
		{If: expr.IsNull{X: expr.And{Terms: equal}}, Then: number(1)}}, Else: number(0)}
	result := expr.Case{X: expr.Agg{Index: 0}, Whens: []expr.When{
		{If: number(2), Then: expr.Const{Value: expr.Bool(true)}},
		{If: number(1), Then: expr.Const{}}}, Else: expr.Const{Value: expr.Bool(false)}}
	sel := &Select{From: []Source{{Queries: []*Select{inner.sel}, Alias: "rows"}},
		Aggregates: []Aggregate{{Func: Max, Arg: level}}, Columns: []Output{{Expr: result}},
		Position: q.sel.Position}
	out, err := q.resolveSubquery(expr.Subquery{Query: sel, Kind: expr.Scalar})
	if err == nil && in.Not {
		out = expr.Not{X: out}
	}
	return out, err
}

// seenFrom returns an expression as it stands in a subquery.
func (q *query) seenFrom(e expr.Expr) expr.Expr {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		switch x := x.(type) {
		case expr.Column:
			steps, source := OuterOf(x.Source)
			x.Source = OuterAt(steps+1, source)
			return x
		case expr.Agg:
			at := OuterAt(1, Aggregates)
			return expr.Column{Source: at, Ordinal: x.Index, Name: x.Name}
		case expr.Subquery:
			sel := x.Query.(*subquery).query.sel.FurtherIn()
			return expr.Subquery{Query: sel, Kind: x.Kind}
		}
		return x
	})
}

// newParam adds a parameter that callers do not know.
func (sc *scope) newParam() int {
	sc.values++
	return sc.params + sc.values - 1
}

// applies reports whether an expression runs subqueries for each row.
func applies(e expr.Expr) bool {
	return expr.Has(e, func(x expr.Expr) bool {
		_, ok := x.(expr.Apply)
		return ok
	})
}

// among returns the one of some subqueries that is the same, or nil. Those of a query that are the
// same are one: an expression of ORDER BY can be that of a column of the result. One that is read
// first is for its place alone, see narrow.
func (s *subquery) among(others []*subquery) *subquery {
	for _, other := range others {
		if other == s || s.most == 0 && other.most == 0 && other.kind == s.kind &&
			other.key() == s.key() {
			return other
		}
	}
	return nil
}

// key is equal for subqueries that are the same.
func (s *subquery) key() string {
	if s.shape == "" {
		w := logical.KeyOf(s.query.sel, nil)
		s.shape = string(w.Bytes())
		w.Release()
	}
	return s.shape
}

// apply makes an expression of a subquery that has columns of queries around.
func (q *query) apply(s *subquery, kind expr.SubqueryKind) expr.Expr {
	if same := s.among(q.applied); same != nil {
		s = same
	} else {
		q.applied = append(q.applied, s)
		// What does not depend on columns of queries around is run once, not here.
		q.subs = append(q.subs, s.query.allSubs()...)
		s.param = q.scope.newParam() // it has no value: a name for EXPLAIN
		s.query.isApplied = true
		s.query.mapOuter(s.argument)
	}
	out := expr.Apply{Query: s, Kind: kind}
	for _, c := range s.args {
		if steps, source := OuterOf(c.Source); steps == 1 && source == Aggregates {
			out.Args = append(out.Args, expr.Agg{Index: c.Ordinal, Name: c.Name})
			continue
		}
		out.Args = append(out.Args, inward(c))
	}
	if kind == expr.Rows {
		out.Collation = expr.CollationOf(s.query.outputs[0].Expr)
	}
	return out
}

// argument returns the parameter that stands for a column of a query around.
func (s *subquery) argument(c expr.Column) expr.Expr {
	i := slices.IndexFunc(s.args, func(a expr.Column) bool { return plain(a) == plain(c) })
	if i < 0 {
		i = len(s.args)
		s.args = append(s.args, c)
		param := s.query.scope.newParam()
		s.argParams = append(s.argParams, param)
		if s.query.scope.arguments == nil {
			s.query.scope.arguments = map[int]bool{}
		}
		s.query.scope.arguments[param] = true
	}
	return expr.Param{Index: s.argParams[i], Name: c.String(), Collation: c.Collation}
}

// likeParam gives a column that is compared with a parameter the collation of that, if it takes
// more texts for equal: no index is used for a column under another collation than its own.
func likeParam(e expr.Expr) expr.Expr {
	switch x := e.(type) {
	case expr.Cmp:
		if raises(x.L) || raises(x.R) {
			x.L, x.R = raised(x.L, x.R), raised(x.R, x.L)
			return x
		}
	case expr.IsDistinct:
		if raises(x.L) || raises(x.R) {
			x.L, x.R = raised(x.L, x.R), raised(x.R, x.L)
			return x
		}
	case expr.Between:
		if raises(x.Lo) || raises(x.Hi) {
			x.X = raised(raised(x.X, x.Lo), x.Hi)
			return x
		}
	case expr.BeginsWith:
		if raises(x.Prefix) {
			x.X = raised(x.X, x.Prefix)
			return x
		}
	case expr.In:
		if slices.ContainsFunc(x.List, raises) {
			for _, item := range x.List {
				x.X = raised(x.X, item)
			}
			return x
		}
	}
	return e
}

// raises reports whether an operand may give the other one a collation.
func raises(e expr.Expr) bool {
	switch e.(type) {
	case expr.Param, expr.Row:
		return true
	}
	return false
}

// raised returns an operand with the collation of the other one.
func raised(e, other expr.Expr) expr.Expr {
	switch o := other.(type) {
	case expr.Param:
		if c, ok := e.(expr.Column); ok && o.Collation > c.Collation {
			c.Collation = o.Collation
			return c
		}
	case expr.Row:
		if row, ok := e.(expr.Row); ok && len(row.Items) == len(o.Items) {
			items := slices.Clone(row.Items)
			for i := range items {
				items[i] = raised(items[i], o.Items[i])
			}
			return expr.Row{Items: items}
		}
	}
	return e
}

// mapOuter replaces the columns of queries around in a query that is resolved.
func (q *query) mapOuter(f func(expr.Column) expr.Expr) {
	replace := func(e expr.Expr) expr.Expr {
		return expr.Map(e, func(x expr.Expr) expr.Expr {
			if c, ok := x.(expr.Column); ok && c.Source <= Outer(0) {
				return f(c)
			}
			return likeParam(x)
		})
	}
	terms := func(list []expr.Expr) []expr.Expr {
		if len(list) == 0 {
			return nil
		}
		return expr.Terms(nil, q.normalise(replace(expr.AllOf(list))))
	}
	for _, r := range q.rels {
		r.on = terms(r.on)
		if r.sub != nil {
			for _, s := range r.sub.all() {
				s.query.mapOuter(f)
			}
		}
	}
	where := append(q.where, q.late...)
	q.where, q.late = nil, nil
	if len(where) > 0 {
		q.addWhere(replace(expr.AllOf(where)))
	}
	q.having = terms(q.having)
	for i, g := range q.groups {
		q.groups[i] = replace(g)
	}
	for i := range q.aggregates {
		a := &q.aggregates[i]
		a.Arg, a.Order = replace(a.Arg), slices.Clone(a.Order)
		for j := range a.Order {
			a.Order[j].Expr = replace(a.Order[j].Expr)
		}
	}
	q.outputs = slices.Clone(q.outputs)
	for i := range q.outputs {
		q.outputs[i].Expr = replace(q.outputs[i].Expr)
	}
	for i := range q.order {
		q.order[i].Expr = replace(q.order[i].Expr)
	}
	q.order = slices.DeleteFunc(q.order, func(o Order) bool { return spans.IsConstant(o.Expr) })
}

// collated gives the column of an IN the collation of the subquery whose values are its list, if
// that takes more texts for equal: values have none. No index is used for a column under
// another collation than its own.
func (q *query) collated(in expr.In) expr.Expr {
	if len(in.List) != 1 {
		return in
	}
	p, ok := spans.IsList(in.List[0])
	i := slices.IndexFunc(q.subs, func(s *subquery) bool { return ok && s.param == p.Index })
	if i < 0 {
		return in
	}
	c := expr.CollationOf(q.subs[i].query.outputs[0].Expr)
	if x, ok := in.X.(expr.Column); ok && c > x.Collation {
		x.Collation = c
		in.X = x
	}
	return in
}
