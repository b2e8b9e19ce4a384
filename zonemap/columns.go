package zonemap

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: the column zones of a block or a file are
//
//	u8  16 + 1 if every put is described, 16 if not
//
// and to the end, by group ascending:
//
//	uvarint  group, uvarint count of its columns
//
// and for each column, ascending:
//
//	uvarint  column × 4 + 1 if there are values + 2 if they have no upper bound
//	uvarint  NULLs
//	uvarint  length of the lower bound, the bound              (only with values)
//	uvarint  bytes that the upper bound shares with the lower  (only with an upper bound)
//	uvarint  length of the rest, the rest
//
// Bounds have at most MaxBoundBytes: a longer least value is cut off, a longer greatest one
// is replaced by the next prefix of that length.

// MaxBoundBytes is the longest bound of a column.
const MaxBoundBytes = 16

// MaxColumns is how many columns of a group are collected.
const MaxColumns = 32

// maxZoneGroups bounds the groups. A zone with more says nothing.
const maxZoneGroups = 64

const (
	columnsIncomplete = 16
	columnsComplete   = 17
)

// Columns are the column zones of a block or a file. What a collector describes has a group, such
// as the number of a table, and columns with values in an encoding whose bytes are in the
// order of the values. The zero Columns know nothing.
type Columns struct{ data []byte }

// BlockCounts counts the blocks of files that a reading has tested.
type BlockCounts struct {
	Read    int64
	Skipped int64 // not read, those of files that were skipped included
}

// Add adds other counts.
func (c *BlockCounts) Add(o BlockCounts) {
	c.Read += o.Read
	c.Skipped += o.Skipped
}

// OpenColumns returns encoded column zones. It keeps data. What cannot be decoded is not known.
func OpenColumns(data []byte) Columns { return Columns{data} }

// Column is the zone of a column of a group. The zero Column has no row.
type Column struct {
	// Nulls is how many rows have no value.
	Nulls uint64
	// Values reports that there are values. Then Min is a lower bound of all, and Max an upper
	// one unless Open is set. They are views.
	Values, Open bool
	Min, Max     []byte
}

// Between reports whether there may be a value from lo to hi, both inclusive; nil is no bound.
func (z *Column) Between(lo, hi []byte) bool {
	return z.Values && (hi == nil || bytes.Compare(z.Min, hi) <= 0) &&
		(lo == nil || z.Open || bytes.Compare(z.Max, lo) >= 0)
}

// Column returns the zone of a column. It is known, and zero, if there is no row of the group, and
// not known if some put may be a row that was not described, or a row without that column.
func (c Columns) Column(group, column uint64) (z Column, known bool) {
	if len(c.data) == 0 || c.data[0] != columnsComplete {
		return z, false
	}
	for d := (mapDecoder{b: c.data, off: 1}); d.off < len(d.b); {
		g := d.uvarint()
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			number, zone, shared, rest := d.column()
			if g != group || number != column || d.bad {
				continue
			}
			if zone.Max = rest; shared > 0 {
				zone.Max = append(zone.Min[:shared:shared], rest...)
			}
			return zone, true
		}
		if d.bad || g == group {
			return Column{}, false
		}
	}
	return Column{}, true
}

// Check returns an error that matches corrupt.ErrCorrupt if the zones cannot be decoded. Offsets
// are relative to the zones, and there is no file name.
func (c Columns) Check() error {
	if len(c.data) == 0 || c.data[0] != columnsComplete && c.data[0] != columnsIncomplete {
		return corrupt.New("", 0, "column zones", "a first byte of 16 or 17", len(c.data))
	}
	d := mapDecoder{b: c.data, off: 1}
	for groups := 0; d.off < len(d.b); groups++ {
		_ = d.uvarint()
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			_, z, shared, rest := d.column()
			if max(len(z.Min), shared+len(rest)) > MaxBoundBytes {
				d.bad = true
			}
		}
		if d.bad || groups == maxZoneGroups {
			return corrupt.New("", int64(d.off), "column zones", "whole fields", "other bytes")
		}
	}
	return nil
}

