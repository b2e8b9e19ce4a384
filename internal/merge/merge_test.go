package merge_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/merge"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/internal/testutil"
)

// list is a merge.Seeker over rows in the order of the merge. It hands out batches of random
// sizes in memory that the next batch overwrites.
type list struct {
	rnd     *rand.Rand
	rows    []base.Entry
	reverse bool
	bounds  bool  // Bound knows the key of the next row, or a key before it
	err     error // instead of the end
	at      int
	asked   int // calls of Rows and Leave
	left    int // calls of Leave
	seen    int // rows returned
	out     []base.Entry
}

func (l *list) Rows() []base.Entry {
	l.asked++
	for i := range l.out { // what the merge must not look at any more
		clear(l.out[i].Key)
	}
	n := min(1+l.rnd.IntN(9), len(l.rows)-l.at)
	l.out = l.out[:0]
	for _, e := range l.rows[l.at : l.at+n] {
		e.Key = bytes.Clone(e.Key)
		l.out = append(l.out, e)
	}
	l.at += n
	l.seen += n
	return l.out
}

func (l *list) Err() error {
	if l.at == len(l.rows) {
		return l.err
	}
	return nil
}

func (l *list) Bound(dst []byte) (key []byte, known, empty bool) {
	if !l.bounds || l.rnd.IntN(4) == 0 || l.at == len(l.rows) && l.err != nil {
		return dst, false, false
	}
	if l.at == len(l.rows) {
		return dst, true, true
	}
	next := l.rows[l.at].Key
	if n := l.rnd.IntN(len(next) + 1); l.reverse {
		return append(append(dst, next...), "~~~"[:n%4]...), true, false
	} else {
		return append(dst, next[:n]...), true, false
	}
}

func (l *list) Leave(start, end []byte) []base.Entry {
	for l.left++; l.at < len(l.rows); l.at++ {
		key := l.rows[l.at].Key
		if bytes.Compare(key, start) < 0 || bytes.Compare(key, end) >= 0 {
			break
		}
	}
	return l.Rows()
}

func (l *list) MaxSeq() (seq base.SeqNum) {
	for _, e := range l.rows {
		seq = max(seq, e.Seq)
	}
	return seq
}

// input is what the model knows of an input.
type input struct {
	rows  []base.Entry
	view  int // inputs of one view share range tombstones
	part  int32
	skip  int32
	newer int // age
}

// world is a random merge: views of random inputs, some with range tombstones.
type world struct {
	rnd     *rand.Rand
	inputs  []input
	ranges  [][]base.RangeTombstone // by view
	reverse bool
	all     bool
}

// key returns a key of few different ones, some of them long, with the prefix of a part.
func (w *world) key(part int) []byte {
	n := w.rnd.IntN(40)
	switch w.rnd.IntN(3) {
	case 0:
		return fmt.Appendf(nil, "p%d:%d", part, n)
	case 1:
		return fmt.Appendf(nil, "p%d:common prefix %04d", part, n)
	}
	return fmt.Appendf(nil, "p%d:common prefix %04d, and more", part, n)
}

func newWorld(rnd *rand.Rand) *world {
	w := &world{rnd: rnd, reverse: rnd.IntN(2) == 0, all: rnd.IntN(4) == 0}
	parts := rnd.IntN(2) == 0
	for view := range 1 + rnd.IntN(5) {
		var ts []base.RangeTombstone
		for range w.rnd.IntN(4) * w.rnd.IntN(2) {
			lo, hi := w.key(view), w.key(view)
			if bytes.Compare(lo, hi) > 0 {
				lo, hi = hi, lo
			}
			seq := base.SeqNum(rnd.IntN(500))
			ts = append(ts, base.RangeTombstone{Start: lo, End: hi, Seq: seq})
		}
		w.ranges = append(w.ranges, ts)
		for age := range rnd.IntN(5) {
			in := input{view: view, newer: age}
			if parts {
				in.part, in.skip = int32(view), 3
			}
			in.rows = w.rows(view, base.SeqNum(100*(4-age)))
			w.inputs = append(w.inputs, in)
		}
	}
	rnd.Shuffle(len(w.inputs), func(i, j int) {
		w.inputs[i], w.inputs[j] = w.inputs[j], w.inputs[i]
	})
	return w
}

