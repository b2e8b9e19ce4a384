package logical

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
)

// A query in FROM costs nothing beside its text where it can be part of the query around: its
// sources take its place there, its WHERE joins the other one, and its columns are replaced by
// what they are. That is done here, with the Selects, before names are resolved. What must stay a
// query of its own, since it has groups, a LIMIT or the like, gets the conditions on its rows
// (see pushDown of engine/plan).

// Merged returns a query with the queries of FROM merged into it as far as possible. It is the
// query itself if there are none.
func Merged(sel *Select, f Facts) *Select {
	if !f.derived || f.unresolved {
		return sel
	}
	return sel.mergeAll()
}

func (sel *Select) mergeAll() *Select {
	out := sel.mapQueries((*Select).mergeAll)
	for i := 0; i < len(out.From); i++ {
		for out.mayMerge(i) {
			out = out.merge(i)
		}
	}
	return out
}

// mayMerge reports whether a source is a query that can be part of the query.
func (sel *Select) mayMerge(i int) bool {
	if len(sel.From[i].Queries) != 1 || sel.RowKeys {
		return false
	}
	in := sel.From[i].Queries[0]
	plain := len(in.GroupBy)+len(in.Aggregates) == 0 && in.Having == nil && !in.Distinct &&
		in.Limit == nil && in.Offset == nil && in.After == nil && !in.Page && !in.RowKeys
	h := &in.Hints
	if !plain || len(in.From) == 0 || in.Columns == nil ||
		len(sel.From)+len(in.From)-1 > MaxSources ||
		h.NoIndex || h.RefuseFullScan || h.ForceOrder || h.ForceJoin != "" {
		return false
	}
	columns := true // there is nothing but columns in the result
	for _, o := range in.Columns {
		if expr.HasSubquery(o.Expr) {
			return false
		}
		c, ok := o.Expr.(expr.Column)
		columns = columns && ok && c.Source >= 0
	}
	if !columns && len(sel.GroupBy)+len(sel.Aggregates) > 0 && HasSubquery(sel) {
		return false // what they use of the groups is the output as a whole, not its columns
	}
	alone := len(in.From) == 1 && columns // only the name of a source changes
	outer := i > 0 && sel.Joins[i-1].Kind != operator.Inner
	switch {
	case HasFullJoin(sel):
		return alone && in.Where == nil
	case HasFullJoin(in):
		return len(sel.From) == 1 // it stands alone: see IsolateFullJoins
	case outer: // where there is no partner, all columns are NULL
		return alone && !expr.HasSubquery(in.Where)
	}
	return len(in.OrderBy) == 0 || len(sel.From) == 1 && !operator.Concatenates(sel.Aggregates)
}

// HasSubquery reports whether there is a subquery in an expression.
func HasSubquery(sel *Select) (found bool) {
	Places(sel, func(e *expr.Expr) { found = found || expr.HasSubquery(*e) })
	return found
}

// HasFullJoin reports whether a FULL JOIN is among the joins.
func HasFullJoin(sel *Select) bool {
	return slices.ContainsFunc(sel.Joins, func(j Join) bool { return j.Kind == operator.Full })
}

// merge makes a query of FROM part of the query.
//
// Requires: mayMerge(i).
func (sel *Select) merge(i int) *Select {
	in := sel.From[i].Queries[0]
	more := len(in.From) - 1
	in = in.substitute(0, func(c expr.Column) expr.Expr {
		c.Source += i
		return c
	})
	out := sel.substitute(0, func(c expr.Column) expr.Expr {
		switch {
		case c.Source == i:
			return in.Columns[c.Ordinal].Expr
		case c.Source > i:
			c.Source += more
		}
		return c
	})
	out.From = slices.Replace(out.From, i, i+1, sel.renamed(i, in.From)...)
	out.Hints.Index = sel.mergedHints(i, in)
	terms := expr.Terms(nil, in.Where)
	switch {
	case i == 0:
		out.Joins = slices.Concat(in.Joins, out.Joins)
	case out.Joins[i-1].Kind == operator.Inner:
		terms = expr.Terms(terms, out.Joins[i-1].On)
		out.Joins[i-1].On = nil
		out.Joins = slices.Insert(out.Joins, i, in.Joins...)
	default:
		out.Joins[i-1].On = expr.AllOf(expr.Terms(terms, out.Joins[i-1].On))
		terms = nil
	}
	out.Where = expr.AllOf(expr.Terms(terms, out.Where))
	if len(sel.From) == 1 && len(out.OrderBy)+len(out.GroupBy)+len(out.Aggregates) == 0 &&
		!out.Distinct {
		out.OrderBy = in.OrderBy
	}
	return out
}

// renamed returns the sources of a query of FROM with names for their new place.
func (sel *Select) renamed(i int, sources []Source) []Source {
	taken := map[string]bool{}
	for j, s := range sel.From {
		taken[s.Name()] = j != i
	}
	out := slices.Clone(sources)
	for k := range out {
		name := sel.From[i].Name()
		if len(out) > 1 {
			name += "." + out[k].Name()
		}
		for taken[name] {
			name += "_"
		}
		taken[name] = true
		out[k].Alias = name
	}
	return out
}

