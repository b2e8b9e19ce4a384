package plan

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Options are what a plan depends on beside the query. The zero value is usable.
type Options struct {
	Stats Stats  // nil: nothing is known
	Costs *Costs // nil: DefaultCosts
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
	// MemoryBytes bounds each hash table of a plan; 0 leaves it to the executor.
	MemoryBytes int64
}

// Prepared is a query for which everything was decided that does not depend on values. It
// is immutable and may be bound concurrently.
type Prepared struct {
	q           *query
	root        Node
	subs        []*preparedSub
	fingerprint uint32
	cursor      []int // elements of a row that a cursor holds
	point       *Point
	direct      *Direct
	memo        atomic.Value
}

type preparedSub struct {
	prepared *Prepared
	kind     SubplanKind
	param    int
}

// Prepare plans a query. It keeps parts of sel, which must not be changed any more. The
// error is a *QueryError, *UnsupportedError or *FullScanError.
func Prepare(sel *Select, opt Options) (*Prepared, error) {
	copied := *sel
	sc := &scope{opt: opt, params: countParams(sel), listed: map[int]bool{},
		kinds: map[int]expr.Kind{}}
	q, err := resolve(&copied, nil, sc)
	if err != nil {
		return nil, err
	}
	p, err := prepareQuery(q)
	sc.close()
	return p, err
}

func prepareQuery(q *query) (p *Prepared, err error) {
	p = &Prepared{q: q}
	if p.root, err = q.plan(); err != nil {
		return nil, err
	}
	for _, s := range q.allSubs() {
		inner, err := prepareQuery(s.query)
		if err != nil {
			return nil, err
		}
		p.subs = append(p.subs, &preparedSub{inner, s.kind, s.param})
	}
	if q.page {
		p.fingerprint = q.fingerprint()
		p.setCursor()
	}
	p.findPoint()
	p.findDirect()
	return p, nil
}

// allSubs returns the subqueries that have to be run before the query, those of the
// subqueries that it joins included.
func (q *query) allSubs() []*subquery {
	all := slices.Clone(q.subs)
	for _, r := range q.rels {
		if r.sub != nil {
			all = append(all, r.sub.query.allSubs()...)
		}
	}
	return all
}

