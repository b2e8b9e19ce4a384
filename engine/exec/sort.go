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
	node  *plan.Sort

	rows []sorted
	kept keeper
	seq  int
	runs *runs        // what has been spilled; nil: nothing
	last []expr.Value // a key that limit rows are not after; nil: not known
}

func (r *runner) sort(n *plan.Sort) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	keys, err := r.keyMaker(keyExprs(n.Keys))
	return &sortRows{runner: r, input: input, keys: keys, order: newOrder(n.Keys),
		limit: n.Limit, node: n}, err
}

func (s *sortRows) run(yield func([]expr.Value) bool) error {
	if s.limit == 0 {
		return nil
	}
	s.kept = s.keeper("sort")
	spool := s.spool("sort", s.node.Actual())
	defer func() {
		s.kept.release()
		spool.close()
		s.rows, s.runs, s.last = nil, nil, nil
	}()
	var failed error
	err := s.input.run(func(row []expr.Value) bool {
		failed = s.add(spool, row)
		return failed == nil
	})
	if err := first(failed, err); err != nil {
		return err
	}
	if s.runs != nil {
		if err := s.spill(spool); err != nil {
			return err
		}
		return s.runs.merge(func(_ int64, row []expr.Value) bool { return yield(row) })
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

func (s *sortRows) add(spool *spool, row []expr.Value) error {
	key, err := s.keys.values(row, s.params)
	if err != nil {
		return err
	}
	full := s.limit > 0 && int64(len(s.rows)) == s.limit
	if full && s.order.compare(key, s.rows[0].key) >= 0 {
		return nil // it came later, too
	}
	if s.last != nil && s.order.compare(key, s.last) >= 0 {
		return nil
	}
	next := sorted{clone(key), clone(row), 0}
	bytes := rowBytes(next.key) + rowBytes(next.row)
	if full {
		bytes -= rowBytes(s.rows[0].key) + rowBytes(s.rows[0].row)
	}
	spill, err := s.kept.grow(bytes)
	if err != nil {
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
	if spill {
		return s.spill(spool)
	}
	return nil
}

// spill writes the rows in memory as a run.
func (s *sortRows) spill(spool *spool) error {
	if s.runs == nil {
		s.runs = &runs{spool: spool, keys: s.keys, order: s.order, limit: s.limit}
	}
	slices.SortFunc(s.rows, s.compare)
	t := &tape{spool: spool}
	for i := range s.rows {
		if err := t.add(int64(s.rows[i].seq), s.rows[i].row); err != nil {
			return err
		}
	}
	if s.limit > 0 && int64(len(s.rows)) == s.limit {
		s.last = s.rows[len(s.rows)-1].key
	}
	s.runs.tapes = append(s.runs.tapes, t)
	clear(s.rows)
	s.rows = s.rows[:0]
	s.kept.release()
	return t.finish()
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
