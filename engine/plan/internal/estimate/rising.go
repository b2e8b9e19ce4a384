package estimate

import (
	"bytes"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// Columns in which new rows have ever larger values rise together: the rows with the smallest
// numbers have the earliest times. Without that, a limit would be expected to be reached after
// as many rows as the terms leave of any part of the table.

// surelyThere is the share of rows from which on a range is taken to have any.
const surelyThere = 5e-4

// Reach estimates where the rows that satisfy terms stand in the order of a column, or with
// reverse against it: before is the fraction of rows before the first of them, and within that
// of the rows from there on until as many as satisfy the terms have come.
func (e *Estimator) Reach(ordinal int, reverse bool, terms []expr.Expr) (before, within float64) {
	if !e.rises(ordinal) {
		return 0, 1
	}
	return e.reach(ordinal, reverse, terms, maxReached)
}

// maxReached bounds the combinations of terms of ORs that Reach looks at: an AND of ORs has as
// many as the product of their lengths.
const maxReached = 64

func (e *Estimator) reach(ordinal int, reverse bool, terms []expr.Expr, room int) (
	before, within float64) {
	within = 1
	choices := 0
	for _, t := range terms {
		if or, ok := t.(expr.Or); ok {
			choices += len(or.Terms)
		}
	}
	for i, t := range terms {
		if or, ok := t.(expr.Or); ok && choices <= room {
			b, w := e.reachOr(ordinal, reverse, terms, i, or, room/choices)
			before, within = max(before, b), min(within, w)
		}
	}
	for _, r := range e.risingRanges(terms) {
		var earlier bounds
		if reverse && !r.hi.IsNull() {
			earlier.add(expr.Gt, r.hi, true)
		} else if !reverse && !r.lo.IsNull() {
			earlier.add(expr.Lt, r.lo, true)
		}
		if !earlier.lo.IsNull() || !earlier.hi.IsNull() {
			before = max(before, e.within(r.ordinal, earlier))
		}
		if share := e.within(r.ordinal, r.bounds); share > surelyThere || e.hasEnd(r) {
			within = min(within, share)
		}
	}
	return before, min(within, 1-before)
}

// positionSlack is how far, as a share of the rows, columns that rise together may be apart.
const positionSlack = 0.005

// together corrects the estimate of terms that was made as if columns were independent: of ranges
// of columns that rise, the rows are those that the parts of the table have in common, as far as it
// is known where these are.
func (e *Estimator) together(f float64, terms []expr.Expr) float64 {
	if e.stats == nil || len(e.stats.Monotonic) < 2 || len(terms) < 2 || f == 0 {
		return f
	}
	ranges := e.risingRanges(terms)
	if len(ranges) < 2 {
		return f
	}
	parts := make([]part, len(ranges))
	least, most, product := 1.0, 1.0, 1.0
	for i, r := range ranges {
		p := e.partOf(r)
		for _, q := range parts[:i] {
			slack := p.slack + q.slack
			both := min(p.to, q.to) - max(p.from, q.from)
			least = min(least, max(0, both-slack), p.share, q.share)
			most = min(most, max(0, both+slack+positionSlack), p.share, q.share)
		}
		parts[i] = p
		product *= p.share
	}
	return f * min(max(product, least), most) / product
}

// part is where a range of a column is in the rows that are in the order of the column: from is
// the share of the rows before it, to that before its end, and slack by how much these may be
// wrong.
type part struct{ share, from, to, slack float64 }

// partOf returns where a range is.
func (e *Estimator) partOf(r columnRange) part {
	p := part{share: max(e.within(r.ordinal, r.bounds), 1e-9), to: 1}
	if !r.lo.IsNull() {
		p.from, p.slack = e.position(r.ordinal, r.lo, r.above)
	}
	if !r.hi.IsNull() {
		to, slack := e.position(r.ordinal, r.hi, !r.below)
		p.to, p.slack = to, p.slack+slack
	}
	return p
}

// position returns the share of the rows before a value, or with after up to it, and by how much it
// may be wrong: what is before and what is not are counted by blocks, or in some stripes, and may
// not add up.
func (e *Estimator) position(ordinal int, v expr.Value, after bool) (f, slack float64) {
	if e.Fresh() {
		for x := range e.KeysWith(ordinal) {
			b := bounds{hi: v, below: !after}
			if f, ok := e.histogram(x, b, math.Inf(1)); ok {
				return f, 0
			}
		}
	}
	before := e.within(ordinal, bounds{hi: v, below: !after})
	rest := e.within(ordinal, bounds{lo: v, above: after})
	return before / max(before+rest, 1e-9), math.Abs(1 - before - rest)
}

// hasEnd reports whether a range has the first or the last value of its column. Values that the
// statistics do not know are the last ones.
func (e *Estimator) hasEnd(r columnRange) bool {
	for x := range e.KeysWith(r.ordinal) {
		k := e.stats.Key(x)
		if k == nil {
			continue
		}
		var room [2 * shortBytes]byte
		if lo, hi, ok := e.encodeBounds(room[:], x, 0, r.bounds); ok {
			later := r.hi.IsNull() && (e.rows > 0 || e.stats.Sampled > 0) &&
				k.Histogram.Outside(lo, hi)
			return later || k.Histogram.HasEnd(lo, hi)
		}
	}
	return false
}

// reachOr is Reach of the term of an OR whose first row comes first. What is before that row has
// none of the others, which may be many more.
func (e *Estimator) reachOr(ordinal int, reverse bool, terms []expr.Expr, at int, or expr.Or,
	room int) (before, within float64) {
	first := math.Inf(1)
	rest := slices.Delete(slices.Clone(terms), at, at+1)
	all := e.Selectivity(terms)
	for _, t := range or.Terms {
		branch := expr.Terms(rest[:len(rest):len(rest)], t)
		b, w := e.reach(ordinal, reverse, branch, room)
		share := max(e.Selectivity(branch), 1e-12)
		if f := b + w/max(1, e.Rows()*share); f < first {
			first, before, within = f, min(1, f), min(1, w*max(1, all/share))
		}
	}
	return before, within
}

// risingRanges returns the ranges of columns that rise, as far as they are known.
func (e *Estimator) risingRanges(terms []expr.Expr) []columnRange {
	var ranges []columnRange
	for _, t := range terms {
		c, ok := t.(expr.Cmp)
		if !ok || !spans.IsConstant(c.R) {
			continue
		}
		column, ok := c.L.(expr.Column)
		v, known := e.known(c.R)
		if !ok || !known || !e.rises(column.Ordinal) {
			continue
		}
		at := slices.IndexFunc(ranges, func(r columnRange) bool {
			return r.ordinal == column.Ordinal
		})
		if at < 0 {
			at, ranges = len(ranges), append(ranges, columnRange{ordinal: column.Ordinal})
		}
		if c.Op == expr.Eq {
			ranges[at].add(expr.Ge, v, true)
			ranges[at].add(expr.Le, v, true)
		}
		ranges[at].add(c.Op, v, true)
	}
	return ranges
}

// FirstShare returns the share of the value of the first column of a key that comes first in
// its order, or with reverse last, if it is a frequent one.
func (e *Estimator) FirstShare(x *schema.Index, reverse bool) float64 {
	k := e.stats.Key(x)
	if k == nil || len(k.Histogram.Bounds) == 0 {
		return 0
	}
	end := k.Histogram.Bounds[0]
	if reverse {
		end = k.Histogram.Bounds[len(k.Histogram.Bounds)-1]
	}
	if null, ok := e.null(x, 0); ok && bytes.HasPrefix(end, null) {
		return k.Nulls
	}
	for _, h := range k.Heavy {
		if !bytes.HasPrefix(end, h.Key) {
			continue
		}
		if f, ok := e.countedValue(x, h.Key); ok && !e.Fresh() {
			return f // rows that came since may have other values
		}
		return h.Fraction
	}
	return 0
}

// rises reports whether new rows have had ever larger values of a column.
func (e *Estimator) rises(ordinal int) bool {
	return e.stats != nil && slices.Contains(e.stats.Monotonic, ordinal)
}
