package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// New checks a definition and returns a table of it that can be used. It copies what it is
// given. Ids of columns and indexes that are all 0 are given out in their order, a version
// of 0 becomes 1. The error lists everything that is wrong.
func New(def Table) (*Table, error) {
	t := def.clone()
	t.complete()
	if err := t.validate(); err != nil {
		return nil, fmt.Errorf("schema: table %q: %w", t.Name, err)
	}
	if err := t.build(); err != nil {
		return nil, fmt.Errorf("schema: table %q: %w", t.Name, err)
	}
	return t, nil
}

// clone returns a copy that is not ready for use.
func (t *Table) clone() *Table {
	out := *t
	out.built = nil
	out.Columns = slices.Clone(t.Columns)
	out.PK, out.SK, out.Zones = slices.Clone(t.PK), slices.Clone(t.SK), slices.Clone(t.Zones)
	out.Checks = slices.Clone(t.Checks)
	out.Indexes = make([]*Index, len(t.Indexes))
	for i, x := range t.Indexes {
		out.Indexes[i] = x.clone()
	}
	if t.TTL != nil {
		ttl := *t.TTL
		out.TTL = &ttl
	}
	return &out
}

func (x *Index) clone() *Index {
	if x == nil {
		return nil
	}
	out := *x
	out.built = nil
	out.Columns, out.Include = slices.Clone(x.Columns), slices.Clone(x.Include)
	return &out
}

// complete fills in what a definition may leave out.
func (t *Table) complete() {
	t.Version = max(t.Version, 1)
	if !slices.ContainsFunc(t.Columns, func(c Column) bool { return c.ID != 0 }) {
		for i := range t.Columns {
			t.Columns[i].ID = uint16(i + 1)
		}
	}
	for i := range t.Columns {
		t.Columns[i].Added = max(t.Columns[i].Added, 1)
	}
	if t.Sharded() {
		t.PK, t.SK = nil, slices.Concat(t.PK, t.SK)
		t.ShardColumns = max(t.ShardColumns, 1)
	}
	t.NextIndex = max(t.NextIndex, 1)
	for _, x := range t.Indexes {
		if x == nil {
			continue
		}
		x.ShardColumns = max(x.ShardColumns, 1)
		t.NextIndex = max(t.NextIndex, x.ID+1)
	}
	for _, x := range t.Indexes {
		if x != nil && x.ID == 0 {
			x.ID = t.NextIndex
			t.NextIndex++
		}
	}
}

func (t *Table) validate() error {
	errs := []error{checkName("the table", t.Name)}
	switch n := len(t.Columns); {
	case n == 0:
		return errors.Join(append(errs, errors.New("no columns"))...)
	case n > maxColumns:
		return errors.Join(append(errs, fmt.Errorf("%d columns, at most %d are possible", n,
			maxColumns))...)
	}
	names, ids := map[string]bool{}, map[uint16]bool{}
	for i := range t.Columns {
		c := &t.Columns[i]
		errs = append(errs, c.validate(t.Version))
		lower := strings.ToLower(c.Name)
		if names[lower] && !c.Dropped {
			errs = append(errs, fmt.Errorf("two columns are named %q", c.Name))
		}
		if ids[c.ID] {
			errs = append(errs, fmt.Errorf("two columns have the id %d", c.ID))
		}
		names[lower] = names[lower] || !c.Dropped
		ids[c.ID] = true
	}
	errs = append(errs, t.validateKey(), t.validateTTL(), t.validateZones(), t.validateIndexes(),
		t.validateChecks(), t.validateGenerated())
	return errors.Join(errs...)
}

func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s has no name", what)
	case len(name) > maxNameBytes:
		return fmt.Errorf("the name of %s has %d bytes, at most %d are possible", what, len(name),
			maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of %s, %q, is not valid UTF-8", what, name)
	}
	return nil
}

func (c *Column) validate(version uint32) error {
	if err := checkName("a column", c.Name); err != nil {
		return err
	}
	if _, err := keycodec.NewSchema(c.Field(KeyColumn{})); err != nil {
		return err
	}
	switch {
	case c.ID == 0:
		return fmt.Errorf("column %q has no id", c.Name)
	case c.Dropped != (c.Removed != 0):
		return fmt.Errorf("column %q is dropped without a version that dropped it, or the reverse",
			c.Name)
	case c.Added > version || c.Removed > version || c.Dropped && c.Removed <= c.Added:
		return fmt.Errorf("column %q was added in version %d and dropped in %d of %d", c.Name,
			c.Added, c.Removed, version)
	}
	if c.Added > 1 && !c.Nullable && c.BeforeValue().IsNull() {
		return fmt.Errorf("column %q was added and needs a default or NULLs", c.Name)
	}
	for _, at := range []**expr.Value{&c.Default, &c.Before} {
		if *at == nil {
			continue
		}
		v, err := c.Convert(**at)
		if err != nil {
			return fmt.Errorf("default of column %q: %w", c.Name, err)
		}
		v = v.Clone()
		*at = &v
	}
	return nil
}

