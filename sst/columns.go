package sst

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// columnsName is the collector of column zones. On disk: never change it.
const columnsName = "columns"

// columnsWriter collects the column zones of a file: the least and greatest values of the columns
// of what is put, as described by a function of the layers above. Why a block at a time: a
// function that sees many rows of one form compares a column of all of them in one loop.
type columnsWriter struct {
	describe func(items *zone.Items, b *zone.ColumnsBuilder)
	b        zone.ColumnsBuilder
	items    zone.Items
	field    []byte
	most     int // bytes that blocks take in the index, at most
}

func (c *columnsWriter) reset(describe func(*zone.Items, *zone.ColumnsBuilder)) {
	c.describe, c.most = describe, 0
	c.b.Reset()
}

// finishBlock describes the entries of a block.
func (c *columnsWriter) finishBlock(b *blockBuilder) {
	if c.describe == nil {
		return
	}
	c.items.Reset(b.keys, b.values)
	key, value, large := 0, 0, 0
	for i := range b.recs {
		r := &b.recs[i]
		switch {
		case r.large: // its value is not at hand
			large++
		case r.kind != base.KindDelete:
			c.items.Add(key, r.keyEnd, value, r.valueEnd)
		}
		key, value = r.keyEnd, r.valueEnd
	}
	if c.items.Len() > 0 {
		c.describe(&c.items, &c.b)
	}
	c.most += binary.MaxVarintLen16 + c.b.FinishBlock(c.items.Len()+large)
	c.items.Reset(nil, nil)
}

// appendFile appends what the properties have, and ends the file.
func (c *columnsWriter) appendFile(dst []collected) []collected {
	if c.describe == nil {
		return dst
	}
	return append(dst, collected{name: columnsName, data: c.b.FinishFile(nil)})
}

// appendBlock appends what the index has of a block.
func (c *columnsWriter) appendBlock(dst []byte, block int) []byte {
	if c.describe == nil {
		return dst
	}
	c.field = c.b.AppendBlock(c.field[:0], block)
	return append(binary.AppendUvarint(dst, uint64(len(c.field))), c.field...)
}

// openColumns decodes the column zones of the file. Those that cannot be decoded are not known.
func (p *properties) openColumns() {
	for i := range p.collectors {
		if c := &p.collectors[i]; c.name == columnsName {
			p.columns, _ = zone.OpenColumns(c.data) // Verify reports the error.
			p.columnsAt = i
		}
	}
}

// columnsOf returns the column zones of a block among the bytes of its collectors.
func (p *properties) columnsOf(collected []byte) zone.Columns {
	if p.columns == nil {
		return zone.Columns{}
	}
	for range p.columnsAt {
		_, rest, ok := cutBytes(collected)
		if !ok {
			return zone.Columns{}
		}
		collected = rest
	}
	field, _, ok := cutBytes(collected)
	if !ok {
		return zone.Columns{}
	}
	return p.columns.Block(field)
}

// Columns returns the column zones of the whole file. Of a file that cannot be read they know
// nothing.
func (r *Reader) Columns() zone.Columns {
	t, err := r.loadTail()
	if err != nil {
		return zone.Columns{}
	}
	return t.props.columns.Columns()
}
