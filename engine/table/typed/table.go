package typed

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Table is a table whose rows are structs T. It says what the table is like and belongs to
// no database: make one for each table, as a variable of the package, and its columns with
// [Col], [Ptr] and [List]:
//
//	type Order struct {
//		UserID string    `kstone:"user_id,pk"`
//		Date   time.Time `kstone:"date,sk,ms,desc"`
//		ID     [16]byte  `kstone:"id,sk"`
//		Status string    `kstone:"status"`
//	}
//
//	var (
//		Orders = typed.NewTable[Order]("orders")
//		UserID = typed.Col(Orders, func(o *Order) *string { return &o.UserID })
//		Status = typed.Col(Orders, func(o *Order) *string { return &o.Status })
//		_      = Orders.Index("by_status", Status.Asc())
//	)
//
// Exported fields are columns. Options in their tags say what a tag of package keycodec
// says (a unit for times, decimal(N), ascii and unicode, desc, nullslast) and also: pk and
// sk for the columns of the primary key, in the order of the struct; null, which stores the
// zero value as NULL; default(x) for rows written before there was the column; auto, which makes a
// number, UUID or present time of the zero value; ttl(24h), after which rows expire; was(old), the
// former name of a column.
//
// The zero time.Time is the moment it is, the first of January of the year 1: so it is stored,
// read and compared with. With the option null it is stored as NULL, which is read as the zero
// time, and which only IsNull finds, as with all types. Columns in ns do not reach that far
// back: writing it there is an error, as it is in a column with a ttl, without null.
//
// Migrate creates the table or changes it to what the struct is now. Then it may be used by
// any number of goroutines, with any number of databases.
type Table[T any] struct {
	name    string
	typ     reflect.Type
	fields  []*field
	expires *field // which the TTL counts from, nil without one
	auto    []*field
	indexes []*Index[T]
	shard   shard.Spec // of the primary key
	sharded int        // columns that its bucket follows from
	zones   []int      // nil is the default
	checks  []schema.Check
	frozen  atomic.Bool

	build  sync.Once
	schema *schema.Table
	err    error

	last  atomic.Pointer[binding] // the one used last
	bound sync.Map                // *table.Table -> *binding

	runs sync.Pool // of *run[T]
}

// NewTable returns the table of that name. It panics if T is not a struct with columns and a
// primary key.
func NewTable[T any](name string) *Table[T] {
	t := &Table[T]{name: name, typ: reflect.TypeFor[T]()}
	var err error
	if t.fields, err = fieldsOf(t.typ); err == nil {
		_, err = schema.New(t.definition(0))
	}
	if err != nil {
		panic(fmt.Sprintf("typed: %s as %s: %v", name, t.typ, err))
	}
	for _, f := range t.fields {
		if f.ttl > 0 {
			t.expires = f
		}
		if f.column.Generated != schema.NotGenerated {
			t.auto = append(t.auto, f)
		}
	}
	return t
}

// Name returns the name of the table.
func (t *Table[T]) Name() string { return t.name }

// title implements Rows.
func (t *Table[T]) title() string { return t.name }

func (t *Table[T]) rowType() reflect.Type { return t.typ }

// columns implements binder.
func (t *Table[T]) columns() []*field { return t.fields }

// Schema returns the definition that the struct and the indexes make. From the first call
// on, which Migrate makes, there can be no more indexes.
func (t *Table[T]) Schema() (*schema.Table, error) {
	t.build.Do(func() {
		t.frozen.Store(true)
		if t.schema, t.err = schema.New(t.definition(len(t.indexes))); t.err != nil {
			t.err = fmt.Errorf("typed: %s as %s: %w", t.name, t.typ, t.err)
		}
	})
	return t.schema, t.err
}

// definition returns the table with its first n indexes.
func (t *Table[T]) definition(n int) schema.Table {
	def := schema.Table{Name: t.name, Shard: t.shard, ShardColumns: t.sharded,
		Zones: t.zones}
	for i, f := range t.fields {
		def.Columns = append(def.Columns, f.column)
		k := schema.KeyColumn{Ordinal: i, Desc: f.desc, NullsLast: f.nulls}
		switch f.key {
		case partKey:
			def.PK = append(def.PK, k)
		case sortKey:
			def.SK = append(def.SK, k)
		}
		if f.ttl > 0 {
			def.TTL = &schema.TTL{Ordinal: i, After: f.ttl}
		}
	}
	def.Checks = slices.Clone(t.checks)
	for _, x := range t.indexes[:n] {
		own := x.index
		def.Indexes = append(def.Indexes, &own)
	}
	return def
}

