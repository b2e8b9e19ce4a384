package exec

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// What has no room in memory goes into temporary files, and one rule holds for all operators: a
// result that has spilled is the result that has not, its order included.
//
//	spool       the temporary file of one operator: created by the first write, removed by close
//	tape        rows in a spool, written at the end and read from the beginning
//	runs        tapes that are in order, and their merge
//	partitions  tapes that divide rows by their keys, so that each part fits
//
// A sort writes its rows, sorted, as a run whenever memory is full, and merges the runs. What
// keeps keys (groups, distinct rows, the right side of a hash join) divides its input by a hash of
// the key, does the same work again with each part, and brings the results back into the order of
// the input: each row on a tape has the number of the input row that it came of, so that the
// results of the parts are runs, too.
//
// Operators begin to spill at three quarters of Options.MemoryBytes; the rest is for those that
// cannot and for the buffers of tapes. One that begins when others have all of it still gets a
// sixteenth.

// spool is the temporary file of one operator.
type spool struct {
	*runner
	operator string
	spilled  *int64         // bytes that were written; of plan.Actual
	file     store.TempFile // nil: nothing has been written
	at       int64          // its size
}

func (r *runner) spool(operator string, actual *plan.Actual) *spool {
	s := r.spoolOf(operator, actual)
	return &s
}

// spoolOf is spool for what has the memory for it.
func (r *runner) spoolOf(operator string, actual *plan.Actual) spool {
	return spool{runner: r, operator: operator, spilled: &actual.Spilled}
}

// close removes what was written. The spool can be used again.
func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		s.file, s.at = nil, 0
	}
}

// extent is where rows of a tape are in the file. It stays in memory, with their checksum.
type extent struct {
	off        int64
	size, rows int
	sum        uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// write appends encoded rows to the file.
func (s *spool) write(b []byte, rows int) (extent, error) {
	err := check(s.ctx)
	if err != nil {
		return extent{}, err
	}
	if s.file == nil {
		if s.file, err = s.opt.Temp(); err != nil {
			return extent{}, s.failed("create a temporary file", err)
		}
	}
	n, err := s.file.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return extent{}, s.failed("write "+s.file.Name(), err)
	}
	e := extent{off: s.at, size: len(b), rows: rows, sum: crc32.Checksum(b, castagnoli)}
	s.at += int64(len(b))
	*s.spilled += int64(len(b))
	return e, nil
}

// read returns the encoded rows of an extent, in the memory of buf if it is large enough.
func (s *spool) read(e extent, buf []byte) ([]byte, error) {
	if err := check(s.ctx); err != nil {
		return nil, err
	}
	if cap(buf) < e.size {
		buf = make([]byte, e.size)
	}
	buf = buf[:e.size]
	if n, err := s.file.ReadAt(buf, e.off); n < len(buf) {
		return nil, s.failed("read "+s.file.Name(), err)
	}
	if crc32.Checksum(buf, castagnoli) != e.sum {
		return nil, s.failed("read "+s.file.Name(), fmt.Errorf("%d bytes at %d are not those that "+
			"were written", e.size, e.off))
	}
	return buf, nil
}

func (s *spool) failed(what string, err error) error {
	return &SpillError{Operator: s.operator, Limit: s.budget.limit, What: what, Err: err}
}

// tape is a sequence of rows of one width, each with a number. Reading begins when everything
// has been added.
type tape struct {
	spool   *spool
	extents []extent
	rows    int64 // all of them
	width   int
	buf     []byte // rows that are not in an extent
	tail    int    // how many
}

func (t *tape) add(seq int64, row []expr.Value) error {
	t.buf = expr.AppendValue(t.buf, expr.Int(seq))
	t.buf = expr.AppendValues(t.buf, row)
	t.rows, t.tail, t.width = t.rows+1, t.tail+1, len(row)
	if len(t.buf) < t.spool.budget.block() {
		return nil
	}
	return t.flush()
}

