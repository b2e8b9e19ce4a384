package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// joinMethods appends every way to join a relation to a candidate to all, which is empty.
func (q *query) joinMethods(all []option, c candidate, r *relation, j joinTerms) (
	[]option, error) {
	q.joinsTried++
	order, keys := q.mergeOrder(c, j)
	inner, err := q.waysOf(r, order)
	full := asFullScan(err)
	if err != nil && full == nil {
		return nil, err
	}
	rows := q.joinRows(c, r, j)
	if !r.nullAware && r.kind != Full {
		if all, err = q.lookupJoins(all, c, r, j, rows); err != nil {
			return nil, err
		}
	}
	for _, in := range inner {
		if len(j.left) > 0 {
			all = append(all, q.hashJoin(c, in, r, rows))
			if m, ok := q.mergeJoin(c, in, r, rows, order, keys); ok && !r.nullAware {
				all = append(all, m)
			}
		}
		if len(j.left) == 0 || q.sel.Hints.ForceJoin == JoinLoop.String() && !r.nullAware {
			all = append(all, q.loopJoin(c, in, rows))
		}
	}
	if len(all) == 0 && full != nil {
		return nil, full
	}
	all = q.forced(all)
	for i := range all {
		all[i].relation, all[i].terms = r, j
	}
	return all, nil
}

func asFullScan(err error) *FullScanError {
	full, _ := err.(*FullScanError)
	return full
}

