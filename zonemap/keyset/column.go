package keyset

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"sort"
	"unsafe"
)

// perBucket is about how many stored keys share an entry of a column's index, if keys
// are spread evenly: two cache lines of heads for 4 bytes of index.
const perBucket = 16

// A column is the stored keys of one part in ascending order: their heads, and for keys
// that are not integers where each ends, and their bytes. Immutable.
type column struct {
	n     int
	lo    uint64
	heads []byte   // 8 bytes each, little-endian
	ends  []byte   // 4 bytes each; nil for integers
	bytes []byte   // the keys one after the other
	index []uint32 // number of keys below bucket i; derived, not stored
	shift uint     // (head − lo) >> shift is the bucket
}

// openColumn checks the bytes of a part's column, whose checksum holds, and derives the
// index.
func openColumn(data []byte, n int, ints bool, lo, hi uint64) (*column, bool) {
	if uint64(len(data)) < uint64(n)*8 || n == 0 {
		return nil, false
	}
	c := &column{n: n, lo: lo, heads: data[:8*n]}
	if rest := data[8*n:]; ints {
		if len(rest) != 0 {
			return nil, false
		}
	} else {
		if uint64(len(rest)) < uint64(n)*4 {
			return nil, false
		}
		c.ends, c.bytes = rest[:4*n], rest[4*n:]
	}
	buckets := max(1, n/perBucket)
	c.shift = uint(max(0, bits.Len64(hi-lo)-bits.Len(uint(buckets))))
	c.index = make([]uint32, (hi-lo)>>c.shift+2)
	return c, c.fillIndex(lo, hi)
}

// fillIndex counts keys by bucket; false if heads or ends are out of order or out of
// bounds.
func (c *column) fillIndex(lo, hi uint64) bool {
	last, end, next := lo, uint32(0), 0
	for i := range c.n {
		h := c.head(i)
		if h < last || h > hi {
			return false
		}
		last = h
		for b := int((h - lo) >> c.shift); next <= b; next++ {
			c.index[next] = uint32(i)
		}
		if c.ends != nil {
			e := binary.LittleEndian.Uint32(c.ends[4*i:])
			if e < end || uint64(e) > uint64(len(c.bytes)) {
				return false
			}
			end = e
		}
	}
	for ; next < len(c.index); next++ {
		c.index[next] = uint32(c.n)
	}
	return c.ends == nil || int(end) == len(c.bytes)
}

func (c *column) head(i int) uint64 { return binary.LittleEndian.Uint64(c.heads[8*i:]) }

// bucket returns the range of positions that a head inside the zone can have.
func (c *column) bucket(head uint64) (from, to uint32) {
	b := (head - c.lo) >> c.shift
	return c.index[b], c.index[b+1]
}

// key returns the bytes of key i of a column of bytes.
func (c *column) key(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = binary.LittleEndian.Uint32(c.ends[4*i-4:])
	}
	return c.bytes[from:binary.LittleEndian.Uint32(c.ends[4*i:])]
}

// has reports whether the key is stored, given a position in [from, to] at which its
// head is or would be. Key is nil if it is the eight bytes of head.
func (c *column) has(at int, head uint64, key []byte) bool {
	if c.ends == nil {
		return at < c.n && c.head(at) == head && (key == nil || len(key) == 8)
	}
	if key == nil {
		key = binary.BigEndian.AppendUint64(make([]byte, 0, 8), head)
	}
	// Keys with one head are in order of their bytes.
	same := sort.Search(c.n-at, func(i int) bool { return c.head(at+i) > head })
	i := sort.Search(same, func(i int) bool { return bytes.Compare(c.key(at+i), key) >= 0 })
	return i < same && bytes.Equal(c.key(at+i), key)
}

// lowerBound returns the first position in [from, to) whose head is not below head.
func (c *column) lowerBound(from, to uint32, head uint64) int {
	for from < to {
		mid := from + (to-from)/2
		if c.head(int(mid)) < head {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return int(from)
}

// contains is the search for a single key. The head is inside the zone.
func (c *column) contains(head uint64, key []byte) bool {
	from, to := c.bucket(head)
	return c.has(c.lowerBound(from, to, head), head, key)
}

// headAddr and indexAddr are what a search will read.
func (c *column) headAddr(i uint32) unsafe.Pointer {
	return unsafe.Pointer(&c.heads[8*min(int(i), c.n-1)])
}

func (c *column) indexAddr(head uint64) unsafe.Pointer {
	return unsafe.Pointer(&c.index[(head-c.lo)>>c.shift])
}

// bytesResident is the memory that is held beside the stored bytes.
func (c *column) bytesResident() int { return 4 * cap(c.index) }
