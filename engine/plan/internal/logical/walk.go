package logical

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// Where the expressions and the queries of a Select stand is said here alone: a new field of
// Select that has some is added to rowPlaces, and to own if it is a slice. The key of a query in
// the cache and the checksum of its cursors follow.

// Places calls f with the place of each expression of a query, in a fixed order, without nils.
func Places(sel *Select, f func(at *expr.Expr)) {
	at := func(e *expr.Expr) {
		if *e != nil {
			f(e)
		}
	}
	sel.rowPlaces(at)
	at(&sel.Limit)
	at(&sel.Offset)
}

// rowPlaces is Places without those that only cut the result, and with nils.
func (sel *Select) rowPlaces(at func(*expr.Expr)) {
	for i := range sel.Joins {
		at(&sel.Joins[i].On)
	}
	at(&sel.Where)
	for i := range sel.GroupBy {
		at(&sel.GroupBy[i])
	}
	for i := range sel.Aggregates {
		at(&sel.Aggregates[i].Arg)
		for j := range sel.Aggregates[i].Order {
			at(&sel.Aggregates[i].Order[j].Expr)
		}
	}
	at(&sel.Having)
	for i := range sel.Columns {
		at(&sel.Columns[i].Expr)
	}
	for i := range sel.OrderBy {
		at(&sel.OrderBy[i].Expr)
	}
}

// own makes the slices of a copy of a query its own.
func (sel *Select) own() {
	sel.From, sel.Joins = slices.Clone(sel.From), slices.Clone(sel.Joins)
	sel.GroupBy, sel.Aggregates = slices.Clone(sel.GroupBy), slices.Clone(sel.Aggregates)
	for i := range sel.Aggregates {
		sel.Aggregates[i].Order = slices.Clone(sel.Aggregates[i].Order)
	}
	sel.Columns, sel.OrderBy = slices.Clone(sel.Columns), slices.Clone(sel.OrderBy)
}

// MapExprs returns a copy of the query with every expression replaced by what f makes of it.
// Subqueries stay as they are.
func (sel *Select) MapExprs(f func(expr.Expr) expr.Expr) *Select {
	out := *sel
	out.own()
	Places(&out, func(e *expr.Expr) { *e = f(*e) })
	return &out
}

// subqueryOf returns the query of a subquery, nil of other expressions.
func subqueryOf(e expr.Expr) *Select {
	s, _ := e.(expr.Subquery)
	sel, _ := s.Query.(*Select)
	return sel
}

// Walk calls f for the query and for its subqueries, those of FROM first.
func (sel *Select) Walk(f func(*Select)) {
	f(sel)
	for _, s := range sel.From {
		for _, inner := range s.Queries {
			inner.Walk(f)
		}
	}
	Places(sel, func(e *expr.Expr) {
		expr.Walk(*e, func(x expr.Expr) bool {
			if inner := subqueryOf(x); inner != nil {
				inner.Walk(f)
			}
			return true
		})
	})
}

// Tables calls f for the tables of the query and of its subqueries.
func (sel *Select) Tables(f func(*schema.Table)) {
	sel.Walk(func(q *Select) {
		for _, s := range q.From {
			if s.Table != nil {
				f(s.Table)
			}
		}
	})
}

// WithTables returns a copy of the query with its tables, and those of its subqueries, replaced
// by what f returns for them.
func (sel *Select) WithTables(f func(*schema.Table) *schema.Table) *Select {
	out := sel.mapQueries(func(inner *Select) *Select { return inner.WithTables(f) })
	for i := range out.From {
		if s := &out.From[i]; s.Table != nil {
			s.Table = f(s.Table)
		}
	}
	return out
}

// OfRows returns the query, which has one source, for a row of it that is given: without the
// source, and with the parameters from the first of at on for its columns. Those from the next one
// on are for the row of the query around, and so on.
func (sel *Select) OfRows(at ...int) *Select {
	out := sel
	for steps, first := range at {
		out = out.substitute(steps, func(c expr.Column) expr.Expr {
			return expr.Param{Index: first + c.Ordinal, Name: c.Name, Collation: c.Collation}
		})
	}
	out.From, out.Position = nil, sel.Position
	return out
}

// mapQueries returns a copy of the query with its subqueries, those of FROM included, replaced by
// what f makes of them.
func (sel *Select) mapQueries(f func(*Select) *Select) *Select {
	out := sel.MapExprs(func(e expr.Expr) expr.Expr {
		return expr.Map(e, func(x expr.Expr) expr.Expr {
			if inner := subqueryOf(x); inner != nil {
				return expr.Subquery{Query: f(inner), Kind: x.(expr.Subquery).Kind}
			}
			return x
		})
	})
	out.mapFrom(f)
	return out
}

// mapFrom replaces the queries of FROM. Requires: the slice of sources is the query's own.
func (sel *Select) mapFrom(f func(*Select) *Select) {
	for i := range sel.From {
		s := &sel.From[i]
		s.Queries = slices.Clone(s.Queries)
		for j, inner := range s.Queries {
			s.Queries[j] = f(inner)
		}
	}
}

// Facts are what the expressions of a query and its subqueries say about it.
type Facts struct {
	Params     int  // how many parameters there are
	Nested     bool // there are subqueries in expressions
	derived    bool // a source is a query
	unresolved bool // a column has to be found by its name
	fullJoin   bool // a FULL JOIN is among more than two sources
}

// FactsOf looks at all expressions once.
func FactsOf(sel *Select) (f Facts) {
	sel.addFacts(&f)
	return f
}

func (sel *Select) addFacts(f *Facts) {
	for i := range sel.From {
		f.derived = f.derived || sel.From[i].Table == nil
		for _, inner := range sel.From[i].Queries {
			inner.addFacts(f)
		}
	}
	f.fullJoin = f.fullJoin || HasFullJoin(sel) && len(sel.From) > 2
	if sel.Columns == nil && len(sel.GroupBy)+len(sel.Aggregates) == 0 {
		f.unresolved = true
	}
	visit := func(x expr.Expr) bool {
		switch x := x.(type) {
		case expr.Column:
			f.unresolved = f.unresolved || x.Source == Unresolved
		case expr.Param:
			f.Params = max(f.Params, x.Index+1)
		case expr.Subquery:
			f.Nested = true
			if inner, ok := x.Query.(*Select); ok && inner != nil {
				inner.addFacts(f)
			}
		}
		return true
	}
	Places(sel, func(e *expr.Expr) { expr.Walk(*e, visit) })
}
