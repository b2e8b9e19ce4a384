package memtable

import "slices"

const (
	// The chunks of a table grow with it, each by a part of what there is, so that little of
	// 256 tables is empty whatever their budget, and full ones allocate rarely. 64 KiB is what
	// 16 bits of offset reach.
	firstChunkBytes = 4 << 10
	chunkBytes      = 64 << 10
	growPart        = 4

	// A larger record gets a chunk of its own. A quarter of a chunk bounds what is
	// left unused at the end of a chunk.
	maxSharedRecord = chunkBytes / 4

	// Chunk indexes have 16 bits, index 0 is not used.
	maxChunks = 1 << 16

	// Dead chunks are given back once they make up 1/deadShare of the arena: the
	// chunk table is copied then, and this keeps the copy cheap against the chunks.
	deadShare = 8
)

// arena hands out space for records. Space is never reused: readers hold views into
// it. What comes back is whole chunks without a live record, to the garbage collector.
type arena struct {
	chunks chunkTable
	live   []uint32 // records linked, by chunk index
	free   []uint32 // chunk indexes to use again
	dead   []uint32 // chunk indexes without a live record, still in chunks

	current   uint32 // index of the chunk being filled, 0 for none
	used      int    // bytes used of it
	heldBytes int64  // capacity of all chunks, dead ones included
	deadBytes int64
}

// alloc returns the address of n fresh bytes in a shared chunk.
//
// Requires: n <= maxSharedRecord.
func (a *arena) alloc(n int) uint32 {
	if a.current == 0 || len(a.chunks[a.current])-a.used < n {
		a.rotate(n)
	}
	addr := a.current<<16 | uint32(a.used)
	a.used += n
	a.live[a.current]++
	return addr
}

// rotate starts a new shared chunk with room for n bytes.
func (a *arena) rotate(n int) {
	last := a.current
	size := max(firstChunkBytes, n, int(min(a.heldBytes/growPart, chunkBytes)))
	chunk := ownChunk(size)
	a.current, a.used = a.attach(chunk[:cap(chunk)]), 0
	if last != 0 && a.live[last] == 0 {
		a.bury(last)
	}
}

// adopt makes chunk, which holds one record, part of the arena and returns the
// record's address.
func (a *arena) adopt(chunk []byte) uint32 {
	index := a.attach(chunk)
	a.live[index] = 1
	return index << 16
}

// ownChunk returns a chunk of n bytes for a record of its own. Its capacity is what
// the allocator really takes.
func ownChunk(n int) []byte { return slices.Grow([]byte(nil), n)[:n] }

// attach gives chunk an index.
func (a *arena) attach(chunk []byte) uint32 {
	a.heldBytes += int64(cap(chunk))
	if n := len(a.free); n > 0 {
		// Why in place: no reader's copy of the chunk table knows a record in a
		// chunk that was nil when it took the copy, so none reads this element.
		index := a.free[n-1]
		a.free = a.free[:n-1]
		a.chunks[index] = chunk
		return index
	}
	if len(a.chunks) == 0 {
		a.chunks, a.live = append(a.chunks, nil), append(a.live, 0)
	}
	if len(a.chunks) == maxChunks {
		panic("memtable: table past MaxBytes")
	}
	a.chunks, a.live = append(a.chunks, chunk), append(a.live, 0)
	return uint32(len(a.chunks) - 1)
}

// release takes one record out of its chunk's count.
//
// Requires: no link leads to the record any more.
func (a *arena) release(addr uint32) {
	index := addr >> 16
	a.live[index]--
	if a.live[index] == 0 && index != a.current {
		a.bury(index)
	}
}

// bury marks a chunk dead and drops the dead ones when they have become many.
func (a *arena) bury(index uint32) {
	a.dead = append(a.dead, index)
	a.deadBytes += int64(cap(a.chunks[index]))
	if a.deadBytes*deadShare < a.heldBytes {
		return
	}
	// Why a copy: cursors hold the old table and may still read the dead chunks.
	a.chunks = slices.Clone(a.chunks)
	for _, i := range a.dead {
		a.chunks[i] = nil
	}
	a.free = append(a.free, a.dead...)
	a.heldBytes -= a.deadBytes
	a.dead, a.deadBytes = a.dead[:0], 0
}
