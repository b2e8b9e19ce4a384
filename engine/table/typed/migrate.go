package typed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// Definition is a table as a program defines it: a *Table.
type Definition interface {
	Name() string
	// Schema returns the definition, without ids of a database.
	Schema() (*schema.Table, error)

	binder
	check(db *table.DB) error
	bind(db *table.DB) (*binding, error)
	rowType() reflect.Type
	renamed() map[string]string
}

func (t *Table[T]) check(db *table.DB) error {
	_, err := t.bind(db)
	return err
}

// renamed returns the columns that had another name, by their new one.
func (t *Table[T]) renamed() map[string]string {
	names := map[string]string{}
	for _, f := range t.fields {
		if f.was != "" {
			names[f.column.Name] = f.was
		}
	}
	return names
}

// Attach checks that tables are there and have the columns of their structs. It changes
// nothing: a program that must not change definitions calls it instead of Migrate.
func Attach(_ context.Context, db *table.DB, tables ...Definition) error {
	var errs []error
	for _, t := range tables {
		if _, err := t.Schema(); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, t.check(db))
	}
	return errors.Join(errs...)
}

// Migrate creates the tables that are not there and changes the others to what their
// definitions say: columns are renamed, added and dropped, with what is in them, and indexes
// are built and dropped while writers write. It does nothing if all is as it should be. Rows
// that were written before have the default of a new column, or NULL. It fails, before it
// has changed a table, if the type of a column or the primary key is another one.
//
// One process migrates at a time. If ctx ends, the next Migrate goes on.
func Migrate(ctx context.Context, db *table.DB, tables ...Definition) error {
	for _, t := range tables {
		want, err := t.Schema()
		if err != nil {
			return err
		}
		if err := migrate(ctx, db, want, t.renamed()); err != nil {
			return fmt.Errorf("typed: changing %s: %w", t.Name(), err)
		}
		if err := t.check(db); err != nil {
			return err
		}
	}
	return nil
}

func migrate(ctx context.Context, db *table.DB, want *schema.Table,
	renamed map[string]string) error {
	handle, err := db.Table(want.Name)
	if errors.Is(err, table.ErrNoTable) {
		_, err = db.CreateTable(ctx, want)
		return err
	}
	if err != nil {
		return err
	}
	have, err := renameColumns(handle.Schema(), renamed)
	if err == nil {
		_, err = schema.Migrate(have, want) // before anything is changed
	}
	if err != nil {
		return err
	}
	if have != handle.Schema() {
		if err := db.Alter(ctx, want.Name, func(t *schema.Table) (*schema.Table, error) {
			return renameColumns(t, renamed)
		}); err != nil {
			return err
		}
	}
	for _, x := range handle.Schema().Indexes {
		if x.State == schema.Dropping || x.State == schema.Retiring {
			if err := db.DropIndex(ctx, want.Name, x.Name, nil); err != nil {
				return err
			}
		}
	}
	// Each round of changes may make further ones possible: an index whose definition has
	// changed is dropped in one and built in the next.
	for range maxRounds {
		changes, err := schema.Migrate(handle.Schema(), want)
		if err != nil || len(changes) == 0 {
			return errors.Join(err, finish(ctx, handle))
		}
		for _, c := range changes {
			if err := applyChange(ctx, handle, c); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
		}
	}
	return errors.New("there is no end of changes")
}

// maxRounds is more than what any two definitions need.
const maxRounds = 4

// renameColumns gives columns their new names where only the old ones are there. A name may be the
// old one of another column: what has it is renamed first.
func renameColumns(t *schema.Table, renamed map[string]string) (_ *schema.Table, err error) {
	left := maps.Clone(renamed)
	for again := true; again; {
		again = false
		for name, was := range left {
			if t.Column(name) >= 0 || t.Column(was) < 0 {
				continue
			}
			if t, err = t.RenameColumn(was, name); err != nil {
				return nil, err
			}
			delete(left, name)
			again = true
		}
	}
	return t, nil
}

// applyChange applies one change.
func applyChange(ctx context.Context, handle *table.Table, c schema.Change) error {
	db, name := handle.DB(), handle.Name()
	switch {
	case c.DropIndex != "":
		return db.DropIndex(ctx, name, c.DropIndex, nil)
	case c.AddIndex == "" && c.AddCheck == "":
		return db.Alter(ctx, name, c.Apply)
	}
	after, err := c.Apply(handle.Schema())
	switch {
	case err != nil:
		return err
	case c.AddIndex != "":
		return handle.CreateIndex(ctx, *after.Index(c.AddIndex), nil)
	}
	return handle.AddCheck(ctx, *after.Check(c.AddCheck), nil)
}

// finish builds indexes and looks at rows for checks where an earlier Migrate has begun to.
func finish(ctx context.Context, handle *table.Table) error {
	for _, x := range handle.Schema().Indexes {
		if x.State == schema.Building {
			if err := handle.CreateIndex(ctx, *x, nil); err != nil {
				return err
			}
		}
	}
	for _, c := range handle.Schema().Checks {
		if c.Unverified {
			if err := handle.AddCheck(ctx, c, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
