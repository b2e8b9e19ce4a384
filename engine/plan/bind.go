package plan

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// resolve makes a query of a Select.
func resolve(sel *Select, outer, holder *query, sc *scope) (*query, error) {
	q := &sc.root
	if q.scope != nil {
		q = new(query)
	}
	*q = query{sel: sel, outer: outer, holder: holder, scope: sc}
	q.qualified = len(sel.From) > 1 || outer != nil || sc.nested && logical.HasSubquery(sel)
	if err := q.resolveSources(); err != nil {
		return nil, err
	}
	steps := []func() error{
		q.resolveConditions, q.resolveGroups, q.resolveOutputs, q.resolveOrder, q.checkShape,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return q, nil
}

func (q *query) resolveSources() error {
	sel := q.sel
	if len(sel.From) > logical.MaxSources {
		return queryError(0, "more than %d tables", logical.MaxSources)
	}
	if len(sel.Joins) != max(0, len(sel.From)-1) {
		return queryError(0, "%d tables are joined by %d joins", len(sel.From), len(sel.Joins))
	}
	q.rels = make([]*relation, 0, len(sel.From))
	own := make([]ownRelation, len(sel.From))
	for i := range sel.From {
		s := &sel.From[i]
		if s.Table == nil && len(s.Queries) == 0 {
			return queryError(0, "source %d has no table", i+1)
		}
		r := own[i].init(i, s)
		for _, other := range q.rels {
			if other.name == r.name {
				return queryError(0, "%q stands for two tables", r.name)
			}
		}
		if i > 0 {
			r.kind = sel.Joins[i-1].Kind
		}
		if s.Table == nil {
			if err := q.resolveDerived(r, s.Queries); err != nil {
				return err
			}
		}
		q.rels = append(q.rels, r)
	}
	if logical.HasFullJoin(sel) {
		if len(sel.From) > 2 {
			return &UnsupportedError{0, "FULL JOIN of more than two tables"}
		}
		q.rels[0].kind = Full // both sides are alike
	}
	return nil
}

// resolveDerived resolves the queries of a source.
func (q *query) resolveDerived(r *relation, queries []*Select) error {
	if q.sel.Page || q.sel.After != nil {
		return &UnsupportedError{0, "pages of a subquery in FROM"}
	}
	for i, sel := range queries {
		inner, err := resolve(sel, q.outer, q, q.scope)
		if err != nil {
			return err
		}
		s := &subquery{query: inner}
		if i == 0 {
			r.sub = s
			continue
		}
		first := r.sub.query.outputs
		if len(inner.outputs) != len(first) {
			return queryError(0, "queries of %d and %d columns", len(first), len(inner.outputs))
		}
		for j, o := range inner.outputs {
			a, b := kindOf(r.sub.query, first[j].Expr), kindOf(inner, o.Expr)
			if a != b && a != expr.KindNull && b != expr.KindNull {
				return queryError(inner.position(o.Expr), "column %d of a set operation is %s "+
					"and %s", j+1, a.Phrase(), b.Phrase())
			}
		}
		r.sub.also = append(r.sub.also, s)
	}
	return nil
}

// resolveConditions resolves WHERE and ON, and sorts their conjuncts by the join they
// belong to.
func (q *query) resolveConditions() error {
	for i, j := range q.sel.Joins {
		if j.On == nil {
			continue
		}
		on, err := q.condition(j.On, "ON")
		if err != nil {
			return err
		}
		if high := sourcesOf(on) >> (i + 2); high != 0 {
			return queryError(q.position(j.On), "ON refers to a table that is joined later")
		}
		if on, err = q.asParams(on); err != nil {
			return err
		}
		if j.Kind == Inner {
			q.addWhere(on)
		} else {
			q.rels[i+1].on = expr.Terms(nil, q.normalise(on))
		}
	}
	if q.sel.Where == nil {
		return nil
	}
	where, err := q.condition(q.sel.Where, "WHERE")
	if err != nil {
		return err
	}
	var room [usualExprs]expr.Expr
	terms := expr.Terms(room[:0], where)
	q.where = slices.Grow(q.where, len(terms))
	for _, term := range terms {
		term, listed := q.listed(term)
		if !listed {
			joined, err := q.absorb(term)
			if err != nil {
				return err
			}
			if joined {
				continue
			}
		}
		if term, err = q.asParams(term); err != nil {
			return err
		}
		q.addWhere(term)
	}
	return nil
}

// addWhere adds a condition on joined rows.
func (q *query) addWhere(e expr.Expr) {
	var room [4]expr.Expr
	for _, t := range expr.Terms(room[:0], q.normalise(e)) {
		if applies(t) {
			q.late = append(q.late, t)
		} else {
			q.where = append(q.where, t)
		}
	}
}

// normalise is NormaliseFor with the columns of the query.
func (q *query) normalise(e expr.Expr) expr.Expr {
	return spans.NormaliseFor(e, func(source, ordinal int) (keycodec.Field, bool) {
		r := q.relationOf(source)
		if r == nil {
			return keycodec.Field{}, false
		}
		c := r.tableColumn(ordinal)
		if c == nil {
			return keycodec.Field{}, false
		}
		f := c.Field(schema.KeyColumn{})
		f.Nullable = f.Nullable || r.padded()
		return f, !c.List
	}, nil)
}

// condition resolves an expression that must be a condition.
func (q *query) condition(e expr.Expr, where string) (expr.Expr, error) {
	out, err := q.expression(e, where)
	if err != nil {
		return nil, err
	}
	if k := kindOf(q, out); k != expr.KindNull && k != expr.KindBool {
		return nil, queryError(q.position(e), "%s is not a condition: %s is %s", where, e,
			k.Phrase())
	}
	return out, nil
}

// expression resolves names and subqueries in e and checks its types.
func (q *query) expression(e expr.Expr, where string) (expr.Expr, error) {
	if e == nil {
		return nil, queryError(0, "an expression of %s is missing", where)
	}
	out, err := expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		switch x := e.(type) {
		case expr.Column:
			return q.resolveColumn(x, e)
		case expr.Param:
			if x.Index < 0 || x.Index >= maxParams {
				return nil, queryError(q.position(x), "parameter %d is out of range", x.Index+1)
			}
			return e, nil
		case expr.Slot:
			return nil, queryError(q.position(x), "%s stands for no column", x)
		case expr.Agg:
			if x.Index < 0 || x.Index >= len(q.sel.Aggregates) {
				return nil, queryError(q.position(x), "there is no aggregate %d", x.Index+1)
			}
			if where == "WHERE" || where == "ON" || where == "GROUP BY" {
				return nil, queryError(q.position(x), "%s cannot use aggregates", where)
			}
			return expr.Agg{Index: x.Index, Name: q.sel.Aggregates[x.Index].String()}, nil
		case expr.Subquery:
			q.scope.lists = true
			return q.resolveSubquery(x)
		case expr.In:
			q.scope.lists = true
			q.noteLists(x)
		}
		return likeParam(e), nil
	})
	if err != nil {
		return nil, err
	}
	if err := q.checkTypes(e, out); err != nil {
		return nil, err
	}
	if q.scope.lists {
		out = markLists(out)
	}
	if where == "WHERE" || where == "ON" {
		return out, nil
	}
	if out, err = q.asParams(out); err == nil && q.grouped && where != "GROUP BY" {
		out = q.dependents(out)
	}
	return out, err
}

