package plan

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// scanEstimate is what reading a key costs.
type scanEstimate struct {
	fraction float64 // of the entries that are in the spans
	ranges   float64 // spans, without buckets
	buckets  float64 // partitions that each of them lies in
	bounded  bool    // some column of the key is restricted
}

// scanOf estimates the spans that terms make of a key, from the shape of the terms alone.
func (e *estimator) scanOf(p *path) scanEstimate {
	w := scanWalk{e: e, p: p, equals: map[int]expr.Expr{}}
	s := scanEstimate{ranges: 1, buckets: 1}
	s.fraction, s.ranges = w.walk(0, p.pred, 0)
	s.bounded = s.fraction < 1 || w.fixed > 0
	for _, t := range p.pred { // a range of all values that there are is a range
		s.bounded = s.bounded || len(p.key.Ordinals) > 0 && w.restricts(p.key.Ordinals[0], t)
	}
	if w.fixed < p.bucketColumns() {
		s.buckets = p.buckets()
	}
	return s
}

// bucketColumns is how many first columns decide where an entry or row lies.
func (p *path) bucketColumns() int {
	switch {
	case p.index == nil:
		return len(p.rel.table.PK)
	case p.index.Sharded():
		return max(1, p.index.ShardColumns)
	case p.index.Buckets() > 1:
		return len(p.key.Fields) + 1 // local: only the row's key distinguishes rows
	}
	return 0
}

// buckets is the number of partitions to look into if they are not decided.
func (p *path) buckets() float64 {
	if p.index == nil {
		return stripes
	}
	return float64(max(1, p.index.Buckets()))
}

// scanWalk goes through the columns of a key.
type scanWalk struct {
	e      *estimator
	p      *path
	equals map[int]expr.Expr // columns with one value on the way here
	fixed  int               // first columns that are points everywhere
}

// orDepth bounds how deep ORs are looked into.
const orDepth = 4

// walk returns the fraction of entries and the number of ranges from column i on.
func (w *scanWalk) walk(i int, terms []expr.Expr, depth int) (fraction, ranges float64) {
	if i == len(w.p.key.Fields) {
		return w.joint(), 1
	}
	ordinal := w.p.key.Ordinals[i]
	if x, ok := w.pointOn(ordinal, terms); ok {
		w.equals[ordinal] = x
		defer delete(w.equals, ordinal)
		w.note(i, depth)
		return w.walk(i+1, terms, depth)
	}
	if in, ok := w.listOn(ordinal, terms); ok {
		w.note(i, depth)
		f, r := w.walk(i+1, terms, depth)
		n := float64(len(in.List))
		if _, many := spans.IsList(in.List[0]); many && n == 1 {
			n = defaultList
		}
		return f * w.e.list(in), r * n
	}
	if or, rest, ok := w.orOn(ordinal, terms); ok && depth < orDepth {
		return w.branches(i, or, rest, depth)
	}
	var on []expr.Expr
	for _, t := range terms {
		if c, ok := soleColumnAny(t); ok && c == ordinal {
			on = append(on, t)
		}
	}
	return w.joint() * w.e.selectivity(on), 1
}

// note records that column i is a point, outside of ORs.
func (w *scanWalk) note(i, depth int) {
	if depth == 0 && w.fixed == i {
		w.fixed = i + 1
	}
}

func (w *scanWalk) joint() float64 { return w.e.allEqual(w.equals) }

// branches adds up the terms of an OR.
func (w *scanWalk) branches(i int, or expr.Or, rest []expr.Expr, depth int) (f, r float64) {
	points := true
	for _, b := range or.Terms {
		terms := conjuncts(rest[:len(rest):len(rest)], b)
		_, point := w.pointOn(w.p.key.Ordinals[i], terms)
		_, list := w.listOn(w.p.key.Ordinals[i], terms)
		points = points && (point || list)
		g, s := w.walk(i, terms, depth+1)
		f, r = f+g, r+s
	}
	if points {
		w.note(i, depth)
	}
	return min(1, f), r
}

// pointOn finds a term that leaves one value of a column.
func (w *scanWalk) pointOn(ordinal int, terms []expr.Expr) (operand expr.Expr, ok bool) {
	for _, t := range terms {
		if o, x, ok := equality(t, w.p.rel.source); ok && o == ordinal {
			return x, true
		}
	}
	return nil, false
}

// equality takes column = constant, column IS NULL and list contains constant apart.
func equality(t expr.Expr, source int) (ordinal int, operand expr.Expr, ok bool) {
	var x expr.Expr
	switch t := t.(type) {
	case expr.Cmp:
		if _, list := spans.IsList(t.R); t.Op != expr.Eq || list || !spans.IsConstant(t.R) {
			return 0, nil, false
		}
		x, operand = t.L, t.R
	case expr.IsNull:
		if t.Not {
			return 0, nil, false
		}
		x, operand = t.X, expr.Const{}
	case expr.Contains:
		if !spans.IsConstant(t.Item) {
			return 0, nil, false
		}
		x, operand = t.X, t.Item
	default:
		return 0, nil, false
	}
	c, ok := x.(expr.Column)
	return c.Ordinal, operand, ok && c.Source == source
}

