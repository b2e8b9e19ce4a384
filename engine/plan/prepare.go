package plan

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// Options are what a plan depends on beside the query. The zero value is usable.
type Options struct {
	Stats Stats // nil: nothing is known
	// Counter, if not nil, counts what conditions find in indexes, now.
	Counter Counter
	Costs   *Costs // nil: DefaultCosts
	// Check, if not nil, is called now and then while joins are planned. Its error ends that.
	Check func() error
	// RefuseFullScan is Hints.RefuseFullScan for every query.
	RefuseFullScan bool
	// MaxSpans bounds the spans of one access; what goes beyond is left to filters.
	// 0 is 10,000.
	MaxSpans int
	// MaxStreams bounds the streams that are merged; beyond it rows are sorted. 0 is
	// 4096.
	MaxStreams int
	// Values, if not nil, are what the parameters are likely to be, NULL if it is not known:
	// the choice between plans is made for them. The result does not depend on them.
	Values []expr.Value

	// listRows are the expected rows of the subqueries whose values are parameters, by their
	// index. They are those of one scope.
	listRows map[int]float64
	live     *estimate.Live
	// empty are the subqueries that have no value, by their parameters: the plan is for that only.
	empty []int
	// share, if not 0, is what a bound that is not known leaves of the rows.
	share float64
	// first are the semi joins whose right sides are read first, as bits in their order.
	first uint64
	// turned takes the other direction for what distinguishes rows that ORDER BY leaves equal.
	turned bool
}

// Prepared is a query for which everything was decided that does not depend on values. It
// is immutable, and may be bound concurrently.
type Prepared struct {
	id          uint64 // see ID
	q           *query
	root        Node
	subs        []*preparedSub
	fingerprint uint32
	applied     []*subquery // that are run for rows
	cursor      []int       // elements of a row that a cursor holds
	physical    *Physical
	variants    *variants // nil: values make no difference
	// resolver plans the query again when the values of its subqueries are known, nil if they
	// make no difference.
	resolver *variants
	// joined is the query with semi joins for the subqueries that have a bound, nil if none has.
	joined *Prepared
}

type preparedSub struct {
	prepared *Prepared
	*subquery
}

// Prepare plans a query. It keeps sel, which must not be changed any more. The
// error is a *QueryError, *UnsupportedError or *FullScanError.
func Prepare(sel *Select, opt Options) (*Prepared, error) {
	p, err := prepare(sel, opt)
	if err == nil {
		p.id = planIDs.Add(1)
		p.variants = p.watch(sel)
		p.resolver = p.variants
	}
	return p, err
}

// planIDs counts what Prepare has returned.
var planIDs atomic.Uint64

// ID returns a number that no other result of Prepare has: what is known about a plan elsewhere is
// found by it without keeping the plan.
func (p *Prepared) ID() uint64 { return p.id }

func prepare(sel *Select, opt Options) (*Prepared, error) {
	q, err := resolveRewritten(sel, opt)
	if err != nil {
		return nil, err
	}
	p, err := prepareQuery(q)
	if err != nil {
		return nil, err
	}
	first := uint64(0)
	if opt.first == 0 {
		first = q.worthFirst(p.root)
	}
	q.scope.close()
	if first == 0 {
		return p, nil
	}
	opt.first = first
	listed, err := prepare(sel, opt)
	if err != nil {
		return p, nil
	}
	values := 0.0 // without what the join knows of them
	for _, s := range listed.subs {
		values += s.prepared.root.Estimate().Cost
	}
	if values > p.root.Estimate().Cost {
		return p, nil
	}
	listed.joined = p
	return listed, nil
}

