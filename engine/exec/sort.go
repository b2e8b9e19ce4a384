package exec

import (
	"container/heap"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// order compares keys that a keyMaker has made.
type order struct {
	desc, nullsLast []bool
	collations      []keycodec.Collation
}

func newOrder(keys []plan.SortKey) order {
	var o order
	for _, k := range keys {
		o.desc = append(o.desc, k.Desc)
		o.nullsLast = append(o.nullsLast, k.NullsLast)
		o.collations = append(o.collations, expr.CollationOf(k.Expr))
	}
	return o
}

// compare returns how a stands to b in the order.
func (o *order) compare(a, b []expr.Value) int {
	for i := range o.desc {
		if c := o.compareAt(i, a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (o *order) compareAt(i int, a, b expr.Value) int {
	if a.IsNull() || b.IsNull() {
		switch {
		case a.IsNull() && b.IsNull():
			return 0
		case a.IsNull() == o.nullsLast[i]:
			return 1
		}
		return -1
	}
	c := compareUnder(a, b, o.collations[i])
	if o.desc[i] {
		return -c
	}
	return c
}

// compareUnder compares two values in the order of their kinds and under a collation.
func compareUnder(a, b expr.Value, c keycodec.Collation) int {
	if c != keycodec.CollateBytes {
		if s, ok := a.AsString(); ok {
			if t, ok := b.AsString(); ok {
				return expr.CompareFolded(s, t, c)
			}
		}
	}
	return expr.Order(a, b)
}

func keyExprs(keys []plan.SortKey) []expr.Expr {
	out := make([]expr.Expr, len(keys))
	for i, k := range keys {
		out[i] = k.Expr
	}
	return out
}

// sorted is a row with its sort key and the place it came at.
type sorted struct {
	key, row []expr.Value
	seq      int
}

// sortRows keeps its input and yields it in order; with a limit it keeps the first rows
// only, in a heap whose top is the last of them.
type sortRows struct {
	*runner
	input operator
	keys  *keyMaker
	order order
	limit int64

	rows []sorted
	used int64
	seq  int
}

func (r *runner) sort(n *plan.Sort) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	keys, err := r.keyMaker(keyExprs(n.Keys))
	return &sortRows{runner: r, input: input, keys: keys, order: newOrder(n.Keys),
		limit: n.Limit}, err
}

func (s *sortRows) run(yield func([]expr.Value) bool) error {
	if s.limit == 0 {
		return nil
	}
	s.rows, s.used = s.rows[:0], 0
	defer func() { s.budget.release(s.used); s.rows = nil }()
	var failed error
	err := s.input.run(func(row []expr.Value) bool {
		failed = s.add(row)
		return failed == nil
	})
	if err := first(failed, err); err != nil {
		return err
	}
	slices.SortFunc(s.rows, s.compare)
	for i := range s.rows {
		if !yield(s.rows[i].row) {
			break
		}
	}
	return nil
}

// compare puts rows with equal keys in the order they came.
func (s *sortRows) compare(a, b sorted) int {
	if c := s.order.compare(a.key, b.key); c != 0 {
		return c
	}
	return a.seq - b.seq
}

func (s *sortRows) add(row []expr.Value) error {
	key, err := s.keys.values(row, s.params)
	if err != nil {
		return err
	}
	full := s.limit > 0 && int64(len(s.rows)) == s.limit
	if full && s.order.compare(key, s.rows[0].key) >= 0 {
		return nil // it came later, too
	}
	next := sorted{clone(key), clone(row), 0}
	bytes := rowBytes(next.key) + rowBytes(next.row)
	if full {
		bytes -= rowBytes(s.rows[0].key) + rowBytes(s.rows[0].row)
	}
	s.used += bytes
	if err := s.budget.take("sort", bytes); err != nil {
		return err
	}
	s.seq++
	next.seq = s.seq
	switch {
	case full:
		s.rows[0] = next
		heap.Fix(s, 0)
	case s.limit > 0:
		heap.Push(s, next)
	default:
		s.rows = append(s.rows, next)
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement heap.Interface: the last row is on top.
func (s *sortRows) Len() int           { return len(s.rows) }
func (s *sortRows) Less(i, j int) bool { return s.compare(s.rows[i], s.rows[j]) > 0 }
func (s *sortRows) Swap(i, j int)      { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] }

// Push implements heap.Interface.
func (s *sortRows) Push(x any) { s.rows = append(s.rows, x.(sorted)) }

// Pop implements heap.Interface.
func (s *sortRows) Pop() any {
	last := s.rows[len(s.rows)-1]
	s.rows = s.rows[:len(s.rows)-1]
	return last
}