func markLists(e expr.Expr) expr.Expr {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		in, ok := x.(expr.In)
		if !ok || len(in.List) != 1 {
			return x
		}
		p, ok := in.List[0].(expr.Param)
		if !ok {
			return x
		}
		in.List = []expr.Expr{expr.Func{Name: spans.ListFunc, Args: []expr.Expr{p}}}
		return in
	})
}

// noteLists remembers the parameters that may stand for a whole list: x IN (?).
func (q *query) noteLists(in expr.In) {
	for _, item := range in.List {
		if p, ok := item.(expr.Param); ok {
			q.scope.mayBeList(p.Index)
		}
	}
}

// mayBeList notes that a parameter may be a list.
func (sc *scope) mayBeList(param int) {
	if sc.listed == nil {
		sc.listed = map[int]bool{}
	}
	sc.listed[param] = true
}

// position asks the caller where an expression stands.
func (q *query) position(e expr.Expr) int {
	if q.sel.Position == nil {
		return 0
	}
	return q.sel.Position(e)
}

// resolveColumn finds a column by name, or checks one that is resolved. c is e.
func (q *query) resolveColumn(c expr.Column, e expr.Expr) (expr.Expr, error) {
	if c.Source >= 0 {
		if r := q.relationOf(c.Source); r != nil {
			known := r.tableColumn(c.Ordinal) != nil
			if !known {
				_, known = r.columnOf(c.Ordinal)
			}
			if known {
				if found := q.column(c.Source, c.Ordinal); found != c {
					return found, nil
				}
				return e, nil
			}
		}
		return nil, queryError(q.position(c), "there is no column %s", c)
	}
	if c.Source <= Outer(0) {
		return q.resolveOuter(c)
	}
	found, n := q.lookup(c)
	switch {
	case n > 1:
		return nil, queryError(q.position(c), "column %s is in more than one table", c)
	case n == 1:
		return found, nil
	}
	for o, steps := q.outer, 1; o != nil; o, steps = o.outer, steps+1 {
		switch found, n = o.lookup(c); {
		case n > 1:
			return nil, queryError(q.position(c), "column %s is in more than one table", c)
		case n == 1:
			at := OuterAt(steps, found.Source)
			return q.resolveOuter(expr.Column{Source: at, Ordinal: found.Ordinal})
		}
	}
	return nil, queryError(q.position(c), "there is no column %s", c)
}

