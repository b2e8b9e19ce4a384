package schema

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Format: the definition of a table in JSON; the catalogue stores it, and people write it by hand.
// Columns are named, ids and versions may be left out by people:
//
//	{"name":"cities",
//	 "columns":[{"name":"country","type":"string"},
//	            {"name":"city","type":"string"},
//	            {"name":"founded","type":"time","unit":"s","nullable":true},
//	            {"name":"tags","type":"string","list":true,"nullable":true}],
//	 "primary_key":["country"],
//	 "sort_key":["city"],
//	 "indexes":[{"name":"by_founded","columns":[{"column":"founded","desc":true}],
//	             "include":["tags"],"shard":"mix64:16"}]}

type tableJSON struct {
	ID      uint32       `json:"id,omitempty"`
	Name    string       `json:"name"`
	Version uint32       `json:"version,omitempty"`
	Columns []columnJSON `json:"columns"`
	PK      []keyJSON    `json:"primary_key"`
	SK      []keyJSON    `json:"sort_key,omitempty"`
	// All columns of a sharded key are in primary_key.
	Shard        string      `json:"shard,omitempty"` // as shard.ParseSpec takes it
	ShardColumns int         `json:"shard_columns,omitempty"`
	TTL          *ttlJSON    `json:"ttl,omitempty"`
	Zones        *[]string   `json:"zones,omitempty"`
	Checks       []checkJSON `json:"checks,omitempty"`
	HadTTL       bool        `json:"had_ttl,omitempty"`
	Indexes      []indexJSON `json:"indexes,omitempty"`
	NextIndex    uint32      `json:"next_index,omitempty"`
	Dropping     bool        `json:"dropping,omitempty"`
}

type columnJSON struct {
	ID       uint16      `json:"id,omitempty"`
	Name     string      `json:"name"`
	Type     string      `json:"type"`
	Unit     string      `json:"unit,omitempty"`
	Scale    int32       `json:"scale,omitempty"`
	Collate  string      `json:"collate,omitempty"`
	Nullable bool        `json:"nullable,omitempty"`
	List     bool        `json:"list,omitempty"`
	Default  *expr.Value `json:"default,omitempty"`
	// Before is one value or none. Why a list: it may be NULL.
	Before    []expr.Value `json:"before,omitempty"`
	Generated string       `json:"generated,omitempty"` // "identity" or "uuid"
	Added     uint32       `json:"added,omitempty"`     // not written if 1
	Removed   uint32       `json:"removed,omitempty"`
}

type ttlJSON struct {
	Column string `json:"column"`
	After  string `json:"after"` // as time.ParseDuration takes it
}

type indexJSON struct {
	ID           uint32          `json:"id,omitempty"`
	Name         string          `json:"name"`
	Columns      []keyJSON       `json:"columns"`
	Unique       bool            `json:"unique,omitempty"`
	Include      []string        `json:"include,omitempty"`
	Local        bool            `json:"local,omitempty"`
	Shard        string          `json:"shard,omitempty"` // as shard.ParseSpec takes it
	ShardColumns int             `json:"shard_columns,omitempty"`
	Where        json.RawMessage `json:"where,omitempty"` // the JSON form of package expr
	State        string          `json:"state,omitempty"` // not written if ready
}

type checkJSON struct {
	Name       string          `json:"name"`
	Condition  json.RawMessage `json:"condition"` // the JSON form of package expr
	Unverified bool            `json:"unverified,omitempty"`
}