// rows returns the rows of an input, with numbers from seq on.
func (w *world) rows(view int, seq base.SeqNum) []base.Entry {
	var rows []base.Entry
	for range w.rnd.IntN(60) {
		kind := base.KindPut
		if w.rnd.IntN(5) == 0 {
			kind = base.KindDelete
		}
		rows = append(rows, base.Entry{
			Key: w.key(view), Seq: seq + base.SeqNum(w.rnd.IntN(100)), Kind: kind,
		})
	}
	slices.SortStableFunc(rows, func(a, b base.Entry) int {
		c := bytes.Compare(a.Key, b.Key)
		if w.reverse {
			c = -c
		}
		return cmp.Or(c, -cmp.Compare(a.Seq, b.Seq))
	})
	if w.all {
		return rows
	}
	return slices.CompactFunc(rows, func(a, b base.Entry) bool { return bytes.Equal(a.Key, b.Key) })
}

// tagged is a row with its input.
type tagged struct {
	base.Entry
	*input
}

// want sorts everything and drops what the merge has to hide.
func (w *world) want() (out []string) {
	var rows []tagged
	for i := range w.inputs {
		for _, e := range w.inputs[i].rows {
			rows = append(rows, tagged{e, &w.inputs[i]})
		}
	}
	slices.SortStableFunc(rows, func(a, b tagged) int {
		c := cmp.Or(bytes.Compare(a.Key[a.skip:], b.Key[b.skip:]), cmp.Compare(a.part, b.part))
		if w.reverse {
			c = -c
		}
		if w.all {
			c = cmp.Or(c, -cmp.Compare(a.Seq, b.Seq))
		}
		return cmp.Or(c, cmp.Compare(a.newer, b.newer))
	})
	for i, r := range rows {
		older := i > 0 && bytes.Equal(rows[i-1].Key, r.Key)
		if w.all || !older && r.Kind != base.KindDelete && !w.hidden(r) {
			out = append(out, show(r.part, int32(r.newer), &r.Entry))
		}
	}
	return out
}

func (w *world) hidden(r tagged) bool {
	for _, t := range w.ranges[r.view] {
		if t.Seq > r.Seq && bytes.Compare(t.Start, r.Key) <= 0 && bytes.Compare(r.Key, t.End) < 0 {
			return true
		}
	}
	return false
}

func show(part, age int32, e *base.Entry) string {
	return fmt.Sprintf("%s@%d kind %d part %d age %d", e.Key, e.Seq, e.Kind, part, age)
}

// start fills the merge; lazy lets it use bounds.
func (w *world) start(m *merge.Merge, lazy bool) []*list {
	m.Init(merge.Options{Reverse: w.reverse, Versions: w.all, Lazy: lazy})
	var lists []*list
	ranges := make([]*merge.Ranges, len(w.ranges))
	for i, ts := range w.ranges {
		if l := rangedel.Build(ts, base.MaxSeqNum); l != nil && !w.all {
			ranges[i] = &merge.Ranges{List: l}
		}
	}
	for _, in := range w.inputs {
		l := &list{rnd: w.rnd, rows: in.rows, reverse: w.reverse, bounds: lazy && in.skip == 0}
		lists = append(lists, l)
		*m.Add() = merge.Input{
			Source: l, Ranges: ranges[in.view], Age: int32(in.newer), Part: in.part, Skip: in.skip,
		}
	}
	return lists
}

// take returns at most n rows.
func take(m *merge.Merge, n int) (out []string) {
	for rows := m.Rows(); len(rows) > 0; rows = m.Rows() {
		for i := range rows {
			part, age := m.From()
			out = append(out, show(part, age, &rows[i]))
			if len(out) == n {
				return out
			}
		}
	}
	return out
}

// difference describes the first row that differs.
func difference(got, want []string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%d rows, want %d; from row %d on %q, want %q", len(got), len(want), i,
		got[i:min(i+2, len(got))], want[i:min(i+2, len(want))])
}

