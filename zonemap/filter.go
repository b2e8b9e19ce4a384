package zonemap

import (
	"encoding/binary"
	"math/bits"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: a filter is a header of FilterHeaderBytes and the fingerprint table,
// little-endian:
//
//	 0  u8   format version, 1
//	 1  u8   bits per fingerprint, 8 or 16
//	 2  u16  zero
//	 4  u32  segment length, a power of two; 0 for a filter without keys
//	 8  u32  segment count
//	12  u32  keys the filter was built from
//	16  u64  seed of the mixing step
//	24  ...  (segment count + 2) × segment length fingerprints
//
// The table belongs to a 3-wise binary fuse filter: Graf and Lemire, "Binary Fuse
// Filters: Fast and Smaller Than Xor Filters", 2022.

// FilterHeaderBytes is the size of an encoded filter's header. It is a multiple of
// eight, so that the table is as well aligned as the header.
const FilterHeaderBytes = 24

const filterVersion = 1

// A Filter answers "is this hash perhaps in the set?": false is always right, true
// is wrong for about 1 in 256 absent hashes with 8-bit fingerprints and 1 in 65536
// with 16-bit ones. The zero Filter contains nothing.
//
// A Filter is immutable and safe for concurrent use. It refers to the bytes it was
// opened from, which must not change while it is in use.
type Filter struct {
	table       []byte
	seed        uint64
	segCountLen uint32 // segment count × segment length: the range of the first position
	segLen      uint32
	segMask     uint32
	keys        uint32
	wide        bool
}

// Open checks an encoded filter and returns it without copying the table. The
// header decides every position Contains can reach, so after a successful Open
// Contains cannot leave the table. Errors are *corrupt.Error with offsets relative
// to data and no file name.
func Open(data []byte) (Filter, error) {
	var f Filter
	if len(data) < FilterHeaderBytes {
		return f, filterError(0, "at least 24 bytes of header", len(data))
	}
	if data[0] != filterVersion {
		return f, corrupt.NewVersion("", "filter", filterVersion, data[0])
	}
	width := uint64(data[1]) / 8
	if data[1] != 8 && data[1] != 16 {
		return f, filterError(1, "8 or 16 bits", data[1])
	}
	if z := binary.LittleEndian.Uint16(data[2:]); z != 0 {
		return f, filterError(2, "zero", z)
	}
	segLen := binary.LittleEndian.Uint32(data[4:])
	segCount := binary.LittleEndian.Uint32(data[8:])
	f = Filter{
		table:       data[FilterHeaderBytes:],
		seed:        binary.LittleEndian.Uint64(data[16:]),
		segCountLen: segCount * segLen,
		segLen:      segLen,
		segMask:     segLen - 1,
		keys:        binary.LittleEndian.Uint32(data[12:]),
		wide:        width == 2,
	}
	if segLen == 0 {
		if segCount != 0 || f.keys != 0 || len(f.table) != 0 {
			return Filter{}, filterError(4, "an empty filter", len(data))
		}
		return f, nil
	}
	if segLen&(segLen-1) != 0 {
		return Filter{}, filterError(4, "a power of two", segLen)
	}
	slots := (uint64(segCount) + 2) * uint64(segLen)
	size := uint64(len(f.table))
	if segCount == 0 || size%width != 0 || slots != size/width {
		return Filter{}, filterError(8, "a table as long as the header says", len(f.table))
	}
	return f, nil
}

func filterError(off int64, want, got any) error {
	return corrupt.New("", off, "filter", want, got)
}

// Keys returns the number of hashes the filter was built from.
func (f *Filter) Keys() int { return int(f.keys) }

// Bits returns the width of a fingerprint, 8 or 16.
func (f *Filter) Bits() int {
	if f.wide {
		return 16
	}
	return 8
}

// Contains reports whether hash may be in the set. It touches at most three cache
// lines of the table.
func (f *Filter) Contains(hash uint64) bool {
	if len(f.table) == 0 {
		return false
	}
	h := base.Mix(hash + f.seed)
	hi, _ := bits.Mul64(h, uint64(f.segCountLen))
	p0 := uint32(hi)
	p1 := p0 + f.segLen
	p2 := p1 + f.segLen
	p1 ^= uint32(h>>18) & f.segMask
	p2 ^= uint32(h) & f.segMask
	want := uint16(h ^ h>>32)
	if f.wide {
		t := f.table
		return want == binary.LittleEndian.Uint16(t[2*int(p0):])^
			binary.LittleEndian.Uint16(t[2*int(p1):])^
			binary.LittleEndian.Uint16(t[2*int(p2):])
	}
	return byte(want) == f.table[p0]^f.table[p1]^f.table[p2]
}