func (sel *Select) mergedHints(i int, in *Select) map[int]string {
	if len(sel.Hints.Index)+len(in.Hints.Index) == 0 {
		return nil
	}
	out := map[int]string{}
	for at, name := range sel.Hints.Index {
		if at > i {
			at += len(in.From) - 1
		}
		out[at] = name
	}
	for at, name := range in.Hints.Index {
		out[i+at] = name
	}
	return out
}

// substitute returns a copy of a query with the columns of a query around, so many steps out,
// replaced. With 0 steps they are its own. f gets columns, and returns expressions, as they stand
// in that query; these have no subqueries.
func (sel *Select) substitute(steps int, f func(expr.Column) expr.Expr) *Select {
	out := sel.MapExprs(func(e expr.Expr) expr.Expr { return substituteIn(e, steps, f) })
	out.Position = nil // it knows other expressions
	if steps == 0 {
		return out // queries of FROM have no columns of their neighbours
	}
	out.mapFrom(func(in *Select) *Select { return in.substitute(steps, f) })
	return out
}

func substituteIn(e expr.Expr, steps int, f func(expr.Column) expr.Expr) expr.Expr {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		if inner := subqueryOf(x); inner != nil {
			inner = inner.substitute(steps+1, f)
			return expr.Subquery{Query: inner, Kind: x.(expr.Subquery).Kind}
		}
		c, ok := x.(expr.Column)
		if !ok {
			return x
		}
		out, source := OuterOf(c.Source)
		if out != steps || source == Aggregates {
			return x
		}
		if c.Source = source; steps == 0 {
			return f(c)
		}
		return moveIn(f(c), -1, steps)
	})
}

// FurtherIn returns a subquery as it stands in a query of its own around it.
func (sel *Select) FurtherIn() *Select { return sel.movedIn(0, 1) }

// movedIn adds steps to the columns of queries that are more than so many out.
func (sel *Select) movedIn(out, steps int) *Select {
	moved := sel.MapExprs(func(e expr.Expr) expr.Expr { return moveIn(e, out, steps) })
	moved.Position = nil // it knows other expressions
	moved.mapFrom(func(in *Select) *Select { return in.movedIn(out, steps) })
	return moved
}

// moveIn is movedIn of an expression.
func moveIn(e expr.Expr, out, steps int) expr.Expr {
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		if inner := subqueryOf(x); inner != nil {
			inner = inner.movedIn(out+1, steps)
			return expr.Subquery{Query: inner, Kind: x.(expr.Subquery).Kind}
		}
		c, ok := x.(expr.Column)
		if n, source := OuterOf(c.Source); ok && n > out {
			c.Source = OuterAt(n+steps, source)
			return c
		}
		return x
	})
}

// IsolateFullJoins returns a query in which a FULL JOIN stands alone: it joins two sources of a
// query that has no others. What is joined before it, and it itself where more is joined after,
// become queries of FROM. Without an answer, ok is false: columns are not resolved.
func IsolateFullJoins(sel *Select, f Facts) (out *Select, ok bool) {
	switch {
	case !f.fullJoin:
		return sel, true
	case f.unresolved:
		return nil, false
	}
	return sel.isolate(), true
}

func (sel *Select) isolate() *Select {
	out := sel.mapQueries((*Select).isolate)
	last := -1
	for i, j := range out.Joins {
		if j.Kind == operator.Full {
			last = i
		}
	}
	if last > 0 {
		out = out.wrap(last + 1)
		last = 0
	}
	if last == 0 && len(out.From) > 2 {
		out = out.wrap(2)
	}
	return out
}

// wrap makes one query of FROM of the first n sources.
func (sel *Select) wrap(n int) *Select {
	in := &Select{From: slices.Clone(sel.From[:n]), Joins: slices.Clone(sel.Joins[:n-1])}
	places := map[[2]int]int{}
	move := func(c expr.Column) expr.Expr {
		if c.Source >= n {
			c.Source -= n - 1
			return c
		}
		key := [2]int{c.Source, c.Ordinal}
		at, ok := places[key]
		if !ok {
			at = len(in.Columns)
			places[key] = at
			in.Columns = append(in.Columns, Output{Expr: c, Name: c.Name})
		}
		return expr.Column{Source: 0, Ordinal: at, Name: c.Name, Collation: c.Collation}
	}
	rest := *sel
	rest.Joins = sel.Joins[n-1:]
	out := rest.substitute(0, move)
	if in.Columns == nil {
		in.Columns = []Output{{Expr: expr.Const{Value: expr.Int(1)}, Name: "1"}}
	}
	var names []string
	for _, s := range in.From {
		names = append(names, s.Name())
	}
	hints := out.Hints.Index
	out.Hints.Index = nil
	for at, name := range hints {
		to := &out.Hints
		if at < n {
			to = &in.Hints
		} else {
			at -= n - 1
		}
		if to.Index == nil {
			to.Index = map[int]string{}
		}
		to.Index[at] = name
	}
	source := Source{Queries: []*Select{in.isolate()}, Alias: strings.Join(names, "+")}
	out.From = append([]Source{source}, sel.From[n:]...)
	return out
}
