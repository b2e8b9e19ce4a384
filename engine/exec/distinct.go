package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// distinct leaves out rows whose first columns were seen before: anywhere, or, if equal
// ones are neighbours, in the last row.
type distinct struct {
	*runner
	input     operator
	streaming bool
	columns   int
	folds     []keycodec.Collation // nil: none
}

func (r *runner) distinct(n *plan.Distinct) (operator, error) {
	input, err := r.compile(n.Input)
	return &distinct{r, input, n.Mode == plan.DistinctStreaming, n.Columns, n.Collations}, err
}

func (d *distinct) fold(i int) keycodec.Collation {
	if d.folds == nil {
		return keycodec.CollateBytes
	}
	return d.folds[i]
}

func (d *distinct) run(yield func([]expr.Value) bool) error {
	seen := newKeyTable(d.columns)
	key := make([]expr.Value, d.columns)
	last := make([]expr.Value, d.columns)
	some, used := false, int64(0)
	defer func() { d.budget.release(used) }()
	var failed error
	err := d.input.run(func(row []expr.Value) bool {
		for i := range key {
			key[i] = canonical(row[i], d.fold(i))
		}
		if d.streaming {
			if some && equalValues(key, last) {
				return true
			}
			some = true
			for i := range key {
				last[i] = key[i].Clone()
			}
			return yield(row)
		}
		if _, added := seen.add(key); !added {
			return true
		}
		used += seen.bytes()
		if failed = d.budget.take("distinct", seen.bytes()); failed != nil {
			return false
		}
		return yield(row)
	})
	return first(failed, err)
}
