package exec

import (
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// meter counts what some accesses cost, for a plan.Bound. It belongs to one goroutine.
type meter struct {
	bound  *plan.Bound
	counts []*plan.Actual // of the accesses
	most   float64        // of the costs that they have when it begins, and the bound
	around *meter         // nil: none
}

// overrun is the error of an access that has cost more than a meter allows. It ends at the operator
// that the meter is of.
type overrun struct{ *meter }

// Error implements error.
func (overrun) Error() string { return "exec: reading has passed its bound" }

// checkEvery is how many items are read between two looks at a meter.
const checkEvery = 64

// begin allows a cost from here on.
func (m *meter) begin(cost float64) { m.most = m.spent() + cost }

// spent is what the accesses have cost.
func (m *meter) spent() (sum float64) {
	for _, a := range m.counts {
		sum += m.bound.Spent(a)
	}
	return sum
}

// check returns an overrun if a bound is passed, or will be when some more rows are fetched. A nil
// meter has none.
func (m *meter) check(fetches int) error {
	for ; m != nil; m = m.around {
		if m.spent()+m.bound.Fetch*float64(fetches) > m.most {
			return overrun{m}
		}
	}
	return nil
}

// watch adds the counters of an access, to meters around, too.
func (m *meter) watch(a *plan.Actual) {
	for ; m != nil; m = m.around {
		m.counts = append(m.counts, a)
	}
}

// fallback hands on the rows of an operator if it ends within a bound, and otherwise those of
// another one.
type fallback struct {
	*runner
	node  *plan.Fallback
	meter *meter
	first operator
	then  operator // nil: it was not needed yet
}

func (r *runner) fallback(n *plan.Fallback) (operator, error) {
	bounded := *r
	bounded.meter = &meter{bound: &n.Bound, around: r.meter}
	bounded.opt.Workers = 1 // what is read before the bound is passed does not depend on luck
	op, err := bounded.compile(n.First)
	return &fallback{runner: r, node: n, meter: bounded.meter, first: op}, err
}

func (f *fallback) run(yield func([]expr.Value) bool) error {
	rows := f.rowList("fallback", f.actual(f.node))
	defer rows.reset()
	f.meter.begin(f.node.Bound.Cost)
	var failed error
	err := f.first.run(func(row []expr.Value) bool {
		failed = rows.add(row)
		return failed == nil
	})
	err = first(failed, err)
	if err == nil {
		return rows.each(yield)
	}
	if !errors.Is(err, overrun{f.meter}) {
		return err
	}
	rows.reset()
	if f.actual(f.node).Turned++; f.then == nil {
		if f.then, err = f.compile(f.node.Then); err != nil {
			return err
		}
	}
	return f.then.run(yield)
}
