package estimate

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// equal estimates the fraction of rows with one value in a column.
func (e *Estimator) equal(ordinal int, operand expr.Expr) float64 {
	value, _ := e.known(operand)
	return e.equalTo(ordinal, value)
}

// Skew returns how many times more frequent a value of a column is than the average one.
func (e *Estimator) Skew(ordinal int, operand expr.Expr) float64 {
	return e.equal(ordinal, operand) * max(1, e.Values(ordinal))
}

// equalTo is equal for a value, which is NULL if it is not known. A value that is not among the
// frequent ones shares what they leave with the others.
func (e *Estimator) equalTo(ordinal int, value expr.Value) float64 {
	if value.IsNull() {
		return 1 / max(1, e.Values(ordinal))
	}
	for x := range e.KeysWith(ordinal) {
		k := e.stats.Key(x)
		if k == nil || len(k.Heavy) == 0 {
			continue
		}
		if v, ok := e.encode(x, value); ok {
			for _, h := range k.Heavy {
				if string(h.Key) == string(v) {
					return h.Fraction
				}
			}
			return e.rare(ordinal, k)
		}
	}
	return 1 / max(1, e.Values(ordinal))
}

// rare estimates the fraction of rows with one value that is not among the frequent ones of a
// key. It is never zero: the value may have come after the statistics.
func (e *Estimator) rare(ordinal int, k *stats.Key) float64 {
	rest, least := 1-k.Nulls, 1.0
	for _, h := range k.Heavy {
		rest, least = rest-h.Fraction, min(least, h.Fraction)
	}
	values := e.Values(ordinal)
	others := values - float64(len(k.Heavy))
	if k.Nulls > 0 {
		others--
	}
	others = max(1, others)
	return max(min(rest/others, 1/max(1, values), least), 1/max(1, k.Entries))
}

// maxTried bounds the values of a list that are looked at: of a longer one some stand for all.
const maxTried = 256

// list estimates column IN (constants).
func (e *Estimator) list(in expr.In) float64 {
	f := 0.0
	c, ok := in.X.(expr.Column)
	step := 1 + len(in.List)/maxTried
	for i := 0; i < len(in.List); i += step {
		n := float64(min(step, len(in.List)-i))
		switch item := in.List[i]; {
		case !ok:
			f += n * DefaultDistinct
		default:
			f += n * e.item(c.Ordinal, item)
		}
	}
	if f = min(1, f); in.Not {
		return 1 - f
	}
	return f
}

// item estimates an item of a list, which may be a list itself.
func (e *Estimator) item(ordinal int, item expr.Expr) float64 {
	list, many := e.listOf(item)
	switch {
	case !many:
		return e.equal(ordinal, item)
	case list.IsNull():
		return defaultList / max(1, e.Values(ordinal))
	case list.Kind() != expr.KindList:
		return e.equalTo(ordinal, list)
	}
	f, i, step := 0.0, 0, 1+list.Len()/maxTried
	for v := range list.Elements() {
		if i%step == 0 {
			f += float64(min(step, list.Len()-i)) * e.equalTo(ordinal, v)
		}
		i++
	}
	return f
}

// listOf returns the value of an item that may be a list, NULL if it is not known.
func (e *Estimator) listOf(item expr.Expr) (list expr.Value, many bool) {
	p, many := spans.IsList(item)
	if !many {
		if param, ok := item.(expr.Param); ok && param.Index < len(e.given) {
			list = e.given[param.Index]
			return list, list.Kind() == expr.KindList
		}
		return list, false
	}
	if p.Index < len(e.given) {
		list = e.given[p.Index]
	}
	return list, true
}

// length estimates how many values a list has.
func (e *Estimator) length(items []expr.Expr) (n float64) {
	for _, item := range items {
		switch list, many := e.listOf(item); {
		case !many, list.Kind() != expr.KindList && !list.IsNull():
			n++
		case list.IsNull():
			n += defaultList
		default:
			n += float64(list.Len())
		}
	}
	return n
}
