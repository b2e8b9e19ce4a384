package zone

import (
	"bytes"
	"encoding/binary"
)

// Items are the puts of a block, in the order of their keys.
type Items struct {
	keys, values []byte
	places       []itemPlace
}

type itemPlace struct{ key, keyEnd, value, valueEnd int }

// Reset makes it no items, with keys and values one after the other in these buffers.
func (x *Items) Reset(keys, values []byte) {
	x.keys, x.values, x.places = keys, values, x.places[:0]
}

// Add adds an item by where its key and its value begin and end.
func (x *Items) Add(key, keyEnd, value, valueEnd int) {
	x.places = append(x.places, itemPlace{key, keyEnd, value, valueEnd})
}

// Len returns how many there are.
func (x *Items) Len() int { return len(x.places) }

// Key returns a key in its ordered form, a view.
func (x *Items) Key(i int) []byte {
	p := &x.places[i]
	return x.keys[p.key:p.keyEnd:p.keyEnd]
}

// Value returns a value, a view.
func (x *Items) Value(i int) []byte {
	p := &x.places[i]
	return x.values[p.value:p.valueEnd:p.valueEnd]
}

// ColumnsBuilder collects the column zones of the blocks of a file. Rows, and Values or Nulls of
// their columns, describe the puts of a block; one that is not described makes the zones of the
// block say nothing. The zero ColumnsBuilder is ready. It belongs to one goroutine at a time.
//
// What it appends for blocks depends on the whole file, so it keeps the zones of all of them.
type ColumnsBuilder struct {
	// Scratch is memory for the side that describes.
	Scratch []byte

	groups  []groupZone // of the file, by first appearance
	n       int         // in use
	partial bool        // some block is
	row     *groupZone  // of the last Rows, nil if there is no room for it

	// Of the block that is described.
	rows    int  // of Rows
	unknown bool // a put is not described

	// blocks are the zones of the blocks: for each group its position, the number of its columns
	// and their whole bounds. ends are where they end.
	blocks []byte
	ends   []int
}

// groupZone is a group in the file and in the block that is described.
type groupZone struct {
	id      uint64
	rows    int  // in the block
	seen    bool // in a block before
	columns []columnZone
}

// columnZone is a column in the file and in the block that is described. Invariant: reports is the
// number of rows of the block with a value or NULL; if that is not all rows, nothing is known.
type columnZone struct {
	number  uint64
	reports int
	block   Column
	file    Column
	unknown bool // in some block
	shared  int  // bytes that the bounds of the file share, once it is finished
}

// Rows begins the description of n puts: rows of a group. Columns that are not reported for each
// row are not known.
func (b *ColumnsBuilder) Rows(group uint64, n int) {
	if b.row == nil || b.row.id != group {
		b.row = b.group(group)
	}
	if b.row != nil {
		b.rows += n
		b.row.rows += n
	}
}

// Values reports the least and the greatest value of a column in n rows, in an encoding whose bytes
// are in the order of the values. They are copied.
func (b *ColumnsBuilder) Values(column uint64, n int, least, greatest []byte) {
	if c := b.column(column); c != nil {
		c.reports += n
		c.block.extend(least, greatest)
	}
}

// Nulls reports that n rows have no value in a column.
func (b *ColumnsBuilder) Nulls(column uint64, n int) {
	if c := b.column(column); c != nil {
		c.reports += n
		c.block.Nulls = true
	}
}

// Unknown says that a put cannot be described.
func (b *ColumnsBuilder) Unknown() { b.unknown = true }

// extend makes the zone one of values from least to greatest, too.
func (z *Column) extend(least, greatest []byte) {
	least = least[:min(len(least), MaxBoundBytes)]
	greatest = greatest[:min(len(greatest), MaxBoundBytes)]
	if !z.Values || bytes.Compare(least, z.Min()) < 0 {
		z.minLen = uint8(copy(z.min[:], least))
	}
	if !z.Values || bytes.Compare(greatest, z.Max()) > 0 {
		z.maxLen = uint8(copy(z.max[:], greatest))
	}
	z.Values = true
}