// resolveRewritten makes a query of a Select with its queries of FROM merged. Errors are those of
// the Select as it is: it knows where expressions stand in a text.
func resolveRewritten(sel *Select, opt Options) (*query, error) {
	facts := logical.FactsOf(sel)
	if opt.listRows = nil; facts.Nested {
		opt.listRows = map[int]float64{}
	}
	attempt := func(sel *Select) (*query, error) {
		sc := &scope{opt: opt, params: facts.Params, nested: facts.Nested}
		sc.opt.live = sc.live.Begin(opt.Counter)
		return resolve(sel, nil, nil, sc)
	}
	full, ok := logical.IsolateFullJoins(sel, facts)
	if !ok {
		return nil, &UnsupportedError{0, "FULL JOIN of more than two tables by names of columns"}
	}
	last := logical.Merged(full, facts)
	q, err := attempt(last)
	if err == nil || last == full {
		return q, err
	}
	return attempt(full) // it is more than can be merged, or its error names what the caller knows
}

func prepareQuery(q *query) (p *Prepared, err error) {
	if p = &q.scope.prepared; q != &q.scope.root {
		p = new(Prepared)
	}
	p.q = q
	q.narrow()
	for _, s := range q.allSubs() {
		if q.isApplied {
			break // the query around runs them
		}
		inner, err := prepareQuery(s.query)
		if err != nil {
			return nil, err
		}
		p.subs = append(p.subs, &preparedSub{inner, s})
		if rows := q.scope.opt.listRows; rows != nil && s.kind == SubplanList {
			rows[s.param] = inner.root.Estimate().Rows
		}
	}
	p.applied = q.allApplied()
	for _, s := range p.applied {
		if s.prepared, err = prepareQuery(s.query); err != nil {
			return nil, err
		}
		s.steady = q.scope.steady(s.prepared.root)
	}
	if p.root, err = q.plan(); err != nil {
		return nil, err
	}
	if q.page {
		p.fingerprint = logical.Fingerprint(q.sel, q.total)
		p.setCursor()
	}
	p.findPhysical()
	return p, nil
}

// allSubs returns the subqueries that have to be run before the query.
func (q *query) allSubs() []*subquery {
	return q.collect(func(q *query) []*subquery { return q.subs })
}

// allApplied returns the subqueries that are run for rows.
func (q *query) allApplied() []*subquery {
	return q.collect(func(q *query) []*subquery { return q.applied })
}

// collect returns subqueries of the query and of the subqueries that it joins.
func (q *query) collect(own func(*query) []*subquery) []*subquery {
	all := slices.Clone(own(q))
	for _, r := range q.rels {
		if r.sub != nil {
			for _, s := range r.sub.all() {
				all = append(all, s.query.collect(own)...)
			}
		}
	}
	return all
}

// steady reports whether a tree is bound in the same way for all arguments of subqueries.
func (sc *scope) steady(n Node) bool {
	switch n := n.(type) {
	case *path:
		if n.probe == nil && slices.ContainsFunc(n.pred, sc.hasArgument) {
			return false
		}
	case *JoinNode:
		if n.Whole != nil && !sc.steady(n.Whole) {
			return false
		}
	case *gate:
		if sc.hasArgument(n.Pred) {
			return false
		}
	}
	return !slices.ContainsFunc(n.Children(), func(c Node) bool { return !sc.steady(c) })
}

// setCursor finds the elements of a row that a cursor holds.
func (p *Prepared) setCursor() {
	q := p.q
	hidden := len(q.outputs)
	if q.sel.RowKeys {
		hidden += 2
	}
	for i, o := range q.total {
		at := hidden + i
		if q.sel.Distinct {
			at = q.outputIndex(o.Expr)
		}
		p.cursor = append(p.cursor, at)
	}
}

// Params returns how many parameters Bind needs.
func (p *Prepared) Params() int { return p.q.scope.params }

// Columns returns the names and expressions of the result's columns.
func (p *Prepared) Columns() []Output { return slices.Clone(p.q.outputs) }

// Bind decides everything that depends on values and returns a plan for one execution.
func (p *Prepared) Bind(params []expr.Value) (*Plan, error) {
	return p.BindAfter(params, p.q.sel.After)
}

