package exec_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// The oracle answers a query by nested loops over all rows, with nothing of the planner
// and the operators.

type combo [][]expr.Value // one row for each source, nil for the NULLs of a left join

func lookup(c combo) func(source, ordinal int) expr.Value {
	return func(source, ordinal int) expr.Value {
		if source < 0 || c[source] == nil {
			return expr.Null()
		}
		return c[source][ordinal]
	}
}

// brute returns the rows of a query in the order that OrderBy gives.
func (w *world) brute(sel *plan.Select, params []expr.Value) [][]expr.Value {
	var found []combo
	for _, c := range w.joined(sel, params) {
		if w.true(sel.Where, c, params) {
			found = append(found, c)
		}
	}
	out := w.outputs(sel, found, params)
	if sel.Distinct {
		out = unique(out)
	}
	slices.SortStableFunc(out, func(a, b outcome) int { return compareKeys(sel, a.order, b.order) })
	rows := make([][]expr.Value, len(out))
	for i := range out {
		rows[i] = out[i].row
	}
	return rows
}

func (w *world) true(e expr.Expr, c combo, params []expr.Value) bool {
	if e == nil {
		return true
	}
	truth, err := expr.Test(w.subqueries(e, params), lookup(c), params)
	if err != nil {
		w.t.Fatalf("%s: %v", e, err)
	}
	return truth == expr.True
}

// subqueries replaces IN (SELECT …) by the list of its values.
func (w *world) subqueries(e expr.Expr, params []expr.Value) expr.Expr {
	out, err := expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		in, ok := e.(expr.In)
		if !ok || len(in.List) != 1 {
			return e, nil
		}
		sub, ok := in.List[0].(expr.Subquery)
		if !ok {
			return e, nil
		}
		in.List = nil
		for _, row := range w.brute(sub.Query.(*plan.Select), params) {
			in.List = append(in.List, expr.Const{Value: row[0]})
		}
		return in, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) joined(sel *plan.Select, params []expr.Value) []combo {
	list := []combo{}
	for _, row := range w.rows[sel.From[0].Table] {
		list = append(list, combo{row})
	}
	for i, j := range sel.Joins {
		var next []combo
		rights := w.rows[sel.From[i+1].Table]
		met := make([]bool, len(rights))
		for _, c := range list {
			matched := false
			for k, row := range rights {
				pair := append(slices.Clone(c), row)
				if w.true(j.On, pair, params) {
					matched, met[k] = true, true
					next = append(next, pair)
				}
			}
			if !matched && (j.Kind == plan.Left || j.Kind == plan.Full) {
				next = append(next, append(slices.Clone(c), nil))
			}
		}
		for k, row := range rights {
			if !met[k] && j.Kind == plan.Full {
				next = append(next, append(make(combo, i+1), row))
			}
		}
		list = next
	}
	return list
}

// outcome is a row of the result with what it is sorted by.
type outcome struct{ row, order []expr.Value }

func (w *world) outputs(sel *plan.Select, found []combo, params []expr.Value) []outcome {
	if len(sel.GroupBy) == 0 && len(sel.Aggregates) == 0 {
		var out []outcome
		for _, c := range found {
			out = append(out, w.outcome(sel, lookup(c), params))
		}
		return out
	}
	var groups []string
	members := map[string][]combo{}
	for _, c := range found {
		var key []expr.Value
		for _, e := range sel.GroupBy {
			key = append(key, w.eval(e, lookup(c), params))
		}
		k := text(key)
		if _, ok := members[k]; !ok {
			groups = append(groups, k)
		}
		members[k] = append(members[k], c)
	}
	if len(sel.GroupBy) == 0 {
		groups = []string{""}
	}
	var out []outcome
	for _, k := range groups {
		out = append(out, w.outcome(sel, w.groupRow(sel, members[k], params), params))
	}
	return out
}

