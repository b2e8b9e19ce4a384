package keyset

import (
	"hash/crc32"
	"sync/atomic"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// The kinds of a part. On disk: never renumber.
const (
	partEmpty  = 0 // no keys
	partRange  = 1 // every integer from lo to hi: the zone map is the answer
	partBitmap = 2 // a bit for every integer from lo to hi: exact
	partFuse   = 3 // a binary fuse filter
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A part is the unit of a segment that has a zone map and a filter of its own, and that
// is loaded as a whole: all of a segment, one of its shards, or one of its blocks.
// Everything but the pointers to what is loaded is immutable.
type part struct {
	lo, hi uint64 // heads of the smallest and the largest key
	seed   uint64 // of the filter: the segment's seed and the salt
	shape  fuse.Shape
	keys   int // that the filter was built from
	kind   uint8
	salt   uint32

	table, column span // where the filter and the stored keys are
	stored        int  // number of stored keys

	// What is loaded, and has passed its checksum; nil until then. An eviction sets
	// tablePtr to nil, while readers may still use what it pointed at.
	tablePtr atomic.Pointer[byte]
	keyPtr   atomic.Pointer[column]
	used     atomic.Bool // since the cache looked last
}

// span is a stretch of a segment's bytes with its checksum.
type span struct {
	off, len uint64
	pad      uint64 // zeros in front of it, up to its alignment
	crc      uint32
}

// covers reports whether head lies in the zone of p.
func (p *part) covers(head uint64) bool { return head-p.lo <= p.hi-p.lo }

// exact reports whether the answer of p needs no check.
func (p *part) exact() bool { return p.kind != partFuse }

// dense answers for a part that is no filter. Table is that of p. The head is inside the
// zone.
func (p *part) dense(table *byte, head uint64) bool {
	switch p.kind {
	case partRange:
		return true
	case partBitmap:
		at := head - p.lo
		return *(*byte)(unsafe.Add(unsafe.Pointer(table), at>>3))>>(at&7)&1 != 0
	}
	return false
}

// probe asks the filter about a word. Wide is the distance of the second plane, 0 if
// there is none. Requires: p is a fuse filter, and table its table.
func (p *part) probe(table *byte, word uint64, shardBits uint, wide int) bool {
	h := base.Mix(word + p.seed)
	p0, p1, p2 := p.shape.Positions(h, h<<shardBits)
	f := fuse.Fingerprint(h)
	t := unsafe.Pointer(table)
	x := *(*byte)(unsafe.Add(t, p0)) ^ *(*byte)(unsafe.Add(t, p1)) ^ *(*byte)(unsafe.Add(t, p2))
	if x != byte(f) {
		return false
	}
	if wide == 0 {
		return true
	}
	t = unsafe.Add(t, wide)
	x = *(*byte)(unsafe.Add(t, p0)) ^ *(*byte)(unsafe.Add(t, p1)) ^ *(*byte)(unsafe.Add(t, p2))
	return x == byte(f>>8)
}

// wide returns the distance between the planes of p's table, 0 if it has only one.
func (p *part) wide(bits int) int {
	if bits == 16 {
		return p.shape.Slots()
	}
	return 0
}
