package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
)

// plan chooses the cheapest tree for the query. Every way to join the relations is carried
// to the end, since an order that costs more to read may save a sort, and a limit may make
// most of the work unnecessary.
func (q *query) plan() (Node, error) {
	gates := q.distribute()
	for _, r := range q.rels {
		if r.sub == nil {
			continue
		}
		q.pushDown(r)
		if err := r.sub.plan(); err != nil {
			return nil, err
		}
	}
	q.tieOrder()
	q.columns, _ = q.columnOrder(q.total)
	var room [1]candidate
	found, err := q.joinAll(room[:0], q.wants())
	short := q.shortcuts()
	if err != nil && (asFullScan(err) == nil || len(short) == 0) {
		return nil, err
	}
	found = append(found, short...)
	var best Node
	all, skips := make([]Node, len(found)), false
	for i, c := range found {
		skips = skips || c.path != nil && c.path.skip != nil
		n, err := q.finish(c, gates)
		if err != nil {
			return nil, err
		}
		if all[i] = n; best == nil || n.Estimate().Cost < best.Estimate().Cost {
			best = n
		}
	}
	best = q.bounded(best, all, skips)
	for _, r := range q.rels { // it knows statistics, and the plan may be kept
		if r.parts != nil {
			r.parts.estimator = nil
		}
	}
	return best, nil
}

// wants returns the orders that the steps above the joins could use, of columns of one
// relation.
func (q *query) wants() (wants []want) {
	if len(q.columns) > 0 && !q.grouped {
		wants = append(wants, want{order: q.columns, part: true})
	}
	if order, ok := q.columnOrder(q.groupOrder()); ok && len(order) > 0 && len(q.groups) > 0 {
		wants = append(wants, want{order: order})
	}
	if group, _, ok := groupColumns(q.groupKeys()); ok && len(group) > 0 {
		wants = append(wants, want{group: group})
	}
	return wants
}

// columnOrder returns the first columns of an order that are of one relation; all says that there
// are no other ones.
func (q *query) columnOrder(order []Order) (columns []operator.OrderColumn, all bool) {
	for _, o := range order {
		c, ok := o.Expr.(expr.Column)
		if !ok || len(columns) > 0 && columns[0].Source != c.Source {
			return columns, false
		}
		if columns == nil {
			columns = make([]operator.OrderColumn, 0, len(order))
		}
		columns = append(columns, q.orderColumn(c, o.Desc, o.NullsLast))
	}
	return columns, true
}

// groupOrder is ORDER BY completed to all columns of GROUP BY, if it is about these.
func (q *query) groupOrder() []Order {
	order := slices.Clone(q.total)
	for _, o := range order {
		if !slices.ContainsFunc(q.groups, func(g expr.Expr) bool { return expr.Equal(g, o.Expr) }) {
			return nil
		}
	}
	desc := len(order) > 0 && order[len(order)-1].Desc
	for _, g := range q.groups {
		if !slices.ContainsFunc(order, func(o Order) bool { return expr.Equal(g, o.Expr) }) {
			order = append(order, Order{Expr: g, Desc: desc, NullsLast: desc})
		}
	}
	return order
}

// groupColumns returns the columns that expressions are, if they are those of one source.
func groupColumns(keys []expr.Expr) (ordinals []int, source int, ok bool) {
	for i, k := range keys {
		c, ok := k.(expr.Column)
		if !ok || i > 0 && c.Source != source {
			return nil, 0, false
		}
		ordinals, source = append(ordinals, c.Ordinal), c.Source
	}
	return ordinals, source, true
}

// finish puts everything above the joins: groups, order, limit and result.
func (q *query) finish(c candidate, gates []expr.Expr) (Node, error) {
	if c.finished != nil && len(gates) == 0 {
		return c.finished, nil
	}
	for _, g := range gates {
		s := operator.Step{Elements: c.node.Layout(), Expected: c.node.Estimate()}
		c.node = &gate{Filter{Unary: over(s, c.node), Pred: g}}
	}
	f := finisher{q: q, c: c, n: c.node}
	f.late()
	if q.grouped {
		if f.group(); f.err != nil {
			return nil, f.err
		}
	}
	if q.sel.Distinct {
		f.project()
		f.distinct()
		f.cursorFilter()
		f.sort()
		f.limit()
		return f.n, f.err
	}
	f.cursorFilter()
	f.sort()
	f.limit()
	f.project()
	return f.n, f.err
}

