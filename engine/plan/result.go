package plan

import (
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// ties returns what distinguishes result rows that ORDER BY leaves equal.
func (q *query) ties() (ties []expr.Expr) {
	switch {
	case q.grouped:
		return q.groups
	case q.sel.Distinct:
		for _, o := range q.outputs {
			ties = append(ties, o.Expr)
		}
		return ties
	}
	for _, r := range q.rels[:len(q.sel.From)] {
		if r.kind == Semi || r.kind == Anti {
			continue
		}
		for _, k := range estimate.KeyColumns(r.table, nil) {
			ties = append(ties, q.column(r.source, k.Ordinal))
		}
	}
	return ties
}

// tieOrder completes the order of a query with cursors to one in which no two rows are
// equal. The direction is that in which an index delivers both, if there is one.
func (q *query) tieOrder() {
	q.total = slices.Clone(q.order)
	if !q.page {
		return
	}
	turned := len(q.order) > 0 && q.order[len(q.order)-1].Desc
	if !q.hasIndexFor(q.withTies(turned)) && q.hasIndexFor(q.withTies(!turned)) {
		turned = !turned
	}
	q.total = q.withTies(turned != q.scope.opt.turned)
}

// withTies appends the ties to ORDER BY: in the order of the rows' keys or against it.
func (q *query) withTies(turned bool) []Order {
	total := slices.Clone(q.order)
	for _, t := range q.ties() {
		if slices.ContainsFunc(total, func(o Order) bool { return expr.Equal(o.Expr, t) }) {
			continue
		}
		o := Order{Expr: t}
		if c, ok := t.(expr.Column); ok && !q.grouped && !q.sel.Distinct {
			for _, k := range estimate.KeyColumns(q.rels[c.Source].table, nil) {
				if k.Ordinal == c.Ordinal {
					o.Desc, o.NullsLast = k.Desc, k.NullsLast
				}
			}
		}
		if turned {
			o.Desc, o.NullsLast = !o.Desc, !o.NullsLast
		}
		total = append(total, o)
	}
	return total
}

// hasIndexFor says whether some index delivers an order of one table.
func (q *query) hasIndexFor(order []Order) bool {
	columns, ok := q.columnOrder(order)
	if !ok || len(q.rels) != 1 {
		return false
	}
	r := q.rels[0]
	var room [usualIndexes]*schema.Index
	indexes, err := q.usable(room[:0], r)
	if err != nil {
		return false
	}
	for _, x := range indexes {
		p := &path{q: q, rel: r, index: x, key: keyFor(r, x)}
		if len(q.variants(nil, p, []want{{order: columns}}, 0)) > 1 {
			return true
		}
	}
	return false
}

// sort puts the rows in order, unless they are.
func (f *finisher) sort() {
	order := f.q.total
	prefix := f.ordered()
	if prefix == len(order) {
		return
	}
	s := &Sort{Unary: over(f.step(), f.n), Prefix: prefix, Limit: -1}
	for _, o := range order {
		f.charge(&s.Step, o.Expr)
		o.Expr = f.slots(o.Expr)
		s.Keys = append(s.Keys, o)
	}
	f.priceSort(&s.Expected, order[:prefix])
	f.n = s
}

// priceSort adds what it costs to sort the groups of rows that are equal in the first terms of an
// order: one of all rows without any.
func (f *finisher) priceSort(e *operator.Estimate, prefix []Order) {
	c, wanted := f.costs(), f.wanted()
	if len(prefix) == 0 {
		e.Cost += c.SortCost(e.Rows, wanted)
		e.Startup = e.Cost
		return
	}
	groups, first := f.groupsWithin(prefix, wanted)
	// The first group is read to its end, wherever its rows stand.
	read := max(e.FirstRows(first*e.Rows), first*e.Cost)
	e.Startup = read + c.SortCost(first*e.Rows, wanted)
	e.Cost += groups * c.SortCost(e.Rows/groups, wanted)
	e.Lead, e.LeadCost = 0, 0
}

// unknownGroups is how many groups there are taken to be at most if nothing is known of the values:
// they may be few and large, so that a plan that ends after the first one is tried before another
// one rather than chosen.
const unknownGroups = 2

// groupsWithin estimates how many groups are equal in terms that the rows are in the order of, and
// the share of the first one, or of an average one if it may be too small for so many wanted rows.
func (f *finisher) groupsWithin(prefix []Order, wanted int64) (groups, first float64) {
	groups = 1
	for _, o := range prefix {
		groups *= f.q.valuesOf(o.Expr, f.c)
	}
	if p := f.c.path; p != nil {
		columns := 0
		for _, o := range prefix {
			at := slices.Index(p.key.Ordinals, o.Expr.(expr.Column).Ordinal)
			columns = max(columns, at+1)
		}
		e := f.q.estimatorOf(p.rel)
		groups = min(groups, e.Distinct(p.index, min(columns, p.own)))
		if e.Vague(nil) {
			groups = min(groups, unknownGroups)
		}
		if p.fixed == 0 && !restricts(p.pred, p.rel.source, p.key.Ordinals[0]) {
			first = e.FirstShare(p.index, p.reverse)
		}
	}
	rows := f.n.Estimate().Rows
	groups = max(1, min(groups, rows))
	if first == 0 || first*rows < float64(wanted) {
		first = max(first, 1/groups)
	}
	return groups, first
}

// wanted is how many rows LIMIT and OFFSET ask for, as far as is known; negative is all.
func (f *finisher) wanted() int64 {
	limit := f.q.constantCount(f.q.limit, -1)
	if limit < 0 {
		return -1
	}
	return limit + f.q.constantCount(f.q.offset, 0)
}

// assumedLimit is taken for a LIMIT that is a parameter.
const assumedLimit = 20

func (q *query) constantCount(e expr.Expr, none int64) int64 {
	switch e := e.(type) {
	case expr.Const:
		if n, ok := e.AsInt(); ok && n >= 0 {
			return min(n, math.MaxInt32)
		}
	case expr.Param:
		return assumedLimit
	}
	return none
}

// ordered returns in the order of how many first terms of ORDER BY the rows come anyway.
func (f *finisher) ordered() int {
	order := f.q.total
	if f.c.path != nil && f.c.path.point || f.n.Estimate().Rows <= 1 && f.isSingle() {
		return len(order)
	}
	if g := f.groupNode(); len(f.q.columns) == 0 || g != nil && g.Mode != operator.GroupStreaming {
		return 0
	}
	n, apart, reverse := satisfied(f.q.columns, f.c.order, f.c.total, f.isConstant)
	switch {
	case reverse:
		return 0
	case apart || f.q.grouped && n > 0 && f.coversGroups(order[:n]):
		return len(order)
	}
	return n
}

// isSingle says whether there is one group only.
func (f *finisher) isSingle() bool { return f.grouped && len(f.q.groups) == 0 }

func (f *finisher) groupNode() *Group {
	n := f.n
	for {
		switch x := n.(type) {
		case *Group:
			return x
		case *Filter:
			n = x.Input
		case *resume:
			n = x.Input
		case *Project:
			n = x.Input
		case *Distinct:
			n = x.Input
		default:
			return nil
		}
	}
}

// coversGroups says whether an order contains all columns of GROUP BY: then what stands
// after them does not matter.
func (f *finisher) coversGroups(order []Order) bool {
	for _, g := range f.q.groups {
		if !slices.ContainsFunc(order, func(o Order) bool { return expr.Equal(o.Expr, g) }) {
			return false
		}
	}
	return true
}

func (f *finisher) isConstant(c operator.OrderColumn) bool {
	r := f.q.relationOf(c.Source)
	if r == nil || r.kind != Inner {
		return false
	}
	constants := r.constants()
	return constants.Has(c.Ordinal)
}

// cursorFilter makes a place for the terms of a cursor: in the access itself where columns
// of one table are ordered by, so that it can begin there, else after everything that
// makes rows.
func (f *finisher) cursorFilter() {
	if !f.q.page {
		return
	}
	if len(f.q.columns) > 0 && len(f.q.columns) == len(f.q.total) && !f.grouped && !f.projected {
		if n := takingAfter(f.n); n != nil {
			f.n = n
			return
		}
	}
	s := f.step()
	s.Expected.Rows = estimate.Clamp(s.Expected.Rows * estimate.DefaultOther)
	r := &resume{Filter: Filter{Unary: over(s, f.n)}}
	f.n = r
	for _, o := range f.q.total {
		r.keys = append(r.keys, f.slots(o.Expr))
	}
}

// takingAfter returns an access, or gates over one, with the terms of a cursor in its predicate;
// nil if it is something else.
func takingAfter(n Node) Node {
	switch n := n.(type) {
	case *gate:
		if in := takingAfter(n.Input); in != nil {
			g := *n
			g.Input = in
			return &g
		}
	case *path:
		if n.skip == nil {
			p := *n
			p.takesAfter = true
			return &p
		}
	}
	return nil
}

// limit cuts the result.
//
// A limit over a join is not surely reached as early as the estimated rows say: columns of two
// tables may have to do with each other, which statistics do not know. Then all is read.
func (f *finisher) limit() {
	const limitDoubt = 0.03 // share of joins for which all is read
	q := f.q
	if q.limit == nil && q.offset == nil {
		return
	}
	n := &limit{Limit{Unary: over(f.step(), f.n), Count: -1}, q.limit, q.offset}
	if wanted := f.wanted(); wanted >= 0 {
		first := n.Expected.FirstRows(float64(wanted))
		if len(q.rels) > 1 {
			first += limitDoubt * (n.Expected.Cost - first)
		}
		n.Expected.Cost = first
		n.Expected.Rows = min(n.Expected.Rows, float64(wanted))
	}
	f.n = n
}

// project computes the result: the columns, the row's key if that is asked for, and what a
// cursor needs.
func (f *finisher) project() {
	q := f.q
	exprs := make([]expr.Expr, 0, len(q.outputs))
	layout := make([]ColumnRef, 0, len(q.outputs))
	for _, o := range q.outputs {
		exprs = append(exprs, f.slots(o.Expr))
		ref := ColumnRef{Source: operator.Computed, Name: o.Name}
		if c, ok := o.Expr.(expr.Column); ok {
			ref.Source, ref.Ordinal = c.Source, c.Ordinal
		}
		layout = append(layout, ref)
	}
	if q.sel.RowKeys {
		for i, l := range f.n.Layout() {
			if l.Ordinal == operator.RowPK || l.Ordinal == operator.RowSK {
				exprs = append(exprs, expr.Slot{I: i, Name: l.Name})
				layout = append(layout, l)
			}
		}
	}
	if q.page && !q.sel.Distinct {
		for _, o := range q.total {
			exprs = append(exprs, f.slots(o.Expr))
			layout = append(layout, ColumnRef{Source: operator.Computed, Name: "cursor"})
		}
	}
	f.projected = true
	if f.err != nil || isIdentity(exprs, f.n.Layout()) {
		return
	}
	s := f.step()
	s.Elements = layout
	for _, o := range q.outputs {
		f.charge(&s, o.Expr)
	}
	f.n = &Project{Unary: over(s, f.n), Exprs: exprs}
}

// isIdentity says whether a projection would return its input.
func isIdentity(exprs []expr.Expr, layout []ColumnRef) bool {
	if len(exprs) != len(layout) {
		return false
	}
	for i, e := range exprs {
		if s, ok := e.(expr.Slot); !ok || s.I != i {
			return false
		}
	}
	return true
}

// distinct leaves out repeated rows.
func (f *finisher) distinct() {
	q := f.q
	d := &Distinct{Unary: over(f.step(), f.n), Columns: len(q.outputs)}
	var keys []expr.Expr
	for _, o := range q.outputs {
		keys = append(keys, o.Expr)
		d.Collations = append(d.Collations, expr.CollationOf(o.Expr))
	}
	columns, source, ok := groupColumns(keys)
	if ok && !q.grouped && groups(columns, f.c.order, source, q.constantsOf(source)) {
		d.Mode = DistinctStreaming
	} else {
		d.Expected.Cost += d.Expected.Rows * f.costs().Hash
	}
	n := 1.0
	for _, k := range keys {
		n *= q.valuesOf(k, f.c)
	}
	d.Expected.Rows = max(1, min(d.Expected.Rows, n))
	f.n = d
}

func (q *query) constantsOf(source int) (c schema.ColumnSet) {
	if r := q.relationOf(source); r != nil && r.kind == Inner {
		c = r.constants()
	}
	return c
}
