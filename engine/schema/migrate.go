package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
)

// ChangeKind is a kind of Change.
type ChangeKind uint8

// The kinds of changes.
const (
	AddColumn ChangeKind = iota
	DropColumn
	ChangeDefault
	ChangeTTL
	ChangeZones
	AddIndex
	DropIndex
	AddCheck
	DropCheck
)

// Change is one step from a definition of a table to another one.
type Change struct {
	Kind   ChangeKind
	Name   string      // of the column, index or check
	Column Column      // of AddColumn
	Value  *expr.Value // of ChangeDefault; nil for no default
	TTL    *TTL        // of ChangeTTL, with the ordinal of the column in the new definition
	TTLBy  string      // of ChangeTTL: the name of the column; "": no TTL
	Zones  []string    // of ChangeZones: the columns, nil for the default
	Index  *Index      // of AddIndex, with the ordinals of the new definition
	Check  *Check      // of AddCheck, with the ordinals of the new definition

	target *Table
}

// String describes the change, for example "add column note string nullable".
func (c Change) String() string {
	switch c.Kind {
	case AddColumn:
		return "add column " + c.Column.String()
	case DropColumn:
		return "drop column " + c.Name
	case ChangeDefault:
		if c.Value == nil {
			return "drop default of column " + c.Name
		}
		return "set default of column " + c.Name + " to " + c.Value.String()
	case ChangeTTL:
		if c.TTL == nil {
			return "drop TTL"
		}
		return fmt.Sprintf("set TTL to %s after %s", c.TTL.After, c.TTLBy)
	case ChangeZones:
		if c.Zones == nil {
			return "set zones to the default"
		}
		return "set zones to (" + strings.Join(c.Zones, ", ") + ")"
	case AddIndex:
		return "add index " + c.Name
	case DropIndex:
		return "drop index " + c.Name
	case AddCheck:
		return "add check " + c.Name
	case DropCheck:
		return "drop check " + c.Name
	}
	return "unknown change"
}

// Apply returns the table after the change. An index is added in state Building, and one
// that is dropped gets the state Dropping; building and removing entries is up to the
// caller, as is Table.RemoveIndex in the end. So is looking at the rows for a check, which is
// unverified.
func (c Change) Apply(t *Table) (*Table, error) {
	switch c.Kind {
	case AddColumn:
		return t.AddColumn(c.Column)
	case DropColumn:
		return t.DropColumn(c.Name)
	case ChangeDefault:
		return t.SetDefault(c.Name, c.Value)
	case ChangeTTL:
		if c.TTL == nil {
			return t.SetTTL(nil)
		}
		return t.SetTTL(&TTL{t.Column(c.TTLBy), c.TTL.After})
	case ChangeZones:
		return t.SetZones(c.Zones)
	case AddIndex:
		x, err := c.Index.movedTo(t, c.target)
		if err != nil {
			return nil, err
		}
		return t.AddIndex(x)
	case DropIndex:
		return t.SetIndexState(c.Name, Dropping)
	case AddCheck:
		condition, err := t.moveCondition(c.Check.Condition, c.target)
		if err != nil {
			return nil, err
		}
		return t.AddCheck(Check{Name: c.Name, Condition: condition, Unverified: true})
	case DropCheck:
		return t.DropCheck(c.Name)
	}
	return nil, fmt.Errorf("schema: unknown change %d", c.Kind)
}

// movedTo returns an index of table from as one of table t, whose columns have other
// ordinals.
func (x *Index) movedTo(t, from *Table) (Index, error) {
	out := *x.clone()
	out.ID, out.State = 0, Building
	missing := error(nil)
	move := func(ordinal int) int {
		i, err := t.columnNamed(from.Columns[ordinal].Name)
		missing = errors.Join(missing, err)
		return i
	}
	for i := range out.Columns {
		out.Columns[i].Ordinal = move(out.Columns[i].Ordinal)
	}
	for i := range out.Include {
		out.Include[i] = move(out.Include[i])
	}
	if x.Where != nil {
		where, err := t.moveCondition(x.Where, from)
		missing = errors.Join(missing, err)
		out.Where = where
	}
	return out, missing
}

