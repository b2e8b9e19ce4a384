package exec

import (
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
	k.budget.used.Add(k.pending - k.used)
	k.used, k.pending = 0, 0
}

// join counts what another operator has kept instead of it.
func (k *keeper) join(other *keeper) {
	k.used, k.pending = k.used+other.used, k.pending+other.pending
	other.used, other.pending = 0, 0
}

// arena is memory of rows that are kept until all of them are let go of. The zero arena is ready.
type arena struct {
	values []expr.Value // of the last chunk
	bytes  []byte
}

// Bounds of a chunk of an arena, in values.
const (
	minChunk = 16
	maxChunk = 4096
)

// clone returns a copy of a row in the arena.
func (a *arena) clone(row []expr.Value) []expr.Value {
	start, n := len(a.values), len(row)
	if cap(a.values)-start < n {
		a.values = make([]expr.Value, 0, max(n, minChunk, min(2*cap(a.values), maxChunk)))
		start = 0
	}
	a.values = a.values[:start+n]
	out := a.values[start : start+n : start+n]
	for i := range row {
		out[i], a.bytes = row[i].CloneInto(a.bytes)
	}
	return out
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