// column reads a column. Its Max, if it has one, is shared bytes of Min and rest.
func (d *mapDecoder) column() (number uint64, z Column, shared int, rest []byte) {
	tag := d.uvarint()
	z.Nulls, z.Values, z.Open = d.uvarint(), tag&1 != 0, tag&2 != 0
	if !z.Values {
		return tag >> 2, z, 0, nil
	}
	if z.Min = d.bytes(); !z.Open {
		n := d.uvarint()
		rest = d.bytes()
		if d.bad || n > uint64(len(z.Min)) || len(rest) > MaxBoundBytes {
			d.bad = true
			return tag >> 2, z, 0, nil
		}
		shared = int(n)
	}
	return tag >> 2, z, shared, rest
}

// ColumnsBuilder collects the column zones of the blocks of a file. Each put is described by
// Row, then Value or Null of each of its columns; a put that is not makes the zone say nothing.
// The zero ColumnsBuilder is ready. It belongs to one goroutine at a time.
type ColumnsBuilder struct {
	block, file columnSet
	row         *groupZone // of the last Row, nil if there is no room for it
	described   bool       // Row or Unknown was called since Begin

	// Scratch is memory for the side that describes, KeyScratch for the side that decodes the
	// keys for it.
	Scratch, KeyScratch []byte
}

// columnSet is what is known of some puts.
type columnSet struct {
	groups  []groupZone
	n       int // in use
	partial bool
}

type groupZone struct {
	id      uint64
	rows    uint64
	columns []columnZone
}

// columnZone is the zone of a column. Invariant: reports is the number of rows that have
// reported a value or NULL; if that is not all rows, nothing is known.
type columnZone struct {
	number   uint64
	reports  uint64
	last     uint64 // the row that has reported last, counted from 1
	nulls    uint64
	min, max [MaxBoundBytes]byte
	minLen   int8 // -1 without values
	maxLen   int8
	cut      bool // the greatest value is longer than max
	open     bool
}

// Begin begins a put, and End ends it: if neither Row nor Unknown has been called in between, it
// is not described.
func (b *ColumnsBuilder) Begin() { b.described = false }

// End ends a put.
func (b *ColumnsBuilder) End() {
	if !b.described {
		b.Unknown()
	}
}

// Row begins the description of a put: a row of a group. Columns that are not reported after
// it are not known.
func (b *ColumnsBuilder) Row(group uint64) {
	b.described = true
	if b.row = b.block.group(group); b.row != nil {
		b.row.rows++
	}
}

// Unknown says that a put cannot be described.
func (b *ColumnsBuilder) Unknown() { b.described, b.block.partial, b.row = true, true, nil }

// Value reports a value of the row, in an encoding whose bytes are in the order of the values.
// It is copied. A column may have several values in a row.
func (b *ColumnsBuilder) Value(column uint64, v []byte) {
	if b.row == nil {
		return
	}
	c := b.row.column(column)
	if c == nil {
		return
	}
	c.report(b.row)
	short := v[:min(len(v), MaxBoundBytes)]
	if c.minLen < 0 {
		c.minLen = int8(copy(c.min[:], short))
		c.maxLen, c.cut = int8(copy(c.max[:], short)), len(v) > MaxBoundBytes
		return
	}
	switch x := bytes.Compare(short, c.max[:c.maxLen]); {
	case x > 0:
		c.maxLen, c.cut = int8(copy(c.max[:], short)), len(v) > MaxBoundBytes
	case x == 0:
		c.cut = c.cut || len(v) > MaxBoundBytes
	case bytes.Compare(short, c.min[:c.minLen]) < 0:
		c.minLen = int8(copy(c.min[:], short))
	}
}

// Null reports that the row has no value in a column.
func (b *ColumnsBuilder) Null(column uint64) {
	if b.row == nil {
		return
	}
	if c := b.row.column(column); c != nil {
		c.report(b.row)
		c.nulls++
	}
}

// report notes that the last row of the group has reported the column.
func (c *columnZone) report(g *groupZone) {
	if c.last != g.rows {
		c.last = g.rows
		c.reports++
	}
}

// FinishBlock appends the zones of the puts since the last block.
func (b *ColumnsBuilder) FinishBlock(dst []byte) []byte {
	for i := range b.block.groups[:b.block.n] {
		g := &b.block.groups[i]
		for j := range g.columns {
			g.columns[j].settle()
		}
	}
	b.file.merge(&b.block)
	dst = b.block.append(dst)
	b.block.reset()
	b.row = nil
	return dst
}

// FinishFile appends the zones of all blocks and starts over.
func (b *ColumnsBuilder) FinishFile(dst []byte) []byte {
	dst = b.file.append(dst)
	b.Reset()
	return dst
}

