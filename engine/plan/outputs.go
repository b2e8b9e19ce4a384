package plan

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// resolveGroups resolves GROUP BY, the aggregates and HAVING.
func (q *query) resolveGroups() error {
	sel := q.sel
	q.grouped = len(sel.GroupBy) > 0 || len(sel.Aggregates) > 0
	for _, g := range sel.GroupBy {
		e, err := q.expression(g, "GROUP BY")
		if err != nil {
			return err
		}
		q.groups = append(q.groups, e)
	}
	for _, a := range sel.Aggregates {
		r, err := q.aggregate(a)
		if err != nil {
			return err
		}
		q.aggregates = append(q.aggregates, r)
	}
	if sel.Having == nil {
		return nil
	}
	if !q.grouped {
		return queryError(q.position(sel.Having), "HAVING without groups")
	}
	having, err := q.condition(sel.Having, "HAVING")
	if err != nil {
		return err
	}
	q.having = expr.Terms(nil, q.normalise(having))
	return nil
}

func (q *query) aggregate(a Aggregate) (Aggregate, error) {
	if a.Func > Any {
		return a, queryError(0, "there is no aggregate function %d", a.Func)
	}
	if a.Arg == nil {
		if a.Func != Count || a.Distinct {
			return a, queryError(0, "%s needs an argument", strings.ToUpper(a.Func.String()))
		}
		return a, nil
	}
	arg, err := q.expression(a.Arg, "GROUP BY")
	if err != nil {
		return a, err
	}
	if a.Func == Sum || a.Func == Avg {
		if err := q.checkKind(arg, expr.KindInt); err != nil {
			return a, err
		}
	}
	if a.Func == Concat {
		if err := q.checkKind(arg, expr.KindString); err != nil {
			return a, err
		}
	}
	a.Arg = arg
	order := a.Order
	a.Order = nil
	for _, k := range order {
		if k.Expr, err = q.expression(k.Expr, "GROUP BY"); err != nil {
			return a, err
		}
		a.Order = append(a.Order, k)
	}
	return a, nil
}

// dependents makes aggregates of the columns in an expression that follow from what is grouped:
// those of a table whose primary key is.
func (q *query) dependents(e expr.Expr) expr.Expr {
	if len(q.groups) == 0 {
		return e
	}
	return expr.Replace(e, func(x expr.Expr) (expr.Expr, bool) {
		if slices.ContainsFunc(q.groups, func(g expr.Expr) bool { return expr.Equal(g, x) }) {
			return x, true
		}
		if c, ok := x.(expr.Column); ok && q.followsFromGroups(c) {
			return q.anyOf(c), true
		}
		return x, false
	})
}

// followsFromGroups reports whether the primary key of the table of a column is grouped.
func (q *query) followsFromGroups(c expr.Column) bool {
	r := q.relationOf(c.Source)
	if r == nil || r.table == nil || len(q.groups) == 0 {
		return false
	}
	for _, k := range estimate.KeyColumns(r.table, nil) {
		key := expr.Expr(q.column(r.source, k.Ordinal))
		if !slices.ContainsFunc(q.groups, func(g expr.Expr) bool { return expr.Equal(g, key) }) {
			return false
		}
	}
	return true
}

// anyOf returns the aggregate that is a column that has one value in a group.
func (q *query) anyOf(c expr.Column) expr.Expr {
	i := len(q.sel.Aggregates)
	for i < len(q.aggregates) && !expr.Equal(q.aggregates[i].Arg, c) {
		i++
	}
	if i == len(q.aggregates) {
		q.aggregates = append(q.aggregates, Aggregate{Func: Any, Arg: c})
	}
	return expr.Agg{Index: i, Name: c.String()}
}

func (q *query) resolveOutputs() error {
	if q.sel.Columns == nil {
		q.outputs = q.allColumns()
		return nil
	}
	q.outputs = q.sel.Columns // a copy, once one of them is another one
	own := false
	for i, o := range q.sel.Columns {
		e, err := q.expression(o.Expr, "SELECT")
		if err != nil {
			return err
		}
		if o.Name != "" && expr.Shared(e, o.Expr) {
			continue
		}
		if o.Name == "" {
			o.Name = o.Expr.String()
			if c, ok := o.Expr.(expr.Column); ok {
				o.Name = c.Name
			}
		}
		if !own {
			q.outputs, own = slices.Clone(q.outputs), true
		}
		q.outputs[i] = Output{Expr: e, Name: o.Name}
	}
	return nil
}

