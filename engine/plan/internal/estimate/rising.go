package estimate

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// Columns of which new rows have ever larger values rise together: the rows with the smallest
// numbers have the earliest times. Without that, a limit would be expected to be reached after
// as many rows as the terms leave of any part of the table.

// Before estimates the fraction of rows that stand before the first one that satisfies terms, in
// the order of a column, or with reverse against it.
func (e *Estimator) Before(ordinal int, reverse bool, terms []expr.Expr) float64 {
	if !e.rises(ordinal) {
		return 0
	}
	most := 0.0
	for _, t := range terms {
		if or, ok := t.(expr.Or); ok {
			first := 1.0
			for _, b := range or.Terms {
				first = min(first, e.Before(ordinal, reverse, conjunct.Split(nil, b)))
			}
			most = max(most, first)
			continue
		}
		c, ok := t.(expr.Cmp)
		if !ok || !spans.IsConstant(c.R) {
			continue
		}
		column, ok := c.L.(expr.Column)
		v, known := e.known(c.R)
		if !ok || !known || !e.rises(column.Ordinal) {
			continue
		}
		var before bounds
		switch {
		case c.Op != expr.Eq && (c.Op == expr.Gt || c.Op == expr.Ge) == reverse:
			continue
		case reverse:
			before.add(expr.Gt, v, true)
		default:
			before.add(expr.Lt, v, true)
		}
		most = max(most, e.within(column.Ordinal, before))
	}
	return most
}

// rises reports whether new rows have had ever larger values of a column.
func (e *Estimator) rises(ordinal int) bool {
	return e.stats != nil && slices.Contains(e.stats.Monotonic, ordinal)
}
