package sst

import "github.com/kstonedb/kstone/internal/base"

// Entries are entries of one block that follow each other. Only values are at hand; what else an
// entry has is read again when it is asked for. Why: a scan that tests values needs few keys, and
// to copy keys and numbers of all entries costs as much as to find them.
//
// The zero Entries is ready. Ownership: values, and what the methods return, are valid as those of
// Cursor.Entry are.
type Entries struct {
	Values [][]byte

	b     *dataBlock
	first int // the entry of Values[0]
	bytes int // of what is not shared of the keys, and of the values
}

// maxEntries bounds how many entries there are together.
const maxEntries = 128

// KeyBytes returns the length of the key of entry i.
func (x *Entries) KeyBytes(i int) int {
	if n := x.b.data[x.b.offset(x.first+i)]; n < 0x80 {
		return x.b.shared + int(n)
	}
	suffix, _, _ := x.b.suffix(x.first + i)
	return x.b.shared + len(suffix)
}

// Bytes returns the length of all keys and values.
func (x *Entries) Bytes() int { return x.bytes + x.b.shared*len(x.Values) }

// AppendKey appends the key of entry i to dst.
func (x *Entries) AppendKey(dst []byte, i int) []byte {
	suffix, _, _ := x.b.suffix(x.first + i)
	return append(append(dst, x.b.prefix()...), suffix...)
}

// Seq returns the sequence number of entry i.
func (x *Entries) Seq(i int) base.SeqNum {
	var e blockEntry
	x.b.entry(x.first+i, &e)
	return e.seq
}

// Release drops all references.
func (x *Entries) Release() {
	clear(x.Values[:cap(x.Values)])
	x.Values, x.b = x.Values[:0], nil
}

// Plain reports whether each entry of the file has its value, which does not expire, is the only
// version of its key, and visible at snap. A file that cannot be read is not.
func (r *Reader) Plain(snap base.SeqNum) bool {
	m := &r.meta
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
	return c.seek(key, false) && c.NextEntries(x, hi)
}

// FirstEntries is SeekEntries of the first key.
func (c *Cursor) FirstEntries(x *Entries, hi []byte) bool {
	return c.start() && c.enter(c.keptFrom(0, false), false) && c.NextEntries(x, hi)
}

// NextEntries sets x to the entries that follow. Requires: there were some before.
func (c *Cursor) NextEntries(x *Entries, hi []byte) bool {
	if c.pos+1 >= c.b.n {
		if i := c.keptFrom(c.block+1, false); !c.enter(i, false) {
			return false
		}
	}
	b, from, end := c.b, c.pos+1, c.b.n
	if hi != nil {
		end = b.before(hi)
	}
	end = min(end, from+maxEntries)
	var e blockEntry
	values := x.Values[:0]
	i, bytes := from, 0
	for ; i < end && b.scan(i, &e); i++ {
		values = append(values, e.value)
		bytes += len(e.suffix) + len(e.value)
	}
	x.Values, x.b, x.first, x.bytes, c.pos = values, b, from, bytes, i-1
	if i == from && i < end {
		return c.fail(c.r.damagedEntry(c.t, c.block, i))
	}
	return i > from
}
