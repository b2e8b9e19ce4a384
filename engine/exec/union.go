package exec

import (
	"errors"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// union yields the rows of its inputs one after the other, each row key once.
type union struct {
	*runner
	node   *plan.Union
	inputs []operator
	all    bool
}

func (r *runner) operators(nodes []plan.Node) ([]operator, error) {
	out := make([]operator, len(nodes))
	for i, n := range nodes {
		var err error
		if out[i], err = r.compile(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *runner) union(n *plan.Union) (operator, error) {
	inputs, err := r.operators(n.Inputs)
	return &union{r, n, inputs, n.All}, err
}

func (u *union) run(yield func([]expr.Value) bool) error {
	if u.all {
		return u.concat(yield)
	}
	spool := u.spool("index union", u.actual(u.node))
	defer spool.close()
	key := func(row []expr.Value) []expr.Value { return row[len(row)-2:] }
	return newUnique(spool, 2, key, func(_ int64, row []expr.Value) bool { return yield(row) }).
		all(number(runFunc(u.concat)))
}

// concat yields the rows of all inputs.
func (u *union) concat(yield func([]expr.Value) bool) error {
	for _, input := range u.inputs {
		stopped := false
		err := input.run(func(row []expr.Value) bool {
			stopped = !yield(row)
			return !stopped
		})
		if err != nil || stopped {
			return err
		}
	}
	return nil
}

// runFunc is the run of an operator.
type runFunc func(yield func(row []expr.Value) bool) error

func (f runFunc) run(yield func(row []expr.Value) bool) error { return f(yield) }

// intersect yields the rows of the first input whose keys are in all others. Keys that there is no
// room for leave out nothing: rows are tested when they have been fetched.
type intersect struct {
	*runner
	inputs []operator
}

func (r *runner) intersect(n *plan.Intersect) (operator, error) {
	inputs, err := r.operators(n.Inputs)
	return &intersect{r, inputs}, err
}

func (x *intersect) run(yield func([]expr.Value) bool) error {
	kept := x.keeper("index intersection")
	defer kept.release()
	var common *keyTable // the keys in all inputs from 1 to the present one
	for _, input := range x.inputs[1:] {
		next := newKeyTable(2)
		var failed error
		err := input.run(func(row []expr.Value) bool {
			key := row[len(row)-2:]
			if common != nil && common.find(key) < 0 {
				return true
			}
			if _, added := next.add(key); added {
				failed = kept.take(next.bytes())
			}
			return failed == nil
		})
		if errors.Is(failed, ErrMemory) {
			common = nil
			kept.release()
			continue
		}
		if err != nil {
			return err
		}
		common = next
	}
	return x.inputs[0].run(func(row []expr.Value) bool {
		return common != nil && common.find(row[len(row)-2:]) < 0 || yield(row)
	})
}
