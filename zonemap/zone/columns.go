package zone

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: the column zones of a file are
//
//	u8  19 if every put is described, 18 if not
//
// and to the end, by group in the order of first appearance:
//
//	uvarint  group, uvarint count of its columns
//
// and for each column, in that order, too:
//
//	uvarint  column
//	u8       length of what the bounds share + 32 × length of the rest of each + 128 with NULLs;
//	         instead of the first: 30 if the column is not known, 31 if it has no values
//	bytes    what the bounds share, the rest of the lower one, the rest of the upper one
//
// Those of a block are, to the end: the position of a group among those of the file, as u8, and
// for each column of the group there the same u8 and bytes, without what the bounds of the file
// share; or a single ff if some put is not described.
//
// Bounds are prefixes: a value is at least the lower one, and at most the upper one or a value
// that begins with it. They are cut where they are fine enough.

// MaxBoundBytes is the longest bound of a column.
const MaxBoundBytes = 16

// MaxColumns is how many columns of a group are collected.
const MaxColumns = 32

// maxZoneGroups bounds the groups of a file. Blocks with others say nothing.
const maxZoneGroups = 128

// On disk.
const (
	columnsIncomplete = 18
	columnsComplete   = 19
	blockIncomplete   = 0xff

	sharedMask   = 31
	sharedNot    = 30 // the column is not known
	sharedNone   = 31 // no values
	restShift    = 5
	maxRestBytes = 3
	nullsFlag    = 128
)

// blockSteps and fileSteps are how fine bounds are: the upper one is so many steps of their last
// byte above the lower one, unless that needs more than maxRestBytes. Why finer ones for files:
// there are few of them, and one that is not pruned costs its index.
const (
	blockSteps = 64
	fileSteps  = 1 << 16
)

// BlockCounts counts the blocks of files that a reading has tested.
type BlockCounts struct {
	Read    int64
	Skipped int64 // not read, those of files that were skipped included
	Whole   int64 // those of Skipped whose files were skipped
}

// Add adds other counts.
func (c *BlockCounts) Add(o BlockCounts) {
	c.Read += o.Read
	c.Skipped += o.Skipped
	c.Whole += o.Whole
}

// Column is the zone of a column of a group. The zero Column has no row.
type Column struct {
	// Nulls reports that a row has no value.
	Nulls bool
	// Values reports that there are values.
	Values bool

	min, max       [MaxBoundBytes]byte
	minLen, maxLen uint8
}

// Min returns a lower bound of the values, a view.
func (z *Column) Min() []byte { return z.min[:z.minLen] }

// Max returns what the greatest value is below of, or begins with: a view.
func (z *Column) Max() []byte { return z.max[:z.maxLen] }

// Between reports whether there may be a value from lo to before hi; nil is no bound.
func (z *Column) Between(lo, hi []byte) bool {
	return z.Values && (hi == nil || bytes.Compare(z.Min(), hi) < 0) &&
		bytes.Compare(lo[:min(len(lo), int(z.maxLen))], z.Max()) <= 0
}

// FileColumns are the column zones of a file, decoded. They are immutable.
type FileColumns struct {
	complete bool
	groups   []fileGroup
}

type fileGroup struct {
	id      uint64
	columns []fileColumn
}

type fileColumn struct {
	number uint64
	known  bool
	zone   Column
	shared int // bytes that both bounds begin with
}

// Columns are the column zones of a block or a file. What a collector describes has a group, such
// as the number of a table, and columns with values in an encoding whose bytes are in the
// order of the values. The zero Columns know nothing.
type Columns struct {
	file    *FileColumns
	block   []byte
	ofBlock bool
}

// Columns returns the zones of the file. Nil knows nothing.
func (f *FileColumns) Columns() Columns { return Columns{file: f} }

// Block returns the zones of a block of the file by what is stored for it. It keeps data. What
// cannot be decoded is not known.
func (f *FileColumns) Block(data []byte) Columns {
	return Columns{file: f, block: data, ofBlock: true}
}

// Column returns the zone of a column. It is known, and zero, if there is no row of the group, and
// not known if some put may be a row that was not described, or a row without that column.
func (c Columns) Column(group, column uint64) (z Column, known bool) {
	f := c.file
	if f == nil {
		return z, false
	}
	at := -1
	for i := range f.groups {
		if f.groups[i].id == group {
			at = i
			break
		}
	}
	if c.ofBlock {
		return f.blockColumn(c.block, at, column)
	}
	if at < 0 || !f.complete {
		return z, f.complete
	}
	for i := range f.groups[at].columns {
		if x := &f.groups[at].columns[i]; x.number == column {
			return x.zone, x.known
		}
	}
	return z, false
}

// blockColumn returns the zone of a column of the group at a position, -1 if the file has no such
// group, in a block.
func (f *FileColumns) blockColumn(block []byte, at int, column uint64) (z Column, known bool) {
	for d := (decoder{b: block}); d.off < len(d.b); {
		g := int(d.b[d.off])
		if d.off++; g >= len(f.groups) {
			return Column{}, false
		}
		columns := f.groups[g].columns
		for i := range columns {
			x := &columns[i]
			if g != at || x.number != column {
				d.skipBounds()
				continue
			}
			known, _ = d.bounds(&z, x.zone.min[:x.shared])
			return z, known
		}
		if g == at || d.bad {
			return Column{}, false
		}
	}
	return Column{}, true
}

