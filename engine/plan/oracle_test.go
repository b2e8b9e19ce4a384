package plan_test

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// oracle evaluates a query by its definition: all combinations of rows, every expression
// with its columns replaced by values. It knows no plan, span, index or slot.
type oracle struct {
	m      *memory
	params []expr.Value
}

// scopeRow is one combination of rows, with that of the query around it.
type scopeRow struct {
	sel   *plan.Select
	rows  [][]expr.Value // one for each source joined so far; nil row: NULLs
	outer *scopeRow
}

// column finds the value of an unresolved column.
func (s *scopeRow) column(c expr.Column) expr.Value {
	for i := range s.rows {
		src := s.sel.From[i]
		at := src.Table.Column(c.Name)
		if at < 0 || c.Table != "" && c.Table != src.Name() {
			continue
		}
		if s.rows[i] == nil {
			return expr.Null()
		}
		return s.rows[i][at]
	}
	if s.outer == nil {
		panic("no column " + c.Name)
	}
	return s.outer.column(c)
}

// eval replaces columns, subqueries and aggregates by values and evaluates what is left.
func (o *oracle) eval(e expr.Expr, s *scopeRow, aggregates []expr.Value) expr.Value {
	flat, _ := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		switch x := x.(type) {
		case expr.Column:
			return expr.Const{Value: s.column(x)}, nil
		case expr.Agg:
			return expr.Const{Value: aggregates[x.Index]}, nil
		case expr.Subquery:
			rows := o.query(x.Query.(*plan.Select), s)
			switch x.Kind {
			case expr.Exists:
				return expr.Const{Value: expr.Bool(len(rows) > 0)}, nil
			case expr.Scalar:
				if len(rows) == 0 {
					return expr.Const{}, nil
				}
				return expr.Const{Value: rows[0][0]}, nil
			}
			return x, nil
		case expr.In:
			sub, ok := x.List[0].(expr.Subquery)
			if !ok {
				return x, nil
			}
			var list []expr.Expr
			for _, r := range o.query(sub.Query.(*plan.Select), s) {
				list = append(list, expr.Const{Value: r[0]})
			}
			return expr.In{X: x.X, List: list, Not: x.Not}, nil
		}
		return x, nil
	})
	return must(expr.Eval(flat, nil, o.params))
}

func (o *oracle) holds(e expr.Expr, s *scopeRow, aggregates []expr.Value) bool {
	return e == nil || o.eval(e, s, aggregates) == expr.Bool(true)
}

// joined returns the combinations of rows of FROM.
func (o *oracle) joined(sel *plan.Select, outer *scopeRow) []*scopeRow {
	all := []*scopeRow{{sel: sel, outer: outer}}
	for i, src := range sel.From {
		var next []*scopeRow
		rows := o.m.rows[src.Table.Name]
		met := make([]bool, len(rows))
		for _, s := range all {
			matched := false
			for k, row := range rows {
				c := &scopeRow{sel, append(slices.Clone(s.rows), row), outer}
				if i == 0 || o.holds(sel.Joins[i-1].On, c, nil) {
					matched, met[k] = true, true
					next = append(next, c)
				}
			}
			if i > 0 && !matched && sel.Joins[i-1].Kind != plan.Inner {
				next = append(next, &scopeRow{sel, append(slices.Clone(s.rows), nil), outer})
			}
		}
		for k, row := range rows {
			if i > 0 && !met[k] && sel.Joins[i-1].Kind == plan.Full {
				next = append(next, &scopeRow{sel, append(make([][]expr.Value, i), row), outer})
			}
		}
		all = next
	}
	return slices.DeleteFunc(all, func(s *scopeRow) bool { return !o.holds(sel.Where, s, nil) })
}

// group is rows that agree in GROUP BY, or a single row of a query without groups.
type group struct {
	first      *scopeRow
	aggregates []expr.Value
}

