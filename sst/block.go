package sst

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// dataBlock is a decoded data block, see blockBuilder for the format. It is
// immutable. Opening one checks what every access relies on; entries are checked
// when they are read, so that a block costs nothing for entries that are not read.
type dataBlock struct {
	data   []byte
	n      int // entries
	shared int // length of the common prefix
	minSeq base.SeqNum
}

// openDataBlock checks the header of a decoded block. Errors have no file name and
// an offset relative to data.
func openDataBlock(data []byte) (dataBlock, error) {
	var b dataBlock
	if len(data) < blockHeaderBytes {
		return b, corrupt.New("", 0, "data block", "a header of 20 bytes", len(data))
	}
	if data[0] != blockVersion {
		return b, corrupt.NewVersion("", "data block", blockVersion, data[0])
	}
	if data[1]|data[2]|data[3] != 0 {
		return b, corrupt.New("", 1, "data block", "zeros", "other bytes")
	}
	n := uint64(binary.LittleEndian.Uint32(data[4:]))
	shared := uint64(binary.LittleEndian.Uint32(data[16:]))
	first := blockHeaderBytes + 8*n + shared
	if n == 0 || first >= uint64(len(data)) {
		return b, corrupt.New("", 4, "data block", "counts that fit its length", n)
	}
	b = dataBlock{
		data:   data,
		n:      int(n),
		shared: int(shared),
		minSeq: base.SeqNum(binary.LittleEndian.Uint64(data[8:])),
	}
	if b.minSeq > base.MaxSeqNum {
		return b, corrupt.New("", 8, "data block", "a sequence number", uint64(b.minSeq))
	}
	if got := b.offset(0); uint64(got) != first {
		return b, corrupt.New("", blockHeaderBytes, "data block", first, got)
	}
	return b, nil
}

// head returns the head of entry i. Requires: 0 <= i < n, here and below.
func (b *dataBlock) head(i int) uint32 {
	return binary.LittleEndian.Uint32(b.data[blockHeaderBytes+4*i:])
}

// offset returns where entry i starts according to the block.
func (b *dataBlock) offset(i int) uint32 {
	return binary.LittleEndian.Uint32(b.data[blockHeaderBytes+4*b.n+4*i:])
}

func (b *dataBlock) prefix() []byte {
	at := blockHeaderBytes + 8*b.n
	return b.data[at : at+b.shared]
}

// bytes returns the bytes of entry i, nil if the offsets make no sense.
func (b *dataBlock) bytes(i int) []byte {
	lo, hi := b.offset(i), uint32(len(b.data))
	if i+1 < b.n {
		hi = b.offset(i + 1)
	}
	if lo >= hi || uint64(hi) > uint64(len(b.data)) {
		return nil
	}
	return b.data[lo:hi:hi]
}

// suffix returns the key of entry i after the prefix and the bytes that follow it.
func (b *dataBlock) suffix(i int) (suffix, rest []byte, ok bool) {
	return cutBytes(b.bytes(i))
}

// cutBytes cuts a length-prefixed field off the front of e.
func cutBytes(e []byte) (field, rest []byte, ok bool) {
	if len(e) > 0 && e[0] < 0x80 { // lengths below 128 take one byte
		n := int(e[0])
		if n > len(e)-1 {
			return nil, nil, false
		}
		return e[1 : 1+n : 1+n], e[1+n:], true
	}
	n, w := binary.Uvarint(e)
	if w <= 0 || n > uint64(len(e)-w) {
		return nil, nil, false
	}
	end := w + int(n)
	return e[w:end:end], e[end:], true
}

// entry parses entry i into views of the block: its Key is what follows the block's prefix, its
// Value a reference if it is Large. ok is false if its bytes are not an entry.
func (b *dataBlock) entry(i int, e *base.Entry) (ok bool) {
	hi := uint32(len(b.data))
	if i+1 < b.n {
		hi = b.offset(i + 1)
	}
	return b.scan(b.offset(i), hi, e)
}

