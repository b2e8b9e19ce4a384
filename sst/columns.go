package sst

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
)

// columnsName is the collector of column zones. On disk: never change it.
const columnsName = "columns"

// Columns is the Collector of column zones: the least and greatest values of the columns of what
// is put, as described by a function of the layers above. The zero Columns must be Reset.
type Columns struct {
	describe func(e *base.Entry, b *zonemap.ColumnsBuilder)
	b        zonemap.ColumnsBuilder
}

// Reset starts over with a function, which describes each put with one Row and its columns, or
// with Unknown.
func (c *Columns) Reset(describe func(e *base.Entry, b *zonemap.ColumnsBuilder)) {
	c.describe = describe
	c.b.Reset()
}

// Name implements Collector.
func (c *Columns) Name() string { return columnsName }

// Add implements Collector.
func (c *Columns) Add(e *base.Entry) {
	if e.Kind == base.KindDelete {
		return
	}
	c.b.Begin()
	c.describe(e, &c.b)
	c.b.End()
}

// FinishBlock implements Collector.
func (c *Columns) FinishBlock(dst []byte) []byte { return c.b.FinishBlock(dst) }

// FinishFile implements Collector.
func (c *Columns) FinishFile(dst []byte) []byte { return c.b.FinishFile(dst) }

// columnsOf returns the column zones of a block among the bytes of its collectors.
func (p *properties) columnsOf(collected []byte) zonemap.Columns {
	for i := range p.collectors {
		field, rest, ok := cutBytes(collected)
		if !ok {
			break
		}
		if p.collectors[i].name == columnsName {
			return zonemap.OpenColumns(field)
		}
		collected = rest
	}
	return zonemap.Columns{}
}

// Columns returns the column zones of the whole file. Of a file that cannot be read they know
// nothing.
func (r *Reader) Columns() zonemap.Columns {
	data, _, err := r.CollectedFile(columnsName)
	if err != nil {
		return zonemap.Columns{}
	}
	return zonemap.OpenColumns(data)
}