func (t *Table) validateKey() error {
	switch {
	case len(t.PK) == 0 && (!t.Sharded() || len(t.SK) == 0):
		return errors.New("no primary key")
	case !t.Sharded() && t.ShardColumns > 0:
		return fmt.Errorf("the primary key has no buckets that follow from %d columns",
			t.ShardColumns)
	}
	if n := len(t.PK) + len(t.SK); n > keycodec.MaxFields {
		return fmt.Errorf("a primary key of %d columns, at most %d are possible", n,
			keycodec.MaxFields)
	}
	seen := map[int]bool{}
	for _, k := range slices.Concat(t.PK, t.SK) {
		c, err := t.live(k.Ordinal)
		switch {
		case err != nil:
			return fmt.Errorf("primary key: %w", err)
		case seen[k.Ordinal]:
			return fmt.Errorf("column %q is twice in the primary key", c.Name)
		case c.Nullable:
			return fmt.Errorf("column %q of the primary key is nullable", c.Name)
		case c.List:
			return fmt.Errorf("column %q of the primary key is a list", c.Name)
		case k.NullsLast:
			return fmt.Errorf("column %q of the primary key orders NULLs", c.Name)
		case c.Added > 1:
			return fmt.Errorf("column %q of the primary key was added later", c.Name)
		}
		seen[k.Ordinal] = true
	}
	if t.Shard == (shard.Spec{}) {
		return nil
	}
	if err := t.validateSpec(t.Shard, t.ShardColumns, t.SK); err != nil {
		return fmt.Errorf("primary key: %w", err)
	}
	return nil
}

// live returns a column that exists and is not dropped.
func (t *Table) live(ordinal int) (*Column, error) {
	if ordinal < 0 || ordinal >= len(t.Columns) || t.Columns[ordinal].Dropped {
		return nil, fmt.Errorf("there is no column %d", ordinal)
	}
	return &t.Columns[ordinal], nil
}

func (t *Table) validateTTL() error {
	if t.TTL == nil {
		return nil
	}
	c, err := t.live(t.TTL.Ordinal)
	switch {
	case err != nil:
		return fmt.Errorf("TTL: %w", err)
	case c.Type != keycodec.TypeTime || c.List:
		return fmt.Errorf("TTL: column %q is not a time", c.Name)
	case t.TTL.After < 0:
		return fmt.Errorf("TTL: %s is negative", t.TTL.After)
	}
	return nil
}

func (t *Table) validateZones() error {
	if len(t.Zones) > zone.MaxColumns {
		return fmt.Errorf("zones: %d columns, at most %d are possible", len(t.Zones),
			zone.MaxColumns)
	}
	for i, o := range t.Zones {
		c, err := t.live(o)
		switch {
		case err != nil:
			return fmt.Errorf("zones: %w", err)
		case !c.Zoned():
			return fmt.Errorf("zones: column %q is a list or compared under a collation", c.Name)
		case o == t.firstOfKey():
			return fmt.Errorf("zones: rows are in the order of column %q, which needs none", c.Name)
		case slices.Contains(t.Zones[:i], o):
			return fmt.Errorf("zones: column %q is named twice", c.Name)
		}
	}
	return nil
}