// Migrate returns the changes that turn a table into one of the wanted definition, in an
// order in which they can be applied. Columns and indexes are found by their names: one
// that was renamed counts as dropped and added. An index with another definition is
// dropped; when its entries are gone, Migrate gives the change that adds the new one.
//
// It fails if a column has another type, other NULLs or another default than rows written
// before have, or if the primary key differs; the error names all of these.
func Migrate(have, want *Table) ([]Change, error) {
	var errs []error
	var changes []Change
	if !sameKey(have, want, have.PK, want.PK) || !sameKey(have, want, have.SK, want.SK) {
		errs = append(errs, errors.New("the primary key differs"))
	} else if have.Shard != want.Shard || have.ShardColumns != want.ShardColumns {
		errs = append(errs, fmt.Errorf("the primary key has %s instead of %s, which takes a new "+
			"table: create it, copy the rows with INSERT … SELECT, and drop the old one",
			have.buckets(), want.buckets()))
	}
	for i := range want.Columns {
		c := &want.Columns[i]
		if c.Dropped {
			continue
		}
		old := have.Column(c.Name)
		if old < 0 {
			add := *c
			add.Before = nil // that of rows of the other table
			changes = append(changes, Change{Kind: AddColumn, Name: c.Name, Column: add})
			if c.Default == nil && !c.Nullable {
				errs = append(errs,
					fmt.Errorf("column %q is new and needs a default or NULLs", c.Name))
			}
			continue
		}
		was := &have.Columns[old]
		switch {
		case was.typeName() != c.typeName() || was.Nullable != c.Nullable:
			errs = append(errs, fmt.Errorf("column %q is now %s, before %s", c.Name, c, was))
		case was.Generated != c.Generated:
			errs = append(errs, fmt.Errorf("column %q is generated by %q, before by %q, which "+
				"takes a new table: create it, copy the rows with INSERT … SELECT, and drop "+
				"the old one", c.Name, c.Generated, was.Generated))
		case sameDefault(was, c):
		default:
			changes = append(changes, Change{Kind: ChangeDefault, Name: c.Name, Value: c.Default})
		}
	}
	changes = append(changes, migrateTTL(have, want)...)
	if was, is := have.zoneNames(), want.zoneNames(); (was == nil) != (is == nil) ||
		!slices.Equal(was, is) {
		changes = append(changes, Change{Kind: ChangeZones, Zones: is})
	}
	drops, adds := migrateIndexes(have, want)
	dropChecks, addChecks := migrateChecks(have, want)
	drops, adds = append(drops, dropChecks...), append(adds, addChecks...)
	// Whatever uses a column is dropped before it.
	changes = slices.Concat(drops, changes)
	for i := range have.Columns {
		if c := &have.Columns[i]; !c.Dropped && want.Column(c.Name) < 0 {
			if have.inKey(i) {
				errs = append(errs, fmt.Errorf("column %q of the primary key is missing", c.Name))
			}
			changes = append(changes, Change{Kind: DropColumn, Name: c.Name})
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("schema: table %q: %w", have.Name, err)
	}
	return append(changes, adds...), nil
}

func sameKey(have, want *Table, a, b []KeyColumn) bool {
	return slices.EqualFunc(a, b, func(a, b KeyColumn) bool {
		return have.Columns[a.Ordinal].Name == want.Columns[b.Ordinal].Name && a.Desc == b.Desc
	})
}

func sameDefault(a, b *Column) bool {
	if a.Default == nil || b.Default == nil {
		return a.Default == b.Default
	}
	return *a.Default == *b.Default
}

func migrateTTL(have, want *Table) []Change {
	name := func(t *Table) (string, TTL) {
		if t.TTL == nil {
			return "", TTL{}
		}
		return t.Columns[t.TTL.Ordinal].Name, TTL{After: t.TTL.After}
	}
	was, wasTTL := name(have)
	is, isTTL := name(want)
	if was == is && wasTTL == isTTL {
		return nil
	}
	return []Change{{Kind: ChangeTTL, TTL: want.TTL, TTLBy: is}}
}

func migrateIndexes(have, want *Table) (drops, adds []Change) {
	for _, x := range have.Indexes {
		if other := want.Index(x.Name); other == nil || !sameIndex(have, want, x, other) {
			if x.State != Dropping && x.State != Retiring {
				drops = append(drops, Change{Kind: DropIndex, Name: x.Name})
			}
		}
	}
	for _, x := range want.Indexes {
		if have.Index(x.Name) == nil {
			adds = append(adds, Change{Kind: AddIndex, Name: x.Name, Index: x, target: want})
		}
	}
	return drops, adds
}

// sameIndex reports whether two indexes of two tables have the same entries, apart from ids.
func sameIndex(have, want *Table, a, b *Index) bool {
	moved, err := b.movedTo(have, want)
	if err != nil {
		return false
	}
	return slices.Equal(a.Columns, moved.Columns) && a.Unique == b.Unique &&
		slices.Equal(a.Include, moved.Include) && a.Placement == b.Placement &&
		a.Shard == b.Shard && a.ShardColumns == b.ShardColumns &&
		expr.Equal(a.Where, moved.Where)
}

// buckets describes how the rows of a table are spread.
func (t *Table) buckets() string {
	if !t.Sharded() {
		return "no buckets"
	}
	return fmt.Sprintf("buckets %s of %d columns", t.Shard, t.ShardColumns)
}
