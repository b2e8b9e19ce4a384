package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// union yields the rows of its inputs one after the other, each row key once.
type union struct {
	*runner
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
	return &union{r, inputs, n.All}, err
}

func (u *union) run(yield func([]expr.Value) bool) error {
	kept := keeper{budget: &u.budget, operator: "index union"}
	defer kept.release()
	seen := newKeyTable(2)
	for _, input := range u.inputs {
		var failed error
		stopped := false
		err := input.run(func(row []expr.Value) bool {
			if !u.all {
				if _, added := seen.add(row[len(row)-2:]); !added {
					return true
				}
				if failed = kept.take(seen.bytes()); failed != nil {
					return false
				}
			}
			stopped = !yield(row)
			return !stopped
		})
		if err := first(failed, err); err != nil || stopped {
			return err
		}
	}
	return nil
}

// intersect yields the rows of the first input whose keys are in all others.
type intersect struct {
	*runner
	inputs []operator
}

func (r *runner) intersect(n *plan.Intersect) (operator, error) {
	inputs, err := r.operators(n.Inputs)
	return &intersect{r, inputs}, err
}

func (x *intersect) run(yield func([]expr.Value) bool) error {
	kept := keeper{budget: &x.budget, operator: "index intersection"}
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
		if err := first(failed, err); err != nil {
			return err
		}
		common = next
	}
	return x.inputs[0].run(func(row []expr.Value) bool {
		return common != nil && common.find(row[len(row)-2:]) < 0 || yield(row)
	})
}
