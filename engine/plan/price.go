package plan

import (
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// bucketColumns is how many first columns decide where an entry or row lies.
func (p *path) bucketColumns() int {
	switch x := p.spread(); {
	case x == nil:
		return len(p.rel.table.PK)
	case x.Sharded():
		return max(1, x.ShardColumns)
	case x.Buckets() > 1:
		return len(p.key.Fields) + 1 // local: only the row's key distinguishes rows
	}
	return 0
}

// buckets is the number of partitions to look into if they are not decided.
func (p *path) buckets() float64 {
	x := p.spread()
	if x == nil {
		return p.q.costs().AllTrees()
	}
	return float64(max(1, x.Buckets()))
}

// withoutRows is the share of Costs.Stripe that a stripe without rows of the table takes: 320 ns if
// they are sought in a memtable, 80 if files do not have the key, and 40 of each scan after the
// first, which knows that the stripe lacks them; 400 with rows.
// Of a stripe whose rows are counted alone, it takes countedShare.
const (
	withoutRows  = 0.1
	countedShare = 0.25
)

// imageBytes is up to which size a table that is read again is sorted in memory.
const imageBytes = 512 << 10

// seekCost is what it costs to find the first keys of what is read. Why not less in order: then a
// block of each stripe is read before the first row.
func (p *path) seekCost(e *estimate.Estimator, c *Costs, seeks float64) float64 {
	all := c.AllTrees()
	small := e.Rows()*e.EntryBytes(p.index) < imageBytes
	if p.skip != nil || p.spread() != nil || p.ordered && !small || p.scan.Buckets != all {
		return seeks * c.Seek
	}
	without := math.Exp(-e.Rows() / all) // the share of the stripes
	each := c.Stripe * (1 - (1-withoutRows)*without)
	if p.counts {
		each *= countedShare
	}
	return p.scan.Ranges * (c.Seek + (all-1)*each)
}

// price sets the estimates of a path.
func (p *path) price(e *estimate.Estimator, c *Costs) {
	p.left = 1
	p.priceOf(e, c)
}

// priceOf is price for a share of the rows that zones leave.
func (p *path) priceOf(e *estimate.Estimator, c *Costs) {
	p.scan = e.Scan(p.part(0), p.pred, p.bucketColumns(), p.buckets())
	if share := p.bucketShare(); share < 1 && p.scan.Buckets > 1 {
		p.scan.Buckets = max(1, p.scan.Buckets*share)
		p.scan.Fraction, p.scan.Bounded = p.scan.Fraction*share, true
	}
	entries := e.Entries(p.index)
	read, seeks := entries*p.scan.Fraction, p.scan.Ranges*p.scan.Buckets
	p.fullScan = !p.scan.Bounded && !p.readsPart()
	p.rows = p.rel.foundBy(e)
	switch {
	case p.point:
		read, p.rows, seeks = 1, min(1, p.rows), 1
	case p.skip != nil:
		read, seeks = p.priceSkip(e)
		p.rows = min(p.rows, read)
		if p.skip.template == nil && len(p.pred) > 0 {
			read += skipDoubt * max(0, entries*p.scan.Fraction-read)
		}
	}
	var cost float64
	p.estimate, cost = p.reading(e, c, read, seeks)
	if p.skip != nil && p.skip.template != nil { // the rows may be in its last groups
		p.estimate.Startup += seeks / 2 * c.Seek
	}
	if p.fixed == 0 && (p.ordered || p.scan.Buckets <= 1) { // it is read in the order of its key
		p.reach(e, cost)
	}
	p.whole, p.exact = p.estimate.Cost, p.rows >= 0.99*read
	if most := p.mostSkipped(e, seeks); most > 0 {
		worst := *p
		all, _ := worst.reading(e, c, max(read, entries*p.scan.Fraction), most)
		p.whole, p.exact = all.Cost, false
	}
	if p.limit >= 0 {
		n := min(p.rows, float64(p.limit))
		first := p.estimate.FirstRows(n)
		p.estimate = operator.Estimate{Rows: n, Startup: p.estimate.Startup, Cost: first}
	}
}

// reading returns what it costs to read so many entries after so many seeks, and how much of it is
// not for these.
func (p *path) reading(e *estimate.Estimator, c *Costs, read, seeks float64) (
	sum operator.Estimate, cost float64) {
	left := max(read*p.left, min(read, p.rows)) // what is found is read
	skipped := (read - left) * c.Zone
	cost, read = skipped, left
	p.reads = read
	cost += read * (c.Key + c.Byte*e.EntryBytes(p.index) + c.Test*float64(len(p.pred)))
	decoded := read
	switch {
	case p.counts:
		decoded = 0
	case p.index == nil:
		decoded = min(read, p.rows) // a row is tested before
	}
	cost += decoded * c.Decode
	if cost += c.Trips(read, c.Page); p.skip != nil { // one group after the other
		cost += c.Trips(seeks, 1)
	}
	streams, startup := 1.0, 0.0
	if !p.covering {
		var room [4]expr.Expr
		terms := p.entryTermsBy(room[:0], p.pred, p.rel.columnsOf)
		fetched := min(read, e.Entries(p.index)*e.Selectivity(terms))
		p.reads += fetched
		cost += c.Fetch*fetched + c.Trips(fetched, c.Batch)
		if len(terms) < len(p.pred) { // not every one makes a row
			startup = c.Fetch * min(fetched, firstFetch)
		}
	}
	if p.ordered {
		streams = p.scan.Buckets
		if p.fixed > 0 {
			streams *= p.scan.Ranges
		}
		cost += c.MergeCost(read, int(streams))
		if blocks := read * e.EntryBytes(p.index) / blockBytes; streams > 1 {
			startup += skipped / (1 + blocks/streams) // to the first block of each
		}
	}
	seek := p.seekCost(e, c, seeks)
	return operator.Estimate{Rows: p.rows, Startup: min(streams*c.Seek, seek) + startup,
		Cost: seek + cost}, cost
}

// firstFetch is how many rows are fetched at once at first, and blockBytes the usual size of a
// block of rows.
const (
	firstFetch = 32
	blockBytes = 4096
)

// skipDoubt is the share of the entries that are expected to be tried for the first one of their
// group for which terms are true: those may be together, elsewhere.
const skipDoubt = 0.03

// reach sets where in the order of the path, of the part of the key that is read, the wanted rows
// lie, see estimate.Reach. cost is that of reading all.
func (p *path) reach(e *estimate.Estimator, cost float64) {
	at := 0 // the first column that is not the same everywhere
	constants := p.rel.constants()
	for ; at < len(p.key.Ordinals); at++ {
		if !constants.Has(p.key.Ordinals[at]) {
			break
		}
	}
	if at == len(p.key.Ordinals) {
		return
	}
	if restricts(p.pred, p.rel.source, p.key.Ordinals[at]) {
		p.lead(e, at, cost)
		if at == 0 && p.estimate.Lead == 0 {
			p.reachWithin(e, cost)
		}
		return
	}
	before, within := e.Reach(p.key.Ordinals[at], p.reverse != p.key.Fields[at].Desc, p.pred)
	next := at + 1
	for next < len(p.key.Ordinals) && constants.Has(p.key.Ordinals[next]) {
		next++
	}
	if at == 0 && before == 0 && next < len(p.key.Ordinals) {
		// Of a frequent first value, the first rows are those in the order of the next column.
		first := e.FirstShare(p.index, p.reverse)
		b, w := e.Reach(p.key.Ordinals[next], p.reverse != p.key.Fields[next].Desc, p.pred)
		before = first * b
		within = min(within, 1-before)
		p.estimate.Lead, p.estimate.LeadCost = first, cost*first*w
	}
	p.estimate.Startup += cost * before
	p.estimate.Tail = cost * (1 - before - within)
}

// reachWithin is reach for a first column that terms restrict: what lies before the wanted rows, of
// the part that is read.
func (p *path) reachWithin(e *estimate.Estimator, cost float64) {
	var own []expr.Expr
	for _, t := range p.pred {
		if o, ok := conjunct.Restricted(t); ok && o == p.key.Ordinals[0] {
			own = append(own, t)
		}
	}
	reverse := p.reverse != p.key.Fields[0].Desc
	start, _ := e.Reach(p.key.Ordinals[0], reverse, own)
	before, within := e.Reach(p.key.Ordinals[0], reverse, p.pred)
	part := max(p.scan.Fraction, 1e-9)
	before = min(1, max(0, before-start)/part)
	within = min(1-before, within/part)
	p.estimate.Startup += cost * before
	p.estimate.Tail = cost * (1 - before - within)
}

// lead finds a term of an OR that is true of the beginning of the order, which column at of the key
// makes: its rows come together at first.
func (p *path) lead(e *estimate.Estimator, at int, cost float64) {
	f := &p.key.Fields[at]
	if f.Nullable {
		return
	}
	for i, t := range p.pred {
		or, ok := t.(expr.Or)
		if !ok {
			continue
		}
		rest := 1.0
		for _, branch := range or.Terms {
			terms := expr.Terms(nil, branch)
			if !begins(terms, p.key.Ordinals[at], p.reverse != f.Desc) {
				continue
			}
			if rest == 1 && len(p.pred) > 1 {
				rest = e.Selectivity(slices.Concat(p.pred[:i], p.pred[i+1:]))
			}
			share := e.Selectivity(terms)
			if lead := min(1, e.Rows()*share*rest/max(p.rows, 1e-9)); lead > p.estimate.Lead {
				p.estimate.Lead = lead
				p.estimate.LeadCost = cost * min(1, share/max(p.scan.Fraction, 1e-9))
			}
		}
	}
}

// begins reports whether terms bound a column on that side alone that is read last.
func begins(terms []expr.Expr, ordinal int, reverse bool) bool {
	return !slices.ContainsFunc(terms, func(t expr.Expr) bool {
		c, ok := t.(expr.Cmp)
		column, also := c.L.(expr.Column)
		if !ok || !also || column.Ordinal != ordinal || !spans.IsConstant(c.R) {
			return true
		}
		if reverse {
			return c.Op != expr.Gt && c.Op != expr.Ge
		}
		return c.Op != expr.Lt && c.Op != expr.Le
	})
}

// entryTerms returns those of the terms that are decided before the row is fetched.
func (p *path) entryTerms(all []expr.Expr) []expr.Expr {
	return p.entryTermsBy(nil, all, func(t expr.Expr) schema.ColumnSet {
		return columnsIn(t, p.rel.source)
	})
}

// entryTermsBy appends what entryTerms returns, with what is known of the columns of terms.
func (p *path) entryTermsBy(terms, all []expr.Expr,
	columns func(expr.Expr) schema.ColumnSet) []expr.Expr {
	for _, t := range all {
		if columns(t).Within(p.entry) {
			terms = append(terms, t)
		}
	}
	return terms
}