// BindAfter is Bind that resumes after the row a cursor was made for: see Plan.Cursor.
// The query must have Page. A nil cursor starts at the beginning. The error for a cursor
// that is not valid matches ErrCursor.
func (p *Prepared) BindAfter(params []expr.Value, after []byte) (*Plan, error) {
	sc := p.q.scope
	if err := sc.check(params); err != nil {
		return nil, err
	}
	vector := make([]expr.Value, sc.params+sc.values)
	copy(vector, params[:sc.params])
	out, err := p.bind(vector, after, len(p.subs) > 0)
	if !errors.Is(err, ErrCursor) || !p.q.page || sc.opt.turned {
		return out, err
	}
	// An index that came or went since the cursor was made has turned the ties.
	opt := sc.opt
	opt.turned = true
	if other, failed := prepare(p.q.sel, opt); failed == nil {
		if out, failed := other.BindAfter(params, after); failed == nil {
			return out, nil
		}
	}
	return nil, err
}

func (p *Prepared) bind(vector []expr.Value, after []byte, pending bool) (*Plan, error) {
	out := &Plan{Columns: p.q.outputs, Params: vector, prepared: p, after: after}
	if pending {
		for _, s := range p.subs {
			sub, err := s.prepared.bind(vector, nil, len(s.prepared.subs) > 0)
			if err != nil {
				return nil, err
			}
			out.Subplans = append(out.Subplans, &Subplan{Kind: s.kind, Plan: sub, Param: s.param,
				Most: s.most, Pos: s.query.position(nil)})
		}
	}
	for _, s := range p.applied {
		out.Applied = append(out.Applied, &Applied{Kind: s.kind, Pos: s.query.position(nil), sub: s,
			params: vector})
	}
	builder := spans.NewBuilder()
	defer builder.Release()
	b := &binder{opt: &p.q.scope.opt, params: vector, values: p.q.scope.params,
		pending: pending, builder: builder, order: p.q.total}
	b.lists, b.arguments = len(p.q.scope.listed) > 0, p.q.scope.arguments
	for at := range p.q.scope.listed {
		b.listed = b.listed || at < b.values
	}
	if after != nil {
		if !p.q.page {
			return nil, fmt.Errorf("%w: the query has no pages", ErrCursor)
		}
		values, err := openCursor(after, p.fingerprint, len(p.cursor))
		if err != nil {
			return nil, err
		}
		b.after = values
	}
	root, err := b.bind(p.root)
	if err != nil {
		return nil, err
	}
	out.Root = root
	return out, nil
}

// Resolve returns the plan with the values of its Subplans, in their order. The plan it is
// called on is not changed.
func (p *Plan) Resolve(values []expr.Value) (*Plan, error) {
	if len(values) != len(p.Subplans) {
		return nil, queryError(0, "%d values for %d subqueries", len(values), len(p.Subplans))
	}
	vector := slices.Clone(p.Params)
	for i, s := range p.Subplans {
		vector[s.Param] = values[i]
	}
	out, err := p.prepared.fitResolved(vector).bind(vector, p.after, false)
	if err == nil {
		out.ran = p.Subplans
	}
	return out, err
}

// Joined returns the plan for when a subquery has more than Subplan.Most values.
func (p *Plan) Joined() (*Plan, error) {
	joined := p.prepared.joined
	out, err := joined.BindAfter(p.Params[:joined.q.scope.params], p.after)
	if err == nil {
		out.ran = p.Subplans
	}
	return out, err
}

// Cursor returns the position after a row of Root: see Select.After. It is nil if the
// query has no Page.
func (p *Plan) Cursor(row []expr.Value) []byte {
	if !p.prepared.q.page {
		return nil
	}
	values := make([]expr.Value, len(p.prepared.cursor))
	for i, at := range p.prepared.cursor {
		values[i] = row[at]
	}
	return sealCursor(p.prepared.fingerprint, values)
}
