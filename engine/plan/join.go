package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// noTables is the row of a query without FROM.
var noTables = &OneRow{Step: operator.Step{Expected: operator.Estimate{Rows: 1}}}

// joinAll returns the ways to join all relations: one for each relation, and each way to
// read it, that the joins may begin with. From there on the cheapest step is taken. Every
// join keeps the order of its left side, so the order that a plan has is that of the
// relation it begins with.
//
// A start is given up when its joins alone cost more than the whole of the best plan so far: no
// step makes a plan cheaper, but for a limit. If many cost the same, that is seen at their last
// step: after maxJoinsTried no further start is made.
//
// It may use the memory of some, which is empty.
func (q *query) joinAll(some []candidate, wants []want) ([]candidate, error) {
	if len(q.rels) == 0 {
		return append(some, candidate{node: noTables}), nil
	}
	if len(q.rels) > 1 {
		q.findFacts()
		defer func() { q.facts = nil }()
	}
	starts, err := q.starts(wants)
	if err != nil || len(q.rels) == 1 {
		return starts, err
	}
	all := make([]candidate, len(starts))
	order := make([]int, len(starts)) // the cheapest one first, so that it bounds the others
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(starts[a].cost(), starts[b].cost())
	})
	bound, bounded := math.Inf(1), q.limit == nil && !q.refusesFullScan()
	if !bounded {
		slices.Sort(order)
	}
	for _, i := range order {
		if q.joinsTried > maxJoinsTried && !math.IsInf(bound, 1) {
			break
		}
		c := starts[i]
		for bits.OnesCount64(c.set) < len(q.rels) && c.cost() <= bound {
			if check := q.scope.opt.Check; check != nil {
				if err := check(); err != nil {
					return nil, err
				}
			}
			if c, err = q.cheapestStep(c); err != nil {
				return nil, err
			}
		}
		if c.cost() > bound {
			continue
		}
		if all[i] = c; bounded {
			n, err := q.finish(c, nil)
			if err != nil {
				return nil, err
			}
			all[i].finished = n
			bound = min(bound, n.Estimate().Cost)
		}
	}
	return slices.DeleteFunc(all, func(c candidate) bool { return c.node == nil }), nil
}

// maxJoinsTried is how many joins of two are looked at until no further start is made. It takes
// some milliseconds; 25 tables, each joined with each other one, need fewer.
const maxJoinsTried = 8192

// inOrder says whether relations have to be joined in the order of FROM.
func (q *query) inOrder() bool {
	return q.sel.Hints.ForceOrder ||
		slices.ContainsFunc(q.rels, (*relation).padded)
}

