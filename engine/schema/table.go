package schema

import (
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Limits of tables.
const (
	// maxColumns is the largest number of columns, dropped ones included.
	maxColumns = 256
	// maxNameBytes is the longest name of a table, column or index.
	maxNameBytes = 255
	// maxIndexes is the largest number of indexes of a table.
	maxIndexes = 64
)

// Table is a table: its columns, its primary key (the columns PK, which choose the
// partition, and SK, which order its rows), and its indexes.
//
// With Shard the primary key is sharded: its rows are spread over buckets as the entries of a
// sharded index are, and all its columns are in SK. New moves those of PK there.
//
// Only tables made by New and by the methods of this package may be used; the fields of
// these must not be changed.
type Table struct {
	ID      uint32 // 0 until the table is in a catalogue
	Name    string
	Version uint32 // grows with every change of the definition
	Columns []Column
	PK, SK  []KeyColumn
	Shard   shard.Spec // Count 0: the primary key is not sharded
	// ShardColumns is how many of the first columns of a sharded primary key the bucket follows
	// from; 0 means 1.
	ShardColumns int
	Indexes      []*Index
	Checks       []Check
	TTL          *TTL // nil: rows do not expire by a column
	// Zones are the ordinals of the columns that blocks keep zones of. Nil is all that can have
	// them, but texts of more than 64 bytes; none is an empty list. A change affects new files.
	Zones []int
	// HadTTL says that there was another TTL before: rows written then may still expire.
	HadTTL bool
	// NextIndex is the id of the next index: ids are never reused.
	NextIndex uint32
	Dropping  bool // rows and entries are being removed

	built *built
}

// Column is a column of a table.
type Column struct {
	ID        uint16 // never reused, and kept when the column is renamed
	Name      string
	Type      keycodec.Type
	Unit      keycodec.Unit      // of a time
	Scale     int32              // decimal places of a fixed-scale decimal
	Collation keycodec.Collation // of a string
	Nullable  bool
	List      bool // the value is a list of elements of the type; an empty list is not NULL
	// Default is the value where a writer gives none; nil: NULL.
	Default *expr.Value
	// Before is the value of the rows written before the column was added; nil: Default. It is
	// given out when the default changes.
	Before *expr.Value
	// Generated says what makes values where a writer gives none.
	Generated Generator
	Added     uint32 // version of the table that added the column; 1 from the beginning
	Removed   uint32 // version that dropped it, 0 for none
	Dropped   bool   // Removed is not 0. Kept so that old rows can be read
}

// KeyColumn is a column of a key.
type KeyColumn struct {
	Ordinal   int  // position in Table.Columns
	Desc      bool // larger values sort first
	NullsLast bool // NULLs sort after all values, also if Desc
}

// TTL makes rows expire: After the time in a column. Rows with NULL there do not.
type TTL struct {
	Ordinal int
	After   time.Duration
}

// Placement says where the entries of an index lie.
type Placement uint8

// The placements.
const (
	// Global entries lie in the stripes that the index chooses: an equality condition on
	// the first columns asks one stripe, and a write touches a second one.
	Global Placement = iota
	// Local entries lie in the stripe of their row: a write touches one stripe, a query
	// asks all of them unless it has the primary key.
	Local
)

// State is the state of an index.
type State uint8

// The states. Writers keep the entries of an index in all but Dropping; queries use it in state
// Ready only. Retiring comes before Dropping where several processes share the storage.
const (
	Building State = iota
	Ready
	Dropping
	Retiring
)

// On disk (JSON form): the names.
var stateNames = [...]string{"building", "ready", "dropping", "retiring"}

// String returns "building", "ready", "dropping" or "retiring".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// IndexColumn is a column of an index.
type IndexColumn struct {
	KeyColumn
	Each bool // of a list: one entry for each distinct element
}

// Index is an index of a table. Its fields must not be changed.
type Index struct {
	ID        uint32 // never reused
	Name      string
	Columns   []IndexColumn
	Unique    bool  // no two rows agree in all columns, unless one of these is NULL
	Include   []int // further columns whose values entries hold, by ordinal
	Placement Placement
	Shard     shard.Spec // of Global; Count 0: not sharded
	// ShardColumns is how many of the first columns the bucket follows from; 0 means 1.
	ShardColumns int
	Where        expr.Expr // only rows for which it is true have entries; nil: all
	State        State

	built *builtIndex
}

// Buckets returns the number of partitions that the entries are spread over.
func (x *Index) Buckets() int {
	if x.Placement == Local {
		return Stripes
	}
	return max(1, x.Shard.Count)
}

// Sharded reports whether the bucket of an entry follows from its first columns.
func (x *Index) Sharded() bool { return x.Placement == Global && x.Shard.Count > 0 }

// Sharded reports whether rows lie in buckets that follow from the first columns of the primary
// key.
func (t *Table) Sharded() bool { return t.Shard.Count > 0 }

// Primary returns the primary key of a sharded table as an index, whose entries are the rows
// themselves: it says how they are spread. It is nil of other tables.
func (t *Table) Primary() *Index { return t.built.primary }

// Table returns the table of the index.
func (x *Index) Table() *Table { return x.built.table }

// Each returns the position in Columns of the column that has an entry for each element,
// -1 if there is none. Rows whose list is empty or NULL have no entries then.
func (x *Index) Each() int { return x.built.each }

// Column returns the ordinal of the column with that name, or -1.
func (t *Table) Column(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name && !t.Columns[i].Dropped {
			return i
		}
	}
	return -1
}