// keyJSON is a column of a key: its name alone if it has no options.
type keyJSON struct {
	Column string `json:"column"`
	Desc   bool   `json:"desc,omitempty"`
	Nulls  string `json:"nulls,omitempty"` // "first" or "last"
	Each   bool   `json:"each,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (k keyJSON) MarshalJSON() ([]byte, error) {
	if k == (keyJSON{Column: k.Column}) {
		return json.Marshal(k.Column)
	}
	type plain keyJSON
	return json.Marshal(plain(k))
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *keyJSON) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*k = keyJSON{}
		return json.Unmarshal(data, &k.Column)
	}
	type plain keyJSON
	return base.UnmarshalStrict(data, (*plain)(k))
}

// MarshalJSON implements json.Marshaler. The form is stable: equal tables give equal bytes
// in every version.
func (t *Table) MarshalJSON() ([]byte, error) {
	out := tableJSON{ID: t.ID, Name: t.Name, Version: t.Version, NextIndex: t.NextIndex,
		HadTTL: t.HadTTL, Dropping: t.Dropping, Columns: make([]columnJSON, len(t.Columns))}
	for i := range t.Columns {
		c := &t.Columns[i]
		out.Columns[i] = columnJSON{c.ID, c.Name, c.Type.String(), c.Unit.String(), c.Scale,
			c.Collation.String(), c.Nullable, c.List, c.Default, nil, c.Generated.String(),
			c.Added, c.Removed}
		if c.Before != nil {
			out.Columns[i].Before = []expr.Value{*c.Before}
		}
		if c.Added == 1 {
			out.Columns[i].Added = 0
		}
	}
	for _, k := range t.PK {
		out.PK = append(out.PK, t.keyJSON(IndexColumn{KeyColumn: k}))
	}
	for _, k := range t.SK {
		out.SK = append(out.SK, t.keyJSON(IndexColumn{KeyColumn: k}))
	}
	if t.Sharded() {
		out.PK, out.SK, out.Shard = out.SK, nil, t.Shard.String()
		if t.ShardColumns > 1 {
			out.ShardColumns = t.ShardColumns
		}
	}
	if t.TTL != nil {
		out.TTL = &ttlJSON{t.Columns[t.TTL.Ordinal].Name, t.TTL.After.String()}
	}
	if names := t.zoneNames(); names != nil {
		out.Zones = &names
	}
	for _, x := range t.Indexes {
		index, err := t.indexJSON(x)
		if err != nil {
			return nil, err
		}
		out.Indexes = append(out.Indexes, index)
	}
	for i := range t.Checks {
		c := &t.Checks[i]
		condition, err := expr.MarshalExpr(c.Condition)
		if err != nil {
			return nil, err
		}
		out.Checks = append(out.Checks, checkJSON{c.Name, condition, c.Unverified})
	}
	return json.Marshal(out)
}

func (t *Table) keyJSON(k IndexColumn) keyJSON {
	out := keyJSON{Column: t.Columns[k.Ordinal].Name, Desc: k.Desc, Each: k.Each}
	if k.NullsLast {
		out.Nulls = "last"
	}
	return out
}

func (t *Table) indexJSON(x *Index) (indexJSON, error) {
	out := indexJSON{ID: x.ID, Name: x.Name, Unique: x.Unique, Local: x.Placement == Local,
		State: x.State.String()}
	if x.State == Ready {
		out.State = ""
	}
	if x.Shard != (shard.Spec{}) {
		out.Shard = x.Shard.String()
	}
	if x.ShardColumns > 1 {
		out.ShardColumns = x.ShardColumns
	}
	for _, k := range x.Columns {
		out.Columns = append(out.Columns, t.keyJSON(k))
	}
	for _, i := range x.Include {
		out.Include = append(out.Include, t.Columns[i].Name)
	}
	var err error
	if x.Where != nil {
		out.Where, err = expr.MarshalExpr(x.Where)
	}
	return out, err
}

// Parse reads the JSON form of a table: what MarshalJSON writes, or what people write. It
// fails for members it does not know and for everything that New refuses.
func Parse(data []byte) (*Table, error) {
	var in tableJSON
	if err := base.UnmarshalStrict(data, &in); err != nil {
		return nil, fmt.Errorf("schema: reading a table: %w", err)
	}
	t, err := in.table()
	if err != nil {
		return nil, fmt.Errorf("schema: reading table %q: %w", in.Name, err)
	}
	return New(*t)
}

// UnmarshalJSON implements json.Unmarshaler; see Parse. It leaves t unchanged on error.
func (t *Table) UnmarshalJSON(data []byte) error {
	read, err := Parse(data)
	if err == nil {
		*t = *read
		for _, x := range t.Indexes {
			x.built.table = t
		}
		if x := t.built.primary; x != nil {
			x.built.table = t
		}
	}
	return err
}

func (in *tableJSON) table() (*Table, error) {
	t := &Table{ID: in.ID, Name: in.Name, Version: in.Version, NextIndex: in.NextIndex,
		ShardColumns: in.ShardColumns, HadTTL: in.HadTTL, Dropping: in.Dropping}
	for _, c := range in.Columns {
		column, err := c.column()
		if err != nil {
			return nil, err
		}
		t.Columns = append(t.Columns, column)
	}
	for _, keys := range []struct {
		in  []keyJSON
		out *[]KeyColumn
	}{{in.PK, &t.PK}, {in.SK, &t.SK}} {
		for _, k := range keys.in {
			column, err := t.readKey(k)
			if err != nil {
				return nil, err
			}
			if column.Each {
				return nil, fmt.Errorf("column %q of the primary key is a list", k.Column)
			}
			*keys.out = append(*keys.out, column.KeyColumn)
		}
	}
	if in.Shard != "" {
		var err error
		if t.Shard, err = shard.ParseSpec(in.Shard); err != nil {
			return nil, fmt.Errorf("primary key: %w", err)
		}
	}
	if in.TTL != nil {
		i, err := t.columnNamed(in.TTL.Column)
		if err != nil {
			return nil, fmt.Errorf("TTL: %w", err)
		}
		after, err := time.ParseDuration(in.TTL.After)
		if err != nil {
			return nil, fmt.Errorf("TTL: %w", err)
		}
		t.TTL = &TTL{i, after}
	}
	if in.Zones != nil {
		var err error
		if t.Zones, err = t.zonesNamed(*in.Zones); err != nil {
			return nil, err
		}
	}
	for _, x := range in.Indexes {
		index, err := x.index(t)
		if err != nil {
			return nil, fmt.Errorf("index %q: %w", x.Name, err)
		}
		t.Indexes = append(t.Indexes, index)
	}
	for _, c := range in.Checks {
		condition, err := t.readWhere(c.Condition)
		if err != nil {
			return nil, fmt.Errorf("check %q: %w", c.Name, err)
		}
		t.Checks = append(t.Checks, Check{c.Name, condition, c.Unverified})
	}
	return t, nil
}

func (in *columnJSON) column() (Column, error) {
	typ, err := keycodec.ParseType(in.Type)
	if err != nil {
		return Column{}, fmt.Errorf("column %q has the unknown type %q", in.Name, in.Type)
	}
	unit, collation := keycodec.UnitNone, keycodec.CollateBytes
	for unit.String() != in.Unit {
		if unit++; unit > keycodec.Day {
			return Column{}, fmt.Errorf("column %q has the unknown unit %q", in.Name, in.Unit)
		}
	}
	for collation.String() != in.Collate {
		if collation++; collation > keycodec.CollateUnicode {
			return Column{}, fmt.Errorf("column %q has the unknown collation %q", in.Name,
				in.Collate)
		}
	}
	var before *expr.Value
	if len(in.Before) > 1 {
		return Column{}, fmt.Errorf("column %q has %d values before it was added", in.Name,
			len(in.Before))
	}
	if len(in.Before) == 1 {
		before = &in.Before[0]
	}
	generated, err := parseGenerator(in.Generated)
	if err != nil {
		return Column{}, fmt.Errorf("column %q: %w", in.Name, err)
	}
	return Column{ID: in.ID, Name: in.Name, Type: typ, Unit: unit, Scale: in.Scale,
		Collation: collation, Nullable: in.Nullable, List: in.List, Default: in.Default,
		Before: before, Generated: generated,
		Added: in.Added, Removed: in.Removed, Dropped: in.Removed != 0}, nil
}

func (t *Table) readKey(k keyJSON) (IndexColumn, error) {
	i, err := t.columnNamed(k.Column)
	if err == nil && k.Nulls != "" && k.Nulls != "first" && k.Nulls != "last" {
		err = fmt.Errorf("column %q: nulls must be first or last, not %q", k.Column, k.Nulls)
	}
	return IndexColumn{KeyColumn{i, k.Desc, k.Nulls == "last"}, k.Each}, err
}

// readWhere reads a condition, whose columns go by their names, if they have some.
func (t *Table) readWhere(data []byte) (expr.Expr, error) {
	where, err := expr.UnmarshalExpr(data)
	if err != nil {
		return nil, err
	}
	return expr.Rewrite(where, func(e expr.Expr) (expr.Expr, error) {
		c, ok := e.(expr.Column)
		if ok && c.Name != "" {
			c.Ordinal, err = t.columnNamed(c.Name)
			return c, err
		}
		return e, nil
	})
}

func (in *indexJSON) index(t *Table) (*Index, error) {
	x := &Index{ID: in.ID, Name: in.Name, Unique: in.Unique, ShardColumns: in.ShardColumns,
		State: Ready}
	if in.Local {
		x.Placement = Local
	}
	for _, k := range in.Columns {
		column, err := t.readKey(k)
		if err != nil {
			return nil, err
		}
		x.Columns = append(x.Columns, column)
	}
	for _, name := range in.Include {
		i, err := t.columnNamed(name)
		if err != nil {
			return nil, err
		}
		x.Include = append(x.Include, i)
	}
	var err error
	if in.Shard != "" {
		if x.Shard, err = shard.ParseSpec(in.Shard); err != nil {
			return nil, err
		}
	}
	if len(in.Where) > 0 {
		if x.Where, err = t.readWhere(in.Where); err != nil {
			return nil, err
		}
	}
	for i, name := range stateNames {
		if in.State == name {
			x.State = State(i)
			return x, nil
		}
	}
	if in.State != "" {
		return nil, fmt.Errorf("unknown state %q", in.State)
	}
	return x, nil
}