// group returns a group, nil if there are too many.
func (b *ColumnsBuilder) group(id uint64) *groupZone {
	for i := b.n - 1; i >= 0; i-- {
		if b.groups[i].id == id {
			return &b.groups[i]
		}
	}
	if b.n == maxZoneGroups {
		return nil
	}
	if b.n == len(b.groups) {
		b.groups = append(b.groups, groupZone{})
	}
	g := &b.groups[b.n]
	*g = groupZone{id: id, columns: g.columns[:0]}
	b.n++
	return g
}

// column returns a column of the rows, nil if there are too many. Those of a group only become
// more: where one is new, it is not known of the blocks before.
func (b *ColumnsBuilder) column(number uint64) *columnZone {
	g := b.row
	if g == nil {
		return nil
	}
	for i := range g.columns {
		if g.columns[i].number == number {
			return &g.columns[i]
		}
	}
	if len(g.columns) == MaxColumns {
		return nil
	}
	g.columns = append(g.columns, columnZone{number: number, unknown: g.seen})
	return &g.columns[len(g.columns)-1]
}

// FinishBlock ends a block of so many puts, and returns how many bytes it takes at most.
func (b *ColumnsBuilder) FinishBlock(puts int) (most int) {
	known := !b.unknown && b.rows == puts
	start := len(b.blocks)
	if !known {
		b.partial = true
		b.blocks = append(b.blocks, blockIncomplete)
	}
	for i := range b.groups[:b.n] {
		g := &b.groups[i]
		if g.rows == 0 {
			continue
		}
		if known {
			b.blocks = append(b.blocks, byte(i), byte(len(g.columns)))
		}
		for j := range g.columns {
			c := &g.columns[j]
			all := known && c.reports == g.rows
			if known {
				b.blocks, _ = appendBounds(b.blocks, &c.block, all, 0, blockSteps)
			}
			c.finishBlock(all)
		}
		g.rows, g.seen = 0, true
	}
	b.ends = append(b.ends, len(b.blocks))
	b.row, b.rows, b.unknown = nil, 0, false
	return len(b.blocks) - start
}

// finishBlock adds the block to the file.
func (c *columnZone) finishBlock(known bool) {
	if c.unknown = c.unknown || !known; known {
		if c.file.Nulls = c.file.Nulls || c.block.Nulls; c.block.Values {
			c.file.extend(c.block.Min(), c.block.Max())
		}
	}
	c.block.Nulls, c.block.Values, c.reports = false, false, 0
}

// FinishFile appends the zones of the file. After it, AppendBlock appends those of its blocks.
func (b *ColumnsBuilder) FinishFile(dst []byte) []byte {
	if b.partial {
		dst = append(dst, columnsIncomplete)
	} else {
		dst = append(dst, columnsComplete)
	}
	for i := range b.groups[:b.n] {
		g := &b.groups[i]
		dst = binary.AppendUvarint(dst, g.id)
		dst = binary.AppendUvarint(dst, uint64(len(g.columns)))
		for j := range g.columns {
			c := &g.columns[j]
			dst = binary.AppendUvarint(dst, c.number)
			dst, c.shared = appendBounds(dst, &c.file, !c.unknown, 0, fileSteps)
		}
	}
	return dst
}

// AppendBlock appends the zones of a block.
func (b *ColumnsBuilder) AppendBlock(dst []byte, block int) []byte {
	d := decoder{b: b.blocks[:b.ends[block]]}
	if block > 0 {
		d.off = b.ends[block-1]
	}
	for d.off < len(d.b) {
		g := d.b[d.off]
		dst = append(dst, g)
		if d.off++; g == blockIncomplete {
			break
		}
		columns, n := b.groups[g].columns, int(d.b[d.off])
		d.off++
		for i := range columns {
			if i >= n { // it came after the block
				dst = append(dst, sharedNot)
				continue
			}
			head, follow := d.head()
			own := d.b[d.off : d.off+follow]
			d.off += follow
			if head&sharedMask < sharedNot {
				head -= byte(columns[i].shared)
				own = own[columns[i].shared:]
			}
			dst = append(append(dst, head), own...)
		}
	}
	return dst
}

// Reset forgets what was collected and keeps the memory.
func (b *ColumnsBuilder) Reset() {
	b.n, b.partial, b.row, b.rows, b.unknown = 0, false, nil, 0, false
	b.blocks, b.ends = b.blocks[:0], b.ends[:0]
}
