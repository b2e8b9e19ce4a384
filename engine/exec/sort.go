package exec

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// order compares keys that a keyMaker has made, or rows that have them at some places.
type order struct {
	at              []int // the place of each value of a key
	desc, nullsLast []bool
	collations      []keycodec.Collation
}

func newOrder(keys []plan.Order) order {
	n := len(keys)
	flags := make([]bool, 2*n)
	o := order{at: make([]int, n), desc: flags[:n:n], nullsLast: flags[n:],
		collations: make([]keycodec.Collation, n)}
	for i, k := range keys {
		o.at[i], o.desc[i], o.nullsLast[i] = i, k.Desc, k.NullsLast
		o.collations[i] = expr.CollationOf(k.Expr)
	}
	return o
}

// compare returns how a stands to b in the order.
func (o *order) compare(a, b []expr.Value) int {
	for i, at := range o.at {
		if c := o.compareAt(i, &a[at], &b[at]); c != 0 {
			return c
		}
	}
	return 0
}

func (o *order) compareAt(i int, a, b *expr.Value) int {
	if a.IsNull() || b.IsNull() {
		switch {
		case a.IsNull() && b.IsNull():
			return 0
		case a.IsNull() == o.nullsLast[i]:
			return 1
		}
		return -1
	}
	var c int
	x, ok := a.Integer()
	if y, both := b.Integer(); ok && both { // most keys, without a copy of the values
		c = cmp.Compare(x, y)
	} else {
		c = compareUnder(*a, *b, o.collations[i])
	}
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

// head returns a number that is not greater than that of a key that comes later. It holds among
// keys whose first values are of the kind, or NULL.
func (o *order) head(kind expr.Kind, key []expr.Value) uint64 {
	v := &key[o.at[0]]
	if v.IsNull() {
		if o.nullsLast[0] {
			return math.MaxUint64
		}
		return 0
	}
	h := uint64(1) // of other kinds: all equal
	switch kind {
	case expr.KindInt:
		i, _ := v.Integer()
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
	return min(max(h, 1), math.MaxUint64-1) // between NULLs
}

// placed is a row that is kept, by its place.
type placed struct {
	head uint64 // see order.head
	at   rowPlace
}

// sorted is one of the first rows, with its number.
type sorted struct {
	row  []expr.Value // those of the input, and then keys that are none of its values
	seq  int64
	head uint64
}

// sortRows keeps its input and yields it in order; with a limit it keeps the first rows
// only, in a heap whose top is the last of them. An input that is in the order of the first keys
// is sorted by the others, group by group, and ends when it has yielded as many rows as the limit.
type sortRows struct {
	*runner
	input    operator
	division *division // of the input; nil: it is not divided
	keys     *keyMaker
	order    order // of rows as they are kept, without the keys of groups
	extra    []term
	limit    int64 // of rows that are not yielded yet
	node     *plan.Sort
	groups   order        // the first keys, of rows of the input
	group    []expr.Value // the values of these in the present group, at their places
	text     []byte       // of group

	room   int          // for how many places there is room at first
	width  int          // of the rows of the input
	more   []expr.Value // a row, and the keys that are none of its values
	store  rowStore
	places []placed // of the rows in the store, in order when all have been read
	other  []placed // memory to sort them with
	top    []sorted // with a limit: the first rows, each in memory that the next one gets
	kept   keeper
	spool  *spool
	// kind is that of the first value of each key, KindNull if all are NULL. If they are of
	// several kinds, heads do not compare.
	kind  expr.Kind
	mixed bool
	runs  *runs           // what has been spilled; nil: nothing
	last  []expr.Value    // a row that limit rows are not after; nil: not known
	pair  [2][]expr.Value // rows that are compared
	err   error           // of a comparison; all rows are equal from then on
	tried uint            // comparisons of arrange
}

func (r *runner) sort(n *plan.Sort) (operator, error) {
	d, err := r.divide(n.Input, r.divisions.Below(n))
	if err != nil {
		return nil, err
	}
	if d != nil {
		s, err := r.sortOver(n, d.caller.op)
		if err != nil {
			return nil, err
		}
		s.division = d
		return s, nil
	}
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	return r.sortOver(n, input)
}

// sortOver returns the sort of an input that is compiled already.
func (r *runner) sortOver(n *plan.Sort, input operator) (*sortRows, error) {
	groups, rest := n.Keys[:n.Prefix], n.Keys[n.Prefix:]
	keys, err := r.keyMaker(plan.OrderExprs(rest))
	if err != nil {
		return nil, err
	}
	s := &sortRows{runner: r, input: input, keys: keys, order: newOrder(rest), limit: n.Limit,
		node: n, width: len(n.Input.Layout())}
	for i, t := range keys.terms {
		if s.order.at[i] = t.at; t.at < 0 {
			s.order.at[i] = s.width + len(s.extra)
			s.extra = append(s.extra, t)
		}
	}
	if n.Prefix > 0 {
		s.groups = newOrder(groups)
		for i, k := range groups {
			s.groups.at[i] = k.Expr.(expr.Slot).I // the planner knows orders by columns
		}
		return s, nil
	}
	s.room = roomFor(n.Input.Estimate().Rows)
	if n.Limit > 0 && len(s.extra) == 0 {
		s.gate(input)
	}
	return s, nil
}

// gate lets an access that is the input decode only those rows completely that may be among the
// first.
func (s *sortRows) gate(input operator) {
	a := accessOf(input)
	if a == nil || a.node.Index != nil || a.node.Limit >= 0 {
		return
	}
	a.decoder.test(append(plan.OrderExprs(s.node.Keys), a.node.Residual)...)
	a.gate = func(row []expr.Value) bool { return s.wanted(s.headOf(row), row) }
	if r := a.intReader(s.order.at[0]); r != nil {
		a.narrow = &intBound{intColumn: intColumn{reader: r}, desc: s.order.desc[0],
			last: s.lastInt}
	}
}

// lastInt returns the first key of the last row, if there are limit rows and it is an integer.
func (s *sortRows) lastInt() (int64, bool) {
	if !s.full() || s.mixed || s.kind != expr.KindInt {
		return 0, false
	}
	v := &s.top[0].row[s.order.at[0]]
	if v.IsNull() {
		return 0, false
	}
	return v.AsInt()
}

// accessOf returns the access that an operator is, nil if it is another one.
func accessOf(op operator) *access {
	if c, ok := op.(*counter); ok {
		op = c.op
	}
	a, _ := op.(*access)
	return a
}

func (s *sortRows) run(yield func([]expr.Value) bool) error {
	switch {
	case s.limit == 0:
		return nil
	case s.node.Prefix > 0:
		return s.runGroups(yield)
	}
	parts, err := s.readAll()
	defer func() {
		for _, p := range parts {
			p.end()
		}
	}()
	if err != nil {
		return err
	}
	return merged(parts, yield)
}

// runGroups sorts the groups of the input one by one.
func (s *sortRows) runGroups(yield func([]expr.Value) bool) error {
	defer func() { s.end(); s.limit, s.group = s.node.Limit, nil }()
	s.begin()
	more := true
	counted := func(row []expr.Value) bool {
		s.limit--
		more = yield(row) && s.limit != 0
		return more
	}
	var failed error
	err := number(s.input)(func(seq int64, row []expr.Value) bool {
		if s.group == nil || s.groups.compare(s.group, row) != 0 {
			if failed = s.yieldGroup(counted); failed != nil || !more {
				return false
			}
			s.enter(row)
		}
		failed = s.add(seq, row)
		return failed == nil
	})
	if err = first(failed, err); err != nil || !more {
		return err
	}
	return s.yieldGroup(counted)
}

// enter begins the group of a row.
func (s *sortRows) enter(row []expr.Value) {
	s.store.clear()
	s.spool.close()
	s.kept.release()
	s.places, s.runs, s.last = s.places[:0], nil, nil
	s.kind, s.mixed = expr.KindNull, false
	if s.group == nil {
		s.group = make([]expr.Value, s.width)
	}
	s.text = s.text[:0]
	for _, at := range s.groups.at {
		s.group[at], s.text = row[at].CloneInto(s.text)
	}
}

// yieldGroup yields the rows that were added, in order.
func (s *sortRows) yieldGroup(yield func([]expr.Value) bool) error {
	if err := s.added(); err != nil {
		return err
	}
	if s.runs == nil {
		return s.yieldPlaces(yield)
	}
	return s.runs.merge(func(_ int64, row []expr.Value) bool { return yield(row) })
}

// readAll reads the input, into this sort and those of the helpers of a division.
func (s *sortRows) readAll() (parts []*sortRows, err error) {
	if s.division == nil {
		return []*sortRows{s}, s.read(number(s.input))
	}
	var mu sync.Mutex
	err = s.division.run(func(w *worker) error {
		p := s
		if w.index > 0 {
			var err error
			if p, err = w.sortOver(s.node, w.op); err != nil {
				return err
			}
		}
		mu.Lock()
		parts = append(parts, p)
		mu.Unlock()
		return p.read(w.numbered)
	})
	return parts, err
}

// read reads rows and brings those in memory into order.
func (s *sortRows) read(in numbered) error {
	s.begin()
	if err := in.all(s.add); err != nil {
		return err
	}
	return s.added()
}

// begin makes the sort ready for rows.
func (s *sortRows) begin() {
	s.kept, s.kind, s.mixed = s.keeper("sort"), expr.KindNull, false
	s.spool = s.runner.spool("sort", s.actual(s.node))
}

// added brings what was added last into order.
func (s *sortRows) added() error {
	if s.runs != nil {
		return s.spill()
	}
	return s.arrange()
}

// end gives back memory and files.
func (s *sortRows) end() {
	s.kept.release()
	s.spool.close()
	s.store, s.places, s.other, s.top = rowStore{}, nil, nil, nil
	s.runs, s.last, s.err = nil, nil, nil
}

// merged yields the rows of all parts in order.
func merged(parts []*sortRows, yield func([]expr.Value) bool) error {
	s := parts[0]
	for _, p := range parts[1:] {
		// Heads of several kinds do not compare.
		s.mixed = s.mixed || p.mixed || s.kind != p.kind && s.kind != expr.KindNull &&
			p.kind != expr.KindNull
		if s.kind == expr.KindNull {
			s.kind = p.kind
		}
		if p.runs != nil && s.runs == nil {
			s.runs = s.newRuns()
		}
	}
	if s.runs == nil {
		return s.mergeInMemory(parts, yield)
	}
	for _, p := range parts {
		if err := p.spill(); err != nil {
			return err
		}
		if p != s && p.runs != nil {
			s.runs.tapes = append(s.runs.tapes, p.runs.tapes...)
		}
	}
	return s.runs.merge(func(_ int64, row []expr.Value) bool { return yield(row) })
}

// sortedPart is a part that is merged.
type sortedPart struct {
	*sortRows
	at  int    // the next of places
	row sorted // that of the place before
}

// next moves to the next row; ok is false after the last.
func (p *sortedPart) next() (ok bool, err error) {
	if p.at == len(p.places) {
		return false, nil
	}
	place := p.places[p.at]
	p.at++
	p.row.head = place.head
	p.row.seq, err = p.store.read(place.at, p.row.row)
	return true, err
}

// mergeInMemory yields the rows of parts that are in order.
func (s *sortRows) mergeInMemory(parts []*sortRows, yield func([]expr.Value) bool) error {
	var open []*sortedPart
	for _, part := range parts {
		p := &sortedPart{sortRows: part}
		p.row.row = make([]expr.Value, s.width+len(s.extra))
		ok, err := p.next()
		if err != nil {
			return err
		}
		if ok {
			open = append(open, p)
		}
	}
	for left := s.limit; left != 0 && len(open) > 0; left-- {
		first := 0
		for i := 1; i < len(open); i++ {
			if s.compare(&open[i].row, &open[first].row) < 0 {
				first = i
			}
		}
		p := open[first]
		if !yield(p.row.row[:s.width:s.width]) {
			return nil
		}
		ok, err := p.next()
		if err != nil {
			return err
		}
		if !ok {
			open = slices.Delete(open, first, first+1)
		}
	}
	return nil
}

// yieldPlaces yields the rows in memory, which are in order.
func (s *sortRows) yieldPlaces(yield func([]expr.Value) bool) error {
	row := s.pair[0]
	for _, p := range s.places {
		if _, err := s.store.read(p.at, row); err != nil {
			return err
		}
		if !yield(row[:s.width:s.width]) {
			break
		}
	}
	return nil
}

// arrange brings what is in memory into order.
func (s *sortRows) arrange() error {
	for i := range s.top {
		r := &s.top[i]
		s.place(r.head, r.seq, r.row)
	}
	s.top = nil
	if s.pair[0] == nil {
		n := s.width + len(s.extra)
		s.pair = [2][]expr.Value{make([]expr.Value, n), make([]expr.Value, n)}
	}
	if len(s.places) < 2 {
		return nil
	}
	if s.mixed {
		slices.SortFunc(s.places, s.compareAt)
		return s.err
	}
	s.places, s.other, s.err = sortHeads(s.places, s.other, func() error { return check(s.ctx) })
	for from := 0; from < len(s.places) && s.err == nil; {
		to := from + 1
		for to < len(s.places) && s.places[to].head == s.places[from].head {
			to++
		}
		if to-from > 1 {
			slices.SortFunc(s.places[from:to], s.compareAt)
		}
		from = to
	}
	return s.err
}

// compareAt compares two rows in the store.
func (s *sortRows) compareAt(a, b placed) int {
	if s.tried++; s.tried%pairsAtATime == 0 {
		s.err = first(s.err, check(s.ctx))
	}
	if s.err != nil {
		return 0
	}
	x, err := s.store.read(a.at, s.pair[0])
	y, failed := s.store.read(b.at, s.pair[1])
	s.err = first(s.err, err, failed)
	return cmp.Or(s.order.compare(s.pair[0], s.pair[1]), cmp.Compare(x, y))
}

// place puts a row into the store, and returns how many bytes it takes.
func (s *sortRows) place(head uint64, seq int64, row []expr.Value) int64 {
	if s.places == nil {
		s.places = make([]placed, 0, cmp.Or(len(s.top), s.room))
	}
	at, n := s.store.add(seq, row)
	s.places = append(s.places, placed{head, at})
	return int64(n + placedBytes)
}

// placedBytes is the size of a placed, and of another one to sort with.
const placedBytes = 32

// compare puts rows with equal keys in the order they came.
func (s *sortRows) compare(a, b *sorted) int {
	if a.head != b.head && !s.mixed {
		return cmp.Compare(a.head, b.head)
	}
	return cmp.Or(s.order.compare(a.row, b.row), cmp.Compare(a.seq, b.seq))
}

// add takes in a row. Those with equal keys are in the order of their numbers, which rise.
func (s *sortRows) add(seq int64, row []expr.Value) (err error) {
	row = row[:s.width]
	whole := row
	if len(s.extra) > 0 {
		s.more = append(s.more[:0], row...)
		for i := range s.extra {
			v, err := s.extra[i].value(row, s.params)
			if err != nil {
				return err
			}
			s.more = append(s.more, v)
		}
		whole = s.more
	}
	head := s.headOf(whole)
	if !s.wanted(head, whole) {
		return nil
	}
	var bytes int64
	switch {
	case s.limit < 0:
		bytes = s.place(head, seq, whole)
	case s.full():
		r := &s.top[0]
		bytes = rowBytes(whole) - rowBytes(r.row)
		cloneOver(r.row, whole)
		r.seq, r.head = seq, head
		heap.Fix(s, 0)
	default:
		bytes = rowBytes(whole)
		heap.Push(s, sorted{clone(whole), seq, head})
	}
	spill, err := s.kept.grow(bytes)
	if err != nil || !spill {
		return err
	}
	return s.spill()
}

// full reports whether there are as many rows as the limit.
func (s *sortRows) full() bool { return s.limit > 0 && int64(len(s.top)) == s.limit }

// wanted reports whether a row with that head may be one of the first limit rows.
func (s *sortRows) wanted(head uint64, row []expr.Value) bool {
	if s.full() {
		top := &s.top[0]
		if !s.mixed && head != top.head {
			return head < top.head
		}
		return s.order.compare(row, top.row) < 0 // one that comes later is not before it
	}
	return s.last == nil || s.order.compare(row, s.last) < 0
}

// headOf returns the head of a row, and takes note of the kind of its key.
func (s *sortRows) headOf(row []expr.Value) uint64 {
	if len(s.order.at) == 0 {
		return 0
	}
	if k := row[s.order.at[0]].Kind(); k != s.kind && k != expr.KindNull {
		s.mixed = s.mixed || s.kind != expr.KindNull
		s.kind = k
	}
	return s.order.head(s.kind, row)
}

// spill writes the rows in memory as a run.
func (s *sortRows) spill() error {
	full := s.full()
	if err := s.arrange(); err != nil {
		return err
	}
	if len(s.places) == 0 {
		return nil
	}
	if s.runs == nil {
		s.runs = s.newRuns()
	}
	t := &tape{spool: s.spool}
	row := s.pair[0]
	for _, p := range s.places {
		seq, err := s.store.read(p.at, row)
		if err = first(err, t.add(seq, row[:s.width])); err != nil {
			return err
		}
	}
	if full {
		s.last = clone(row)
	}
	s.runs.tapes = append(s.runs.tapes, t)
	s.store, s.places = rowStore{}, s.places[:0]
	s.kept.release()
	return t.finish()
}

func (s *sortRows) newRuns() *runs {
	return &runs{spool: s.spool, keys: s.keys, order: newOrder(s.node.Keys[s.node.Prefix:]),
		limit: s.limit}
}

// Len, Less, Swap, Push and Pop implement heap.Interface: the last row is on top.
func (s *sortRows) Len() int           { return len(s.top) }
func (s *sortRows) Less(i, j int) bool { return s.compare(&s.top[i], &s.top[j]) > 0 }
func (s *sortRows) Swap(i, j int)      { s.top[i], s.top[j] = s.top[j], s.top[i] }

// Push implements heap.Interface.
func (s *sortRows) Push(x any) { s.top = append(s.top, x.(sorted)) }

// Pop implements heap.Interface.
func (s *sortRows) Pop() any {
	last := s.top[len(s.top)-1]
	s.top = s.top[:len(s.top)-1]
	return last
}
