package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// A skip scan reads parts of an index and seeks over the rest. It pays while the seeks,
// one for each different value of the first columns, cost less than reading everything.

// maxSkipped is how many free columns in front of a condition are skipped over.
const maxSkipped = 2

// skipRanges returns the paths that serve a condition on later columns of a key whose
// first columns are free: for each of their values, the ranges after it are read.
func (q *query) skipRanges(p *path, e *estimate.Estimator) (found []*path) {
	if p.repeats {
		return nil
	}
	for m := 1; m <= maxSkipped && m < p.own; m++ {
		if restricts(p.pred, p.rel.source, p.key.Ordinals[m-1]) {
			return found
		}
		if !restricts(p.pred, p.rel.source, p.key.Ordinals[m]) || p.spread() == nil {
			continue
		}
		// A term about the column that makes no range, c + 1 = 5 for example, would read all
		// entries of each value.
		if !e.Scan(p.part(m), p.pred, p.bucketColumns(), p.buckets()).Bounded {
			continue
		}
		v := *p
		v.skip = &skipPath{columns: m,
			template: spans.Compile(p.part(m).Key, expr.AllOf(p.pred))}
		found = append(found, &v)
	}
	return found
}

// readsPart says whether a path without a range on its first column reads a part of the
// index only, whatever the rows are: with ranges after skipped columns; or the first entry
// of each group, or of all, if nothing has to be true of it.
func (p *path) readsPart() bool {
	switch {
	case p.skip != nil && p.skip.template != nil:
		return true
	case p.skip == nil && p.limit < 0, len(p.pred) > 0:
		return false
	}
	// In a unique index, each entry is a group of all its columns.
	unique := p.index == nil || p.index.Unique
	return p.skip == nil || !unique || p.skip.columns < p.own
}

// part is the key without its first columns.
func (p *path) part(from int) estimate.Part {
	key := p.key
	if from > 0 {
		key = spans.Key{Fields: key.Fields[from:], Ordinals: key.Ordinals[from:],
			Source: key.Source, Each: key.Each[min(from, len(key.Each)):]}
	}
	return estimate.Part{Key: key, Index: p.index, From: from}
}

// restricts says whether some term is about a column.
func restricts(terms []expr.Expr, source, ordinal int) bool {
	for _, t := range terms {
		if s := columnsIn(t, source); s.Has(ordinal) {
			return true
		}
	}
	return false
}

// skipSeeks is what it costs to leave a group for the next one, in seeks: all that a cursor reads
// is searched again.
const skipSeeks = 2

// priceSkip estimates a skip scan: the entries it reads, and its seeks.
func (p *path) priceSkip(e *estimate.Estimator) (read, seeks float64) {
	groups := e.Distinct(p.index, p.skip.columns)
	if p.skip.template == nil {
		entries := max(1, e.Entries(p.index)*p.scan.Fraction)
		groups = p.groupsLeft(e, groups, entries)
		spread := 1.0
		if p.bucketColumns() > p.skip.columns {
			spread = p.buckets()
		}
		// An entry that the terms are not true of is followed by the next one of its group. Of
		// columns that rise together, the terms are true of no entry of the groups elsewhere.
		all := entries / groups
		tried := min(all, max(1, p.scan.Fraction/max(e.Selectivity(p.pred), 1e-12)))
		_, within := e.Reach(p.key.Ordinals[0], false, p.pred)
		within = min(1, within/max(p.scan.Fraction, 1e-12))
		tried = tried*within + all*(1-within)
		seeks = skipSeeks*groups*spread + p.scan.Buckets // at least one for each span
		return groups * max(spread, tried), max(seeks, p.scan.Ranges*p.scan.Buckets)
	}
	s := e.Scan(p.part(p.skip.columns), p.pred, p.bucketColumns(), p.buckets())
	return max(1, e.Entries(p.index)*s.Fraction), groups*(1+s.Ranges) + p.buckets()
}

// rangeValues is how many times as large as its share of the entries the share of the values of a
// range may be.
const rangeValues = 2

// groupsLeft estimates how many of the groups of a skip scan are in the entries that it reads.
func (p *path) groupsLeft(e *estimate.Estimator, groups, entries float64) float64 {
	most := 1.0
	for i := range p.skip.columns {
		most *= e.Most(&p.key, i, p.pred)
	}
	left := min(entries, groups, rangeValues*groups*p.scan.Fraction, most)
	return max(1, left)
}

// mostSkipped returns how many seeks a skip scan may take that was expected to take so many: for
// each entry if it is not known how many values there are. It is 0 if the scan reads what was
// expected, since nothing is tested, or ranges alone.
func (p *path) mostSkipped(e *estimate.Estimator, seeks float64) float64 {
	switch {
	case p.skip == nil:
		return 0
	case !e.Fresh():
		return max(seeks, skipSeeks*e.Entries(p.index))
	case p.skip.template == nil && len(p.pred) > 0:
		return seeks
	}
	return 0
}

// skipGroups returns the paths that read one entry for each group: for DISTINCT, for groups
// without aggregates, and for MIN or MAX of the column after them.
func (q *query) skipGroups(paths []*path) (found []*path) {
	columns, source, ok := groupColumns(q.groupKeys())
	if !ok || len(columns) == 0 || len(q.rels) != 1 || len(q.late) > 0 {
		return nil
	}
	for _, p := range paths {
		if !p.ordered || p.repeats || p.fixed > 0 || p.skip != nil || p.spread() == nil {
			continue
		}
		k := p.groupPrefix(columns)
		if k == 0 || !groups(columns, p.order, source, p.rel.constants()) {
			continue
		}
		v := *p
		if v.skip = (&skipPath{columns: k}); !v.firstIsEnough(k) {
			v.reverse, v.order = !v.reverse, reversed(v.order)
			if !v.firstIsEnough(k) {
				continue
			}
		}
		found = append(found, &v)
	}
	return found
}

// groupKeys is what rows are grouped by, or made distinct.
func (q *query) groupKeys() (keys []expr.Expr) {
	if q.grouped {
		return q.groups
	}
	if q.sel.Distinct {
		for _, o := range q.outputs {
			keys = append(keys, o.Expr)
		}
	}
	return keys
}

// groupPrefix returns how many first columns of the key it takes to have all of some
// columns.
func (p *path) groupPrefix(columns []int) (k int) {
	constants := p.rel.constants()
	for _, c := range columns {
		i := slices.Index(p.key.Ordinals[:p.own], c)
		if i < 0 && !constants.Has(c) {
			return 0
		}
		k = max(k, i+1)
	}
	return k
}

// firstIsEnough says whether the first entry of a group says all about it that is asked.
func (p *path) firstIsEnough(k int) bool {
	for _, a := range p.q.aggregates {
		c, ok := a.Arg.(expr.Column)
		if !ok || k >= len(p.key.Ordinals) || c.Ordinal != p.key.Ordinals[k] {
			return false
		}
		f := p.key.Fields[k]
		first := Min // the extreme that the scan comes to first
		if f.Desc != p.reverse {
			first = Max
		}
		if a.Func != first || f.Nullable && f.NullsLast == p.reverse {
			return false
		}
	}
	return true
}
