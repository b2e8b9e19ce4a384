package exec

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

const (
	// maxParts is how many parts an input is divided into.
	maxParts = 16
	// maxRuns bounds the runs that are merged at a time: each has a buffer.
	maxRuns = 128
)

// partitions divide rows by their keys.
type partitions struct {
	*spool
	seed  expr.HashSeed
	parts [maxParts]tape
	// beside, if not nil, has parts that are processed even where these have no rows.
	beside *partitions
}

func newPartitions(s *spool) *partitions { return newPartitionsLike(s, expr.NewHashSeed()) }

// newPartitionsLike returns partitions that divide keys as others of the same seed do.
func newPartitionsLike(s *spool, seed expr.HashSeed) *partitions {
	p := &partitions{spool: s, seed: seed}
	for i := range p.parts {
		p.parts[i].spool = s
	}
	return p
}

// add adds a row to the part of its canonical key.
func (p *partitions) add(key []expr.Value, seq int64, row []expr.Value) error {
	return p.parts[p.seed.Hash(key)%maxParts].add(seq, row)
}

// rows returns how many rows there are.
func (p *partitions) rows() (n int64) {
	for i := range p.parts {
		n += p.parts[i].rows
	}
	return n
}

// each processes every part that has rows, and yields the results of all of them in the order of
// their numbers, which is that of the results of each part. Those of before, if it is not nil, are
// among them.
func (p *partitions) each(
	before *tape, process func(i int, yield func(seq int64, row []expr.Value) bool) error,
	yield func(seq int64, row []expr.Value) bool,
) error {
	results := runs{spool: p.spool, limit: -1}
	if before != nil {
		results.tapes = append(results.tapes, before)
	}
	for i := range p.parts {
		if p.parts[i].rows == 0 && (p.beside == nil || p.beside.parts[i].rows == 0) {
			continue
		}
		t := &tape{spool: p.spool}
		var failed error
		err := process(i, func(seq int64, row []expr.Value) bool {
			failed = t.add(seq, row)
			return failed == nil
		})
		if err := first(failed, err); err != nil {
			return err
		}
		p.parts[i] = tape{}
		results.tapes = append(results.tapes, t)
	}
	return results.merge(yield)
}

// runs are tapes whose rows are in order: by the keys, if there are any, or else by their
// numbers. Rows with equal keys are in the order of their numbers.
type runs struct {
	*spool
	tapes []*tape
	keys  *keyMaker
	order order
	limit int64 // rows of the merge; negative: all
}

// merge yields the rows of all runs in order.
func (r *runs) merge(yield func(seq int64, row []expr.Value) bool) error {
	for at := 0; len(r.tapes) > maxRuns; at++ {
		n := min(maxRuns, len(r.tapes)-maxRuns+1)
		if at+n > len(r.tapes) {
			at = 0
		}
		t := &tape{spool: r.spool}
		var failed error
		err := r.mergeOf(r.tapes[at:at+n], func(seq int64, row []expr.Value) bool {
			failed = t.add(seq, row)
			return failed == nil
		})
		if err := first(failed, err, t.finish()); err != nil {
			return err
		}
		r.tapes = slices.Replace(r.tapes, at, at+n, t)
	}
	return r.mergeOf(r.tapes, yield)
}

// mergeOf merges some of the tapes.
func (r *runs) mergeOf(tapes []*tape, yield func(seq int64, row []expr.Value) bool) error {
	h := runHeap{order: &r.order, keyed: r.keys != nil}
	for i, t := range tapes {
		s := &run{tapeReader: tapeReader{tape: t}, at: i}
		ok, err := r.advance(s)
		if err != nil {
			return err
		}
		if ok {
			h.runs = append(h.runs, s)
		}
	}
	heap.Init(&h)
	for left := r.limit; len(h.runs) > 0 && left != 0; left-- {
		s := h.runs[0]
		if !yield(s.seq, s.row) {
			return nil
		}
		ok, err := r.advance(s)
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return nil
}

// advance moves a run to its next row.
func (r *runs) advance(s *run) (bool, error) {
	ok, err := s.next()
	if err != nil || !ok || r.keys == nil {
		return ok, err
	}
	key, err := r.keys.values(s.row, r.params)
	s.key = append(s.key[:0], key...)
	return true, err
}

// run is a tape that is merged.
type run struct {
	tapeReader
	at  int
	key []expr.Value // of its row
}

// runHeap implements heap.Interface: the first row of all is on top.
type runHeap struct {
	runs  []*run
	order *order
	keyed bool
}

func (h *runHeap) Len() int { return len(h.runs) }

func (h *runHeap) Less(i, j int) bool {
	a, b := h.runs[i], h.runs[j]
	c := 0
	if h.keyed {
		c = h.order.compare(a.key, b.key)
	}
	c = cmp.Or(c, cmp.Compare(a.seq, b.seq))
	return c < 0 || c == 0 && a.at < b.at
}

func (h *runHeap) Swap(i, j int) { h.runs[i], h.runs[j] = h.runs[j], h.runs[i] }

// Push implements heap.Interface.
func (h *runHeap) Push(x any) { h.runs = append(h.runs, x.(*run)) }

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	last := h.runs[len(h.runs)-1]
	h.runs = h.runs[:len(h.runs)-1]
	return last
}
