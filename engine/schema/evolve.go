package schema

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// changed returns a changed copy of the table, of the next version. Errors are those of f
// and of New.
func (t *Table) changed(f func(t *Table) error) (*Table, error) {
	out := t.clone()
	out.Version++
	if err := f(out); err != nil {
		return nil, fmt.Errorf("schema: table %q: %w", t.Name, err)
	}
	return New(*out)
}

// AddColumn returns the table with one more column. Rows that exist have its default. It
// fails if the column has neither a default nor NULLs. Its id and versions are assigned.
func (t *Table) AddColumn(c Column) (*Table, error) {
	return t.changed(func(t *Table) error {
		c.ID, c.Added, c.Removed, c.Dropped = 0, t.Version, 0, false
		for i := range t.Columns {
			c.ID = max(c.ID, t.Columns[i].ID)
		}
		if c.ID++; c.ID == 0 {
			return errors.New("there are no ids left for columns")
		}
		t.Columns = append(t.Columns, c)
		return nil
	})
}

// DropColumn returns the table without a column. Ordinals stay as they are: the column
// remains in Columns, as dropped. It fails if the primary key, an index, a check or the
// TTL needs the column. An index that is being dropped does not; it loses its columns.
func (t *Table) DropColumn(name string) (*Table, error) {
	return t.changed(func(t *Table) error {
		i, err := t.columnNamed(name)
		if err != nil {
			return err
		}
		if user, remedy := t.userOf(i); user != "" {
			return fmt.Errorf("column %q is part of %s and cannot be dropped; %s", name, user,
				remedy)
		}
		for _, x := range t.Indexes {
			if x.uses(i) { // it is being dropped
				x.Columns, x.Include, x.Where = nil, nil, nil
			}
		}
		t.Zones = slices.DeleteFunc(t.Zones, func(o int) bool { return o == i })
		c := &t.Columns[i]
		c.Dropped, c.Removed = true, t.Version
		return nil
	})
}

// userOf names what needs a column, "" if nothing does, and what to do.
func (t *Table) userOf(ordinal int) (user, remedy string) {
	if t.inKey(ordinal) {
		return "the primary key", "that never changes, make another table"
	}
	if t.TTL != nil && t.TTL.Ordinal == ordinal {
		return "the TTL", "end that first"
	}
	for _, x := range t.Indexes {
		if x.State != Dropping && x.uses(ordinal) {
			return fmt.Sprintf("the index %q", x.Name), "drop the index first"
		}
	}
	for i := range t.Checks {
		if usesColumn(t.Checks[i].Condition, ordinal) {
			return fmt.Sprintf("the check %q", t.Checks[i].Name), "drop that first"
		}
	}
	return "", ""
}

// uses reports whether the entries of the index follow from a column.
func (x *Index) uses(ordinal int) bool {
	return slices.Contains(x.Include, ordinal) || usesColumn(x.Where, ordinal) ||
		slices.ContainsFunc(x.Columns, func(k IndexColumn) bool { return k.Ordinal == ordinal })
}

func (t *Table) columnNamed(name string) (int, error) {
	if i := t.Column(name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("there is no column %q", name)
}

// RenameColumn returns the table with a column renamed.
func (t *Table) RenameColumn(from, to string) (*Table, error) {
	return t.changed(func(t *Table) error {
		i, err := t.columnNamed(from)
		if err == nil {
			t.Columns[i].Name = to
		}
		return err
	})
}

// SetDefault returns the table with another default of a column; nil removes it. Rows that exist
// keep their values.
func (t *Table) SetDefault(name string, value *expr.Value) (*Table, error) {
	return t.changed(func(t *Table) error {
		i, err := t.columnNamed(name)
		if err != nil {
			return err
		}
		c := &t.Columns[i]
		if c.Generated == Identity {
			return fmt.Errorf("column %q is an identity and has no default", name)
		}
		if c.Added > 1 && c.Before == nil {
			before := c.BeforeValue()
			c.Before = &before
		}
		c.Generated, c.Default = NotGenerated, value
		return nil
	})
}

// SetTTL returns the table with another TTL; nil removes it. Rows that exist keep the expiry
// they have until they are written again, and their entries with them.
func (t *Table) SetTTL(ttl *TTL) (*Table, error) {
	return t.changed(func(t *Table) error {
		t.HadTTL = t.MayExpire()
		t.TTL = ttl
		return nil
	})
}

// SetZones returns the table with zones of these columns; nil is the default, as in
// Table.Zones. What was written before keeps the zones it has until it is merged.
func (t *Table) SetZones(columns []string) (*Table, error) {
	return t.changed(func(t *Table) (err error) {
		t.Zones, err = t.zonesNamed(columns)
		return err
	})
}

// zonesNamed returns the Zones of columns with these names.
func (t *Table) zonesNamed(names []string) ([]int, error) {
	if names == nil {
		return nil, nil
	}
	zones := make([]int, len(names))
	for i, name := range names {
		var err error
		if zones[i], err = t.columnNamed(name); err != nil {
			return nil, fmt.Errorf("zones: %w", err)
		}
	}
	return zones, nil
}

// zoneNames returns the names of the columns of Zones, nil for the default.
func (t *Table) zoneNames() []string {
	if t.Zones == nil {
		return nil
	}
	names := make([]string, len(t.Zones))
	for i, o := range t.Zones {
		names[i] = t.Columns[o].Name
	}
	return names
}

// Rename returns the table with another name.
func (t *Table) Rename(name string) (*Table, error) {
	return t.changed(func(t *Table) error {
		t.Name = name
		return nil
	})
}

// Drop returns the table as one that is being dropped.
func (t *Table) Drop() (*Table, error) {
	return t.changed(func(t *Table) error {
		t.Dropping = true
		return nil
	})
}

// AddIndex returns the table with one more index, in the given state. Its id is assigned.
func (t *Table) AddIndex(x Index) (*Table, error) {
	return t.changed(func(t *Table) error {
		own := x.clone()
		own.ID = 0
		t.Indexes = append(t.Indexes, own)
		return nil
	})
}

// SetIndexState returns the table with an index in another state.
func (t *Table) SetIndexState(name string, state State) (*Table, error) {
	return t.changedIndex(name, func(x *Index) { x.State = state })
}

// RenameIndex returns the table with an index renamed.
func (t *Table) RenameIndex(from, to string) (*Table, error) {
	return t.changedIndex(from, func(x *Index) { x.Name = to })
}

func (t *Table) changedIndex(name string, f func(x *Index)) (*Table, error) {
	return t.changed(func(t *Table) error {
		x := t.Index(name)
		if x == nil {
			return fmt.Errorf("there is no index %q", name)
		}
		f(x)
		return nil
	})
}

// RemoveIndex returns the table without an index, whose entries are gone or no longer
// read. Its id is never reused.
func (t *Table) RemoveIndex(name string) (*Table, error) {
	return t.changed(func(t *Table) error {
		n := len(t.Indexes)
		t.Indexes = slices.DeleteFunc(t.Indexes, func(x *Index) bool { return x.Name == name })
		if len(t.Indexes) == n {
			return fmt.Errorf("there is no index %q", name)
		}
		return nil
	})
}
