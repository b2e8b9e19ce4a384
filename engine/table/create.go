package table

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// CreateTable creates a table; its id is given out. Its indexes are ready at once. The
// error matches ErrExists if there is a table or view of that name, and is that of schema.New if
// something is wrong with the definition.
func (db *DB) CreateTable(ctx context.Context, def *schema.Table) (*Table, error) {
	var t *Table
	err := db.changing(ctx, func() (err error) {
		t, err = db.create(ctx, def)
		return err
	})
	return t, err
}

// create is CreateTable without the lock and the repetition.
func (db *DB) create(ctx context.Context, def *schema.Table) (*Table, error) {
	if db.tables.Load().taken(def.Name) {
		return nil, &NameError{def.Name, ErrExists}
	}
	t, err := db.firstVersion(def)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	var set store.WriteSet
	set.PutIf(catalogueKey(markTable, t.ID), data, store.Absent())
	head := db.head
	head.NextTable++
	err = db.save(ctx, &set, head, t.ID, func(list *tableList) { list.add(db, t, data) })
	if err != nil {
		return nil, err
	}
	core := db.tables.Load().byID[t.ID]
	if core == nil { // another process has dropped it meanwhile
		return nil, &NameError{def.Name, ErrNoTable}
	}
	return core.handle, nil
}

// firstVersion returns a definition as that of a new table: with the next id, and with
// indexes that are ready, since there are no rows.
func (db *DB) firstVersion(def *schema.Table) (*schema.Table, error) {
	own := *def
	own.ID, own.HadTTL, own.Dropping = db.head.NextTable, false, false
	own.Indexes = nil
	for _, x := range def.Indexes {
		ready := *x
		ready.State = schema.Ready
		own.Indexes = append(own.Indexes, &ready)
	}
	own.Columns = slices.Clone(def.Columns)
	t, err := schema.New(own)
	if err != nil {
		return nil, err
	}
	return t, checkNew(nil, t)
}

// Alter changes the definition of a table as f does, which returns a new definition made
// by the methods of schema.Table; it must not add or drop indexes. Writers wait for a
// moment.
func (db *DB) Alter(ctx context.Context, table string,
	f func(*schema.Table) (*schema.Table, error)) error {
	t, err := db.Table(table)
	if err != nil {
		return err
	}
	return db.change(ctx, t.core, nil, func(old *schema.Table) (*schema.Table, error) {
		if old.Dropping {
			return nil, &NameError{table, ErrNoTable}
		}
		next, err := f(old)
		if err != nil {
			return nil, err
		}
		if next.ID != old.ID || len(next.Indexes) != len(old.Indexes) {
			return nil, invalid("Alter changes no indexes")
		}
		return next, nil
	})
}

// AddColumn adds a column. Rows that exist read as its default, or NULL.
func (db *DB) AddColumn(ctx context.Context, table string, c schema.Column) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.AddColumn(c)
	})
}

// DropColumn drops a column that neither the primary key, an index nor the TTL needs.
// The ordinals of other columns stay as they are.
func (db *DB) DropColumn(ctx context.Context, table, column string) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.DropColumn(column)
	})
}

// RenameColumn renames a column.
func (db *DB) RenameColumn(ctx context.Context, table, from, to string) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.RenameColumn(from, to)
	})
}

// SetDefault changes the default of a column; nil removes it. See schema.Table.SetDefault.
func (db *DB) SetDefault(ctx context.Context, table, column string, v *expr.Value) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.SetDefault(column, v)
	})
}

// SetTTL makes rows written from now on expire; nil ends that. Rows that exist keep the
// expiry they have until they are written again, and so do their entries in indexes.
func (db *DB) SetTTL(ctx context.Context, table string, ttl *schema.TTL) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.SetTTL(ttl)
	})
}

// SetZones makes blocks that are written from now on have zones of these columns, or none of an
// empty list; nil is the default. See schema.Table.Zones.
func (db *DB) SetZones(ctx context.Context, table string, columns []string) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.SetZones(columns)
	})
}

// RenameTable renames a table. The error matches ErrExists if the name is taken.
func (db *DB) RenameTable(ctx context.Context, from, to string) error {
	return db.Alter(ctx, from, func(t *schema.Table) (*schema.Table, error) {
		return t.Rename(to)
	})
}

// RenameIndex renames an index.
func (db *DB) RenameIndex(ctx context.Context, table, from, to string) error {
	return db.Alter(ctx, table, func(t *schema.Table) (*schema.Table, error) {
		return t.RenameIndex(from, to)
	})
}