func (t *Table) validateIndexes() error {
	if n := len(t.Indexes); n > maxIndexes {
		return fmt.Errorf("%d indexes, at most %d are possible", n, maxIndexes)
	}
	var errs []error
	names, ids := map[string]bool{}, map[uint32]bool{}
	for _, x := range t.Indexes {
		if x == nil {
			return errors.New("an index is nil")
		}
		lower := strings.ToLower(x.Name)
		err := checkName("an index", x.Name)
		switch {
		case err != nil:
		case names[lower]:
			err = fmt.Errorf("two indexes are named %q", x.Name)
		case ids[x.ID]:
			err = fmt.Errorf("two indexes have the id %d", x.ID)
		case x.ID >= t.NextIndex:
			err = fmt.Errorf("index %q has the id %d, the next one is %d", x.Name, x.ID,
				t.NextIndex)
		default:
			if err = t.validateIndex(x); err != nil {
				err = fmt.Errorf("index %q: %w", x.Name, err)
			}
		}
		names[lower], ids[x.ID] = true, true
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *Table) validateIndex(x *Index) error {
	if len(x.Columns) == 0 {
		if x.State == Dropping { // only its partitions matter
			return nil
		}
		return errors.New("no columns")
	}
	if n := len(x.Columns) + len(t.PK) + len(t.SK); n > keycodec.MaxFields {
		return fmt.Errorf("%d columns with those of the primary key, at most %d are possible", n,
			keycodec.MaxFields)
	}
	seen, each := map[int]bool{}, 0
	for _, k := range x.Columns {
		c, err := t.live(k.Ordinal)
		switch {
		case err != nil:
			return err
		case seen[k.Ordinal]:
			return fmt.Errorf("column %q is twice in it", c.Name)
		case k.Each && !c.List:
			return fmt.Errorf("column %q is not a list and has no elements", c.Name)
		case !k.Each && c.List:
			return fmt.Errorf("column %q is a list; only its elements can be in it",
				c.Name)
		case k.NullsLast && (!c.Nullable || c.List):
			return fmt.Errorf("column %q orders NULLs but has none", c.Name)
		}
		seen[k.Ordinal] = true
		if k.Each {
			each++
		}
	}
	if each > 1 {
		return errors.New("more than one column with an entry for each element")
	}
	errs := []error{t.validateInclude(x), t.validateShard(x)}
	if x.Where != nil {
		errs = append(errs, t.validateCondition(x.Where))
	}
	return errors.Join(errs...)
}

func (t *Table) validateInclude(x *Index) error {
	seen := map[int]bool{}
	for _, i := range x.Include {
		c, err := t.live(i)
		switch {
		case err != nil:
			return fmt.Errorf("included: %w", err)
		case seen[i]:
			return fmt.Errorf("column %q is included twice", c.Name)
		case c.Collation == keycodec.CollateBytes && (t.inKey(i) || x.hasColumn(i)):
			return fmt.Errorf("column %q is included but part of the entry's key anyway", c.Name)
		}
		seen[i] = true
	}
	return nil
}

func (t *Table) inKey(ordinal int) bool {
	at := func(k KeyColumn) bool { return k.Ordinal == ordinal }
	return slices.ContainsFunc(t.PK, at) || slices.ContainsFunc(t.SK, at)
}

// hasColumn reports whether the index has the whole column among its own.
func (x *Index) hasColumn(ordinal int) bool {
	return slices.ContainsFunc(x.Columns, func(k IndexColumn) bool {
		return k.Ordinal == ordinal && !k.Each
	})
}

// placing returns the columns of the primary key that the stripe of a row follows from.
func (t *Table) placing() []KeyColumn {
	if t.Sharded() {
		return t.SK[:t.ShardColumns]
	}
	return t.PK
}

// firstOfKey returns the first column of the primary key, or -1.
func (t *Table) firstOfKey() int {
	for _, k := range slices.Concat(t.PK, t.SK) {
		return k.Ordinal
	}
	return -1
}

func (t *Table) validateShard(x *Index) error {
	switch {
	case x.State > Retiring:
		return fmt.Errorf("unknown state %d", x.State)
	case x.Placement > Local:
		return fmt.Errorf("unknown placement %d", x.Placement)
	case x.Placement == Local && x.Shard != shard.Spec{}:
		return errors.New("a local index cannot be sharded: it has a bucket for each stripe")
	case x.Placement == Local && x.Unique:
		for _, k := range t.placing() {
			if !x.hasColumn(k.Ordinal) {
				return fmt.Errorf("a unique local index needs all columns that choose the stripe "+
					"of a row: %q is missing", t.Columns[k.Ordinal].Name)
			}
		}
	}
	return t.validateSpec(x.Shard, x.ShardColumns, x.keyColumns())
}

// validateSpec checks how a key is spread by its first columns.
func (t *Table) validateSpec(spec shard.Spec, columns int, key []KeyColumn) error {
	if columns < 1 || columns > len(key) {
		return fmt.Errorf("the bucket cannot follow from %d of %d columns", columns, len(key))
	}
	if spec == (shard.Spec{}) {
		return nil
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Count < 2 {
		return errors.New("a sharded key has 2 buckets at least")
	}
	first := t.Columns[key[0].Ordinal].elementKind()
	integer := first == expr.KindInt || first == expr.KindUint
	if spec.Function == shard.Tidb && (!integer || columns != 1) {
		return errors.New("the shard function tidb takes one integer column")
	}
	return nil
}

// validateCondition checks that a condition can be evaluated for a row alone.
func (t *Table) validateCondition(where expr.Expr) (err error) {
	if _, err := expr.Compile(where); err != nil {
		return err
	}
	expr.Walk(where, func(e expr.Expr) bool {
		switch e := e.(type) {
		case expr.Column:
			if _, missing := t.live(e.Ordinal); e.Source != 0 || missing != nil {
				err = fmt.Errorf("the condition has a column %s that the table does not have", e)
			}
		case expr.Param, expr.Slot, expr.Agg:
			err = fmt.Errorf("the condition has %s in it", e)
		}
		return err == nil
	})
	return err
}

// CheckWhere checks a condition of an index of the table: its operators must take the types
// of their operands. The error is an *expr.TypeError. New does not
// call it, so that older definitions can be read.
func (t *Table) CheckWhere(where expr.Expr) error {
	typ, err := expr.CheckTypes(where, func(c expr.Column) expr.Type {
		column, err := t.live(c.Ordinal)
		if err != nil {
			return expr.Type{}
		}
		out := expr.Type{Kind: column.Kind()}
		if column.List {
			out.Element = column.elementKind()
		}
		return out
	})
	if err == nil && typ.Kind != expr.KindBool && typ.Kind != expr.KindNull {
		err = &expr.TypeError{At: where, Message: "this is not a condition"}
	}
	return err
}
