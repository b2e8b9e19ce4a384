package stripe

import (
	"bytes"
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
)

// Tuning of the batches in which a source reads.
const (
	// minBatchRows is the batch after the first, which has what the caller expects to
	// need; each further one is batchGrowth times as large, up to maxBatchRows. Why it
	// grows: most of a large batch would be wasted on a short query.
	minBatchRows = 4
	batchGrowth  = 2
	maxBatchRows = 64
	// limitedRows is the batch from which on the end of the bounds is looked for while reading.
	limitedRows = 32
)

// source is one memtable or run under a Cursor, with rows read ahead. It shows the
// newest version of each key that it has, tombstones included, and of large values the references.
// It is a merge.Seeker.
//
// Invariant: all rows of the batch are inside of the bounds.
type source struct {
	bounds *Bounds // of the reading, or of a span
	opened bool    // Rows has been called
	batch  cursor.Batch
	spans  *spanSource // nil until it is first needed

	rows  int  // of the batch
	grown int  // of the next batch
	most  int  // limit of rows
	ended bool // nothing inside of the bounds lies after the batch

	ctx  context.Context //nolint:containedctx // of the bounds, lives as long as they
	done <-chan struct{} // of ctx, nil if it never ends
	err  error           // why the reading was stopped

	parked bool   // a sparse source is closed, before its row with key at
	at     []byte // memory of it

	inTable bool // which of the two is used
	memory  tableSource
	files   runSource
}

// tableSource reads a memtable. Why its cursor is made for the first row, as that of a run: a
// merge of many sources may need rows of a few of them only.
type tableSource struct {
	of     *memtable.Table
	snap   base.SeqNum
	cursor *memtable.Cursor
	inUse  bool // the cursor is
}

// runSource reads the files [lo, hi) of a run.
type runSource struct {
	of     *Run
	lo, hi int
	snap   base.SeqNum
	cursor *runCursor
	inUse  bool // the cursor is
	prunes bool // the pruner is used
	pruner pruner
	many   bool // all rows of many sources are read
	sparse bool // see reading.findSparse

	// edge, if not nil, is the first key of the files (reversed: the last), where reading begins
	// at or before it. It is set if little may be read.
	edge []byte

	near     int // the file in which approach looks for the first row
	nearing  bool
	reading  bool // rows come from what approach has found, not from the cursor
	approach sst.Approach
}

func (s *source) initTable(t *memtable.Table, snap base.SeqNum) {
	s.memory.of, s.memory.snap, s.inTable = t, snap, true
}

func (s *source) initRun(r *Run, lo, hi int, snap base.SeqNum) {
	f := &s.files
	f.of, f.lo, f.hi, f.snap, f.many = r, lo, hi, snap, s.bounds.many()
	if s.inTable = false; s.bounds.Lazy || f.many {
		f.edge = s.bounds.edge(r.Files[lo].Meta.Smallest, r.Files[hi-1].Meta.Largest)
	}
}

// release lets go of everything but memory.
func (s *source) release() {
	if s.inTable {
		s.memory.release()
	} else {
		s.files.release()
	}
	if s.opened {
		s.batch.Release(maxBatchRows)
	}
	if s.spans != nil {
		s.spans.release()
	}
	s.bounds, s.inTable, s.opened, s.parked = nil, false, false, false
	s.ctx, s.done = nil, nil
}

func (m *tableSource) release() {
	if m.inUse {
		m.cursor.Release()
	}
	m.of, m.inUse = nil, false
}

// open returns the cursor.
func (m *tableSource) open() *memtable.Cursor {
	if !m.inUse {
		if m.cursor == nil {
			m.cursor = new(memtable.Cursor)
		}
		m.of.InitCursor(m.cursor, m.snap)
		m.inUse = true
	}
	return m.cursor
}

func (f *runSource) release() {
	if f.inUse {
		f.cursor.release()
	}
	if f.nearing {
		f.arrive()
	}
	f.of, f.inUse, f.reading, f.edge = nil, false, false, nil
	f.many, f.sparse = false, false
	if f.prunes {
		f.prunes, f.pruner = false, pruner{}
	}
}