// flush writes what is in memory.
func (t *tape) flush() error {
	if t.tail == 0 {
		return nil
	}
	e, err := t.spool.write(t.buf, t.tail)
	t.extents, t.buf, t.tail = append(t.extents, e), t.buf[:0], 0
	return err
}

// finish is flush that also lets go of the buffer.
func (t *tape) finish() error {
	err := t.flush()
	t.buf = nil
	return err
}

// numbered is a sequence of rows with rising numbers. Rows are valid until the next one.
type numbered func(yield func(seq int64, row []expr.Value) bool) error

// all calls take with each row until it fails.
func (in numbered) all(take func(seq int64, row []expr.Value) error) error {
	var failed error
	err := in(func(seq int64, row []expr.Value) bool {
		failed = take(seq, row)
		return failed == nil
	})
	return first(failed, err)
}

// number returns the rows of an operator.
func number(op operator) numbered {
	return func(yield func(int64, []expr.Value) bool) error {
		seq := int64(-1)
		return op.run(func(row []expr.Value) bool {
			seq++
			return yield(seq, row)
		})
	}
}

// each is a numbered.
func (t *tape) each(yield func(seq int64, row []expr.Value) bool) error {
	r := tapeReader{tape: t}
	for {
		ok, err := r.next()
		if err != nil || !ok || !yield(r.seq, r.row) {
			return err
		}
	}
}

// tapeReader reads a tape from its beginning.
type tapeReader struct {
	*tape
	at   int // extents that have been read; more than there are: the buffer, too
	buf  []byte
	rest string // rows that are still to be decoded
	left int    // how many

	seq int64
	row []expr.Value
}

// rewind begins again.
func (r *tapeReader) rewind() { r.at, r.left = 0, 0 }

// next moves to the next row, whose values are valid until the next call. ok is false after the
// last.
func (r *tapeReader) next() (ok bool, err error) {
	for r.left == 0 {
		switch {
		case r.at < len(r.extents):
			e := r.extents[r.at]
			if r.buf, err = r.spool.read(e, r.buf); err != nil {
				return false, err
			}
			r.rest, r.left = view(r.buf), e.rows
		case r.at == len(r.extents):
			r.rest, r.left = view(r.tape.buf), r.tail
		default:
			return false, nil
		}
		r.at++
	}
	r.left--
	if r.row == nil {
		r.row = make([]expr.Value, r.width)
	}
	seq, rest, err := expr.ReadValue(r.rest)
	if err == nil {
		rest, err = expr.ReadValues(r.row, rest)
	}
	if err != nil {
		return false, r.spool.failed("decode a row", err)
	}
	r.seq, _ = seq.AsInt()
	r.rest = rest
	return true, nil
}

// rowList keeps rows in memory, and on a tape those that come when it is full.
type rowList struct {
	spool *spool
	kept  keeper
	rows  rowTable
	rest  *tapeReader // nil: none
}

func (r *runner) rowList(operator string, actual *plan.Actual) *rowList {
	return &rowList{spool: r.spool(operator, actual), kept: r.keeper(operator)}
}

// reset removes all rows.
func (l *rowList) reset() {
	l.kept.release()
	l.spool.close()
	l.rows, l.rest = rowTable{}, nil
}

func (l *rowList) add(row []expr.Value) error {
	if l.rest != nil {
		return l.rest.add(0, row)
	}
	l.rows.add(row)
	spill, err := l.kept.grow(rowBytes(row))
	if spill {
		l.rest = &tapeReader{tape: &tape{spool: l.spool}}
	}
	return err
}

// len returns how many rows there are.
func (l *rowList) len() int {
	if l.rest == nil {
		return l.rows.count
	}
	return l.rows.count + int(l.rest.rows)
}

// each yields the rows in the order they came.
func (l *rowList) each(yield func(row []expr.Value) bool) error {
	for i := range l.rows.count {
		if !yield(l.rows.row(i)) {
			return nil
		}
	}
	if l.rest == nil {
		return nil
	}
	l.rest.rewind()
	for {
		ok, err := l.rest.next()
		if err != nil || !ok || !yield(l.rest.row) {
			return err
		}
	}
}
