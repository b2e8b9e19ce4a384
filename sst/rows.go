package sst

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// More appends to rows the entries below hi, where nil is no bound, that up to n further calls of
// Next would show, and stands on the last of them. It ends early at the end of the block and at a
// damaged entry: Next goes on from there, and reports it. Values are valid as Entry's are.
//
// Why: the work of a step (a call, the copy of an entry, checks for the end of the
// block) is most of the cost of a scan. Here it is paid once for many rows. The end of
// each value is looked at, because whoever reads rows one by one, alternating between
// hundreds of blocks, would wait for each; the loads here do not depend on each other.
func (c *Cursor) More(rows *cursor.Batch, n int, hi []byte) {
	if !c.valid || n == 0 {
		return
	}
	b, snap, prefix, shared := c.b, c.snap, c.b.prefix(), c.b.shared
	pos, head, suffix := c.pos, b.head(c.pos), c.key[shared:]
	end := b.n
	if hi != nil {
		end = b.before(hi)
	}
	var e blockEntry
	var touched byte
	list := rows.Rows
	for i := pos + 1; i < end && n > 0; i++ {
		if !b.scan(i, &e) {
			break
		}
		h := b.head(i)
		if e.seq > snap || (h == head && bytes.Equal(e.suffix, suffix)) {
			continue
		}
		pos, head, suffix = i, h, e.suffix
		if len(list) == cap(list) {
			list = slices.Grow(list, n)
		}
		list = list[:len(list)+1]
		r := &list[len(list)-1]
		r.Key = rows.Key(shared + len(suffix))
		copyShort(r.Key, prefix)
		copyShort(r.Key[shared:], suffix)
		r.Value, r.Seq, r.Expiry, r.Kind, r.Large = e.value, e.seq, e.expiry, e.kind, e.large
		n--
		if len(e.value) > 0 {
			touched += e.value[len(e.value)-1]
		}
	}
	rows.Rows = list
	c.touched = touched
	c.stand(pos, rows)
}

// before returns how many entries come before key, all if they cannot be compared.
func (b *dataBlock) before(key []byte) int {
	lo, hi := b.among(key)
	if lo < hi {
		var ok bool
		if lo, _, ok = b.seekAmong(lo, hi, key[b.shared:], base.MaxSeqNum); !ok {
			return b.n
		}
	}
	return lo
}

// Less is More for calls of Prev, of the entries not below lo. It also ends early at the first key
// of the block, whose newest version may be in the block before.
func (c *Cursor) Less(rows *cursor.Batch, n int, lo []byte) {
	if !c.valid || n == 0 {
		return
	}
	b, snap := c.b, c.snap
	prefix := b.prefix()
	pos, end := c.pos, 0
	if len(lo) > 0 {
		if end = b.before(lo); end == b.n { // or they cannot be compared
			end = 0
		}
	}
	var e blockEntry
	for i := pos - 1; i >= end && n > 0; i-- {
		if !b.scan(i, &e) {
			break
		}
		if e.seq > snap {
			continue
		}
		if i = b.newest(i, snap, &e); i < 0 || (i == 0 && c.block > 0) {
			break
		}
		appendRow(rows, prefix, &e)
		pos = i
		n--
	}
	c.stand(pos, rows)
}

// newest moves from e, a visible version of a key at i, to the newest visible one in
// the block. It returns its place, -1 if it met a damaged entry.
func (b *dataBlock) newest(i int, snap base.SeqNum, e *blockEntry) int {
	var newer blockEntry
	for i > 0 && b.head(i-1) == b.head(i) {
		if !b.scan(i-1, &newer) {
			return -1
		}
		if newer.seq > snap || !bytes.Equal(newer.suffix, e.suffix) {
			break
		}
		*e = newer
		i--
	}
	return i
}

// stand makes the last of the rows, at pos, the entry that the cursor stands on.
func (c *Cursor) stand(pos int, rows *cursor.Batch) {
	if pos == c.pos {
		return
	}
	c.pos = pos
	last := &rows.Rows[len(rows.Rows)-1]
	c.key = append(c.key[:c.b.shared], last.Key[c.b.shared:]...)
	c.entry = *last
	c.entry.Key = c.key
}

func appendRow(rows *cursor.Batch, prefix []byte, e *blockEntry) {
	key := rows.Key(len(prefix) + len(e.suffix))
	copy(key, prefix)
	copy(key[len(prefix):], e.suffix)
	rows.Rows = append(rows.Rows, base.Entry{
		Key: key, Value: e.value, Seq: e.seq, Expiry: e.expiry, Kind: e.kind, Large: e.large,
	})
}

// scan is entry for the usual case, which takes two loads that wait for each other: a key below
// 128 bytes, a value without expiry below 16 KiB, not at the very end of the block. It leaves
// everything else to entry.
func (b *dataBlock) scan(i int, e *blockEntry) (ok bool) {
	lo, hi := uint64(b.offset(i)), uint64(len(b.data))
	if i+1 < b.n {
		hi = uint64(b.offset(i + 1))
	}
	data := b.data
	if lo >= hi || hi > uint64(len(data)) || data[lo] >= 0x80 {
		return b.entry(i, e)
	}
	at := lo + 1 + uint64(data[lo])
	if at+8 > hi {
		return b.entry(i, e)
	}
	e.suffix = data[lo+1 : at : at]
	x := binary.LittleEndian.Uint64(data[at:])
	tag := x & 0x7f
	switch {
	case x&0x80 == 0:
		x, at = x>>8, at+1
	case x&0x8000 == 0:
		tag, x, at = tag|x>>1&0x3f80, x>>16, at+2
	default:
		var w uint64
		tag, w = uvarint8(x)
		if at += w; w == 0 || at+2 > hi {
			return b.entry(i, e)
		}
		x = uint64(data[at]) | uint64(data[at+1])<<8
	}
	n := x & 0x7f
	switch at++; {
	case x&0x80 == 0:
	case x&0x8000 == 0:
		n, at = n|x>>1&0x3f80, at+1
	default:
		return b.entry(i, e)
	}
	if base.Kind(tag&3) != base.KindPut {
		return b.entry(i, e)
	}
	if at+n != hi || tag>>2 > uint64(base.MaxSeqNum-b.minSeq) {
		return b.entry(i, e)
	}
	e.value = data[at:hi:hi]
	e.seq, e.kind, e.expiry, e.large = b.minSeq+base.SeqNum(tag>>2), base.KindPut, 0, false
	return true
}

// uvarint8 decodes the uvarint at the low end of x and returns its length, 0 if it is
// longer than eight bytes.
func uvarint8(x uint64) (v, w uint64) {
	stop := ^x & 0x8080808080808080
	if stop == 0 {
		return 0, 0
	}
	x &= (stop ^ (stop - 1)) & 0x7f7f7f7f7f7f7f7f
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	x = x&0x000000000fffffff | x&0x0fffffff00000000>>4
	return x, uint64(bits.TrailingZeros64(stop)/8 + 1)
}

// copyShort is copy, of mostly few bytes. Requires: dst has room.
func copyShort(dst, src []byte) {
	n := len(src)
	if n >= 4 && n <= 8 && len(dst) >= n {
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src))
		binary.LittleEndian.PutUint32(dst[n-4:], binary.LittleEndian.Uint32(src[n-4:]))
		return
	}
	copy(dst, src)
}
