package stripe

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/memtable"
)

// Tuning of the batches in which a source reads.
const (
	// minBatchRows is the batch after the first, which has what the caller expects to
	// need; each further one is batchGrowth times as large, up to maxBatchRows. Why it
	// grows: most of a large batch would be wasted on a short query.
	minBatchRows = 4
	batchGrowth  = 2
	maxBatchRows = 64
)

// Source is one memtable or run under a Cursor, with rows read ahead. It shows the
// newest version of each key that it has, tombstones included.
//
// Invariant: while the source is in the heap, entry is batch.Rows[at], and all rows
// are inside of the bounds.
type Source struct {
	bounds *Bounds // of the cursor
	opened bool    // Rows has been called
	entry  *base.Entry
	head   uint64 // first bytes of the key behind Cursor.prefix
	at     int
	batch  cursor.Batch

	age    int // 0 is newest
	maxSeq base.SeqNum
	rows   int  // of the batch
	grown  int  // of the next batch
	most   int  // limit of rows
	ended  bool // nothing inside of the bounds lies behind the batch

	ctx  context.Context //nolint:containedctx // of the bounds, lives as long as they
	done <-chan struct{} // of ctx, nil if it never ends
	err  error           // why the reading was stopped

	inTable bool // which of the two is used
	table   memtable.Cursor
	run     runCursor
}

func (s *Source) initTable(t *memtable.Table, snap base.SeqNum) {
	t.InitCursor(&s.table, snap)
	s.inTable = true
}

func (s *Source) initRun(r *Run, lo, hi int, snap base.SeqNum, ahead int) {
	s.run.init(r, lo, hi, snap, ahead)
	s.inTable = false
}

// release lets go of everything but memory.
func (s *Source) release() {
	if s.inTable {
		s.table.Release()
	} else {
		s.run.release()
	}
	s.batch.Release(maxBatchRows)
	s.entry, s.bounds, s.inTable, s.opened = nil, nil, false, false
	s.ctx, s.done = nil, nil
}

// Age orders the sources of a cursor: of two versions of a key the one in the source of
// the lower age is newer.
func (s *Source) Age() int { return s.age }

// Touch and Approach are steps before the first call of Rows. They only matter for
// speed: if many sources are about to be positioned, all should do the first step, then
// all the second, so that they wait for memory together.
func (s *Source) Touch() {
	if !s.inTable && !s.bounds.Reverse && len(s.bounds.Lo) > 0 {
		s.run.touch(s.bounds.Lo)
	}
}

// Approach is the second step: see Touch.
func (s *Source) Approach() {
	if !s.inTable && !s.bounds.Reverse && len(s.bounds.Lo) > 0 {
		s.run.approach(s.bounds.Lo)
	}
}

// Rows moves over the next entries inside of the bounds and returns them; none at the
// end or after an error. They are valid until the next call.
func (s *Source) Rows() []base.Entry {
	ok := false
	if !s.opened {
		s.opened = true
		ok = s.seek()
	} else {
		s.at = len(s.batch.Rows) - 1
		ok = s.next()
	}
	if !ok {
		return nil
	}
	return s.batch.Rows
}

// Restrict makes the next call of Rows begin anew, with the first rows inside of b, which
// must lie inside of the bounds of the cursor and is referenced until Close. Merges that
// read several ranges use it.
func (s *Source) Restrict(b *Bounds) {
	s.bounds, s.opened = b, false
	s.rows, s.grown = min(minBatchRows, s.most), min(minBatchRows*batchGrowth, s.most)
}

// Err returns the error that ended the movement, nil at an ordinary end.
func (s *Source) Err() error {
	if s.err != nil {
		return s.err
	}
	if s.inTable {
		return s.table.Err()
	}
	return s.run.Err()
}

func (s *Source) cursor() cursor.Cursor {
	if s.inTable {
		return &s.table
	}
	return &s.run
}

// seek moves to the first row inside of the bounds. It reports whether there is one,
// as do all moves.
func (s *Source) seek() bool {
	b := s.bounds
	cur := s.cursor()
	switch {
	case !b.Reverse:
		return s.fill(cur.SeekGE(b.Lo))
	case b.Hi == nil:
		return s.fill(cur.Last())
	}
	return s.fill(cur.SeekLT(b.Hi))
}

// leave moves out of the range [start, end) in the direction of movement.
func (s *Source) leave(start, end []byte) bool {
	s.rows, s.grown = min(minBatchRows, s.most), min(minBatchRows*batchGrowth, s.most)
	if s.bounds.Reverse {
		return s.fill(s.cursor().SeekLT(start))
	}
	return s.fill(s.cursor().SeekGE(end))
}

// next moves one row on.
func (s *Source) next() bool {
	b := s.bounds
	if s.at+1 < len(s.batch.Rows) {
		s.at++
		s.entry = &s.batch.Rows[s.at]
		return true
	}
	if s.ended {
		return false
	}
	s.rows, s.grown = s.grown, min(s.grown*batchGrowth, s.most)
	if s.inTable {
		return s.fill(s.stepTable(b.Reverse))
	}
	if b.Reverse {
		return s.fill(s.run.Prev())
	}
	return s.fill(s.run.Next())
}

func (s *Source) stepTable(reverse bool) bool {
	if reverse {
		return s.table.Prev()
	}
	return s.table.Next()
}

// fill reads a batch that starts with the entry that the source's cursor stands on;
// without ok it stands on none.
func (s *Source) fill(ok bool) bool {
	b := s.bounds
	s.batch.Reset()
	s.at, s.ended = 0, !ok || s.stopped()
	if s.ended {
		return false
	}
	s.batch.Room(s.rows)
	if s.inTable {
		s.batch.Keep(s.table.Entry())
		for len(s.batch.Rows) < s.rows && !s.ended {
			if s.ended = !s.stepTable(b.Reverse); !s.ended {
				s.batch.Keep(s.table.Entry())
			}
		}
	} else {
		s.batch.Add(s.run.Entry())
		if b.Reverse {
			s.run.cur.Less(&s.batch, s.rows-1)
		} else {
			s.run.cur.More(&s.batch, s.rows-1)
		}
	}
	s.trim()
	if len(s.batch.Rows) == 0 {
		return false
	}
	s.entry = &s.batch.Rows[0]
	return true
}

// stopped reports whether the context of the reading has ended.
func (s *Source) stopped() bool {
	select {
	case <-s.done: // never, if it is nil
		s.err = context.Cause(s.ctx)
		return true
	default:
		return false
	}
}

// trim cuts off the rows behind the bound.
func (s *Source) trim() {
	n := len(s.batch.Rows)
	for n > 0 && s.bounds.passed(s.batch.Rows[n-1].Key) {
		n--
		s.ended = true
	}
	s.batch.Rows = s.batch.Rows[:n]
}

// passed reports whether key lies past the bound in the direction of movement.
func (b *Bounds) passed(key []byte) bool {
	if b.Reverse {
		return bytes.Compare(key, b.Lo) < 0
	}
	return b.Hi != nil && bytes.Compare(key, b.Hi) >= 0
}
