package sst

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Finding blocks without an index. A block says at its end what its decoded length is and
// what its checksum, but not where it starts. So every place is looked at that could be
// the end of a trailer, and from there the checksum is computed backwards, byte by byte:
// it has to arrive at the seed of some offset, and that is where the block starts. One
// byte costs two table lookups, and the decoded length bounds how far to go.
//
// By chance one place in 2^32 passes. What is found is decompressed to exactly the length
// in the trailer and must hold entries in order, of the file's stripe.

// unwind undoes one step of the CRC: for the state after a byte, by its highest byte, the
// index of the table entry that was mixed in.
var unwind = func() (t [256]byte) {
	for i, v := range castagnoli {
		t[v>>24] = byte(i)
	}
	return t
}()

// blockScan looks for blocks in the content of a file.
type blockScan struct {
	id fileID
	b  []byte
	// budget bounds the bytes that checksums are computed over: a crafted file could make
	// every place look worth it.
	budget int64
}

const (
	// scanWindowBytes is how far in front of its trailer the start of a block is looked for;
	// longer ones are found only right after the block before.
	scanWindowBytes = 4 << 20
	scanBudget      = 1 << 30 // and 64 times the file
)

// before returns the block whose trailer begins at p and that starts at lo or later.
// Requires: there are as many bytes as a trailer has.
func (s *blockScan) before(lo, p int) (h blockHandle, ok bool) {
	if Codec(s.b[p]) > lastCodec {
		return h, false
	}
	raw := binary.LittleEndian.Uint32(s.b[p+1:])
	if raw == 0 || raw > maxDataBytes {
		return h, false
	}
	if Codec(s.b[p]) == None {
		return s.at(p-int(raw), lo, p, raw)
	}
	if h, ok := s.at(lo, lo, p, raw); ok {
		return h, true
	}
	lo = max(lo, p-min(int(raw), scanWindowBytes))
	if s.budget -= int64(p - lo); s.budget < 0 {
		return h, false
	}
	state := ^binary.LittleEndian.Uint32(s.b[p+5:])
	for i := p + 4; i >= lo; i-- {
		t := unwind[state>>24]
		state = (state^castagnoli[t])<<8 | uint32(t^s.b[i])
		if i < p && ^state == s.id.seed(uint64(i)) {
			return s.at(i, lo, p, raw)
		}
	}
	return h, false
}

// at reports whether a block from start to its trailer at p is one.
func (s *blockScan) at(start, lo, p int, raw uint32) (h blockHandle, ok bool) {
	h = blockHandle{off: uint64(start), stored: uint32(p - start), raw: raw}
	if start < lo || !h.check(int64(len(s.b)), maxRawBytes) {
		return h, false
	}
	if s.budget -= int64(p - start); s.budget < 0 {
		return h, false
	}
	_, _, err := s.id.open(s.b[start:p+trailerBytes], h, "block")
	return h, err == nil
}

// seed is what the checksum of a block at off starts from.
func (id fileID) seed(off uint64) uint32 { return id.checksum(nil, off) }

// byScan finds the blocks of a file without its index, which is missing because of why.
func (s *Salvaged) byScan(known *base.FileMeta, why error) {
	b := s.readAround(known)
	scan := blockScan{id: s.r.id, b: b, budget: scanBudget + 64*int64(len(b))}
	end, inData := 0, true // the data blocks come first
	for p := 1; p+trailerBytes <= len(b); p++ {
		h, ok := scan.before(end, p)
		if !ok {
			continue
		}
		raw, err := s.r.id.decode(nil, b[h.off:h.end()], h, "data block")
		if err != nil {
			continue
		}
		before := s.last
		isData := inData && s.take(raw, h) == nil
		if inData && int(h.off) > end {
			var next []byte
			if isData {
				next = raw
			}
			s.loseGap(end, before, next, why)
		}
		if !isData {
			inData = false
			if list, err := decodeRanges(raw); err == nil {
				s.Ranges = list
			}
		}
		end = int(h.end())
		p = end
	}
	s.compare(known, end, inData, why)
}

const (
	// scanPieceBytes is how much is read at a time, scanGapBytes how much is given up around
	// a place that cannot be read.
	scanPieceBytes = 64 << 10
	scanGapBytes   = 4 << 10
	// scanMostBytes bounds what is read of a file that nothing describes.
	scanMostBytes = 1 << 30
)

// readAround reads the file in pieces; what cannot be read stays zero, which no block
// survives. What a file has beyond its known size is not its own.
func (s *Salvaged) readAround(known *base.FileMeta) []byte {
	size := min(s.r.meta.SizeBytes, scanMostBytes)
	if known != nil {
		size = min(s.r.meta.SizeBytes, known.SizeBytes)
	}
	b := make([]byte, size)
	s.readPieces(b, 0, scanPieceBytes)
	return b
}

// readPieces fills b with what is in the file from off on.
func (s *Salvaged) readPieces(b []byte, off int64, size int) {
	for i := 0; i < len(b); i += size {
		piece := b[i:min(i+size, len(b))]
		switch {
		case s.r.readAt(piece, off+int64(i), "file") == nil:
		case size > scanGapBytes:
			s.readPieces(piece, off+int64(i), scanGapBytes)
		default:
			clear(piece)
		}
	}
}

// loseGap notes that no block was found from off up to the one whose content is next.
func (s *Salvaged) loseGap(off int, before, next []byte, why error) {
	l := LostBlock{Offset: int64(off), First: before, Err: why}
	var e base.Entry
	if b, err := openDataBlock(next); err == nil && b.entry(0, &e) {
		l.Last = slices.Concat(b.prefix(), e.Key)
	}
	s.Lost = append(s.Lost, l)
}

// compare finds out from the manifest's description what is missing of the file. InData:
// nothing was found after the data blocks, so that there may have been more of them.
func (s *Salvaged) compare(known *base.FileMeta, end int, inData bool, why error) {
	for _, t := range s.Ranges {
		s.MaxSeq = max(s.MaxSeq, t.Seq)
	}
	if known == nil {
		if inData || len(s.Lost) == 0 { // nobody knows what there was
			s.Lost = append(s.Lost, LostBlock{Offset: int64(end), First: s.last, Err: why})
		}
		return
	}
	if uint64(len(s.Ranges)) < known.RangeTombstones {
		s.loseRanges(int64(end), known, why)
	}
	if s.Entries >= known.Entries {
		s.Lost = keepRanges(s.Lost)
		return
	}
	for i := range s.Lost {
		if l := &s.Lost[i]; !l.Ranges {
			if l.First == nil {
				l.First = known.Smallest
			}
			if l.Last == nil {
				l.Last = known.Largest
			}
		}
	}
	tail := inData && (s.last == nil || bytes.Compare(s.last, known.Largest) < 0)
	if tail || len(keepRanges(s.Lost)) == len(s.Lost) { // the end is missing
		first := s.last
		if first == nil {
			first = known.Smallest
		}
		s.Lost = append(s.Lost, LostBlock{
			Offset: int64(end), First: first, Last: known.Largest, Err: why,
		})
	}
	for i := range s.Lost {
		if l := &s.Lost[i]; !l.Ranges {
			l.Entries = known.Entries - s.Entries // of all gaps together, reported once
			break
		}
	}
}

// keepRanges returns the losses of range tombstones among lost.
func keepRanges(lost []LostBlock) (out []LostBlock) {
	for _, l := range lost {
		if l.Ranges {
			out = append(out, l)
		}
	}
	return out
}