// OpenColumns decodes the column zones of a file. Errors match corrupt.ErrCorrupt; offsets are
// relative to the zones, and there is no file name.
func OpenColumns(data []byte) (*FileColumns, error) {
	if len(data) == 0 || data[0] != columnsComplete && data[0] != columnsIncomplete {
		return nil, corrupt.New("", 0, "column zones", "a first byte of 18 or 19", len(data))
	}
	f := &FileColumns{complete: data[0] == columnsComplete}
	d := decoder{b: data, off: 1}
	for d.off < len(d.b) {
		g := fileGroup{id: d.uvarint()}
		n := d.uvarint()
		for ; n > 0 && n <= MaxColumns && !d.bad; n-- {
			x := fileColumn{number: d.uvarint()}
			x.known, x.shared = d.bounds(&x.zone, nil)
			g.columns = append(g.columns, x)
		}
		f.groups = append(f.groups, g)
		if d.bad || n > 0 || len(f.groups) > maxZoneGroups {
			return nil, corrupt.New("", int64(d.off), "column zones", "whole fields", "other bytes")
		}
	}
	return f, nil
}

// Check returns an error that matches corrupt.ErrCorrupt if the zones of a block cannot be
// decoded.
func (c Columns) Check() error {
	d := decoder{b: c.block}
	if c.file == nil || len(d.b) == 1 && d.b[0] == blockIncomplete {
		return nil
	}
	for d.off < len(d.b) && !d.bad {
		g := int(d.b[d.off])
		if d.off++; g >= len(c.file.groups) {
			d.bad = true
			break
		}
		for i := range c.file.groups[g].columns {
			x := &c.file.groups[g].columns[i]
			d.bounds(new(Column), x.zone.min[:x.shared])
		}
	}
	if d.bad {
		return corrupt.New("", int64(d.off), "column zones", "whole fields", "other bytes")
	}
	return nil
}

// decoder reads fields and remembers whether one did not fit.
type decoder struct {
	b   []byte
	off int
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b[d.off:])
	if d.bad = d.bad || n <= 0; !d.bad {
		d.off += n
	}
	return v
}

// head reads the first byte of bounds and how many bytes follow it.
func (d *decoder) head() (head byte, follow int) {
	if d.bad || d.off == len(d.b) {
		d.bad = true
		return sharedNot, 0
	}
	head = d.b[d.off]
	d.off++
	if head&sharedMask < sharedNot {
		follow = int(head&sharedMask) + 2*(int(head>>restShift)&maxRestBytes)
	}
	if follow > len(d.b)-d.off {
		d.bad = true
		return sharedNot, 0
	}
	return head, follow
}

func (d *decoder) skipBounds() {
	_, follow := d.head()
	d.off += follow
}

// bounds reads the bounds of a column, which begin with prefix, and returns how many bytes both
// begin with.
func (d *decoder) bounds(z *Column, prefix []byte) (known bool, shared int) {
	head, follow := d.head()
	z.Nulls = head&nullsFlag != 0
	switch head & sharedMask {
	case sharedNot:
		return false, 0
	case sharedNone:
		return true, 0
	}
	rest := int(head>>restShift) & maxRestBytes
	shared = len(prefix) + int(head&sharedMask)
	if shared+rest > MaxBoundBytes {
		d.bad = true
		return false, 0
	}
	own := d.b[d.off : d.off+follow]
	d.off += follow
	z.Values = true
	z.minLen, z.maxLen = uint8(shared+rest), uint8(shared+rest)
	n := copy(z.min[:], prefix)
	copy(z.min[n:], own[:len(own)-rest])
	copy(z.max[:], z.min[:shared])
	copy(z.max[shared:], own[len(own)-rest:])
	return true, shared
}

// appendBounds appends bounds without their first bytes, and returns how many bytes both begin
// with. They are cut so that the upper one is steps above the lower one.
func appendBounds(dst []byte, z *Column, known bool, without, steps int) (_ []byte, shared int) {
	var flags byte
	if z.Nulls {
		flags = nullsFlag
	}
	switch {
	case !known:
		return append(dst, sharedNot), 0
	case !z.Values:
		return append(dst, flags|sharedNone), 0
	}
	low, high := z.Min(), z.Max()
	for shared < min(len(low), len(high)) && low[shared] == high[shared] {
		shared++
	}
	rest := 0
	most := min(len(low)-shared, len(high)-shared, maxRestBytes)
	for above := 0; rest < most && above < steps; rest++ {
		above = above<<8 + int(high[shared+rest]) - int(low[shared+rest])
	}
	dst = append(dst, flags|byte(rest)<<restShift|byte(shared-without))
	dst = append(dst, low[without:shared+rest]...)
	return append(dst, high[shared:shared+rest]...), shared
}
