package cursor

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
)

// Batch holds entries that were read ahead from one source. The zero Batch is ready;
// a Batch that is filled again and again keeps its memory.
//
// Ownership: the rows are valid until Reset. Their keys are copies, except for those
// that Keep was given; their values are the source's.
type Batch struct {
	Rows []base.Entry
	keys []byte // backing of copied keys
	most int    // from this row on, the memory of Rows is zero
}

// A batch asks for memory for keys of keyBytes for each row that it has room for, but no more than
// keyChunkBytes, unless the keys need more.
const keyBytes, keyChunkBytes = 32, 512

// Reset forgets the rows. What they were stays as it is until a row is added.
func (b *Batch) Reset() {
	b.Cut(0)
	b.keys = b.keys[:0]
}

// Cut forgets all but the first n rows.
func (b *Batch) Cut(n int) {
	b.most = max(b.most, len(b.Rows))
	b.Rows = b.Rows[:n]
}

// Drop takes over rows that were made in the memory of the batch, and returns them without the
// last.
func (b *Batch) Drop(rows []base.Entry) []base.Entry {
	b.Rows = rows
	b.Cut(len(rows) - 1)
	return b.Rows
}

// Release forgets the rows and lets go of all they refer to. A batch with more than
// keepRows rows of memory, or with long keys, lets go of that memory too.
func (b *Batch) Release(keepRows int) {
	if cap(b.Rows) > keepRows || cap(b.keys) > 64*keepRows {
		*b = Batch{}
		return
	}
	b.Reset()
	clear(b.Rows[:b.most]) // also what was cut off
	b.most = 0
}

// Keep appends an entry whose key stays valid as long as the batch needs it.
func (b *Batch) Keep(e *base.Entry) { b.Rows = append(b.Rows, *e) }

// Add appends an entry and copies its key.
func (b *Batch) Add(e *base.Entry) {
	key := b.Key(len(e.Key))
	copy(key, e.Key)
	b.Rows = append(b.Rows, *e)
	b.Rows[len(b.Rows)-1].Key = key
}

// Key returns memory for the key of a row to be added.
func (b *Batch) Key(n int) []byte {
	from := len(b.keys)
	if cap(b.keys)-from < n { // rows in the batch keep the old memory alive
		chunk := min(keyBytes*cap(b.Rows), keyChunkBytes)
		b.keys, from = make([]byte, 0, max(2*cap(b.keys), n, chunk)), 0
	}
	b.keys = b.keys[:from+n]
	return b.keys[from : from+n : from+n]
}

// Prefix puts prefix before the keys of the rows from number i on. These become copies.
func (b *Batch) Prefix(i int, prefix []byte) {
	rows := b.Rows[i:]
	n := len(prefix) * len(rows)
	for i := range rows {
		n += len(rows[i].Key)
	}
	keys := b.Key(n)
	for i := range rows {
		suffix := rows[i].Key
		n := len(prefix) + len(suffix)
		copyShort(keys, prefix)
		copyShort(keys[len(prefix):], suffix)
		rows[i].Key, keys = keys[:n:n], keys[n:]
	}
}

// copyShort is copy, of mostly few bytes. Requires: dst has room.
func copyShort(dst, src []byte) {
	n := len(src)
	if n > len(dst) {
		return
	}
	switch {
	case n >= 8 && n <= 16:
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
		binary.LittleEndian.PutUint64(dst[n-8:], binary.LittleEndian.Uint64(src[n-8:]))
	case n >= 4 && n < 8:
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src))
		binary.LittleEndian.PutUint32(dst[n-4:], binary.LittleEndian.Uint32(src[n-4:]))
	default:
		copy(dst, src)
	}
}

// Room makes room for n rows in all, so that adding them does not move memory.
func (b *Batch) Room(n int) {
	if cap(b.Rows) < n {
		rows := make([]base.Entry, len(b.Rows), n)
		copy(rows, b.Rows)
		b.Rows = rows
	}
}
