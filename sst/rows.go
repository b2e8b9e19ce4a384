package sst

import (
	"bytes"
	"encoding/binary"
	"math/bits"

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
	end := c.b.n
	if hi != nil {
		end = c.b.before(hi)
	}
	_, pos, touched := c.b.onward(rows, n, c.pos+1, end, c.pos, c.snap)
	c.touched = touched
	c.stand(pos, rows)
}

// onward appends to rows up to n of the entries from i on and before end that a cursor at snap
// shows, where last, if not -1, is the one that it has shown. It returns the entry to go on with,
// the last that was shown, and what was read only to be in the processor's cache. It ends early at
// a damaged entry.
//
// Why keys are made at the end: a loop with fewer variables keeps them in registers.
func (b *dataBlock) onward(
	rows *cursor.Batch, n, i, end, last int, snap base.SeqNum,
) (next, shown int, touched byte) {
	first := len(rows.Rows)
	if i >= end || n <= 0 {
		return i, last, 0
	}
	full := first + min(n, end-i)
	rows.Room(full)
	list := rows.Rows
	lo, head := b.offset(i), ^b.head(i)
	if last >= 0 {
		head = b.head(last)
	}
	heads := b.data[blockHeaderBytes+4*i : blockHeaderBytes+4*end]
	ends := b.data[blockHeaderBytes+4*(b.n+i+1) : blockHeaderBytes+8*b.n]
	for ; len(heads) >= 4 && len(list) < full; i, heads = i+1, heads[4:] {
		hi := uint32(len(b.data))
		if len(ends) >= 4 {
			hi, ends = binary.LittleEndian.Uint32(ends), ends[4:]
		}
		at, h := len(list), binary.LittleEndian.Uint32(heads)
		list = list[:at+1]
		r := &list[at]
		ok := b.scan(lo, hi, r)
		if lo = hi; !ok || r.Seq > snap || h == head &&
			bytes.Equal(r.Key, b.suffixOf(last, list[first:at])) {
			if list = rows.Drop(list); !ok {
				break
			}
			continue
		}
		last, head = i, h
		if v := r.Value; len(v) > 0 {
			touched += v[len(v)-1]
		}
	}
	rows.Rows = list
	rows.Prefix(first, b.prefix())
	return i, last, touched
}

// suffixOf returns the suffix of the entry that was shown last: that of the last of rows, if there
// are any.
func (b *dataBlock) suffixOf(last int, rows []base.Entry) []byte {
	if n := len(rows); n > 0 {
		return rows[n-1].Key
	}
	suffix, _, _ := b.suffix(last)
	return suffix
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
	end := 0
	if len(lo) > 0 {
		if end = c.b.before(lo); end == c.b.n { // or they cannot be compared
			end = 0
		}
	}
	c.stand(c.b.back(rows, n, c.pos, end, c.block > 0, c.snap), rows)
}

// back is onward for the entries before last and not before end, the last first. It returns the
// last that was shown. More reports whether there is a block before this one.
func (b *dataBlock) back(
	rows *cursor.Batch, n, last, end int, more bool, snap base.SeqNum,
) (shown int) {
	first := len(rows.Rows)
	full := first + min(n, last-end)
	rows.Room(full)
	list, hi := rows.Rows, uint32(len(b.data))
	if last < b.n {
		hi = b.offset(last)
	}
	shown = last
	for i := last - 1; i >= end && len(list) < full; i-- {
		at, lo := len(list), b.offset(i)
		list = list[:at+1]
		r := &list[at]
		ok := b.scan(lo, hi, r)
		if hi = lo; !ok || r.Seq > snap {
			if list = rows.Drop(list); !ok {
				break
			}
			continue
		}
		if at > first && b.head(i) == b.head(last) && bytes.Equal(r.Key, list[at-1].Key) {
			list[at-1] = *r
			list = rows.Drop(list)
		} else {
			shown = last
		}
		last = i
	}
	rows.Rows = list
	if len(list) > first { // whose newest version may come before, or in the block before
		last = b.newest(last, snap, &list[len(list)-1])
		if last < 0 || last == 0 && more {
			rows.Drop(list)
			last = shown
		}
	}
	rows.Prefix(first, b.prefix())
	return last
}

// newest moves from e, a visible version of a key at i, to the newest visible one in
// the block. It returns its place, -1 if it met a damaged entry.
func (b *dataBlock) newest(i int, snap base.SeqNum, e *base.Entry) int {
	var newer base.Entry
	for i > 0 && b.head(i-1) == b.head(i) {
		if !b.entry(i-1, &newer) {
			return -1
		}
		if newer.Seq > snap || !bytes.Equal(newer.Key, e.Key) {
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

// scan parses the entry between two offsets as entry does. The usual case is the fast one, with two
// loads that wait for each other: a key below 128 bytes, a value without expiry below 16 KiB, not
// at the very end of the block.
func (b *dataBlock) scan(lo, hi uint32, e *base.Entry) (ok bool) {
	if lo >= hi || uint64(hi) > uint64(len(b.data)) {
		return false
	}
	data := b.data[lo:hi:hi]
	at := int(data[0]) + 1
	if at > 0x80 || at+8 > len(data) {
		return b.parse(data, e)
	}
	e.Key = data[1:at:at]
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
		if at += int(w); w == 0 || at+2 > len(data) {
			return b.parse(data, e)
		}
		x = uint64(data[at]) | uint64(data[at+1])<<8
	}
	n := x & 0x7f
	switch at++; {
	case x&0x80 == 0:
	case x&0x8000 == 0:
		n, at = n|x>>1&0x3f80, at+1
	default:
		return b.parse(data, e)
	}
	if base.Kind(tag&3) != base.KindPut {
		return b.parse(data, e)
	}
	if uint64(at)+n != uint64(len(data)) || tag>>2 > uint64(base.MaxSeqNum-b.minSeq) {
		return b.parse(data, e)
	}
	e.Value = data[at:]
	e.Seq, e.Kind, e.Expiry, e.Large = b.minSeq+base.SeqNum(tag>>2), base.KindPut, 0, false
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