func (q *query) allColumns() (all []Output) {
	if q.grouped {
		for i, g := range q.groups {
			all = append(all, Output{Expr: g, Name: q.sel.GroupBy[i].String()})
		}
		for i, a := range q.sel.Aggregates {
			agg := expr.Agg{Index: i, Name: a.String()}
			all = append(all, Output{Expr: agg, Name: agg.Name})
		}
		return all
	}
	for _, r := range q.rels[:len(q.sel.From)] {
		if r.kind == Semi || r.kind == Anti {
			continue
		}
		for i := range r.columns() {
			if c, ok := r.columnOf(i); ok {
				all = append(all, Output{Expr: q.column(r.source, i), Name: c.Name})
			}
		}
	}
	return all
}

// resolveOrder resolves ORDER BY, in which the name of an output stands for it, LIMIT and
// OFFSET.
func (q *query) resolveOrder() error {
	for _, o := range q.sel.OrderBy {
		if out, ok := q.outputNamed(o.Expr); ok {
			o.Expr = out
		} else {
			e, err := q.expression(o.Expr, "ORDER BY")
			if err != nil {
				return err
			}
			o.Expr = e
		}
		if !spans.IsConstant(o.Expr) {
			q.order = append(q.order, o)
		}
	}
	q.page = q.sel.Page || q.sel.After != nil
	for _, l := range []struct {
		from expr.Expr
		to   *expr.Expr
		name string
	}{{q.sel.Limit, &q.limit, "LIMIT"}, {q.sel.Offset, &q.offset, "OFFSET"}} {
		if l.from == nil {
			continue
		}
		switch l.from.(type) {
		case expr.Const, expr.Param:
		default:
			return queryError(q.position(l.from), "%s must be a number or a parameter", l.name)
		}
		if k := kindOf(q, l.from); k != expr.KindNull && k != expr.KindInt {
			return queryError(q.position(l.from), "%s must be a number", l.name)
		}
		*l.to = l.from
	}
	return nil
}

// outputNamed finds the output that an unresolved column of ORDER BY names.
func (q *query) outputNamed(e expr.Expr) (expr.Expr, bool) {
	c, ok := e.(expr.Column)
	if !ok || c.Source != Unresolved || c.Table != "" || q.sel.Columns == nil {
		return nil, false
	}
	for _, o := range q.outputs {
		if strings.EqualFold(o.Name, c.Name) {
			return o.Expr, true
		}
	}
	return nil, false
}

// checkShape refuses combinations that have no meaning.
func (q *query) checkShape() error {
	if q.sel.RowKeys && (len(q.sel.From) != 1 || q.grouped || q.sel.Distinct) {
		return queryError(0, "row keys need a query of one table without groups")
	}
	if q.sel.Distinct {
		if err := q.checkDistinctOrder(); err != nil {
			return err
		}
	}
	semi := uint64(0)
	for _, r := range q.rels {
		if r.kind == Semi || r.kind == Anti {
			semi |= 1 << r.source
		}
	}
	if semi == 0 {
		return nil
	}
	var room [usualExprs]expr.Expr
	for _, e := range q.visible(room[:0]) {
		if sourcesOf(e)&semi != 0 {
			return queryError(q.position(e), "%s: a semi or anti join returns no columns", e)
		}
	}
	return nil
}

// checkDistinctOrder refuses an order by what no row of the result has: of rows that are one, each
// could have another value.
func (q *query) checkDistinctOrder() error {
	f := finisher{q: q}
	for _, o := range q.order {
		if q.page && q.outputIndex(o.Expr) < 0 {
			return queryError(q.position(o.Expr),
				"pages with DISTINCT are ordered by columns of the result only, not %s", o.Expr)
		}
		var lost expr.Expr
		expr.Walk(f.whole(o.Expr, f.outputAt), func(x expr.Expr) bool {
			switch x.(type) {
			case expr.Column, expr.Agg:
				lost = x
			}
			return lost == nil
		})
		if lost != nil {
			return queryError(q.position(o.Expr), "with DISTINCT or UNION, ORDER BY takes columns "+
				"of the result, and %s is not; add it to them", lost)
		}
	}
	return nil
}

// usualExprs is room for the expressions of most queries.
const usualExprs = 16

// visible appends the expressions over joined rows.
func (q *query) visible(all []expr.Expr) []expr.Expr {
	all = append(append(append(all, q.where...), q.late...), q.having...)
	all = append(all, q.groups...)
	for i := range q.aggregates {
		if a := &q.aggregates[i]; a.Arg != nil {
			all = append(all, a.Arg)
		}
		for _, o := range q.aggregates[i].Order {
			all = append(all, o.Expr)
		}
	}
	for i := range q.outputs {
		all = append(all, q.outputs[i].Expr)
	}
	for _, o := range q.order {
		all = append(all, o.Expr)
	}
	return all
}

// outputIndex returns the position of an expression among the outputs, or -1.
func (q *query) outputIndex(e expr.Expr) int {
	for i, o := range q.outputs {
		if expr.Equal(o.Expr, e) {
			return i
		}
	}
	return -1
}