// open returns the cursor.
func (f *runSource) open(ahead int) *runCursor {
	if !f.inUse {
		if f.cursor == nil {
			f.cursor = new(runCursor)
		}
		f.cursor.init(f.of, f.lo, f.hi, f.snap, ahead)
		f.cursor.yields = f.many
		if f.inUse = true; f.prunes {
			f.cursor.pruner = &f.pruner
		}
	}
	return f.cursor
}

// MaxSeq implements merge.Seeker.
func (s *source) MaxSeq() base.SeqNum {
	if s.inTable {
		return s.memory.of.MaxSeq()
	}
	return s.files.of.MaxSeq
}

// approach prepares sources for their first call of Rows. It only matters for speed: all
// take the first step towards their rows, then all the second, and so on, so that they wait
// for memory together. It changes the list.
func approach(sources []*source) {
	near := sources[:0]
	for _, s := range sources {
		if s.depart() {
			near = append(near, s)
		}
	}
	for _, s := range near {
		s.files.approach.Index(s.bounds.first(), s.files.snap, s.bounds.Reverse)
	}
	for _, s := range near {
		s.files.approach.Block()
	}
	for _, s := range near {
		s.files.approach.Heads()
	}
	for _, s := range near {
		s.files.approach.Search(s.bounds.first())
	}
	for _, s := range near {
		s.files.approach.Entry()
	}
}

// depart takes the first step of an approach. It reports false if there is none to take.
func (s *source) depart() bool {
	f, key := &s.files, s.bounds.first()
	if s.inTable || len(key) == 0 || f.edge != nil || f.sparse {
		return false
	}
	f.near = f.of.fileFor(f.lo, f.hi, key, s.bounds.Reverse)
	f.nearing = f.near < f.hi && (!f.prunes || !f.pruner.prunes(f.of.Files[f.near]))
	if f.nearing {
		f.approach.Init(f.of.Files[f.near].Reader)
		f.approach.Touch()
	}
	return f.nearing
}

// Bound implements merge.Seeker. The bound is known if the source has not been opened and its
// first key is at hand, or if approach has found one, and inside of the bounds of the source.
func (s *source) Bound(dst []byte) (key []byte, known, empty bool) {
	from, b := len(dst), s.bounds
	switch {
	case s.files.sparse && s.opened && !s.ended:
		return s.park(dst)
	case s.inTable && (s.opened || !b.Few) || s.opened && s.ended:
		return dst, false, false
	case s.inTable:
		if dst, known = s.memory.of.Bound(dst, b.first(), b.Reverse); !known {
			return dst, true, true
		}
	case s.files.nearing:
		if dst, known = s.files.approach.Bound(dst, b.Reverse); !known {
			return dst[:from], false, false
		}
	default:
		switch f := &s.files; {
		case !s.opened && f.edge != nil:
			dst = append(dst, f.edge...)
		case !s.opened && f.sparse:
			dst = append(dst, b.first()...)
		default:
			return dst, false, false
		}
	}
	// Why not the end of the bounds itself: if it is that of a partition, it lies outside.
	if b.Reverse && b.Hi != nil && bytes.Compare(dst[from:], b.Hi) >= 0 {
		return dst[:from], false, false
	}
	return dst, true, b.passed(dst[from:])
}

// park closes a sparse source until its next row, whose key it appends to dst, is wanted.
func (s *source) park(dst []byte) (key []byte, known, empty bool) {
	f := &s.files
	if !s.parked {
		moved := s.step()
		if !moved && f.cursor.Err() != nil {
			return dst, false, false
		}
		s.ended = !moved || s.bounds.passed(f.cursor.Entry().Key)
		if s.parked = !s.ended; s.parked {
			s.at = append(s.at[:0], f.cursor.Entry().Key...)
		}
		f.cursor.release()
		f.cursor, f.inUse = nil, false
		s.batch.Release(maxBatchRows)
	}
	return append(dst, s.at...), true, s.ended
}

// unpark moves to the row before which the source was closed.
func (s *source) unpark() []base.Entry {
	s.parked = false
	c := s.files.open(s.bounds.ReadAheadBytes)
	if s.bounds.Reverse {
		return s.fill(c.SeekLT(append(s.at, 0)))
	}
	return s.fill(c.SeekGE(s.at))
}

