package exec

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
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

// head returns a number that is not greater than that of a key that comes later. It holds among
// keys whose first values are of the kind, or NULL.
func (o *order) head(kind expr.Kind, key []expr.Value) uint64 {
	v := &key[0]
	if v.IsNull() {
		if o.nullsLast[0] {
			return math.MaxUint64
		}
		return 0
	}
	var h uint64 // of other kinds: all equal
	switch kind {
	case expr.KindInt:
		i, _ := v.AsInt()
		h = uint64(i) ^ 1<<63
	case expr.KindTime:
		seconds, _, _ := v.AsUnixTime()
		h = uint64(seconds) ^ 1<<63
	case expr.KindString:
		if s, _ := v.AsString(); o.collations[0] == keycodec.CollateBytes {
			var b [8]byte
			copy(b[:], s)
			h = binary.BigEndian.Uint64(b[:])
		}
	}
	if o.desc[0] {
		h = ^h
	}
	return h>>1 | 1<<63 // after NULL
}

// sorted is a row with its sort key and the place it came at.
type sorted struct {
	key, row []expr.Value
	seq      int
	head     uint64 // see order.head
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
	// arena has the rows; with a limit each has memory of its own, which the next one gets.
	arena arena
	kept  keeper
	seq   int
	// kind is that of the first value of each key, KindNull if all are NULL. If they are of
	// several kinds, heads do not compare.
	kind  expr.Kind
	mixed bool
	runs  *runs        // what has been spilled; nil: nothing
	last  []expr.Value // a key that limit rows are not after; nil: not known
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
	s.kept, s.kind, s.mixed = s.keeper("sort"), expr.KindNull, false
	spool := s.spool("sort", s.node.Actual())
	defer func() {
		s.kept.release()
		spool.close()
		s.rows, s.runs, s.last, s.arena = nil, nil, nil, arena{}
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
	for _, p := range s.inOrder() {
		if !yield(s.rows[p.at].row) {
			break
		}
	}
	return nil
}

// placed is a row of sortRows by its place.
type placed struct {
	head uint64
	at   int32
}

// inOrder returns the places of the rows in order. Why not the rows themselves: the places are a
// quarter of what is moved.
func (s *sortRows) inOrder() []placed {
	order := make([]placed, len(s.rows))
	for i := range s.rows {
		order[i] = placed{s.rows[i].head, int32(i)}
	}
	slices.SortFunc(order, func(a, b placed) int {
		if a.head != b.head && !s.mixed {
			return cmp.Compare(a.head, b.head)
		}
		return s.compare(&s.rows[a.at], &s.rows[b.at])
	})
	return order
}

// compare puts rows with equal keys in the order they came.
func (s *sortRows) compare(a, b *sorted) int {
	if a.head != b.head && !s.mixed {
		return cmp.Compare(a.head, b.head)
	}
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
	head := s.headOf(key)
	full := s.limit > 0 && int64(len(s.rows)) == s.limit
	if full && !s.mixed && head > s.rows[0].head {
		return nil
	}
	if full && s.order.compare(key, s.rows[0].key) >= 0 {
		return nil // it came later, too
	}
	if s.last != nil && s.order.compare(key, s.last) >= 0 {
		return nil
	}
	bytes := rowBytes(key) + rowBytes(row)
	var next sorted
	switch {
	case full:
		next = s.rows[0]
		bytes -= rowBytes(next.key) + rowBytes(next.row)
		cloneOver(next.key, key)
		cloneOver(next.row, row)
	case s.limit > 0:
		next = sorted{key: clone(key), row: clone(row)}
	default:
		next = sorted{key: s.arena.clone(key), row: s.arena.clone(row)}
	}
	spill, err := s.kept.grow(bytes)
	if err != nil {
		return err
	}
	s.seq++
	next.seq, next.head = s.seq, head
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

// headOf returns the head of a key, and takes note of its kind.
func (s *sortRows) headOf(key []expr.Value) uint64 {
	if len(key) == 0 {
		return 0
	}
	if k := key[0].Kind(); k != s.kind && k != expr.KindNull {
		s.mixed = s.mixed || s.kind != expr.KindNull
		s.kind = k
	}
	return s.order.head(s.kind, key)
}

// spill writes the rows in memory as a run.
func (s *sortRows) spill(spool *spool) error {
	if s.runs == nil {
		s.runs = &runs{spool: spool, keys: s.keys, order: s.order, limit: s.limit}
	}
	order := s.inOrder()
	t := &tape{spool: spool}
	for _, p := range order {
		if err := t.add(int64(s.rows[p.at].seq), s.rows[p.at].row); err != nil {
			return err
		}
	}
	if s.limit > 0 && int64(len(s.rows)) == s.limit {
		s.last = s.rows[order[len(order)-1].at].key
	}
	s.runs.tapes = append(s.runs.tapes, t)
	clear(s.rows)
	s.rows, s.arena = s.rows[:0], arena{}
	s.kept.release()
	return t.finish()
}

// Len, Less, Swap, Push and Pop implement heap.Interface: the last row is on top.
func (s *sortRows) Len() int           { return len(s.rows) }
func (s *sortRows) Less(i, j int) bool { return s.compare(&s.rows[i], &s.rows[j]) > 0 }
func (s *sortRows) Swap(i, j int)      { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] }

// Push implements heap.Interface.
func (s *sortRows) Push(x any) { s.rows = append(s.rows, x.(sorted)) }

// Pop implements heap.Interface.
func (s *sortRows) Pop() any {
	last := s.rows[len(s.rows)-1]
	s.rows = s.rows[:len(s.rows)-1]
	return last
}