// parse is scan for all entries.
func (b *dataBlock) parse(data []byte, e *base.Entry) (ok bool) {
	suffix, rest, ok := cutBytes(data)
	if !ok {
		return false
	}
	e.Key = suffix
	return b.body(rest, e)
}

// body parses what follows the key of an entry.
func (b *dataBlock) body(rest []byte, e *base.Entry) (ok bool) {
	tag, w := binary.Uvarint(rest)
	if w <= 0 || tag>>2 > uint64(base.MaxSeqNum-b.minSeq) {
		return false
	}
	rest = rest[w:]
	e.Seq, e.Kind, e.Expiry = b.minSeq+base.SeqNum(tag>>2), base.Kind(tag&3), 0
	if e.Large = e.Kind == kindLarge; e.Large {
		if len(rest) == 0 || rest[0] == byte(base.KindDelete) {
			return false
		}
		e.Kind, rest = base.Kind(rest[0]), rest[1:]
	}
	switch e.Kind {
	case base.KindDelete:
		e.Value = nil
		return len(rest) == 0
	case base.KindPutTTL:
		if e.Expiry, w = binary.Varint(rest); w <= 0 {
			return false
		}
		rest = rest[w:]
	case base.KindPut:
	default:
		return false
	}
	e.Value, rest, ok = cutBytes(rest)
	return ok && len(rest) == 0
}

// seqOf returns the sequence number in what follows the key of an entry.
func (b *dataBlock) seqOf(rest []byte) (base.SeqNum, bool) {
	tag, w := binary.Uvarint(rest)
	return b.minSeq + base.SeqNum(tag>>2), w > 0
}

// seek returns the first entry at or after (key, snap) in (key ascending, sequence
// number descending) order: the newest version of key that snap sees, if the block
// has one, or else the first entry of a later key. exact reports which. ok is false
// if a damaged entry was met.
func (b *dataBlock) seek(key []byte, snap base.SeqNum) (pos int, exact, ok bool) {
	lo, hi := b.among(key)
	if lo == hi {
		return lo, false, true
	}
	return b.seekAmong(lo, hi, key[b.shared:], snap)
}

// among returns the entries [lo, hi) that share prefix and head with key. If there are
// none, lo is the first entry of a later key.
func (b *dataBlock) among(key []byte) (lo, hi int) {
	p := b.prefix()
	if len(key) < len(p) || string(key[:len(p)]) != string(p) {
		if bytes.Compare(key, p) < 0 {
			return 0, 0
		}
		return b.n, b.n
	}
	head := head4(key[len(p):])
	lo = b.lowerBound(head)
	if lo == b.n || b.head(lo) != head {
		return lo, lo
	}
	// Why not walk: with long keys a whole block can share one head.
	hi = lo + 1
	if hi < b.n && b.head(hi) == head {
		hi = b.n
		if head != 1<<32-1 {
			hi = b.lowerBound(head + 1)
		}
	}
	return lo, hi
}

// lowerBound returns the first entry whose head is at least head.
func (b *dataBlock) lowerBound(head uint32) int {
	heads := b.data[blockHeaderBytes : blockHeaderBytes+4*b.n]
	lo, n := 0, b.n
	for n > 0 {
		half := n >> 1
		if binary.LittleEndian.Uint32(heads[4*(lo+half):]) < head {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return lo
}

// seekAmong is seek among the entries [lo, hi), by full comparison.
func (b *dataBlock) seekAmong(lo, hi int, suffix []byte, snap base.SeqNum) (int, bool, bool) {
	found := -1
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		s, rest, ok := b.suffix(mid)
		if !ok {
			return mid, false, false
		}
		c := bytes.Compare(s, suffix)
		if c == 0 {
			seq, ok := b.seqOf(rest)
			if !ok {
				return mid, false, false
			}
			if seq <= snap {
				found = mid
			} else {
				c = -1
			}
		}
		if c < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, found == lo, true
}
