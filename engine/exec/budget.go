package exec

import (
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
)

// budget counts the memory of the rows that operators keep.
type budget struct {
	used   atomic.Int64
	limit  int64
	spills bool // what has no room goes into files
}

// Bounds of the buffer of a tape.
const (
	minBlock = 512
	maxBlock = 256 << 10
)

// block returns the size of the buffer of a tape.
func (b *budget) block() int { return int(min(max(b.limit/1024, minBlock), maxBlock)) }

// valueBytes is the size of an expr.Value without its text.
const valueBytes = 40

// rowBytes estimates the memory of a row that is kept.
func rowBytes(row []expr.Value) int64 {
	n := int64(len(row)*valueBytes) + 24
	for i := range row {
		if s, ok := row[i].AsString(); ok {
			n += int64(len(s))
		} else if s, ok := row[i].AsBytes(); ok {
			n += int64(len(s))
		}
	}
	return n
}

// take counts n more bytes for an operator.
func (b *budget) take(operator string, n int64) error {
	if b.used.Add(n) > b.limit {
		return &MemoryError{Operator: operator, Limit: b.limit}
	}
	return nil
}

// keeper counts what one operator keeps. It belongs to one goroutine.
type keeper struct {
	budget   *budget
	operator string
	used     int64
	pending  int64 // the part of used that is not in the budget yet
}

// maxPending bounds what a keeper counts before it adds to the budget, which is shared. So
// does 1/256 of the limit.
const maxPending = 64 << 10

func (r *runner) keeper(operator string) keeper {
	return keeper{budget: r.budget, operator: operator}
}

// count counts n more bytes, and reports whether they have to be added to the budget.
func (k *keeper) count(n int64) bool {
	k.used += n
	k.pending += n
	return k.pending > min(maxPending, k.budget.limit/256)
}

// take counts n more bytes of an operator that cannot spill.
func (k *keeper) take(n int64) error {
	if !k.count(n) {
		return nil
	}
	n, k.pending = k.pending, 0
	return k.budget.take(k.operator, n)
}

// grow counts n more bytes of an operator that can, and reports whether it has to.
func (k *keeper) grow(n int64) (spill bool, err error) {
	b := k.budget
	if !b.spills {
		return false, k.take(n)
	}
	if !k.count(n) {
		return false, nil
	}
	n, k.pending = k.pending, 0
	return b.used.Add(n) > b.limit/4*3 && k.used >= b.limit/16, nil
}

// release gives back what the operator has kept. It may be called again.
func (k *keeper) release() {
	if counted := k.used - k.pending; counted != 0 {
		k.budget.used.Add(-counted)
	}
	k.used, k.pending = 0, 0
}

// join counts what another operator has kept instead of it.
func (k *keeper) join(other *keeper) {
	k.used, k.pending = k.used+other.used, k.pending+other.pending
	other.used, other.pending = 0, 0
}

// rowTable numbers copies of rows of one width, which are kept until all of them are let go of. The
// zero rowTable is ready.
type rowTable struct {
	chunks [][]expr.Value // of chunkRows rows, but for the last one
	bytes  []byte         // of texts
	width  int
	count  int
}

const (
	chunkRowsBits = 8
	chunkRows     = 1 << chunkRowsBits
	minChunkRows  = 8
)

// newRowTable returns one with room for so many rows, up to a chunk.
func newRowTable(expected float64, width int) rowTable {
	n := int(max(minChunkRows, min(expected, chunkRows)))
	return rowTable{chunks: [][]expr.Value{make([]expr.Value, 0, n*width)}}
}

// add copies a row, whose number is the count before.
func (t *rowTable) add(row []expr.Value) {
	if t.count == len(t.chunks)*chunkRows {
		n := minChunkRows
		if t.count > 0 {
			n = chunkRows
		}
		t.chunks = append(t.chunks, make([]expr.Value, 0, n*len(row)))
	}
	t.width = len(row)
	t.count++
	last := &t.chunks[len(t.chunks)-1]
	at := len(*last)
	*last = slices.Grow(*last, len(row))[:at+len(row)]
	for i, dst := 0, (*last)[at:]; i < len(dst); i++ {
		if n, ok := row[i].Integer(); ok {
			dst[i].SetInt(n)
		} else {
			dst[i], t.bytes = row[i].CloneInto(t.bytes)
		}
	}
}

// clear removes all rows. It keeps the memory of the first ones.
func (t *rowTable) clear() {
	if len(t.chunks) > 0 {
		clear(t.chunks[0])
		clear(t.chunks[1:])
		t.chunks = append(t.chunks[:0], t.chunks[0][:0])
	}
	t.bytes, t.count = t.bytes[:0], 0
}

// held returns the bytes of memory of a table that was cleared.
func (t *rowTable) held() int {
	n := cap(t.bytes)
	for _, c := range t.chunks {
		n += cap(c) * valueBytes
	}
	return n
}

// row returns the row of a number.
func (t *rowTable) row(i int) []expr.Value {
	at := i % chunkRows * t.width
	return t.chunks[i/chunkRows][at : at+t.width : at+t.width]
}

// cloneOver makes dst, a row that was cloned, a copy of another one.
func cloneOver(dst, row []expr.Value) {
	for i := range row {
		dst[i] = row[i].Clone()
	}
}

// clone returns a copy of a row that shares no memory with it.
func clone(row []expr.Value) []expr.Value {
	out := make([]expr.Value, len(row))
	for i := range row {
		out[i] = row[i].Clone()
	}
	return out
}
