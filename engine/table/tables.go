package table

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// mapExprs returns a query with every expression replaced by what f makes of it.
func mapExprs(sel *plan.Select, f func(expr.Expr) expr.Expr) *plan.Select {
	g := func(e expr.Expr) expr.Expr {
		if e == nil {
			return nil
		}
		return f(e)
	}
	out := *sel
	out.Joins = slices.Clone(sel.Joins)
	for i := range out.Joins {
		out.Joins[i].On = g(out.Joins[i].On)
	}
	out.Where, out.Having = g(sel.Where), g(sel.Having)
	out.Limit, out.Offset = g(sel.Limit), g(sel.Offset)
	out.GroupBy = slices.Clone(sel.GroupBy)
	for i := range out.GroupBy {
		out.GroupBy[i] = g(out.GroupBy[i])
	}
	out.Aggregates = slices.Clone(sel.Aggregates)
	for i := range out.Aggregates {
		out.Aggregates[i].Arg = g(out.Aggregates[i].Arg)
	}
	out.Columns = slices.Clone(sel.Columns)
	for i := range out.Columns {
		out.Columns[i].Expr = g(out.Columns[i].Expr)
	}
	out.OrderBy = slices.Clone(sel.OrderBy)
	for i := range out.OrderBy {
		out.OrderBy[i].Expr = g(out.OrderBy[i].Expr)
	}
	return &out
}

// exprsOf returns the expressions of a query.
func exprsOf(sel *plan.Select) (all []expr.Expr) {
	add := func(e expr.Expr) {
		if e != nil {
			all = append(all, e)
		}
	}
	for _, j := range sel.Joins {
		add(j.On)
	}
	add(sel.Where)
	add(sel.Having)
	add(sel.Limit)
	add(sel.Offset)
	for _, e := range sel.GroupBy {
		add(e)
	}
	for _, a := range sel.Aggregates {
		add(a.Arg)
	}
	for _, o := range sel.Columns {
		add(o.Expr)
	}
	for _, o := range sel.OrderBy {
		add(o.Expr)
	}
	return all
}

// eachTable calls f for the tables of a query and its subqueries.
func eachTable(sel *plan.Select, f func(*schema.Table)) {
	for _, s := range sel.From {
		if s.Table != nil {
			f(s.Table)
		}
		for _, inner := range s.Queries {
			eachTable(inner, f)
		}
	}
	for _, e := range exprsOf(sel) {
		expr.Walk(e, func(e expr.Expr) bool {
			if s, ok := e.(expr.Subquery); ok {
				if inner, ok := s.Query.(*plan.Select); ok && inner != nil {
					eachTable(inner, f)
				}
			}
			return true
		})
	}
}

// withTables returns a query with its tables replaced by the given ones, which stand in
// the order of eachTable. The query itself if it has these.
func withTables(sel *plan.Select, states []*tableState) *plan.Select {
	same, i := true, 0
	eachTable(sel, func(t *schema.Table) {
		same = same && t == states[i].Schema
		i++
	})
	if same {
		return sel
	}
	byID := map[uint32]*schema.Table{}
	for _, s := range states {
		byID[s.Schema.ID] = s.Schema
	}
	return swapTables(sel, byID)
}

func swapTables(sel *plan.Select, byID map[uint32]*schema.Table) *plan.Select {
	out := mapExprs(sel, func(e expr.Expr) expr.Expr {
		changed, err := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
			if s, ok := x.(expr.Subquery); ok {
				if inner, ok := s.Query.(*plan.Select); ok && inner != nil {
					return expr.Subquery{Query: swapTables(inner, byID), Kind: s.Kind}, nil
				}
			}
			return x, nil
		})
		if err != nil {
			return e
		}
		return changed
	})
	out.From = slices.Clone(sel.From)
	for i := range out.From {
		if t := out.From[i].Table; t != nil {
			out.From[i].Table = byID[t.ID]
		}
		out.From[i].Queries = slices.Clone(out.From[i].Queries)
		for j, inner := range out.From[i].Queries {
			out.From[i].Queries[j] = swapTables(inner, byID)
		}
	}
	return out
}