// late tests the conditions that run subqueries.
func (f *finisher) late() {
	if len(f.q.late) == 0 {
		return
	}
	s := f.step()
	f.charge(&s, f.q.late...)
	for range f.q.late {
		s.Expected.Rows *= estimate.DefaultOther
	}
	f.n = &Filter{Unary: over(s, f.n), Pred: f.slots(expr.AllOf(f.q.late))}
}

// charge adds what the subqueries in expressions cost that are evaluated for each row of a step:
// results are kept, so that each is run at most once for different values.
func (f *finisher) charge(s *operator.Step, exprs ...expr.Expr) {
	rows := s.Expected.Rows
	for _, e := range exprs {
		expr.Walk(e, func(x expr.Expr) bool {
			a, ok := x.(expr.Apply)
			if !ok {
				return true
			}
			different := 1.0
			for _, arg := range a.Args {
				different *= f.q.valuesOf(arg, f.c)
			}
			inner := a.Query.(*subquery).prepared.root.Estimate()
			once := inner.Cost
			if a.Kind == expr.Exists {
				once = inner.FirstRows(1)
			}
			s.Expected.Cost += rows*f.costs().Hash + min(rows, different)*once
			return true
		})
	}
}

// finisher builds the steps above the joins one by one.
type finisher struct {
	q   *query
	c   candidate
	n   Node
	err error
	// grouped and projected say what rows are by now: then expressions are replaced as a
	// whole, by the groups and aggregates or by the outputs they are.
	grouped, projected bool
}

// slots rewrites an expression for the rows as they are now.
func (f *finisher) slots(e expr.Expr) expr.Expr {
	var out expr.Expr
	switch {
	case f.projected:
		out = f.whole(e, f.outputAt)
	case f.grouped:
		out = f.whole(e, f.groupAt)
	default:
		out = toSlots(e, f.n.Layout())
	}
	expr.Walk(out, func(x expr.Expr) bool {
		switch x.(type) {
		case expr.Column, expr.Agg:
			if f.err == nil {
				f.err = queryError(f.q.position(x), "%[1]s is neither in GROUP BY nor in an "+
					"aggregate: add it to GROUP BY, or take one value with min(%[1]s) or "+
					"any_value(%[1]s)", x)
			}
		}
		return true
	})
	return out
}

// whole replaces the largest parts of an expression for which at knows a place.
func (f *finisher) whole(e expr.Expr, at func(expr.Expr) (expr.Slot, bool)) expr.Expr {
	return expr.Replace(e, func(x expr.Expr) (expr.Expr, bool) {
		if s, ok := at(x); ok {
			return s, true
		}
		return x, false
	})
}

func (f *finisher) outputAt(e expr.Expr) (expr.Slot, bool) {
	i := f.q.outputIndex(e)
	if i < 0 {
		return expr.Slot{}, false
	}
	return expr.Slot{I: i, Name: f.q.outputs[i].Name, Collation: expr.CollationOf(e)}, true
}

func (f *finisher) groupAt(e expr.Expr) (expr.Slot, bool) {
	if a, ok := e.(expr.Agg); ok {
		return expr.Slot{I: len(f.q.groups) + a.Index, Name: a.Name}, true
	}
	for i, g := range f.q.groups {
		if expr.Equal(g, e) {
			return expr.Slot{I: i, Name: g.String(), Collation: expr.CollationOf(g)}, true
		}
	}
	return expr.Slot{}, false
}

// step starts the step of a node over the present one.
func (f *finisher) step() operator.Step {
	return operator.Step{Elements: f.n.Layout(), Expected: f.n.Estimate()}
}

func (f *finisher) costs() *Costs { return f.q.costs() }

