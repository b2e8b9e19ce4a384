package estimate

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// With returns the estimator for other values of parameters. It counts again, but only if the
// statistics are not of the rows that there are, or if that is asked for.
func (e *Estimator) With(given []expr.Value, count bool) Estimator {
	out := e.refreshed(count)
	out.given = given
	return out
}

// minSkew is how many times more frequent a value has to be than a rare one of its column for
// plans to depend on the value.
const minSkew = 4

// Depends reports whether the estimate of terms, which all are about one column, depends on the
// values of parameters.
func (e *Estimator) Depends(ordinal int, terms []expr.Expr) bool {
	if e.table == nil || !slices.ContainsFunc(terms, hasParam) {
		return false
	}
	equal := 0
	for _, t := range terms {
		c, ok := t.(expr.Cmp)
		if _, list := spans.IsList(c.R); list {
			return true
		}
		if _, list := t.(expr.In); list {
			return true
		}
		if ok && c.Op == expr.Eq {
			equal++
			for range e.KeysWith(ordinal) {
				if e.rows > 0 {
					return true
				}
			}
			continue
		}
		for range e.KeysWith(ordinal) {
			return true
		}
	}
	for x := range e.KeysWith(ordinal) {
		if k := e.stats.Key(x); k != nil && len(k.Heavy) > 0 {
			return equal > 1 || k.Heavy[0].Fraction > minSkew*e.rare(ordinal, k)
		}
	}
	return false
}

func hasParam(e expr.Expr) bool {
	return expr.Has(e, func(x expr.Expr) bool {
		_, ok := x.(expr.Param)
		return ok
	})
}