// The merge agrees with sorting everything: versions, parts, tombstones, range tombstones,
// both directions, with fences and without, and again in the memory of an earlier merge.
//
// Promise (reads and writes): Every merge shows what sorting would: newest versions, several
// partitions, range tombstones, both directions, with and without fences; unions keep
// everything. Also `TestMergeLeavesRangeTombstones`, `TestLazyMergeReadsFewInputs`, `TestUnion`
// in `internal/merge`.
func TestMergeAgreesWithSort(t *testing.T) {
	var m merge.Merge
	for seed := range uint64(1000) {
		w := newWorld(rand.New(rand.NewPCG(seed, 1)))
		want := w.want()
		for _, lazy := range []bool{false, true} {
			lazy = lazy && !w.all
			w.start(&m, lazy)
			if got := take(&m, -1); m.Err() != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d, lazy %v: %v, %s", seed, lazy, m.Err(), difference(got, want))
			}
			if m.Rows() != nil {
				t.Fatalf("seed %d: rows after the end", seed)
			}
			m.Release()
			w.start(&m, lazy)
			n := w.rnd.IntN(len(want) + 1)
			first := want[:min(max(1, n), len(want))]
			if got := take(&m, max(1, n)); !slices.Equal(got, first) {
				t.Fatalf("seed %d, first rows: %s", seed, difference(got, first))
			}
			m.Release()
		}
	}
}

// An error of an input ends the merge; none of its rows is shown after it.
func TestMergeReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	for seed := range uint64(500) {
		w := newWorld(rand.New(rand.NewPCG(seed, 2)))
		var m merge.Merge
		lists := w.start(&m, seed%2 == 0 && !w.all)
		if len(lists) == 0 {
			continue
		}
		lists[w.rnd.IntN(len(lists))].err = broken
		got, want := take(&m, -1), w.want()
		if !errors.Is(m.Err(), broken) || m.Rows() != nil {
			t.Fatalf("seed %d: error %v, or rows after it", seed, m.Err())
		}
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("seed %d, before the error: %s", seed, difference(got, want))
		}
	}
}

// rowsOf returns n rows with the prefix and even numbers from first on.
func rowsOf(prefix string, first, n int, seq base.SeqNum) (rows []base.Entry) {
	for i := range n {
		key := fmt.Appendf(nil, "%s%06d", prefix, first+2*i)
		rows = append(rows, base.Entry{Key: key, Seq: seq, Kind: base.KindPut})
	}
	return rows
}

// Inputs whose rows a range tombstone hides leave it with a seek each, except for the one
// that has newer rows; rows of another view in between do not prevent it.
func TestMergeLeavesRangeTombstones(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		w := &world{rnd: rand.New(rand.NewPCG(1, 3)), reverse: reverse}
		w.ranges = [][]base.RangeTombstone{
			{{Start: []byte("k000010"), End: []byte("k019000"), Seq: 50}}, nil,
		}
		for i := range 4 {
			w.inputs = append(w.inputs, input{rows: rowsOf("k", i/2, 10000, 40), newer: i + 1})
		}
		w.inputs = append(w.inputs,
			input{rows: rowsOf("k", 8000, 20, 60)},
			input{rows: rowsOf("k0", 1000, 3000, 1), view: 1})
		for i := range w.inputs {
			if reverse {
				slices.Reverse(w.inputs[i].rows)
			}
		}
		var m merge.Merge
		lists := w.start(&m, false)
		if got, want := take(&m, -1), w.want(); !slices.Equal(got, want) {
			t.Fatalf("reverse %v: %d rows, want %d", reverse, len(got), len(want))
		}
		for i, l := range lists[:4] {
			// Before and after the newer rows, with what was read before the eighth row.
			if l.left == 0 || l.left > 3 || l.seen > 1200 {
				t.Errorf("reverse %v: input %d leaves %d times and reads %d rows",
					reverse, i, l.left, l.seen)
			}
		}
	}
}

