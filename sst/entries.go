package sst

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
)

// Entries are entries of one block that follow each other. Only values are at hand; what else an
// entry has is read again when it is asked for. Why: a scan that tests values needs few keys, and
// to copy keys and numbers of all entries costs as much as to find them.
//
// The zero Entries is ready. Ownership: values, and what the methods return, are valid as those of
// Cursor.Entry are.
type Entries struct {
	b      *dataBlock
	places []base.Place // of the values in b
	first  int          // the entry of places[0]
	bytes  int          // of what is not shared of the keys, and of the values
	common int          // bytes that the keys have in common after what the block shares
}

// maxEntries bounds how many entries there are together.
const maxEntries = 128

// Len returns how many there are.
func (x *Entries) Len() int { return len(x.places) }

// Values returns the values.
func (x *Entries) Values() base.Values { return base.Values{Data: x.b.data, Places: x.places} }

// KeyBytes returns the length of the key of entry i.
func (x *Entries) KeyBytes(i int) int {
	if n := x.b.data[x.b.offset(x.first+i)]; n < 0x80 {
		return x.b.shared + int(n)
	}
	suffix, _, _ := x.b.suffix(x.first + i)
	return x.b.shared + len(suffix)
}

// Bytes returns the length of all keys and values.
func (x *Entries) Bytes() int { return x.bytes + x.b.shared*len(x.places) }

// AppendPrefix appends what all keys begin with: since they are in order, what the first and the
// last have in common.
func (x *Entries) AppendPrefix(dst []byte) []byte {
	x.common = 0
	first, last := x.suffix(0), x.suffix(len(x.places)-1)
	for x.common < min(len(first), len(last)) && first[x.common] == last[x.common] {
		x.common++
	}
	return append(append(dst, x.b.prefix()...), first[:x.common]...)
}

// Suffix returns what follows the prefix in the key of entry i. Requires: AppendPrefix was called.
func (x *Entries) Suffix(i int) []byte {
	s := x.suffix(i)
	return s[min(len(s), x.common):]
}

// suffix returns what is not shared in the block of the key of entry i.
func (x *Entries) suffix(i int) []byte {
	b := x.b
	if at := b.offset(x.first + i); b.data[at] < 0x80 {
		return b.data[at+1 : at+1+uint32(b.data[at])]
	}
	suffix, _, _ := b.suffix(x.first + i)
	return suffix
}

// Seq returns the sequence number of entry i.
func (x *Entries) Seq(i int) base.SeqNum {
	var e base.Entry
	x.b.entry(x.first+i, &e)
	return e.Seq
}

// Release drops all references.
func (x *Entries) Release() { x.places, x.b = x.places[:0], nil }

// Plain reports whether each entry of the file has its value, which does not expire, is the only
// version of its key, and visible at snap. A file that cannot be read is not.
func (r *Reader) Plain(snap base.SeqNum) bool {
	m := r.meta
	if m.Tombstones|m.TTLEntries|m.RangeTombstones != 0 || m.MaxSeq > snap ||
		len(m.Values) > 0 {
		return false
	}
	t, err := r.loadTail()
	return err == nil && t.props.keys == m.Entries
}

// SeekEntries sets x to entries from key on that are below hi, where nil is no bound: as many as
// follow in a block, up to a limit. It reports false if there are none: at the end, and after an
// error. It stands in for SeekGE, Next and Entry. Requires: the file is Plain.
func (c *Cursor) SeekEntries(x *Entries, key, hi []byte) bool {
	return c.seekSpan(key, hi) && c.NextEntries(x, hi)
}

// FirstEntries is SeekEntries of the first key.
func (c *Cursor) FirstEntries(x *Entries, hi []byte) bool {
	c.span, c.met = nil, metSpan{}
	return c.start() && c.enter(c.keptFrom(0, false), false) && c.NextEntries(x, hi)
}

// NextEntries sets x to the entries that follow. Requires: there were some before.
func (c *Cursor) NextEntries(x *Entries, hi []byte) bool {
	if c.pos+1 >= c.b.n {
		i := c.keptFrom(c.block+1, false)
		if c.span != nil && c.left(i) == 0 || !c.enter(i, false) {
			return false
		}
	}
	b, from := c.b, c.pos+1
	end := max(from, min(c.endOf(hi), from+maxEntries))
	x.places, x.bytes = b.appendPlaces(x.places[:0], from, end)
	i := from + len(x.places)
	x.b, x.first, c.pos = b, from, i-1
	if i == from && i < end {
		return c.fail(c.r.damagedEntry(c.t, c.block, i))
	}
	return i > from
}

// appendPlaces appends the places of the values of the entries from up to end, which are puts
// without expiry, and returns how many bytes these and what is not shared of the keys have. It ends
// before an entry that is damaged.
func (b *dataBlock) appendPlaces(list []base.Place, from, end int) (_ []base.Place, bytes int) {
	list = slices.Grow(list, end-from)[:end-from]
	for i := 0; i < len(list); i++ {
		n, some := b.findPlaces(list[i:], from+i)
		if i, bytes = i+n, bytes+some; i == len(list) {
			break
		}
		var e base.Entry
		if !b.entry(from+i, &e) {
			return list[:i], bytes
		}
		to := b.offset(from+i) + uint32(len(b.bytes(from+i)))
		list[i] = base.Place{From: to - uint32(len(e.Value)), To: to}
		bytes += len(e.Key) + len(e.Value)
	}
	return list, bytes
}

// findPlaces sets out to the places of the values from entry i on, and returns how many it has
// found, and their bytes. It ends before an entry that is damaged, or not like most: a key below
// 128 bytes, a value below 16 KiB, not at the very end of the block. Why not scan: it takes twice
// as long, and this is most of the time of a scan whose condition is tested on many rows at a time.
func (b *dataBlock) findPlaces(out []base.Place, i int) (found, bytes int) {
	data := b.data
	starts := data[blockHeaderBytes+4*(b.n+i) : blockHeaderBytes+8*b.n]
	if base.MaxSeqNum-b.minSeq < 1<<(7*maxTagBytes) {
		return 0, 0 // the numbers in tags have to be compared with the greatest one
	}
	lo := uint(b.offset(i))
	for k := range out {
		at := 4*k + 4
		if at+4 > len(starts) {
			return k, bytes
		}
		hi := uint(binary.LittleEndian.Uint32(starts[at : at+4]))
		if lo >= hi || hi > uint(len(data)) {
			return k, bytes
		}
		e := data[lo:hi]
		n := uint(e[0])
		if n >= 0x80 || n+9 > uint(len(e)) {
			return k, bytes
		}
		rest := e[n+1:]
		x := binary.LittleEndian.Uint64(rest)
		tag, w := x&3, uint(bits.TrailingZeros64(^x&tagEnds))+1
		x >>= w & 63
		m := uint(x & 0x7f)
		if w += 8; x&0x80 != 0 {
			m, w = m|uint(x>>1)&0x3f80, w+8
		}
		if tag != uint64(base.KindPut) || x&0x8080 == 0x8080 || w > 64 ||
			w/8+m != uint(len(rest)) {
			return k, bytes
		}
		out[k] = base.Place{From: uint32(hi - m), To: uint32(hi)}
		bytes += int(n + m)
		lo = hi
	}
	return len(out), bytes
}

// maxTagBytes is the longest tag that findPlaces reads; tagEnds are the bits of eight
// bytes that are zero in the last byte of one.
const (
	maxTagBytes = 6
	tagEnds     = 0x80_80_80_80_80_80
)