// setCursor finds the elements of a row that a cursor holds.
func (p *Prepared) setCursor() {
	q := p.q
	behind := len(q.outputs)
	if q.sel.RowKeys {
		behind += 2
	}
	for i, o := range q.total {
		at := behind + i
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

// Point returns the short way of a query that finds at most one row by a key, nil if this
// is none.
func (p *Prepared) Point() *Point { return p.point }

// Memo returns what build has returned, without calling it again: for what a caller derives
// from the query alone, always of one type. Concurrent first calls may each call build.
func (p *Prepared) Memo(build func() (any, error)) (any, error) {
	if v := p.memo.Load(); v != nil {
		return v, nil
	}
	v, err := build()
	if err == nil {
		p.memo.Store(v)
	}
	return v, err
}

// Bind decides everything that depends on values and returns a plan for one execution.
func (p *Prepared) Bind(params []expr.Value) (*Plan, error) {
	return p.BindAfter(params, p.q.sel.After)
}

// BindAfter is Bind that resumes behind the row a cursor was made for: see Plan.Cursor.
// The query must have Page. A nil cursor starts at the beginning. The error for a cursor
// that is not valid matches ErrCursor.
func (p *Prepared) BindAfter(params []expr.Value, after []byte) (*Plan, error) {
	sc := p.q.scope
	if err := sc.check(params); err != nil {
		return nil, err
	}
	vector := make([]expr.Value, sc.params+sc.values)
	copy(vector, params[:sc.params])
	return p.bind(vector, after, len(p.subs) > 0)
}

func (p *Prepared) bind(vector []expr.Value, after []byte, pending bool) (*Plan, error) {
	out := &Plan{Columns: p.q.outputs, Params: vector, prepared: p, after: after}
	if pending {
		for _, s := range p.subs {
			sub, err := s.prepared.bind(vector, nil, len(s.prepared.subs) > 0)
			if err != nil {
				return nil, err
			}
			out.Subplans = append(out.Subplans, &Subplan{Kind: s.kind, Plan: sub, Param: s.param})
		}
	}
	builder := builders.Get().(*SpanBuilder)
	defer builder.giveBack()
	b := &binder{opt: &p.q.scope.opt, params: vector, values: p.q.scope.params,
		pending: pending, builder: builder, order: p.q.total}
	b.lists = len(p.q.scope.listed) > 0
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
	root, err := p.root.bind(b)
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
	return p.prepared.bind(vector, p.after, false)
}

// Cursor returns the position behind a row of Root: see Select.After. It is nil if the
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

// Point is the short way of a query whose every key column is fixed by equality: no
// spans, no tree, only a key. It is immutable.
type Point struct {
	Table *schema.Table
	// Index is the unique index whose entry is read, nil if it is the row.
	Index *schema.Index
	// Covering says that the entry has all columns that the query uses.
	Covering bool
	// Filter is what must be true of the row besides, nil if nothing. Columns have source
	// 0 and the ordinals of the table.
	Filter expr.Expr

	fields   []keycodec.Field
	kinds    []expr.Kind
	operands []expr.Expr
}

// findPoint recognises the shape that Point is for.
func (p *Prepared) findPoint() {
	q := p.q
	if len(q.rels) != 1 || q.grouped || !q.wantsRow() || q.page || len(p.subs) > 0 {
		return
	}
	n := p.root
	if pr, ok := n.(*Project); ok {
		n = pr.Input
	}
	if l, ok := n.(*Limit); ok {
		n = l.Input
	}
	a, ok := n.(*Access)
	if !ok || !a.Point || len(a.path.operands) > maxPointColumns {
		return
	}
	for _, x := range a.path.operands {
		switch x.(type) {
		case expr.Const, expr.Param:
		default:
			return
		}
	}
	pt := &Point{Table: a.Table, Index: a.Index, Covering: a.Covering,
		fields: a.path.key.Fields[:a.path.own], operands: a.path.operands}
	for _, o := range a.path.key.Ordinals[:a.path.own] {
		pt.kinds = append(pt.kinds, kindOfColumn(a.Table.Columns[o]))
	}
	pt.Filter = conjunction(a.path.besides())
	if !takesList(pt.Filter) {
		p.point = pt
	}
}

// wantsRow reports whether the first row is returned, whatever the parameters are.
func (q *query) wantsRow() bool {
	if q.limit == nil || q.offset != nil {
		return q.offset == nil
	}
	c, ok := q.limit.(expr.Const)
	n, whole := c.AsInt()
	return ok && whole && n > 0
}

// maxPointColumns bounds the columns of a Point, whose values are kept on the stack.
const maxPointColumns = 8

// besides returns the terms that a point does not see to, a partial index's included.
func (p *path) besides() (rest []expr.Expr) {
	used := make([]bool, len(p.operands))
	for _, t := range p.rel.pred {
		seen := false
		for i, operand := range p.operands {
			c, ok := t.(expr.Cmp)
			if !ok || used[i] || c.Op != expr.Eq || !expr.Equal(c.R, operand) {
				continue
			}
			if column, ok := c.L.(expr.Column); ok && column.Ordinal == p.key.Ordinals[i] {
				used[i], seen = true, true
				break
			}
		}
		if !seen {
			rest = append(rest, t)
		}
	}
	return rest
}

// Key appends the engine key to read, of a row or, if Index is not nil, of a unique
// entry. found is false if no row can be found: a value is NULL or none of its column. It
// allocates nothing beyond the growth of pk and sk.
func (p *Point) Key(pk, sk []byte, params []expr.Value) (pk2, sk2 []byte, found bool, err error) {
	var buf [maxPointColumns]expr.Value
	values := buf[:len(p.operands)]
	for i, x := range p.operands {
		switch x := x.(type) {
		case expr.Const:
			values[i] = x.Value
		case expr.Param:
			if x.Index >= len(params) {
				return pk, sk, false, queryError(0, "parameter %d has no value", x.Index+1)
			}
			values[i] = params[x.Index]
			if !fits(values[i], p.kinds[i]) {
				return pk, sk, false, queryError(0, "parameter %d is compared with a %s",
					x.Index+1, kindName(p.kinds[i]))
			}
		}
	}
	pk, sk, found = appendKey(pk, sk, p.Table, p.Index, p.fields, values)
	return pk, sk, found, nil
}
