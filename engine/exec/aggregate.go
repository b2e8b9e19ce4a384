package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// aggregate is a compiled aggregate function.
type aggregate struct {
	fn        plan.AggregateFunc
	arg       expr.Program
	all       bool // COUNT(*)
	distinct  bool
	collation keycodec.Collation
}

func (r *runner) aggregates(list []plan.Aggregate) ([]aggregate, error) {
	out := make([]aggregate, len(list))
	for i, a := range list {
		out[i] = aggregate{fn: a.Func, all: a.Arg == nil, distinct: a.Distinct}
		if a.Arg == nil {
			continue
		}
		var err error
		if out[i].arg, err = expr.Compile(a.Arg); err != nil {
			return nil, err
		}
		out[i].collation = expr.CollationOf(a.Arg)
	}
	return out, nil
}

// accumulator holds what an aggregate has seen of one group.
type accumulator struct {
	count int64
	value expr.Value // the sum, or the smallest or largest value; NULL of none
	seen  *keyTable  // of DISTINCT
}

// add takes in one row.
func (acc *accumulator) add(r *runner, a *aggregate, row []expr.Value) error {
	if a.all {
		acc.count++
		return nil
	}
	v, err := a.arg.Value(row, r.params)
	if err != nil || v.IsNull() {
		return err
	}
	if a.distinct {
		if acc.seen == nil {
			acc.seen = newKeyTable(1)
		}
		key := [1]expr.Value{canonical(v, a.collation)}
		if _, added := acc.seen.add(key[:]); !added {
			return nil
		}
		if err := r.budget.take("distinct aggregate", acc.seen.bytes()); err != nil {
			return err
		}
	}
	acc.count++
	return acc.take(a, v)
}

// take combines a value with those before.
func (acc *accumulator) take(a *aggregate, v expr.Value) error {
	switch a.fn {
	case plan.Sum, plan.Avg:
		if acc.value.IsNull() {
			acc.value = expr.Int(0)
		}
		sum, err := expr.Calculate(expr.Add, acc.value, v)
		acc.value = sum
		return err
	case plan.Min, plan.Max:
		if !acc.value.IsNull() {
			c := compareUnder(v, acc.value, a.collation)
			if (a.fn == plan.Min) != (c < 0) || c == 0 {
				return nil
			}
		}
		acc.value = v.Clone()
	}
	return nil
}

// merge takes in what was seen of the same group elsewhere. Not for DISTINCT.
func (acc *accumulator) merge(a *aggregate, other *accumulator) error {
	acc.count += other.count
	if other.value.IsNull() {
		return nil
	}
	return acc.take(a, other.value)
}

// result returns the value of the aggregate.
func (acc *accumulator) result(a *aggregate) (expr.Value, error) {
	switch a.fn {
	case plan.Count:
		return expr.Int(acc.count), nil
	case plan.Avg:
		return average(acc.value, acc.count)
	}
	return acc.value, nil
}

// average divides a sum of integers as a decimal: the mean of 1 and 2 is 1.5.
func average(sum expr.Value, count int64) (expr.Value, error) {
	if count == 0 {
		return expr.Null(), nil
	}
	n := expr.Decimal(keycodec.NewDecimal(count, 0))
	return expr.Calculate(expr.Div, sum, n)
}
