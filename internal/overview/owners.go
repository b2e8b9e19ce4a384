package overview

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// Owners knows what the items of a database belong to: a table, an index, or neither. See
// docs/format/table.md.
type Owners struct {
	Tables []OwnedTable
	byID   map[uint32]*schema.Table
	// defined says that there was a table or view: the catalogue outlives the last one.
	defined bool
}

// OwnedTable is a table with what its statistics are.
type OwnedTable struct {
	*schema.Table
	Statistics string
}

// Owner is what an item belongs to. The zero value is an item that was put by its key.
type Owner struct {
	Table     *schema.Table
	Index     *schema.Index // nil for rows
	Catalogue bool          // the definitions of tables
}

// Inner reports whether the item is not one that was put by its key.
func (o Owner) Inner() bool { return o.Table != nil || o.Catalogue }

// Name returns a name for people.
func (o Owner) Name() string {
	switch {
	case o.Index != nil:
		return "index " + o.Table.Name + "." + o.Index.Name
	case o.Table != nil:
		return "table " + o.Table.Name
	case o.Catalogue:
		return "catalogue of tables"
	}
	return "items"
}

// OwnersOf returns the owners of the items of a database.
func OwnersOf(ctx context.Context, e *engine.DB) (*Owners, error) {
	db, err := local.Open(ctx, e, &table.Options{SampleRows: -1})
	if err != nil {
		return nil, err
	}
	return OwnersIn(db), db.Close()
}

// OwnersIn is OwnersOf for a database whose tables are open.
func OwnersIn(db *table.DB) *Owners {
	o := &Owners{byID: map[uint32]*schema.Table{}, defined: db.NextID() > 1}
	for _, t := range db.Tables() {
		o.Tables = append(o.Tables, OwnedTable{t.Schema(), t.Stats().Origin()})
		o.byID[t.Schema().ID] = t.Schema()
	}
	return o
}

// Of returns what the items of a partition belong to.
func (o *Owners) Of(pk []byte) Owner {
	if table.InCatalogue(pk) {
		return Owner{Catalogue: true}
	}
	if id, ok := schema.RowTable(pk); ok {
		return Owner{Table: o.byID[id]}
	}
	if id, ok := schema.EntryTable(pk); ok && o.byID[id] != nil {
		for _, x := range o.byID[id].Indexes {
			if x.ID == binary.BigEndian.Uint32(pk[5:]) {
				return Owner{Table: o.byID[id], Index: x}
			}
		}
	}
	return Owner{}
}

// PartitionName returns the partition of a key for people: the columns of a table's partition key,
// the number of a bucket, or what format makes of the PK of an item.
func (o Owner) PartitionName(format func(pk []byte) string, key engine.Key) string {
	pk := key.PK
	switch {
	case o.Index != nil:
		return fmt.Sprintf("bucket %d", binary.BigEndian.Uint16(pk[9:]))
	case o.Table != nil && o.Table.Sharded():
		return fmt.Sprintf("bucket %d", binary.BigEndian.Uint16(pk[5:]))
	case o.Catalogue:
		return "definitions"
	case o.Table != nil:
		row, wanted := o.Table.Row(), schema.Columns()
		for _, c := range o.Table.PK {
			wanted.Add(c.Ordinal)
		}
		if err := o.Table.DecodeKey(row, key, &wanted); err != nil {
			return format(pk)
		}
		var parts []string
		for _, c := range o.Table.PK {
			text, ok := row[c.Ordinal].AsString()
			if !ok {
				text = row[c.Ordinal].String()
			}
			parts = append(parts, strings.Clone(text)) // row may share the memory of the key
		}
		return strings.Join(parts, " / ")
	}
	return format(pk)
}