// forced keeps the joins of the method that a hint names, if there are any.
func (q *query) forced(all []option) []option {
	if q.sel.Hints.ForceJoin == "" {
		return all
	}
	var kept []option
	for _, c := range all {
		if c.method.String() == q.sel.Hints.ForceJoin {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		return all
	}
	return kept
}

// filterAbove tests terms of WHERE after a left, semi or anti join.
func (q *query) filterAbove(c *candidate, terms []expr.Expr) {
	s := operator.Step{Elements: c.node.Layout(), Expected: c.node.Estimate()}
	for range terms {
		s.Expected.Rows *= estimate.DefaultOther
	}
	c.node = &Filter{Unary: over(s, c.node), Pred: toSlots(expr.AllOf(terms), s.Elements)}
}

// joinRows estimates the result of a join.
func (q *query) joinRows(c candidate, r *relation, j joinTerms) float64 {
	facts := &q.facts[r.source]
	e := facts.estimator
	inner := r.foundBy(e)
	match := inner / q.valuesOfRight(e, j.right, r, inner) // rows of r for a left row
	for i := range j.left {
		match *= q.notNull(j.left[i]) * q.notNull(j.right[i])
	}
	for range j.on {
		match *= estimate.DefaultRange
	}
	left := c.rows()
	switch r.kind {
	case Semi:
		return estimate.Clamp(left * min(1, match))
	case Anti:
		return estimate.Clamp(left * max(0.1, 1-match))
	case Left:
		return max(left, left*match)
	case Full:
		return max(left, left*match) + max(0, inner-left*match)
	}
	return estimate.Clamp(left * match)
}

// valuesOf estimates the number of different values of an expression over joined rows.
func (q *query) valuesOf(x expr.Expr, c candidate) float64 {
	column, ok := x.(expr.Column)
	if !ok || q.relationOf(column.Source) == nil {
		return max(1, c.rows()*estimate.DefaultDistinct)
	}
	if q.facts == nil { // after the joins
		r := q.rels[column.Source]
		if c := r.constants(); c.Has(column.Ordinal) {
			return 1
		}
		return max(1, min(c.rows(), q.estimatorOf(r).Values(column.Ordinal)))
	}
	facts := &q.facts[column.Source]
	if facts.constants.Has(column.Ordinal) {
		return 1
	}
	return max(1, min(c.rows(), facts.estimator.Values(column.Ordinal)))
}

// valuesOfRight estimates the number of different values that expressions have together over all of
// a relation, whose own terms leave so many rows: those of the left side are about as many.
func (q *query) valuesOfRight(e *estimate.Estimator, all []expr.Expr, r *relation,
	rows float64) float64 {
	n := 1.0
	var few [4]int
	columns := few[:0]
	for _, x := range all {
		column, ok := x.(expr.Column)
		switch {
		case !ok:
			n *= max(1, rows*estimate.DefaultDistinct)
		case !q.facts[r.source].constants.Has(column.Ordinal):
			columns = append(columns, column.Ordinal)
		}
	}
	return n * e.Together(columns)
}

// notNull estimates the share of the rows in which a side of a join key is not NULL.
func (q *query) notNull(x expr.Expr) float64 {
	column, ok := x.(expr.Column)
	r := q.relationOf(column.Source)
	if !ok || r == nil || r.table == nil || restricts(r.pred, column.Source, column.Ordinal) {
		return 1
	}
	return q.facts[r.source].estimator.Selectivity([]expr.Expr{expr.IsNull{X: x, Not: true}})
}

// newJoin makes a join without method and cost.
func (q *query) newJoin(c candidate, right Node, r *relation, j joinTerms,
	e operator.Estimate) *JoinNode {
	n := &JoinNode{Kind: r.kind, Left: c.node, Right: right, NullAware: r.nullAware}
	if r.kind == Semi && c.distinct == r {
		n.Kind = Inner
	}
	both := slices.Concat(c.node.Layout(), right.Layout())
	if n.Elements = both; r.kind == Semi || r.kind == Anti {
		n.Elements = c.node.Layout()
	}
	for i := range j.left {
		n.LeftKeys = append(n.LeftKeys, toSlots(j.left[i], c.node.Layout()))
		n.RightKeys = append(n.RightKeys, toSlots(j.right[i], right.Layout()))
	}
	n.On = toSlots(expr.AllOf(j.on), both)
	n.Expected = e
	return n
}

// joined is the candidate with a join on top.
func (c candidate) joined(n *JoinNode, r *relation, single bool) candidate {
	out := candidate{node: n, set: c.set | 1<<r.source, order: c.order, distinct: c.distinct}
	out.total = c.total && (single || r.kind == Semi || r.kind == Anti)
	if r.kind == Full { // rows without a partner are last
		out.order, out.total = nil, false
	}
	return out
}

// option is a way to join: what it costs, and what it is made of. Of all the options of a step one
// is made, so that they are values without memory of their own.
type option struct {
	method   operator.JoinMethod
	estimate operator.Estimate
	relation *relation // that is joined
	terms    joinTerms
	in       candidate              // the right side, but of a lookup
	order    []operator.OrderColumn // of a merge: the order of the right side, and
	keys     []int                  // for each of its columns which key of the join it is
	lookup   lookup
}

// lookup is what a lookup join is made of.
type lookup struct {
	base       *path
	probe      []expr.Expr // see findProbe
	used       []bool
	unique     bool
	found, per float64 // rows for a probe, and what it costs
}

// build makes the join of a candidate that an option is.
func (q *query) build(c candidate, o option) (out candidate) {
	switch o.method {
	case JoinHash:
		n := q.newJoin(c, o.in.node, o.relation, o.terms, o.estimate)
		n.Method = JoinHash
		out = c.joined(n, o.relation, false)
	case JoinMerge:
		out = q.merged(c, o)
	case JoinLoop:
		out = q.looped(c, o)
	default:
		out = q.lookedUp(c, o)
	}
	if len(o.terms.above) > 0 {
		q.filterAbove(&out, o.terms.above)
	}
	return out
}

// leastLeft is how many left rows are expected at least: that there is none may be wrong.
const leastLeft = 0.5

func (q *query) hashJoin(c, in candidate, r *relation, rows float64) option {
	left, right, k := c.node.Estimate(), in.node.Estimate(), q.costs()
	e := operator.Estimate{Rows: rows}
	built := right.Cost + right.Rows*k.Hash
	if right.Cost > left.Cost && r.kind != Full { // it is read when there is a left row
		built *= min(1, max(leastLeft, left.Rows))
	}
	e.Startup = left.Startup + built
	e.Cost = left.Cost + left.Rows*k.Hash + built + rows*k.Key
	return option{method: JoinHash, estimate: e, in: in}
}

func (q *query) loopJoin(c, in candidate, rows float64) option {
	left, right, k := c.node.Estimate(), in.node.Estimate(), q.costs()
	e := operator.Estimate{Rows: rows, Startup: left.Startup + right.Cost}
	e.Cost = left.Cost + right.Cost + max(1, left.Rows)*max(1, right.Rows)*k.Test
	return option{method: JoinLoop, estimate: e, in: in}
}

// looped makes a loop join.
func (q *query) looped(c candidate, o option) candidate {
	j := &o.terms
	pairs := joinTerms{on: slices.Clone(j.on)}
	for i := range j.left {
		pairs.on = append(pairs.on, expr.Cmp{Op: expr.Eq, L: j.left[i], R: j.right[i]})
	}
	n := q.newJoin(c, o.in.node, o.relation, pairs, o.estimate)
	n.Method = JoinLoop
	return c.joined(n, o.relation, false)
}

// mergeOrder returns the order of the right side for which the left side is in order
// already, or nil, and for each of its columns which key of the join it is.
func (q *query) mergeOrder(c candidate, j joinTerms) (order []operator.OrderColumn, keys []int) {
	if len(c.order) < len(j.left) {
		return nil, nil
	}
	for _, o := range c.order[:len(j.left)] {
		at := slices.IndexFunc(j.left, func(x expr.Expr) bool {
			column, ok := x.(expr.Column)
			return ok && column.Source == o.Source && column.Ordinal == o.Ordinal
		})
		if at < 0 || slices.Contains(keys, at) {
			return nil, nil
		}
		right, ok := j.right[at].(expr.Column)
		left := j.left[at].(expr.Column)
		if !ok || right.Collation != left.Collation || q.rels[right.Source].table == nil {
			return nil, nil
		}
		w := q.orderColumn(right, o.Desc, o.NullsLast)
		order, keys = append(order, w), append(keys, at)
	}
	return order, keys
}

func (q *query) mergeJoin(c, in candidate, r *relation, rows float64,
	order []operator.OrderColumn, keys []int) (option, bool) {
	if order == nil {
		return option{}, false
	}
	constants := q.facts[r.source].constants
	n, apart, reverse := satisfied(order, in.order, in.total,
		func(operator.OrderColumn) bool { return false })
	if n < len(order) && !apart || reverse || !constants.Empty() && len(in.order) < len(order) {
		return option{}, false
	}
	left, right, k := c.node.Estimate(), in.node.Estimate(), q.costs()
	e := operator.Estimate{Rows: rows, Startup: left.Startup + right.Startup}
	e.Cost = left.Cost + right.Cost + (left.Rows+right.Rows)*k.Test + rows*k.Key
	return option{method: JoinMerge, estimate: e, in: in, order: order, keys: keys}, true
}

// merged makes a merge join.
func (q *query) merged(c candidate, o option) candidate {
	arranged := joinTerms{on: o.terms.on}
	for _, at := range o.keys {
		arranged.left = append(arranged.left, o.terms.left[at])
		arranged.right = append(arranged.right, o.terms.right[at])
	}
	n := q.newJoin(c, o.in.node, o.relation, arranged, o.estimate)
	n.Method = JoinMerge
	for i, column := range o.order {
		n.MergeOrder = append(n.MergeOrder, Order{Expr: n.LeftKeys[i], Desc: column.Desc,
			NullsLast: c.order[i].NullsLast})
	}
	return c.joined(n, o.relation, false)
}

// lookupJoins returns the joins that look the right side up by key: by each index, and by
// the rows' key, whose first columns are all compared with the left side or with
// constants, far enough to know where to look.
func (q *query) lookupJoins(all []option, c candidate, r *relation, j joinTerms, rows float64) (
	[]option, error) {
	if r.table == nil || len(j.left) == 0 {
		return all, nil
	}
	probes, err := q.probesOf(r)
	if err != nil {
		return nil, err
	}
	for _, p := range probes {
		probe, used := p.findProbe(j)
		if used == nil || p.repeats {
			continue
		}
		all = append(all, q.lookupJoin(c, lookup{base: p, probe: probe, used: used}, rows))
	}
	return all, nil
}

// findProbe returns what the first columns of a path are compared with, and which keys of the
// join that sees to, nil if it cannot be looked up.
func (p *path) findProbe(j joinTerms) (probe []expr.Expr, used []bool) {
	for i := range p.own {
		at := slices.IndexFunc(j.right, func(x expr.Expr) bool {
			c, ok := x.(expr.Column)
			return ok && c.Source == p.rel.source && c.Ordinal == p.key.Ordinals[i] &&
				c.Collation == p.key.Fields[i].Collation
		})
		if at >= 0 && (used == nil || !used[at]) {
			if l := expr.CollationOf(j.left[at]); l == 0 || l == p.key.Fields[i].Collation {
				if used == nil {
					used = make([]bool, len(j.left))
				}
				probe, used[at] = append(probe, j.left[at]), true
				continue
			}
		}
		operand, ok := conjunct.PointOn(&p.key, i, p.pred)
		if !ok || spans.IsNull(operand) || p.key.IsEach(i) {
			break
		}
		probe = append(probe, operand)
	}
	if used == nil || len(probe) < p.bucketColumns() {
		return nil, nil
	}
	return probe, used
}

func (q *query) lookupJoin(c candidate, l lookup, rows float64) option {
	base, probe := l.base, l.probe
	e, k, left := q.facts[base.rel.source].estimator, q.costs(), c.node.Estimate()
	probes := max(leastLeft, c.rows())
	// What is found for each probe: a column that is compared with a constant, too, has the
	// frequency of that.
	found := e.Entries(base.index) / max(1, e.Distinct(base.index, len(probe)))
	first, least := false, 1.0
	for i := range probe {
		o := base.key.Ordinals[i]
		if x, ok := conjunct.PointOn(&base.key, i, base.pred); ok {
			found *= e.Skew(o, x)
			first = first || i == 0
			least = min(least, e.Skew(o, x)/max(1, e.Values(o)))
		} else {
			least = min(least, 1/max(1, e.Values(o)))
		}
	}
	if len(probe) > 1 { // less than each of the columns finds alone
		found = min(found, 0.9*least*e.Entries(base.index))
	}
	risky := found
	if !first { // else its frequency is known
		risky *= e.Risk(base.index, found*probes)
	}
	per := k.Seek + risky*(k.Key+k.Test*float64(len(base.pred)))
	l.unique = len(probe) == base.own && (base.index == nil || base.index.Unique)
	if base.index == nil && l.unique {
		per = k.Fetch
	} else if !base.covering {
		per += risky * k.Fetch
	}
	waves := k.Trips(probes, k.Batch) // of many probes together
	if base.index != nil && !base.covering {
		waves *= 2
	}
	estimate := operator.Estimate{Rows: rows, Startup: left.Startup + per + k.Trips(1, 1),
		Cost: left.Cost + probes*per + waves}
	l.found, l.per = found, per
	return option{method: JoinLookup, estimate: estimate, lookup: l}
}

// lookedUp makes a lookup join.
func (q *query) lookedUp(c candidate, o option) candidate {
	l, j := &o.lookup, &o.terms
	p := new(path)
	*p = *l.base
	p.unique = l.unique
	p.estimate = operator.Estimate{Rows: max(l.found, 0.001), Cost: l.per, Startup: l.per}
	p.probe = make([]expr.Expr, len(l.probe))
	a := p.access()
	for i, x := range l.probe {
		p.probe[i] = toSlots(x, c.node.Layout())
	}
	// Keys that the probe does not ask for are compared afterwards.
	rest := joinTerms{on: slices.Clone(j.on)}
	for i := range j.left {
		if l.used[i] {
			rest.left, rest.right = append(rest.left, j.left[i]), append(rest.right, j.right[i])
		} else {
			rest.on = append(rest.on, expr.Cmp{Op: expr.Eq, L: j.left[i], R: j.right[i]})
		}
	}
	n := q.newJoin(c, a, p.rel, rest, o.estimate)
	n.Method = JoinLookup
	q.boundLookup(n, p.rel)
	return c.joined(n, p.rel, p.unique)
}

// boundLookup bounds what lookups cost by what the cheapest way to read the right side at once
// does.
func (q *query) boundLookup(n *JoinNode, r *relation) {
	notRead := func(e expr.Expr) bool { _, ok := e.(expr.Slot); return !ok }
	ways, err := q.waysOf(r, nil)
	if err != nil || slices.ContainsFunc(n.RightKeys, notRead) {
		return
	}
	for _, w := range ways {
		e := w.node.Estimate()
		cost := e.Cost + e.Rows*q.costs().Hash
		if whole := arranged(w.node, n.Right.Layout()); whole != nil &&
			(n.Whole == nil || cost < n.Bound.Cost) {
			n.Whole, n.Bound = whole, q.bound(cost)
		}
	}
}

// arranged returns a node with the elements of a layout, nil if it does not have them.
func arranged(n Node, layout []ColumnRef) Node {
	have := n.Layout()
	if slices.Equal(have, layout) {
		return n
	}
	p := &Project{Unary: over(operator.Step{Elements: layout, Expected: n.Estimate()}, n)}
	for _, c := range layout {
		i := slices.Index(have, c)
		if i < 0 {
			return nil
		}
		p.Exprs = append(p.Exprs, expr.Slot{I: i, Name: c.Name})
	}
	return p
}

// bound returns a bound of a cost. What is read is decoded, too.
func (q *query) bound(cost float64) operator.Bound {
	k := q.costs()
	return operator.Bound{Cost: cost, Seek: k.Seek, Fetch: k.Fetch, Key: k.Key + k.Decode,
		Byte: k.Byte}
}
