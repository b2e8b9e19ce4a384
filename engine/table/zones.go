package table

import (
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// describe makes the store keep column zones of rows, if it can. Flushes and merges call it, so
// it looks at what is in memory only. The catalogue may have changed since a row was written: a
// row of a definition that is not known is not described, and a column that was added since then
// is reported with its default.
func (db *DB) describe() {
	d, ok := db.store.(store.Describer)
	if !ok {
		return
	}
	d.Describe(func(items *store.ZoneItems, b *store.ZoneBuilder) {
		tables := db.tables.Load()
		for from := 0; from < items.Len(); {
			id, row, to := schema.RowRun(items, from)
			if !row {
				describeEntries(tables, items, b, from, to)
			} else if core := tables.byID[id]; core != nil {
				core.state.Load().Schema.DescribeRows(b, items, from, to)
			} else {
				b.Unknown()
			}
			from = to
		}
	})
}

// describeEntries describes items that are not rows: entries of indexes, and others.
func describeEntries(tables *tableList, items *store.ZoneItems, b *store.ZoneBuilder, from,
	to int) {
	for from < to {
		id, index, entry, end := schema.EntryRun(items, from, to)
		var x *schema.Index
		if core := tables.byID[id]; entry && core != nil {
			x = core.state.Load().Schema.IndexByID(index)
		}
		if x != nil {
			x.DescribeEntries(b, items, from, end)
		} else {
			b.Rows(schema.OtherItems, end-from)
		}
		from = end
	}
}