// Shard spreads the rows of each partition over 2 to 65,536 buckets, by a hash of the primary key:
// so that a partition that is written all the time is in several places. See [Table.ShardBy].
func (t *Table[T]) Shard(buckets int) *Table[T] {
	n := 0
	for _, f := range t.fields {
		if f.key != noKey {
			n++
		}
	}
	return t.ShardBy(shard.Spec{Function: shard.Mix64, Count: buckets}, n)
}

// ShardBy spreads the rows over buckets, by a function of the first columns of the primary key. A
// read of a primary key is one of one bucket; other reads merge the buckets. It panics if the
// table was used before, or cannot be spread like this.
func (t *Table[T]) ShardBy(spec shard.Spec, columns int) *Table[T] {
	return t.redefined(t.name+" is sharded after it", func() { t.shard, t.sharded = spec, columns })
}

// redefined returns the table after a change of its definition, whose text begins what is wrong if
// it was used already.
func (t *Table[T]) redefined(what string, change func()) *Table[T] {
	t.mustBeNew(what)
	change()
	if _, err := schema.New(t.definition(0)); err != nil {
		panic(fmt.Sprintf("typed: %s as %s: %v", t.name, t.typ, err))
	}
	return t
}

// mustBeNew panics if the table was used.
func (t *Table[T]) mustBeNew(what string) {
	if t.frozen.Load() {
		panic("typed: " + what + " was used")
	}
}

// Check adds a condition that every row satisfies: it is true or, because of NULL, unknown. A row
// for which it is false cannot be written; the error is a *schema.CheckError. It panics if the
// table was used before, or for a predicate with parameters or queries.
func (t *Table[T]) Check(name string, p Predicate[T]) *Table[T] {
	return t.redefined("check "+name+" of "+t.name+" is added after the table", func() {
		t.checks = append(t.checks, schema.Check{Name: name, Condition: p.expression()})
	})
}

// Zones names the columns for which blocks keep zones, so that scans skip blocks without rows of a
// condition; without it they are all but long texts, and Zones() means no zones. It panics if
// the table was used before, or for a column that can have none.
func (t *Table[T]) Zones(columns ...Selector[T]) *Table[T] {
	return t.redefined("zones of "+t.name+" are chosen after the table", func() {
		t.zones = make([]int, len(columns))
		for i, c := range columns {
			t.zones[i] = c.column(nil).index
		}
	})
}

// Index is an index that is being defined. Its methods change it and return it.
type Index[T any] struct {
	table *Table[T]
	index schema.Index
}

// Index adds an index over some columns. It panics if the table was used before.
func (t *Table[T]) Index(name string, terms ...Term[T]) *Index[T] {
	t.mustBeNew("index " + name + " of " + t.name + " is added after the table")
	x := &Index[T]{t, schema.Index{Name: name}}
	for _, term := range terms {
		x.index.Columns = append(x.index.Columns, schema.IndexColumn{Each: term.each,
			KeyColumn: schema.KeyColumn{Ordinal: term.field.index, Desc: term.desc,
				NullsLast: term.nullsLast}})
	}
	t.indexes = append(t.indexes, x)
	return x
}

// Unique adds an index in which no two rows have the same values, except with NULL among them.
func (t *Table[T]) Unique(name string, terms ...Term[T]) *Index[T] {
	x := t.Index(name, terms...)
	x.index.Unique = true
	return x
}

// Include stores further columns in the entries, so that queries of these columns need no
// rows.
func (x *Index[T]) Include(columns ...Selector[T]) *Index[T] {
	for _, c := range columns {
		f := c.column(nil)
		x.index.Include = append(x.index.Include, f.index)
	}
	return x
}

// Shard spreads the entries over 2 to 65,536 buckets, by a hash of the first column: so that
// ascending values are not all written to one place.
func (x *Index[T]) Shard(buckets int) *Index[T] {
	return x.ShardBy(shard.Spec{Function: shard.Mix64, Count: buckets}, 1)
}

// ShardBy is Shard with a function of choice, over the first columns.
func (x *Index[T]) ShardBy(spec shard.Spec, columns int) *Index[T] {
	x.index.Shard, x.index.ShardColumns = spec, columns
	return x
}

// Local stores entries where their rows are: writes become cheaper, and queries that do not
// fix the partition key dearer.
func (x *Index[T]) Local() *Index[T] {
	x.index.Placement = schema.Local
	return x
}