// group makes groups, in the cheapest way that the order of the input allows.
func (f *finisher) group() {
	q, in := f.q, f.n.Estimate()
	g := &Group{Unary: over(f.step(), f.n)}
	g.Elements = nil
	for _, k := range q.groups {
		g.Keys = append(g.Keys, f.slots(k))
		ref := ColumnRef{Source: operator.Computed, Name: k.String()}
		if c, ok := k.(expr.Column); ok {
			ref = ColumnRef{Source: c.Source, Ordinal: c.Ordinal, Name: c.String()}
		}
		g.Elements = append(g.Elements, ref)
	}
	for _, a := range q.aggregates {
		name := a.String()
		if a.Arg != nil {
			a.Arg = f.slots(a.Arg)
		}
		order := a.Order
		a.Order = nil
		for _, k := range order {
			k.Expr = f.slots(k.Expr)
			a.Order = append(a.Order, k)
		}
		g.Aggregates = append(g.Aggregates, a)
		g.Elements = append(g.Elements, ColumnRef{Source: operator.Computed, Name: name})
	}
	g.Mode = f.groupMode()
	computed := float64(len(g.Keys)) // COUNT(*) of all adds up numbers of rows
	for _, a := range g.Aggregates {
		if a.Arg != nil {
			computed++
		}
	}
	if computed > 0 {
		computed++
	}
	g.Expected.Cost = in.Cost + in.Rows*f.costs().Test*computed
	g.Expected.Rows = in.Rows
	f.charge(&g.Step, q.groups...)
	for _, a := range q.aggregates {
		f.charge(&g.Step, a.Arg)
	}
	g.Expected.Rows = q.groupCount(f.c)
	if g.Mode == GroupHash {
		g.Expected.Cost += in.Rows * f.costs().Hash
	}
	if g.Mode == GroupHash || len(q.groups) == 0 {
		g.Expected.Startup = g.Expected.Cost
	}
	f.n, f.grouped = g, true
	if having := expr.AllOf(q.having); having != nil {
		s := f.step()
		f.charge(&s, having)
		s.Expected.Rows = estimate.Clamp(s.Expected.Rows * estimate.DefaultOther)
		f.n = &Filter{Unary: over(s, f.n), Pred: f.slots(having)}
	}
}

// groupMode chooses how to group: by neighbours if the order allows it; inside each bucket
// alone if no group is in two of them.
func (f *finisher) groupMode() operator.GroupMode {
	q, p := f.q, f.c.path
	plainAccess := p != nil && p.spread() != nil && !p.repeats && p.spread().Buckets() > 1 &&
		p.skip == nil && p.limit < 0 && !p.ordered && len(q.applied) == 0
	if len(q.groups) == 0 {
		distinct := slices.ContainsFunc(q.aggregates, func(a Aggregate) bool { return a.Distinct })
		if plainAccess && !distinct {
			return operator.GroupPerBucket
		}
		return operator.GroupStreaming
	}
	columns, source, ok := groupColumns(q.groups)
	if !ok {
		return GroupHash
	}
	if plainAccess && p.sharded() && len(q.total) == 0 {
		order, _ := p.orderFrom(0)
		if groups(columns, order, source, p.rel.constants()) && p.shardsWithin(columns) {
			return operator.GroupPerBucket
		}
	}
	if groups(columns, f.c.order, source, q.constantsOf(source)) {
		return operator.GroupStreaming
	}
	return GroupHash
}

// shardsWithin says whether the bucket follows from the columns.
func (p *path) shardsWithin(columns []int) bool {
	for _, o := range p.key.Ordinals[:p.bucketColumns()] {
		if !slices.Contains(columns, o) {
			return false
		}
	}
	return true
}

// groupCount estimates the number of groups.
func (q *query) groupCount(c candidate) float64 {
	if len(q.groups) == 0 {
		return 1
	}
	if c.path != nil && c.path.skip != nil {
		return c.rows()
	}
	n := 1.0
	for _, g := range q.groups {
		n *= q.valuesOf(g, c)
	}
	return max(1, min(n, c.rows()))
}
