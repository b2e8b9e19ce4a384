package exec

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// aggregate is a compiled aggregate function.
type aggregate struct {
	fn        plan.AggregateFunc
	arg       term
	all       bool // COUNT(*)
	distinct  bool
	adds      bool // integers alone are counted and added up, see aggregation.add
	collation keycodec.Collation
	keys      *keyMaker // of the order of Concat; nil: that of the rows
	order     order
}

func (r *runner) aggregates(list []plan.Aggregate) ([]aggregate, error) {
	out := make([]aggregate, len(list))
	for i, a := range list {
		out[i] = aggregate{fn: a.Func, all: a.Arg == nil, distinct: a.Distinct}
		if a.Arg == nil {
			continue
		}
		var err error
		if out[i].arg, err = r.term(a.Arg); err != nil {
			return nil, err
		}
		out[i].adds = (a.Func == plan.Sum || a.Func == plan.Avg) && !a.Distinct
		out[i].collation = max(expr.CollationOf(a.Arg), a.Collation)
		if len(a.Order) > 0 {
			out[i].order = newOrder(a.Order)
			if out[i].keys, err = r.keyMaker(plan.OrderExprs(a.Order)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// accumulator holds what an aggregate has seen of one group.
type accumulator struct {
	count int64            // of Any: the number of the row that has the value
	value expr.Value       // the sum, or the smallest or largest value; NULL of none
	text  *strings.Builder // of Concat; nil: nothing
	texts *[]ordered       // of Concat in an order
}

// ordered is a text with its place in an order.
type ordered struct {
	key  []expr.Value
	text string
}

// aggregation is what some groups have seen so far.
type aggregation struct {
	*runner
	aggs  []aggregate
	accs  []accumulator // of all groups, those of one beside each other
	at    int64         // the number of the row that is taken in, if rows have some
	spool spool
	// values are those of aggregates of DISTINCT values: rows of a group, an aggregate, a
	// value, and the longest key of an order. Nil: none yet.
	values *unique
	width  int // of the key
	row    []expr.Value
	seq    int64  // of the last of them
	failed error  // of an aggregate that took one
	texts  keeper // of Concat
}

// of returns the accumulators of a group.
func (a *aggregation) of(group int) []accumulator {
	n := len(a.aggs)
	return a.accs[group*n:][:n:n]
}

// begin adds a group, or makes one empty that is there.
func (a *aggregation) begin(group int) {
	if n := len(a.aggs); len(a.accs) < (group+1)*n {
		a.accs = append(a.accs, make([]accumulator, n)...)
	}
	clear(a.of(group))
}

// add takes in a row of a group.
func (a *aggregation) add(group int, row []expr.Value) error {
	accs := a.of(group)
	for i := range accs {
		f := &a.aggs[i]
		if f.all {
			accs[i].count++
			continue
		}
		if f.adds {
			if n, ok := f.arg.integer(row); ok && accs[i].add(n) {
				accs[i].count++
				continue
			}
		}
		v, err := f.arg.value(row, a.params)
		switch {
		case err != nil:
			return err
		case v.IsNull():
		default:
			err = a.addValue(group, i, v, row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addValue takes in a value of a row.
func (a *aggregation) addValue(group, i int, v expr.Value, row []expr.Value) (err error) {
	f := &a.aggs[i]
	var key []expr.Value
	if f.keys != nil {
		if key, err = f.keys.values(row, a.params); err != nil {
			return err
		}
	}
	if f.distinct {
		return a.addDistinct(group, i, v, key)
	}
	return a.take(group, i, v, key)
}

// addDistinct takes in a value if the group has not seen it.
func (a *aggregation) addDistinct(group, aggregate int, v expr.Value, order []expr.Value) error {
	if a.values == nil {
		for i := range a.aggs {
			a.width = max(a.width, len(a.aggs[i].order.desc))
		}
		var key [3]expr.Value
		a.values = newUnique(&a.spool, len(key), func(row []expr.Value) []expr.Value {
			copy(key[:], row)
			i, _ := row[1].AsInt()
			key[2] = canonical(row[2], a.aggs[i].collation)
			return key[:]
		}, func(_ int64, row []expr.Value) bool {
			group, _ := row[0].AsInt()
			i, _ := row[1].AsInt()
			a.failed = a.take(int(group), int(i), row[2], row[3:])
			return a.failed == nil
		})
	}
	row := append(a.row[:0], expr.Int(int64(group)), expr.Int(int64(aggregate)), v)
	row = append(row, order...)
	for len(row) < 3+a.width {
		row = append(row, expr.Null())
	}
	a.seq++
	a.row = row
	_, err := a.values.add(a.seq, row)
	return first(err, a.failed)
}

// take counts a value and combines it with those before; key is its place in the order that the
// aggregate has, if it has one.
func (a *aggregation) take(group, i int, v expr.Value, key []expr.Value) error {
	f := &a.aggs[i]
	text := ""
	if f.fn == plan.Concat {
		text, _ = v.AsString()
		n := int64(len(text))
		if f.keys != nil {
			n += rowBytes(key) + valueBytes
		}
		if err := a.texts.take(n); err != nil {
			return err
		}
	}
	acc := &a.accs[group*len(a.aggs)+i]
	if f.fn == plan.Any {
		acc.earliest(a.at, v)
		return nil
	}
	acc.count++
	if f.keys == nil {
		return acc.combine(f, v)
	}
	if acc.texts == nil {
		acc.texts = new([]ordered)
	}
	own := ordered{clone(key[:len(f.order.desc)]), strings.Clone(text)}
	*acc.texts = append(*acc.texts, own)
	return nil
}

// finish takes in what is still to be seen, before results are asked for.
func (a *aggregation) finish() error {
	if a.values == nil {
		return nil
	}
	return first(a.values.finish(), a.failed)
}

// release gives memory and files back.
func (a *aggregation) release() {
	a.texts.release()
	if a.values != nil {
		a.values.release()
		a.values = nil
		a.spool.close()
	}
}

// add adds an integer to the sum of those before; ok is false if combine has to.
func (acc *accumulator) add(n int64) (ok bool) {
	sum, ok := acc.value.Integer()
	if !ok {
		if ok = acc.value.IsNull(); ok {
			acc.value.SetInt(n) // the first one
		}
		return ok
	}
	s := sum + n
	if ok = (s > sum) == (n > 0); ok {
		acc.value.SetInt(s)
	}
	return ok
}

func (acc *accumulator) combine(a *aggregate, v expr.Value) error {
	switch a.fn {
	case plan.Sum, plan.Avg:
		if acc.value.IsNull() {
			acc.value = expr.Int(0)
		}
		if n, ok := v.Integer(); ok && acc.add(n) {
			return nil
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
	case plan.Concat:
		if acc.text == nil {
			acc.text = new(strings.Builder)
		}
		text, _ := v.AsString()
		acc.text.WriteString(text)
	}
	return nil
}

// earliest keeps the value of the first of some rows, in the order of their numbers.
func (acc *accumulator) earliest(at int64, v expr.Value) {
	if acc.value.IsNull() || at < acc.count {
		acc.value, acc.count = v.Clone(), at
	}
}

// merge takes in what was seen of the same group elsewhere. Not for DISTINCT.
func (acc *accumulator) merge(a *aggregate, other *accumulator) error {
	if a.fn == plan.Any {
		if !other.value.IsNull() {
			acc.earliest(other.count, other.value)
		}
		return nil
	}
	acc.count += other.count
	switch {
	case other.texts == nil:
	case acc.texts == nil:
		acc.texts = other.texts
	default:
		*acc.texts = append(*acc.texts, *other.texts...)
	}
	if other.text != nil {
		return acc.combine(a, expr.String(other.text.String()))
	}
	if other.value.IsNull() {
		return nil
	}
	return acc.combine(a, other.value)
}

// integer returns the result if it is an integer: those need not be copied as values.
func (acc *accumulator) integer(a *aggregate) (int64, bool) {
	switch a.fn {
	case plan.Count:
		return acc.count, true
	case plan.Avg, plan.Concat:
		return 0, false
	}
	return acc.value.Integer()
}

// result returns the value of the aggregate.
func (acc *accumulator) result(a *aggregate) (expr.Value, error) {
	switch a.fn {
	case plan.Avg:
		return average(acc.value, acc.count)
	case plan.Concat:
		if acc.texts != nil {
			return acc.inOrder(&a.order), nil
		}
		if acc.text != nil {
			return expr.String(acc.text.String()), nil
		}
	}
	return acc.value, nil
}

// inOrder appends the texts to each other.
func (acc *accumulator) inOrder(o *order) expr.Value {
	slices.SortStableFunc(*acc.texts, func(a, b ordered) int { return o.compare(a.key, b.key) })
	var all strings.Builder
	for _, t := range *acc.texts {
		all.WriteString(t.text)
	}
	return expr.String(all.String())
}

// average divides a sum of integers as a decimal: the mean of 1 and 2 is 1.5.
func average(sum expr.Value, count int64) (expr.Value, error) {
	if count == 0 {
		return expr.Null(), nil
	}
	n := expr.Decimal(keycodec.NewDecimal(count, 0))
	return expr.Calculate(expr.Div, sum, n)
}