// listOn finds column IN (constants).
func (w *scanWalk) listOn(ordinal int, terms []expr.Expr) (in expr.In, ok bool) {
	for _, t := range terms {
		if in, ok := listTerm(t, w.p.rel.source); ok && in.X.(expr.Column).Ordinal == ordinal {
			return in, true
		}
	}
	return expr.In{}, false
}

// listTerm takes column IN (constants) apart.
func listTerm(t expr.Expr, source int) (expr.In, bool) {
	in, ok := t.(expr.In)
	if c, cmp := t.(expr.Cmp); cmp && c.Op == expr.Eq {
		if _, ok = spans.IsList(c.R); ok {
			in = expr.In{X: c.L, List: []expr.Expr{c.R}}
		}
	}
	if !ok || in.Not || len(in.List) == 0 {
		return in, false
	}
	c, ok := in.X.(expr.Column)
	for _, item := range in.List {
		ok = ok && spans.IsConstant(item)
	}
	return in, ok && c.Source == source
}

// orOn finds an OR that restricts a column in each of its terms, and returns it and the
// other terms.
func (w *scanWalk) orOn(ordinal int, terms []expr.Expr) (or expr.Or, rest []expr.Expr, ok bool) {
	for i, t := range terms {
		x, isOr := t.(expr.Or)
		if !isOr {
			continue
		}
		restricts := true
		for _, b := range x.Terms {
			restricts = restricts && w.restricts(ordinal, b)
		}
		if restricts {
			rest = append(append(rest, terms[:i]...), terms[i+1:]...)
			return x, rest, true
		}
	}
	return expr.Or{}, nil, false
}

func (w *scanWalk) restricts(ordinal int, e expr.Expr) bool {
	for _, t := range conjuncts(nil, e) {
		if c, ok := soleColumnAny(t); ok && c == ordinal {
			return true
		}
		if _, _, ok := w.orOn(ordinal, []expr.Expr{t}); ok {
			return true
		}
	}
	return false
}

// soleColumnAny returns the column of an atom that spans can use.
func soleColumnAny(e expr.Expr) (ordinal int, ok bool) {
	var x expr.Expr
	switch e := e.(type) {
	case expr.Cmp:
		if !spans.IsConstant(e.R) || e.Op == expr.Ne {
			return 0, false
		}
		x = e.L
	case expr.In:
		if e.Not {
			return 0, false
		}
		x = e.X
	case expr.BeginsWith:
		x = e.X
	case expr.IsNull:
		x = e.X
	case expr.Contains:
		x = e.X
	}
	c, ok := x.(expr.Column)
	return c.Ordinal, ok
}

// price sets the estimates of a path.
func (p *path) price(e *estimator, c *Costs) {
	p.scan = e.scanOf(p)
	entries := e.entries(p.index)
	read, seeks := entries*p.scan.fraction, p.scan.ranges*p.scan.buckets
	p.fullScan = !p.scan.bounded && !p.readsPart()
	p.rows = clampRows(e.rows() * e.selectivity(p.rel.pred))
	switch {
	case p.point:
		read, p.rows, seeks = 1, min(1, p.rows), 1
	case p.skip != nil:
		read, seeks = p.priceSkip(e)
		p.rows = min(p.rows, read)
	}
	cost := read * (c.Key + c.Byte*e.entryBytes(p.index) + c.Test*float64(len(p.pred)))
	if !p.covering {
		cost += c.Fetch * min(read, entries*e.selectivity(p.entryTerms()))
	}
	streams := 1.0
	if p.ordered {
		streams = p.scan.buckets
		if p.fixed > 0 {
			streams *= p.scan.ranges
		}
		cost += c.mergeCost(read, int(streams))
	}
	p.estimate = Estimate{Rows: p.rows, Startup: streams * c.Seek, Cost: seeks*c.Seek + cost}
	if p.limit >= 0 {
		n := min(p.rows, float64(p.limit))
		first := p.estimate.firstRows(n * max(1, read/p.rows))
		p.estimate = Estimate{Rows: n, Startup: p.estimate.Startup, Cost: first}
	}
}

// entryTerms returns the terms that are decided before the row is fetched.
func (p *path) entryTerms() (terms []expr.Expr) {
	for _, t := range p.pred {
		var used need
		addColumns(&used, t, p.rel.source)
		if columnsWithin(used, p.entry) {
			terms = append(terms, t)
		}
	}
	return terms
}
