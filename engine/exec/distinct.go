package exec

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// distinct leaves out rows whose first columns were seen before: anywhere, or, if equal
// ones are neighbours, in the last row.
type distinct struct {
	*runner
	node    *plan.Distinct
	input   operator
	columns int
	folds   []keycodec.Collation // nil: none
}

func (r *runner) distinct(n *plan.Distinct) (operator, error) {
	input, err := r.compile(n.Input)
	return &distinct{r, n, input, n.Columns, n.Collations}, err
}

func (d *distinct) fold(i int) keycodec.Collation {
	if d.folds == nil {
		return keycodec.CollateBytes
	}
	return d.folds[i]
}

func (d *distinct) run(yield func([]expr.Value) bool) error {
	key := make([]expr.Value, d.columns)
	keyOf := func(row []expr.Value) []expr.Value {
		for i := range key {
			key[i] = canonical(row[i], d.fold(i))
		}
		return key
	}
	if d.node.Mode != plan.DistinctStreaming {
		spool := d.spool("distinct", d.actual(d.node))
		defer spool.close()
		return newUnique(spool, d.columns, keyOf, func(_ int64, row []expr.Value) bool {
			return yield(row)
		}).all(number(d.input))
	}
	last, some := make([]expr.Value, d.columns), false
	return d.input.run(func(row []expr.Value) bool {
		if keyOf(row); some && slices.Equal(key, last) {
			return true
		}
		some = true
		for i := range key {
			last[i] = key[i].Clone()
		}
		return yield(row)
	})
}
