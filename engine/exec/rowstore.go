package exec

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/engine/expr"
)

// rowStore keeps rows with their numbers, as bytes: a tenth of what values take, without anything
// for the garbage collector to look at.
type rowStore struct {
	chunks [][]byte
	buf    []byte // of one row
}

// Sizes of chunks: each is twice as large as the one before, and a larger row has one for itself.
const (
	firstChunkBytes = 512
	chunkBits       = 20
	maxChunkBytes   = 1 << chunkBits
)

// rowPlace is where a row is: the number of its chunk, and its place there in the last chunkBits.
type rowPlace int64

// add keeps a row, and returns where it is and how many bytes it takes.
func (s *rowStore) add(seq int64, row []expr.Value) (at rowPlace, size int) {
	s.buf = binary.AppendUvarint(s.buf[:0], uint64(seq>>partBits)) // apart, both are short
	s.buf = binary.AppendUvarint(s.buf, uint64(seq&(1<<partBits-1)))
	s.buf = expr.AppendValues(s.buf, row)
	last := len(s.chunks) - 1
	if last < 0 || cap(s.chunks[last])-len(s.chunks[last]) < len(s.buf) {
		next := firstChunkBytes
		if last >= 0 {
			next = min(2*cap(s.chunks[last]), maxChunkBytes)
		}
		s.chunks = append(s.chunks, make([]byte, 0, max(next, len(s.buf))))
		last++
	}
	at = rowPlace(last<<chunkBits | len(s.chunks[last]))
	s.chunks[last] = append(s.chunks[last], s.buf...)
	return at, len(s.buf)
}

// clear removes all rows. It keeps the memory of the last chunk, unless that is of one large row.
func (s *rowStore) clear() {
	var kept []byte
	if n := len(s.chunks); n > 0 && cap(s.chunks[n-1]) <= maxChunkBytes {
		kept = s.chunks[n-1][:0]
	}
	clear(s.chunks)
	if s.chunks = s.chunks[:0]; kept != nil {
		s.chunks = append(s.chunks, kept)
	}
}

// read reads the first values of the row at a place, and its number.
//
// Ownership: texts are those of the store.
func (s *rowStore) read(at rowPlace, row []expr.Value) (seq int64, err error) {
	b := s.chunks[at>>chunkBits][at&(maxChunkBytes-1):]
	part, n := binary.Uvarint(b)
	of, m := binary.Uvarint(b[n:])
	_, err = expr.ReadValues(row, view(b[n+m:]))
	return int64(part<<partBits | of), err
}