// around returns the query that is so many steps out, or nil.
func (q *query) around(steps int) *query {
	for ; q != nil && steps > 0; steps-- {
		q = q.outer
	}
	return q
}

// resolveOuter checks a column of a query around.
func (q *query) resolveOuter(c expr.Column) (expr.Expr, error) {
	steps, source := OuterOf(c.Source)
	o := q.around(steps)
	if o != nil && source == Aggregates && c.Ordinal < len(o.sel.Aggregates) {
		q.correlate(steps)
		c.Table, c.Name = "", o.sel.Aggregates[c.Ordinal].String()
		return c, nil
	}
	if o == nil || o.relationOf(source) == nil {
		return nil, queryError(q.position(c), "there is no query around for %s", c)
	}
	if _, ok := o.rels[source].columnOf(c.Ordinal); !ok {
		return nil, queryError(q.position(c), "there is no column %s", c)
	}
	q.correlate(steps)
	out := o.column(source, c.Ordinal)
	out.Source = c.Source
	out.Table = o.rels[source].name
	return out, nil
}

// correlate notes that an expression has a column of the query that is so many steps out.
func (q *query) correlate(steps int) {
	q.correlated = true
	if q.holder != nil {
		q.holder.correlate(steps)
	} else if steps > 1 {
		q.outer.correlate(steps - 1)
	}
}

// lookup finds an unresolved column among the sources of FROM.
func (q *query) lookup(c expr.Column) (found expr.Column, n int) {
	table, name := c.Table, c.Name
	if table == "" {
		if before, after, ok := strings.Cut(name, "."); ok {
			table, name = before, after
		}
	}
	for _, r := range q.rels[:len(q.sel.From)] {
		if table != "" && !sameName(r.name, table) {
			continue
		}
		for i := range r.columns() {
			if sameName(r.nameOf(i), name) {
				if _, ok := r.columnOf(i); ok {
					found, n = q.column(r.source, i), n+1
				}
			}
		}
	}
	return found, n
}

// sameName reports whether names are equal in any case. Most have other last letters.
func sameName(a, b string) bool {
	if len(a) > 0 && len(b) > 0 {
		x, y := a[len(a)-1], b[len(b)-1]
		if x < utf8.RuneSelf && y < utf8.RuneSelf && (x^y)&^0x20 != 0 {
			return false
		}
	}
	return strings.EqualFold(a, b)
}
