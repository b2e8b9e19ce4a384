package exec

import (
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/merge"
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
		var of numbered = func(yield func(int64, []expr.Value) bool) error {
			return process(i, yield)
		}
		if err := of.all(t.add); err != nil {
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
		var some numbered = func(yield func(int64, []expr.Value) bool) error {
			return r.mergeOf(r.tapes[at:at+n], yield)
		}
		if err := first(some.all(t.add), t.finish()); err != nil {
			return err
		}
		r.tapes = slices.Replace(r.tapes, at, at+n, t)
	}
	return r.mergeOf(r.tapes, yield)
}

// mergeOf merges some of the tapes.
func (r *runs) mergeOf(tapes []*tape, yield func(seq int64, row []expr.Value) bool) error {
	next := make([]run, len(tapes))
	var m merge.Merge
	m.Init(merge.Options{Versions: true, Compare: func(i, j int32) int {
		a, b := &next[i], &next[j]
		c := 0
		if r.keys != nil {
			c = r.order.compare(a.key, b.key)
		}
		return cmp.Or(c, cmp.Compare(a.seq, b.seq))
	}})
	for i, t := range tapes {
		next[i] = run{runs: r, tapeReader: tapeReader{tape: t}}
		*m.Add() = merge.Input{Source: &next[i], Age: int32(i)}
	}
	for left := r.limit; left != 0 && len(m.Rows()) > 0; left-- {
		_, i := m.From()
		if !yield(next[i].seq, next[i].row) {
			return nil
		}
	}
	return m.Err()
}

// run is a tape that is merged: a source of rows of one, which are not in its entries.
type run struct {
	tapeReader
	runs  *runs
	key   []expr.Value // of its row
	err   error
	entry [1]base.Entry
}

// Rows implements cursor.Source: it moves to the next row.
func (s *run) Rows() []base.Entry {
	ok, err := s.next()
	if ok && s.runs.keys != nil {
		var key []expr.Value
		key, err = s.runs.keys.values(s.row, s.runs.params)
		s.key = append(s.key[:0], key...)
	}
	if s.err = err; !ok || err != nil {
		return nil
	}
	return s.entry[:]
}

// Err implements cursor.Source.
func (s *run) Err() error { return s.err }