// Reset forgets what was collected and keeps the memory.
func (b *ColumnsBuilder) Reset() {
	b.block.reset()
	b.file.reset()
	b.row = nil
}

func (s *columnSet) reset() { s.n, s.partial = 0, false }

// group returns the zone of a group, nil if there are too many. Groups are in ascending order.
func (s *columnSet) group(id uint64) *groupZone {
	i := s.n
	for i > 0 && s.groups[i-1].id >= id {
		if i--; s.groups[i].id == id {
			return &s.groups[i]
		}
	}
	if s.n == maxZoneGroups {
		s.partial = true
		return nil
	}
	if s.n == len(s.groups) {
		s.groups = append(s.groups, groupZone{})
	}
	last := s.groups[s.n] // its memory
	copy(s.groups[i+1:s.n+1], s.groups[i:s.n])
	s.n++
	s.groups[i] = groupZone{id: id, columns: last.columns[:0]}
	return &s.groups[i]
}

// column returns the zone of a column, nil if there are too many. Columns are in ascending
// order.
func (g *groupZone) column(number uint64) *columnZone {
	i := 0
	for i < len(g.columns) && g.columns[i].number < number {
		i++
	}
	if i < len(g.columns) && g.columns[i].number == number {
		return &g.columns[i]
	}
	if len(g.columns) == MaxColumns {
		return nil
	}
	g.columns = append(g.columns, columnZone{})
	copy(g.columns[i+1:], g.columns[i:])
	g.columns[i] = columnZone{number: number, minLen: -1}
	return &g.columns[i]
}

// settle makes the upper bound one of the whole values: the successor of a prefix.
func (c *columnZone) settle() {
	if !c.cut {
		return
	}
	for c.cut = false; c.maxLen > 0; c.maxLen-- {
		if last := &c.max[c.maxLen-1]; *last < 0xff {
			*last++
			return
		}
	}
	c.open = true
}

// merge adds the zones of a block.
func (s *columnSet) merge(o *columnSet) {
	s.partial = s.partial || o.partial
	for i := range o.groups[:o.n] {
		from := &o.groups[i]
		to := s.group(from.id)
		if to == nil {
			return
		}
		to.rows += from.rows
		for j := range from.columns {
			c := &from.columns[j]
			if to := to.column(c.number); to != nil {
				to.merge(c)
			}
		}
	}
}

func (c *columnZone) merge(o *columnZone) {
	c.reports += o.reports
	c.nulls += o.nulls
	if o.minLen < 0 {
		return
	}
	if c.minLen < 0 || bytes.Compare(o.min[:o.minLen], c.min[:c.minLen]) < 0 {
		if c.minLen < 0 {
			c.max, c.maxLen = o.max, o.maxLen
		}
		c.min, c.minLen = o.min, o.minLen
	}
	if bytes.Compare(o.max[:o.maxLen], c.max[:c.maxLen]) > 0 {
		c.max, c.maxLen = o.max, o.maxLen
	}
	c.open = c.open || o.open
}

// append appends the encoded form.
func (s *columnSet) append(dst []byte) []byte {
	if s.partial {
		return append(dst, columnsIncomplete)
	}
	dst = append(dst, columnsComplete)
	for i := range s.groups[:s.n] {
		g := &s.groups[i]
		known := 0
		for j := range g.columns {
			if g.columns[j].reports == g.rows {
				known++
			}
		}
		dst = binary.AppendUvarint(dst, g.id)
		dst = binary.AppendUvarint(dst, uint64(known))
		for j := range g.columns {
			if c := &g.columns[j]; c.reports == g.rows {
				dst = c.append(dst)
			}
		}
	}
	return dst
}

func (c *columnZone) append(dst []byte) []byte {
	tag := c.number << 2
	if c.minLen >= 0 {
		tag |= 1
		if c.open {
			tag |= 2
		}
	}
	dst = binary.AppendUvarint(dst, tag)
	dst = binary.AppendUvarint(dst, c.nulls)
	if c.minLen < 0 {
		return dst
	}
	low, high := c.min[:c.minLen], c.max[:c.maxLen]
	dst = append(append(dst, byte(len(low))), low...)
	if c.open {
		return dst
	}
	shared := 0
	for shared < min(len(low), len(high)) && low[shared] == high[shared] {
		shared++
	}
	dst = append(dst, byte(shared), byte(len(high)-shared))
	return append(dst, high[shared:]...)
}
