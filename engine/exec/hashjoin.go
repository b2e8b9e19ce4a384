package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// hashJoin keeps the right side by its keys.
type hashJoin struct {
	joiner
	leftKeys, rightKeys *keyMaker
	nullAware           bool
	limit               int64
}

func (r *runner) hashJoin(n *plan.JoinNode, j joiner) (operator, error) {
	left, err := r.keyMaker(n.LeftKeys)
	if err != nil {
		return nil, err
	}
	right, err := r.keyMaker(n.RightKeys)
	if err != nil {
		return nil, err
	}
	for i := range n.RightKeys { // one collation for both sides of an equality
		c := expr.CollationOfPair(n.LeftKeys[i], n.RightKeys[i])
		left.collations[i], right.collations[i] = c, c
	}
	return &hashJoin{j, left, right, n.NullAware, n.MemoryBytes}, nil
}

// hashed is the right side in memory.
type hashed struct {
	table *keyTable
	rows  [][][]expr.Value // by key
	count int
	null  bool // a row has a NULL key
}

func (h *hashJoin) run(yield func([]expr.Value) bool) error {
	kept := keeper{budget: &h.budget, operator: "hash join", limit: h.limit}
	defer kept.release()
	right, err := h.build(&kept)
	if err != nil {
		return err
	}
	if h.nullAware && right.null {
		return nil // x NOT IN (…, NULL) is never true
	}
	var failed error
	err = h.left.run(func(row []expr.Value) bool {
		var more bool
		more, failed = h.probe(right, row, yield)
		return more && failed == nil
	})
	return first(failed, err)
}

// build reads the right side.
func (h *hashJoin) build(kept *keeper) (*hashed, error) {
	right := &hashed{table: newKeyTable(len(h.rightKeys.programs))}
	var failed error
	err := h.right.run(func(row []expr.Value) bool {
		failed = h.keep(right, row, kept)
		return failed == nil && !(h.nullAware && right.null)
	})
	return right, first(failed, err)
}

// keep adds a row of the right side.
func (h *hashJoin) keep(right *hashed, row []expr.Value, kept *keeper) error {
	right.count++
	key, null, err := h.rightKeys.canonical(row, h.params)
	if err != nil {
		return err
	}
	if null { // equal to nothing
		right.null = true
		return nil
	}
	i, added := right.table.add(key)
	if added {
		right.rows = append(right.rows, nil)
		if err := kept.take(right.table.bytes()); err != nil {
			return err
		}
	}
	if h.kind >= plan.Semi && !h.on.some && len(right.rows[i]) > 0 {
		return nil // that there is one is all that matters
	}
	right.rows[i] = append(right.rows[i], clone(row))
	return kept.take(rowBytes(row))
}

// probe finds the partners of one left row.
func (h *hashJoin) probe(right *hashed, row []expr.Value, yield func([]expr.Value) bool,
) (bool, error) {
	key, null, err := h.leftKeys.canonical(row, h.params)
	if err != nil {
		return false, err
	}
	m := h.setLeft(row)
	if null {
		// Of NOT IN, NULL is unknown unless the right side is empty.
		m.any = h.nullAware && right.count > 0
	} else if i := right.table.find(key); i >= 0 {
		for _, partner := range right.rows[i] {
			if err := h.try(&m, partner, yield); err != nil {
				return false, err
			}
			if m.done {
				break
			}
		}
	}
	h.finish(&m, yield)
	return m.more, nil
}