func (o *oracle) groups(sel *plan.Select, rows []*scopeRow) (out []group) {
	if len(sel.GroupBy) == 0 && len(sel.Aggregates) == 0 {
		for _, r := range rows {
			out = append(out, group{first: r})
		}
		return out
	}
	members := map[string][]*scopeRow{}
	var ids []string
	for _, r := range rows {
		var key []expr.Value
		for _, g := range sel.GroupBy {
			key = append(key, o.eval(g, r, nil))
		}
		id := rowID(key)
		if members[id] == nil {
			ids = append(ids, id)
		}
		members[id] = append(members[id], r)
	}
	if len(sel.GroupBy) == 0 {
		ids = []string{""}
	}
	for _, id := range ids {
		g := group{first: &scopeRow{sel: sel}}
		if len(members[id]) > 0 {
			g.first = members[id][0]
		}
		for _, a := range sel.Aggregates {
			g.aggregates = append(g.aggregates, o.aggregate(a, members[id]))
		}
		if o.holds(sel.Having, g.first, g.aggregates) {
			out = append(out, g)
		}
	}
	return out
}

func (o *oracle) aggregate(a plan.Aggregate, rows []*scopeRow) expr.Value {
	var values []expr.Value
	seen := map[string]bool{}
	for _, r := range rows {
		v := expr.Int(1)
		if a.Arg != nil {
			v = o.eval(a.Arg, r, nil)
		}
		id := rowID([]expr.Value{v})
		if v.IsNull() || a.Distinct && seen[id] {
			continue
		}
		seen[id] = true
		values = append(values, v)
	}
	return aggregate(a.Func, values)
}

// query returns the result rows.
func (o *oracle) query(sel *plan.Select, outer *scopeRow) [][]expr.Value {
	type result struct{ out, keys []expr.Value }
	var all []result
	seen := map[string]bool{}
	for _, g := range o.groups(sel, o.joined(sel, outer)) {
		var r result
		for _, c := range sel.Columns {
			r.out = append(r.out, o.eval(c.Expr, g.first, g.aggregates))
		}
		for _, t := range sel.OrderBy {
			r.keys = append(r.keys, o.eval(t.Expr, g.first, g.aggregates))
		}
		if id := rowID(r.out); !sel.Distinct || !seen[id] {
			seen[id] = true
			all = append(all, r)
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		for k, t := range sel.OrderBy {
			if c := compareNulls(all[i].keys[k], all[j].keys[k], t.Desc, t.NullsLast); c != 0 {
				return c < 0
			}
		}
		return false
	})
	var out [][]expr.Value
	for _, r := range all {
		out = append(out, r.out)
	}
	if sel.Offset != nil {
		n, _ := o.eval(sel.Offset, nil, nil).AsInt()
		out = out[min(int(n), len(out)):]
	}
	if sel.Limit != nil {
		n, _ := o.eval(sel.Limit, nil, nil).AsInt()
		out = out[:min(int(n), len(out))]
	}
	return out
}

func rowID(r []expr.Value) string {
	var b []byte
	for _, v := range r {
		b = fmt.Appendf(b, "%s|", v.Canonical())
	}
	return string(b)
}

func compareNulls(a, b expr.Value, desc, last bool) int {
	switch {
	case a.IsNull() && b.IsNull():
		return 0
	case a.IsNull() != b.IsNull():
		if a.IsNull() != last {
			return -1
		}
		return 1
	}
	c := expr.Order(a, b)
	if desc {
		return -c
	}
	return c
}

func aggregate(f plan.AggregateFunc, values []expr.Value) expr.Value {
	if f == plan.Count {
		return expr.Int(int64(len(values)))
	}
	if len(values) == 0 {
		return expr.Null()
	}
	switch f {
	case plan.Min:
		return slices.MinFunc(values, expr.Order)
	case plan.Max:
		return slices.MaxFunc(values, expr.Order)
	}
	sum := expr.Int(0)
	for _, v := range values {
		sum = must(expr.Calculate(expr.Add, sum, v))
	}
	if f == plan.Avg {
		n := expr.Decimal(keycodec.NewDecimal(int64(len(values)), 0))
		return must(expr.Calculate(expr.Div, sum, n))
	}
	return sum
}