// edge returns the end of keys from first to last at which reading begins, or nil if that is
// after it.
func (b *Bounds) edge(first, last []byte) []byte {
	switch {
	case !b.Reverse && bytes.Compare(first, b.Lo) >= 0:
		return first
	case b.Reverse && (b.Hi == nil || bytes.Compare(last, b.Hi) < 0):
		return last
	}
	return nil
}

// first returns the bound at which reading begins, or nil.
func (b *Bounds) first() []byte {
	if b.Reverse {
		return b.Hi
	}
	return b.Lo
}

// last returns the bound at which reading ends, or nil.
func (b *Bounds) last() []byte {
	if b.Reverse {
		return b.Lo
	}
	return b.Hi
}

// Rows implements cursor.source.
func (s *source) Rows() []base.Entry {
	if s.opened {
		return s.next()
	}
	s.opened = true
	return s.seek()
}

// Leave implements merge.Seeker.
func (s *source) Leave(start, end []byte) []base.Entry {
	s.restart()
	if s.bounds.Reverse {
		return s.fill(s.cursor().SeekLT(start))
	}
	return s.fill(s.cursor().SeekGE(end))
}

// restrict makes the next call of Rows begin again, with the first rows inside of b, which
// must lie inside of the bounds of the reading and is referenced until release.
func (s *source) restrict(b *Bounds) {
	s.bounds, s.opened = b, false
	s.restart()
}

// restart drops what approach has found, and begins again with small batches.
func (s *source) restart() {
	if s.files.nearing {
		s.files.arrive()
	}
	s.files.reading, s.parked = false, false
	s.rows, s.grown = min(minBatchRows, s.most), min(minBatchRows*batchGrowth, s.most)
}

// Err returns the error that ended the movement, nil at an ordinary end.
func (s *source) Err() error {
	if s.err != nil {
		return s.err
	}
	if s.inTable || !s.files.inUse {
		return nil // a memtable has none
	}
	return s.files.cursor.Err()
}

func (s *source) cursor() rowCursor {
	if s.inTable {
		return s.memory.open()
	}
	return s.files.open(s.bounds.ReadAheadBytes)
}

// seek moves to the first rows inside of the bounds and returns them, as do all moves.
func (s *source) seek() []base.Entry {
	b, f := s.bounds, &s.files
	if f.nearing && !s.inTable && s.fillNear() {
		if f.reading = true; f.prunes {
			f.pruner.Count(1, 0)
		}
		return s.batch.Rows
	}
	cur := s.cursor()
	if s.inTable {
		s.memory.cursor.Expect(s.rows)
		s.limit()
	} else if f.nearing {
		f.cursor.approached(f.near, &f.approach)
		defer f.arrive()
	}
	switch {
	case !b.Reverse:
		return s.fill(cur.SeekGE(b.Lo))
	case b.Hi == nil:
		return s.fill(cur.Last())
	}
	return s.fill(cur.SeekLT(b.Hi))
}

// arrive ends the approach.
func (f *runSource) arrive() {
	f.nearing = false
	f.approach.Release()
}

// next moves over the rows that follow the batch.
func (s *source) next() []base.Entry {
	b := s.bounds
	if s.ended {
		return nil
	}
	if s.parked {
		return s.unpark()
	}
	s.rows, s.grown = s.grown, min(s.grown*batchGrowth, s.most)
	if s.inTable {
		s.limit()
		return s.fill(s.stepTable(b.Reverse))
	}
	if f := &s.files; f.reading {
		last := s.batch.Rows[len(s.batch.Rows)-1]
		if s.fillNear() {
			return s.batch.Rows
		}
		f.open(b.ReadAheadBytes).resume(f.near, &f.approach, &last)
		f.reading = false
		f.arrive()
	}
	return s.fill(s.step())
}

// step moves to the next entry of files that are open.
func (s *source) step() bool {
	if s.bounds.Reverse {
		return s.files.cursor.Prev()
	}
	return s.files.cursor.Next()
}