// A lazy merge reads the inputs that its first rows come from, and no others.
func TestLazyMergeReadsFewInputs(t *testing.T) {
	var m merge.Merge
	w := &world{rnd: rand.New(rand.NewPCG(1, 4)), ranges: make([][]base.RangeTombstone, 1)}
	for i := range 100 {
		w.inputs = append(w.inputs, input{rows: rowsOf(fmt.Sprintf("k%02d", i), 0, 5, 1)})
	}
	lists := w.start(&m, true)
	if got, want := take(&m, 7), w.want()[:7]; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	asked := 0
	for _, l := range lists[2:] {
		asked += l.asked
	}
	if asked > 60 { // the bounds of a list are unknown one time in four
		t.Errorf("%d reads of inputs that are not needed", asked)
	}
}

// A union shows everything, in the order of the sequences where keys are equal, and ends
// all sequences, also early.
func TestUnion(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 5))
	for range 500 {
		reverse, running := rnd.IntN(2) == 0, 0
		var seqs []iter.Seq2[string, error]
		var want []string
		for i := range rnd.IntN(6) {
			var items []string
			for range rnd.IntN(20) {
				items = append(items, fmt.Sprintf("%d key %d", i, rnd.IntN(30)))
			}
			slices.Sort(items)
			if reverse {
				slices.Reverse(items)
			}
			items = slices.Compact(items)
			want = append(want, items...)
			seqs = append(seqs, func(yield func(string, error) bool) {
				running++
				defer func() { running-- }()
				for _, s := range items {
					if !yield(s, nil) {
						return
					}
				}
			})
		}
		order := func(a, b string) int { return cmp.Compare(a[1:], b[1:]) }
		if reverse {
			order = func(a, b string) int { return -cmp.Compare(a[1:], b[1:]) }
		}
		slices.SortStableFunc(want, order)
		stop := rnd.IntN(len(want) + 2)
		var got []string
		union := merge.Union(seqs, reverse, func(dst []byte, _ int, s *string) []byte {
			return append(dst, (*s)[1:]...)
		})
		for s, err := range union {
			testutil.OK(t, err)
			if got = append(got, s); len(got) == stop {
				break
			}
		}
		if stop > 0 && stop < len(want) {
			want = want[:stop]
		}
		if !slices.Equal(got, want) || running != 0 {
			t.Fatalf("reverse %v: %d run on, got %q, want %q", reverse, running, got, want)
		}
	}
}

// number is a sequence of numbers: of those that have been read the last is the present one.
type number struct {
	all []int
	at  int
	row [1]base.Entry
}

func (n *number) Rows() []base.Entry {
	if n.at == len(n.all) {
		return nil
	}
	n.at++
	return n.row[:]
}

func (n *number) Err() error { return nil }

// Rows may be compared by what is not a key; those that compare equal are in the order of their
// ages.
func TestMergeCompares(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 6))
	for range 200 {
		sources := make([]number, 1+rnd.IntN(9))
		var want, got []string
		var m merge.Merge
		m.Init(merge.Options{Versions: true, Compare: func(a, b int32) int {
			x, y := &sources[a], &sources[b]
			return cmp.Compare(y.all[y.at-1], x.all[x.at-1]) // from the highest on
		}})
		show := func(i, n int) string { return fmt.Sprintf("%d of %d", n, i) }
		for n := range 20 {
			for i := range sources {
				if rnd.IntN(2) == 0 {
					sources[i].all = append(sources[i].all, 20-n)
					want = append(want, show(i, 20-n))
				}
			}
		}
		for i := range sources {
			*m.Add() = merge.Input{Source: &sources[i], Age: int32(i)}
		}
		for len(m.Rows()) > 0 {
			_, i := m.From()
			got = append(got, show(int(i), sources[i].all[sources[i].at-1]))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A union ends with the error of a sequence.
func TestUnionReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	seq := func(yield func(int, error) bool) { _ = yield(1, nil) && yield(0, broken) }
	var got []int
	var failed error
	union := merge.Union([]iter.Seq2[int, error]{seq, seq}, false,
		func(dst []byte, _ int, n *int) []byte { return append(dst, byte(*n)) })
	for n, err := range union {
		if err != nil {
			failed = err
			continue
		}
		got = append(got, n)
	}
	if !slices.Equal(got, []int{1}) || !errors.Is(failed, broken) {
		t.Fatalf("%v, then %v", got, failed)
	}
}