// Index returns the index with that name, or nil.
func (t *Table) Index(name string) *Index {
	for _, x := range t.Indexes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// IndexByID returns the index with an id, or nil.
func (t *Table) IndexByID(id uint32) *Index {
	for _, x := range t.Indexes {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// All returns the columns that are not dropped.
func (t *Table) All() ColumnSet { return t.built.all }

// Key returns the columns of the primary key.
func (t *Table) Key() ColumnSet { return t.built.key }

// Ref returns the expression of a column. Requires: 0 <= ordinal < len(t.Columns).
func (t *Table) Ref(source, ordinal int) expr.Column {
	c := &t.Columns[ordinal]
	return expr.Column{Source: source, Ordinal: ordinal, Name: c.Name, Collation: c.Collation}
}

// Field returns the field that the column, or an element of it if it is a list, is in a
// key.
func (c *Column) Field(k KeyColumn) keycodec.Field {
	return keycodec.Field{Name: c.Name, Type: c.Type, Unit: c.Unit, Scale: c.Scale,
		Collation: c.Collation, Desc: k.Desc, NullsLast: k.NullsLast,
		Nullable: c.Nullable && !c.List}
}

// Kind returns the kind of the values of the column.
func (c *Column) Kind() expr.Kind {
	if c.List {
		return expr.KindList
	}
	return c.elementKind()
}

func (c *Column) elementKind() expr.Kind {
	switch c.Type {
	case keycodec.TypeString:
		return expr.KindString
	case keycodec.TypeBytes:
		return expr.KindBytes
	case keycodec.TypeInt8, keycodec.TypeInt16, keycodec.TypeInt32, keycodec.TypeInt64:
		return expr.KindInt
	case keycodec.TypeUint8, keycodec.TypeUint16, keycodec.TypeUint32, keycodec.TypeUint64:
		return expr.KindUint
	case keycodec.TypeBool:
		return expr.KindBool
	case keycodec.TypeFloat32, keycodec.TypeFloat64:
		return expr.KindFloat
	case keycodec.TypeTime:
		return expr.KindTime
	case keycodec.TypeUUID:
		return expr.KindUUID
	case keycodec.TypeDecimal, keycodec.TypeFixed:
		return expr.KindDecimal
	case keycodec.TypeIP:
		return expr.KindIP
	case keycodec.TypeIPPrefix:
		return expr.KindIPPrefix
	}
	return expr.KindNull
}

// BeforeValue returns the value of the rows written before the column was added.
func (c *Column) BeforeValue() expr.Value {
	if c.Before == nil {
		return c.DefaultValue()
	}
	return *c.Before
}

// DefaultValue returns the default of the column, NULL if it has none.
func (c *Column) DefaultValue() expr.Value {
	if c.Default == nil {
		return expr.Value{}
	}
	return *c.Default
}

// String describes the column, for example "at TIMESTAMP(ms) nullable".
func (c *Column) String() string {
	s := c.Name + " " + c.typeName()
	if c.Nullable {
		s += " nullable"
	}
	return s
}

// typeName is TypeText with the collation.
func (c *Column) typeName() string {
	switch s := c.TypeText(); c.Collation {
	case keycodec.CollateASCII:
		return s + " COLLATE NOCASE"
	case keycodec.CollateUnicode:
		return s + " COLLATE UNICODE"
	default:
		return s
	}
}

// timePlaces are those of the seconds of times.
var timePlaces = map[keycodec.Unit]int{keycodec.Second: 0, keycodec.Millisecond: 3,
	keycodec.Microsecond: 6, keycodec.Nanosecond: 9, keycodec.FullRange: 9,
	keycodec.Day: expr.PlacesOfDate}

// CastType returns the type that CAST converts to for the column, or for an element if it is a
// list.
func (c *Column) CastType() expr.CastType {
	t := expr.CastType{Kind: c.elementKind()}
	switch t.Kind {
	case expr.KindInt, expr.KindUint, expr.KindFloat:
		t.Bits = 8 * typeWidth(c.Type, c.Unit)
	case expr.KindTime:
		t.Places = timePlaces[c.Unit]
	case expr.KindDecimal:
		if t.Places = -1; c.Type == keycodec.TypeFixed {
			t.Places = int(c.Scale)
		}
	}
	return t
}

// TypeText returns the type in the words of CREATE TABLE, for example "DECIMAL(18, 2)[]", empty if
// there are none.
func (c *Column) TypeText() string {
	t := c.CastType()
	if t.Kind == expr.KindNull {
		return ""
	}
	name := t.String()
	if c.Unit == keycodec.FullRange {
		name = "TIMESTAMP(full)"
	}
	if c.List {
		name += "[]"
	}
	return name
}