// Where restricts the index to the rows for which the predicate is true.
func (x *Index[T]) Where(p Predicate[T]) *Index[T] {
	x.index.Where = p.expression()
	return x
}

// Name returns the name of the index, for hints.
func (x *Index[T]) Name() string { return x.index.Name }

// binding says where the columns of a struct are in a table of a database. It is immutable.
type binding struct {
	id       uint64        // no other one has it
	table    *table.Table  // on the DB
	schema   *schema.Table // the version that it is for
	ordinals []int         // of the fields
	all      schema.ColumnSet
	full     bool // the struct has every column, at the place of its field
	readers  []*rowReader
	direct   *rowWriter       // nil: rows are written over values
	texts    int              // fields that are read as texts of the row's value
	partial  schema.ColumnSet // columns that decide whether a row is in a partial index
}

var bindings atomic.Uint64 // that have been made

// bind returns the binding to the present definition in a database.
func (t *Table[T]) bind(db *table.DB) (*binding, error) {
	if b := t.last.Load(); b != nil && b.table.DB() == db && b.table.Schema() == b.schema {
		return b, nil
	}
	handle, err := db.Table(t.name)
	if err != nil {
		return nil, err
	}
	return t.bindTo(handle, handle.Schema())
}

// at returns the binding to a definition of the table that b is a binding to: b itself, but for the
// moment of a change.
func (t *Table[T]) at(b *binding, def *schema.Table) (*binding, error) {
	if b.schema == def {
		return b, nil
	}
	return t.bindTo(b.table, def)
}

// bindTo returns the binding to a definition.
func (t *Table[T]) bindTo(handle *table.Table, s *schema.Table) (*binding, error) {
	if known, ok := t.bound.Load(handle); ok && known.(*binding).schema == s {
		t.last.Store(known.(*binding))
		return known.(*binding), nil
	}
	b := &binding{id: bindings.Add(1), table: handle, schema: s,
		full: len(t.fields) == len(s.Columns)}
	for i, f := range t.fields {
		o := s.Column(f.column.Name)
		if o < 0 {
			return nil, fmt.Errorf("typed: %s has no column %s, field %s of %s: it needs Migrate",
				t.name, f.column.Name, f.goName, t.typ)
		}
		if c := &s.Columns[o]; !f.fits(c) {
			return nil, fmt.Errorf("typed: column %s of %s is no %s, as field %s of %s wants it",
				c, t.name, &f.column, f.goName, t.typ)
		}
		b.ordinals = append(b.ordinals, o)
		b.all.Add(o)
		b.full = b.full && o == i
	}
	for _, l := range slices.Backward(s.Layouts()) {
		b.readers = append(b.readers, newRowReader(t.fields, b, l))
	}
	for _, x := range s.Indexes {
		for c := range expr.Columns(x.Where) {
			b.partial.Add(c.Ordinal)
		}
	}
	b.direct = newRowWriter(t.fields, b)
	b.texts = b.readers[0].texts()
	t.bound.Store(handle, b)
	t.last.Store(b)
	return b, nil
}

// fits reports whether the field can hold every value of a column, and the other way round.
func (f *field) fits(c *schema.Column) bool {
	return f.column.Type == c.Type && f.column.Unit == c.Unit && f.column.Scale == c.Scale &&
		f.column.List == c.List && f.column.Nullable == c.Nullable &&
		f.column.Collation == c.Collation
}

// bound is the bindings of the tables of a query, in the order of From.
type bound []*binding

// ref returns the column that a field is.
func (bs bound) ref(f *field) expr.Expr {
	b := bs[f.source]
	return b.schema.Ref(f.source, b.ordinals[f.index])
}

// resolve is bound.resolve of a single table.
func (b *binding) resolve(e expr.Expr, args *arguments) (expr.Expr, error) {
	return bound{b}.resolve(e, args)
}

// resolve turns an expression over the fields of structs into one over the columns of tables,
// and numbers its parameters.
func (bs bound) resolve(e expr.Expr, args *arguments) (expr.Expr, error) {
	return expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		switch x := e.(type) {
		case expr.Column:
			b := bs[x.Source]
			return b.schema.Ref(x.Source, b.ordinals[x.Ordinal]), nil
		case expr.Param:
			x.Index = args.number(x.Name)
			return x, nil
		case expr.Subquery:
			q, ok := x.Query.(*boundQuery)
			if !ok {
				return x, nil
			}
			sel, err := q.make(bs[0].table.DB(), args)
			x.Query = sel
			return x, err
		}
		return e, nil
	})
}