// groupRow gives the aggregates, and columns of the first member.
func (w *world) groupRow(sel *plan.Select, members []combo, params []expr.Value,
) func(source, ordinal int) expr.Value {
	var aggs []expr.Value
	for _, a := range sel.Aggregates {
		aggs = append(aggs, w.aggregate(a, members, params))
	}
	return func(source, ordinal int) expr.Value {
		if source == expr.AggSource {
			return aggs[ordinal]
		}
		return lookup(members[0])(source, ordinal)
	}
}

func (w *world) aggregate(a plan.Aggregate, members []combo, params []expr.Value) expr.Value {
	if a.Arg == nil {
		return expr.Int(int64(len(members)))
	}
	var values []expr.Value
	seen := map[string]bool{}
	for _, c := range members {
		v := w.eval(a.Arg, lookup(c), params)
		if k := text([]expr.Value{v}); v.IsNull() || a.Distinct && seen[k] {
			continue
		} else {
			seen[k] = true
		}
		values = append(values, v)
	}
	switch {
	case a.Func == plan.Count:
		return expr.Int(int64(len(values)))
	case len(values) == 0:
		return expr.Null()
	case a.Func == plan.Min:
		return slices.MinFunc(values, expr.Order)
	case a.Func == plan.Max:
		return slices.MaxFunc(values, expr.Order)
	}
	sum := expr.Int(0)
	for _, v := range values {
		sum = w.calculate(expr.Add, sum, v)
	}
	if a.Func == plan.Avg {
		sum = w.calculate(expr.Add, sum, expr.Float(0))
		return w.calculate(expr.Div, sum, expr.Int(int64(len(values))))
	}
	return sum
}

func (w *world) calculate(op expr.ArithOp, a, b expr.Value) expr.Value {
	v, err := expr.Calculate(op, a, b)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) eval(e expr.Expr, row func(int, int) expr.Value, params []expr.Value) expr.Value {
	v, err := expr.Eval(e, row, params)
	if err != nil {
		w.t.Fatalf("%s: %v", e, err)
	}
	return v
}

func (w *world) outcome(sel *plan.Select, row func(int, int) expr.Value, params []expr.Value,
) outcome {
	var o outcome
	for _, c := range sel.Columns {
		o.row = append(o.row, w.eval(c.Expr, row, params))
	}
	for _, by := range sel.OrderBy {
		o.order = append(o.order, w.eval(by.Expr, row, params))
	}
	return o
}

func unique(list []outcome) []outcome {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(o outcome) bool {
		k := text(o.row)
		was := seen[k]
		seen[k] = true
		return was
	})
}

func compareKeys(sel *plan.Select, a, b []expr.Value) int {
	for i, by := range sel.OrderBy {
		c := expr.Order(folded(a[i]), folded(b[i]))
		switch {
		case a[i].IsNull() != b[i].IsNull():
			if by.NullsLast {
				c = -c
			}
		case by.Desc:
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// folded is for sorting: capitals are in the column with a collation only.
func folded(v expr.Value) expr.Value {
	if s, ok := v.AsString(); ok {
		return expr.String(strings.ToLower(s))
	}
	return v
}

// texts renders rows.
func texts(rows [][]expr.Value) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = text(r)
	}
	return out
}

// describe renders a query for a failure.
func describe(sel *plan.Select) string {
	out := "from " + sel.From[0].Table.Name
	for i, j := range sel.Joins {
		out += fmt.Sprintf(" %s join %s on %v", j.Kind, sel.From[i+1].Table.Name, j.On)
	}
	out += fmt.Sprintf(" where %v group %v aggregates %v columns %v distinct %v order %v limit %v"+
		" offset %v hints %+v", sel.Where, sel.GroupBy, sel.Aggregates, sel.Columns, sel.Distinct,
		sel.OrderBy, sel.Limit, sel.Offset, sel.Hints)
	if sel.Where != nil {
		expr.Walk(sel.Where, func(e expr.Expr) bool {
			if sub, ok := e.(expr.Subquery); ok {
				out += "\nsubquery " + describe(sub.Query.(*plan.Select))
			}
			return true
		})
	}
	return out
}