// starts returns the candidates to begin with.
func (q *query) starts(wants []want) (all []candidate, err error) {
	first := 0
	if q.rels[0].kind == Left { // of a full join, the second side has all rows
		first = 1
	}
	for _, r := range q.rels {
		if r.source != first && (q.inOrder() || r.kind != Inner && !q.canLead(r)) {
			continue
		}
		own := wants
		if more := q.joinWants(r); len(more) > 0 {
			own = slices.Concat(wants, more)
		}
		if len(q.rels) == 1 {
			return q.candidates(r, own)
		}
		var found []candidate
		if len(own) == 0 { // as joins ask for the relation
			found, err = q.waysOf(r, nil)
		} else {
			found, err = q.candidates(r, own)
		}
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			if r.kind == Semi {
				c = q.unique(r, c)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// canLead says whether a semi join may begin: its right side is made unique, and the left
// side looked up by it.
func (q *query) canLead(r *relation) bool {
	if r.kind != Semi || len(r.on) == 0 {
		return false
	}
	for _, t := range r.on {
		_, right, ok := q.equiJoin(termOf(t), r.others(), 1<<r.source)
		if !ok || !isPlainColumn(right) {
			return false
		}
	}
	return true
}

// others is the set of all relations but this one.
func (r *relation) others() uint64 { return ^uint64(0) &^ (1 << r.source) }

func isPlainColumn(e expr.Expr) bool {
	c, ok := e.(expr.Column)
	return ok && c.Collation == 0
}

// unique puts a Distinct over the columns that a semi join compares.
func (q *query) unique(r *relation, c candidate) candidate {
	var exprs []expr.Expr
	var layout []ColumnRef
	var columns []int
	var collations []keycodec.Collation
	folded := false
	for _, t := range r.on {
		left, right, _ := q.equiJoin(termOf(t), r.others(), 1<<r.source)
		column := right.(expr.Column)
		// Values that the comparison takes for equal have the same partners.
		collations = append(collations, expr.CollationOfPair(left, right))
		folded = folded || collations[len(collations)-1] != keycodec.CollateBytes
		exprs = append(exprs, toSlots(right, c.node.Layout()))
		layout = append(layout,
			ColumnRef{Source: r.source, Ordinal: column.Ordinal, Name: column.String()})
		columns = append(columns, column.Ordinal)
	}
	e := q.estimatorOf(r)
	s := operator.Step{Elements: layout, Expected: c.node.Estimate()}
	p := &Project{Unary: over(s, c.node), Exprs: exprs}
	d := &Distinct{Unary: over(s, p), Columns: len(layout)}
	if folded {
		d.Collations = collations
	}
	if !folded && groups(columns, c.order, r.source, r.constants()) {
		d.Mode = DistinctStreaming
	} else {
		d.Expected.Cost += c.rows() * q.costs().Hash
	}
	values := 1.0
	for _, o := range columns {
		values *= e.Values(o)
	}
	d.Expected.Rows = min(c.rows(), values)
	return candidate{node: d, set: c.set, order: c.order, distinct: r}
}

// joinWants returns orders of a relation that a merge join could use.
func (q *query) joinWants(r *relation) (wants []want) {
	if q.facts == nil {
		return nil // there is no join
	}
	add := func(t *term) {
		_, right, ok := q.equiJoin(*t, r.others(), 1<<r.source)
		if c, plainColumn := right.(expr.Column); ok && plainColumn {
			o := q.orderColumn(c, false, false)
			if !slices.ContainsFunc(wants, func(w want) bool { return w.order[0] == o }) {
				wants = append(wants, want{order: []operator.OrderColumn{o}})
			}
		}
	}
	for _, t := range q.facts[r.source].where {
		add(t)
	}
	for i := range q.facts {
		for j := range q.facts[i].on {
			add(&q.facts[i].on[j])
		}
	}
	return wants
}

func (q *query) orderColumn(c expr.Column, desc, nullsLast bool) operator.OrderColumn {
	info, _ := q.rels[c.Source].columnOf(c.Ordinal)
	nullable := info.Nullable || q.rels[c.Source].padded()
	return operator.OrderColumn{Source: c.Source, Ordinal: c.Ordinal, Desc: desc,
		NullsLast: nullsLast && nullable, Nullable: nullable}
}

// equiJoin takes an equality between the two sides of a join apart.
func (q *query) equiJoin(t term, left, right uint64) (l, r expr.Expr, ok bool) {
	if !t.equality || t.l == 0 || t.r == 0 {
		return nil, nil, false
	}
	c := t.Expr.(expr.Cmp)
	switch {
	case t.l&^left == 0 && t.r&^right == 0:
		return c.L, c.R, true
	case t.r&^left == 0 && t.l&^right == 0:
		return c.R, c.L, true
	}
	return nil, nil, false
}

// cheapestStep joins one more relation.
func (q *query) cheapestStep(c candidate) (best candidate, err error) {
	least := option{estimate: operator.Estimate{Cost: math.Inf(1)}}
	var sides []expr.Expr // of terms that no option needs any more
	var some [4]option
	found := false
	for _, connected := range []bool{true, false} {
		for _, r := range q.rels {
			if c.set>>r.source&1 != 0 || !q.mayJoin(c, r) {
				continue
			}
			j := q.termsFor(c, r, sides)
			sides = j.sides
			if connected && len(j.left) == 0 && !q.inOrder() && r.kind == Inner {
				continue
			}
			options, err := q.joinMethods(some[:0], c, r, j)
			if err != nil {
				return best, err
			}
			for i := range options {
				o := &options[i]
				if !found || o.estimate.Cost < least.estimate.Cost {
					least, found, sides = *o, true, nil
				}
			}
			if q.inOrder() {
				break
			}
		}
		if found {
			return q.build(c, least), nil
		}
	}
	return best, queryError(0, "the tables cannot be joined in this order")
}

// mayJoin says whether the relation's condition uses only what is joined already.
func (q *query) mayJoin(c candidate, r *relation) bool {
	if r.kind == Inner {
		return true
	}
	for _, t := range q.facts[r.source].on {
		if t.set&^(c.set|1<<r.source) != 0 {
			return false
		}
	}
	return true
}

// joinTerms is the condition of one join.
type joinTerms struct {
	left, right []expr.Expr // left[i] = right[i]
	on          []expr.Expr // the rest of ON
	above       []expr.Expr // terms of WHERE for after a join that adds rows
	sides       []expr.Expr // the memory of left and right
}

// termsFor finds the terms that joining r makes testable. It uses the memory of others: sides.
func (q *query) termsFor(c candidate, r *relation, sides []expr.Expr) (j joinTerms) {
	mine := uint64(1) << r.source
	set := c.set | mine
	take := func(t term) {
		// A term on the left side alone says nothing about rows of an inner join, but which
		// partners a left row has in the others.
		if t.set&mine == 0 && r.kind == Inner || t.set&^set != 0 {
			return
		}
		if l, x, ok := q.equiJoin(t, c.set, mine); ok {
			j.left, j.right = append(j.left, l), append(j.right, x)
		} else {
			j.on = append(j.on, t.Expr)
		}
	}
	facts := &q.facts[r.source]
	n := len(facts.on)
	for _, t := range facts.where {
		if t.set&^set == 0 {
			n++
		}
	}
	if cap(sides) < 2*n {
		sides = make([]expr.Expr, 2*n)
	}
	j.sides = sides[:cap(sides)]
	j.left, j.right = sides[:0:n], sides[n:n:2*n]
	for _, t := range facts.on {
		take(t)
	}
	if r.kind == Inner && c.distinct != nil {
		for _, t := range q.facts[c.distinct.source].on {
			take(t)
		}
	}
	for _, t := range facts.where {
		switch {
		case t.set&^set != 0:
		case r.kind == Inner:
			take(*t)
		default:
			j.above = append(j.above, t.Expr)
		}
	}
	return j
}

// joinFacts is what joins ask about a relation again and again: each of it is found once for
// a query.
type joinFacts struct {
	estimator *estimate.Estimator
	constants schema.ColumnSet
	where     []*term // terms of WHERE about the relation and others
	on        []term
	ways      []way
	probes    []*path // by each index that may be used, without a probe
}

// way is the candidates for one want of a merge join, nil being none.
type way struct {
	order []operator.OrderColumn
	found []candidate
	err   error
}

// term is a condition with the relations that it is about, as bits.
type term struct {
	expr.Expr
	set uint64
	// equality says that it compares two values, of the relations in l and r.
	equality bool
	l, r     uint64
}

func termOf(e expr.Expr) term {
	t := term{Expr: e}
	if c, ok := e.(expr.Cmp); ok && c.Op == expr.Eq {
		if _, row := c.L.(expr.Row); !row {
			t.equality, t.l, t.r = true, sourcesOf(c.L), sourcesOf(c.R)
			t.set = t.l | t.r
			return t
		}
	}
	t.set = sourcesOf(e)
	return t
}

func termsOf(list []expr.Expr) []term {
	out := make([]term, len(list))
	for i, e := range list {
		out[i] = termOf(e)
	}
	return out
}

// findFacts prepares what the joins ask for.
//
// Requires: distribute was called, and subqueries are planned.
func (q *query) findFacts() {
	q.facts = make([]joinFacts, len(q.rels))
	where := termsOf(q.where)
	for i, r := range q.rels {
		f := &q.facts[i]
		f.estimator = q.estimatorOf(r)
		f.constants = r.constants()
		f.on = termsOf(r.on)
		f.where = make([]*term, 0, len(where))
		for i := range where {
			if t := &where[i]; t.set>>r.source&1 != 0 || r.kind == Full {
				f.where = append(f.where, t)
			}
		}
	}
}

// waysOf is candidates for one want, or for none, of a relation that is joined.
func (q *query) waysOf(r *relation, order []operator.OrderColumn) ([]candidate, error) {
	f := &q.facts[r.source]
	for i := range f.ways {
		if w := &f.ways[i]; slices.Equal(w.order, order) {
			return w.found, w.err
		}
	}
	var wants []want
	if order != nil {
		wants = []want{{order: order}}
	}
	found, err := q.candidates(r, wants)
	f.ways = append(f.ways, way{order, found, err})
	return found, err
}

// probesOf returns a path of a relation for each index that may be used.
func (q *query) probesOf(r *relation) ([]*path, error) {
	f := &q.facts[r.source]
	if f.probes == nil {
		var room [usualIndexes]*schema.Index
		indexes, err := q.usable(room[:0], r)
		if err != nil {
			return nil, err
		}
		for _, x := range indexes {
			f.probes = append(f.probes, q.newPath(r, x, false))
		}
	}
	return f.probes, nil
}
