package plan

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// maxSources bounds the tables of one query, with its subqueries that become joins:
// sets of them are the bits of a uint64.
const maxSources = 64

// resolve makes a query of a Select.
func resolve(sel *Select, outer *query, sc *scope) (*query, error) {
	q := &query{sel: sel, outer: outer, scope: sc}
	q.qualified = len(sel.From) > 1 || outer != nil || hasSubquery(sel)
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
	if len(sel.From) > maxSources {
		return queryError(0, "more than %d tables", maxSources)
	}
	if len(sel.Joins) != max(0, len(sel.From)-1) {
		return queryError(0, "%d tables are joined by %d joins", len(sel.From), len(sel.Joins))
	}
	names := map[string]bool{}
	for i, s := range sel.From {
		if s.Table == nil && len(s.Queries) == 0 {
			return queryError(0, "source %d has no table", i+1)
		}
		if names[s.Name()] {
			return queryError(0, "%q stands for two tables", s.Name())
		}
		names[s.Name()] = true
		r := &relation{source: i, name: s.Name(), table: s.Table}
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
	if sel.fullJoin() {
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
		inner, err := resolve(sel, nil, q.scope)
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
				return queryError(0, "column %d of a set operation is a %s and a %s", j+1,
					kindName(a), kindName(b))
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
		terms := conjunct.Split(nil, q.normalise(on))
		if j.Kind == Inner {
			q.where = append(q.where, terms...)
		} else {
			q.rels[i+1].on = terms
		}
	}
	if q.sel.Where == nil {
		return nil
	}
	where, err := q.condition(q.sel.Where, "WHERE")
	if err != nil {
		return err
	}
	for _, term := range conjunct.Split(nil, where) {
		joined, err := q.absorb(term)
		if err != nil {
			return err
		}
		if joined {
			continue
		}
		if term, err = q.asParams(term); err != nil {
			return err
		}
		q.where = append(q.where, conjunct.Split(nil, q.normalise(term))...)
	}
	return nil
}

// normalise is NormaliseFor with the columns of the query.
func (q *query) normalise(e expr.Expr) expr.Expr {
	return spans.NormaliseFor(e, func(source, ordinal int) (keycodec.Field, bool) {
		r := q.relationOf(source)
		if r == nil || r.table == nil {
			return keycodec.Field{}, false
		}
		c, ok := r.columnOf(ordinal)
		f := c.Field(schema.KeyColumn{})
		f.Nullable = f.Nullable || r.padded()
		return f, ok && !c.List
	}, nil)
}

func hasSubquery(sel *Select) (found bool) {
	sel.places(func(e *expr.Expr) {
		expr.Walk(*e, func(x expr.Expr) bool {
			_, sub := x.(expr.Subquery)
			found = found || sub
			return !found
		})
	})
	return found
}

// condition resolves an expression that must be a condition.
func (q *query) condition(e expr.Expr, where string) (expr.Expr, error) {
	out, err := q.expression(e, where)
	if err != nil {
		return nil, err
	}
	if k := kindOf(q, out); k != expr.KindNull && k != expr.KindBool {
		return nil, queryError(q.position(e), "%s is no condition: %s is of type %s", where, e, k)
	}
	return out, nil
}

// expression resolves names and subqueries in e and checks its types.
func (q *query) expression(e expr.Expr, where string) (expr.Expr, error) {
	if e == nil {
		return nil, queryError(0, "an expression of %s is missing", where)
	}
	out, err := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		switch x := x.(type) {
		case expr.Column:
			return q.resolveColumn(x)
		case expr.Param:
			if x.Index < 0 || x.Index >= maxParams {
				return nil, queryError(q.position(x), "parameter %d is out of range", x.Index+1)
			}
			return x, nil
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
			return q.resolveSubquery(x)
		case expr.In:
			q.noteLists(x)
		}
		return x, nil
	})
	if err != nil {
		return nil, err
	}
	if err := q.checkTypes(e, out); err != nil {
		return nil, err
	}
	out = markLists(out)
	if where == "WHERE" || where == "ON" {
		return out, nil
	}
	return q.asParams(out)
}

func markLists(e expr.Expr) expr.Expr {
	out, _ := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		in, ok := x.(expr.In)
		if !ok || len(in.List) != 1 {
			return x, nil
		}
		if p, ok := in.List[0].(expr.Param); ok {
			in.List = []expr.Expr{expr.Func{Name: spans.ListFunc, Args: []expr.Expr{p}}}
		}
		return in, nil
	})
	return out
}

// noteLists remembers the parameters that may stand for a whole list: x IN (?).
func (q *query) noteLists(in expr.In) {
	for _, item := range in.List {
		if p, ok := item.(expr.Param); ok {
			q.scope.listed[p.Index] = true
		}
	}
}

// position asks the caller where an expression stands.
func (q *query) position(e expr.Expr) int {
	if q.sel.Position == nil {
		return 0
	}
	return q.sel.Position(e)
}

// resolveColumn finds a column by name, or checks one that is resolved.
func (q *query) resolveColumn(c expr.Column) (expr.Expr, error) {
	if c.Source >= 0 {
		if r := q.relationOf(c.Source); r != nil {
			if _, ok := r.columnOf(c.Ordinal); ok {
				return q.column(c.Source, c.Ordinal), nil
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
	case q.outer == nil:
		return nil, queryError(q.position(c), "there is no column %s", c)
	}
	found, n = q.outer.lookup(c)
	if n != 1 {
		if q.outer.outer != nil {
			if _, far := q.outer.outer.lookup(c); far > 0 {
				return nil, &UnsupportedError{q.position(c),
					"a subquery that uses " + c.String() + " of a query further out than the next"}
			}
		}
		return nil, queryError(q.position(c), "there is no column %s", c)
	}
	return q.resolveOuter(expr.Column{Source: Outer(found.Source), Ordinal: found.Ordinal})
}

// resolveOuter checks a column of the query around.
func (q *query) resolveOuter(c expr.Column) (expr.Expr, error) {
	source := -2 - c.Source
	if q.outer == nil || q.outer.relationOf(source) == nil {
		return nil, queryError(q.position(c), "there is no query around for %s", c)
	}
	if _, ok := q.outer.rels[source].columnOf(c.Ordinal); !ok {
		return nil, queryError(q.position(c), "there is no column %s", c)
	}
	q.correlated = true
	out := q.outer.column(source, c.Ordinal)
	out.Source = Outer(source)
	out.Table = q.outer.rels[source].name
	return out, nil
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
		if table != "" && !strings.EqualFold(r.name, table) {
			continue
		}
		for i := range r.columns() {
			col, ok := r.columnOf(i)
			if ok && strings.EqualFold(col.Name, name) {
				found, n = q.column(r.source, i), n+1
			}
		}
	}
	return found, n
}