// limit ends the cursor of a memtable at the bound, if it reads many rows at once. Why not always:
// it costs as much for each row as to leave out the few that a small batch has after the bound.
func (s *source) limit() {
	if s.rows >= limitedRows {
		s.memory.cursor.Limit(s.bounds.last())
	}
}

func (s *source) stepTable(reverse bool) bool {
	if reverse {
		return s.memory.cursor.Prev()
	}
	return s.memory.cursor.Next()
}

// fill reads a batch that starts with the entry that the source's cursor stands on;
// without ok it stands on none.
func (s *source) fill(ok bool) []base.Entry {
	b := s.bounds
	s.batch.Reset()
	if s.ended = !ok || s.stopped(); s.ended {
		return nil
	}
	s.batch.Room(s.rows)
	if s.inTable {
		s.batch.Keep(s.memory.cursor.Entry())
		for len(s.batch.Rows) < s.rows && !s.ended {
			if s.ended = !s.stepTable(b.Reverse); !s.ended {
				s.batch.Keep(s.memory.cursor.Entry())
			}
		}
	} else {
		s.batch.Add(s.files.cursor.Entry())
		if b.Reverse {
			s.files.cursor.cur.Less(&s.batch, s.rows-1, b.Lo)
		} else {
			s.files.cursor.cur.More(&s.batch, s.rows-1, b.Hi)
		}
	}
	s.trim()
	return s.batch.Rows
}

// wantsValue reports whether the caller wants the value of a large row: it drops those that are too
// old or have expired.
func (s *source) wantsValue(e *base.Entry) bool {
	b := s.bounds
	expired := e.Kind == base.KindPutTTL && b.Clock != nil && e.Expiry <= b.Clock.NowMs()
	return !b.KeysOnly && e.Seq >= b.From && !expired
}

// value reads the large value of a row of the batch, see sst.Reader.Value. Requires: the batch is
// of a run.
func (s *source) value(memory *[]byte, ref []byte) ([]byte, error) {
	f := &s.files
	at := f.near
	if f.inUse && !f.reading {
		at = f.cursor.at
	}
	return f.of.Files[at].Reader.Value(memory, ref)
}

// fillNear reads a batch of what the approach has found; none may be inside of the bounds.
// It reports false if nothing is there, so that the cursor has to go on.
func (s *source) fillNear() (ok bool) {
	b, f := s.bounds, &s.files
	s.batch.Reset()
	if s.ended = s.stopped(); s.ended {
		return true
	}
	s.batch.Room(s.rows)
	f.approach.Rows(&s.batch, s.rows, b.first(), b.Hi, f.snap, b.Reverse)
	if len(s.batch.Rows) == 0 {
		return false
	}
	s.trim()
	return true
}

// plain reports whether all rows are values of a run that is visible as it is.
func (s *source) plain() bool {
	f := &s.files
	if s.inTable {
		return false
	}
	for _, file := range f.of.Files[f.lo:f.hi] {
		if !file.Reader.Plain(f.snap) {
			return false
		}
	}
	return true
}

// entries is Rows of a source that is plain.
func (s *source) entries(x *Entries) bool {
	b, c := s.bounds, s.files.open(s.bounds.ReadAheadBytes)
	switch {
	case s.stopped():
		return false
	case s.opened:
		return c.nextEntries(x, b.Hi)
	}
	s.opened = true
	return c.seekEntries(x, b.Lo, b.Hi)
}

// stopped reports whether the context of the reading has ended.
func (s *source) stopped() bool {
	select {
	case <-s.done: // never, if it is nil
		s.err = context.Cause(s.ctx)
		return true
	default:
		return false
	}
}

// trim cuts off the rows after the bound.
func (s *source) trim() {
	n := len(s.batch.Rows)
	for n > 0 && s.bounds.passed(s.batch.Rows[n-1].Key) {
		n--
		s.ended = true
	}
	s.batch.Cut(n)
}

// passed reports whether key lies past the bound in the direction of movement.
func (b *Bounds) passed(key []byte) bool {
	if b.Reverse {
		return bytes.Compare(key, b.Lo) < 0
	}
	return b.Hi != nil && bytes.Compare(key, b.Hi) >= 0
}
