package schema

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// built is what is derived from the definition of a table.
type built struct {
	all, key ColumnSet
	pk, sk   []keyField
	// The columns that can be read back from the parts of the key.
	coveredPK, coveredSK *ColumnSet
	layouts              []*Layout // by their versions, ascending; new rows have the last one
	zones                []zoneField
	zonedPK, zonedKey    bool   // some of them are in the partition key, or in the key
	primary              *Index // nil: the primary key is not sharded
	checks               []expr.Program
	search               SearchKey // of the rows
}

// builtIndex is what is derived from the definition of an index.
type builtIndex struct {
	table    *Table
	fields   []keyField
	each     int // position in fields, -1: none
	include  *Layout
	covers   ColumnSet
	own      ColumnSet // covers, without the columns that only the row's key has
	where    expr.Program
	filtered bool
	rotation uint8
	head     []byte // of the partition keys, up to the bucket
	crc      uint32 // checksum of head
	search   SearchKey
}

// build prepares a valid definition for use.
func (t *Table) build() error {
	b := &built{}
	for i := range t.Columns {
		if !t.Columns[i].Dropped {
			b.all.Add(i)
		}
	}
	for _, k := range t.PK {
		b.pk = append(b.pk, newKeyField(t, k, false))
		b.key.Add(k.Ordinal)
	}
	for _, k := range t.SK {
		b.sk = append(b.sk, newKeyField(t, k, false))
		b.key.Add(k.Ordinal)
	}
	b.coveredPK, b.coveredSK = covered(b.pk), covered(b.sk)
	b.layouts = t.buildLayouts(b.key)
	b.zones = t.buildZones()
	for i := range b.zones {
		o := b.zones[i].ordinal
		b.zonedKey = b.zonedKey || b.key.Has(o)
		b.zonedPK = b.zonedPK || slices.ContainsFunc(t.PK, func(k KeyColumn) bool {
			return k.Ordinal == o
		})
	}
	t.built = b
	var err error
	if b.checks, err = t.buildChecks(); err != nil {
		return err
	}
	b.search = t.buildSearchKey(nil)
	if t.Sharded() {
		b.primary = t.buildPrimary()
	}
	for _, x := range t.Indexes {
		if err := t.buildIndex(x); err != nil {
			return err
		}
	}
	return nil
}

func covered(fields []keyField) *ColumnSet {
	s := &ColumnSet{}
	for i := range fields {
		if fields[i].readable {
			s.Add(fields[i].ordinal)
		}
	}
	return s
}

// buildLayouts makes the layouts of all versions of rows. A version begins where a column
// was added or dropped.
func (t *Table) buildLayouts(key ColumnSet) []*Layout {
	versions := []uint32{1}
	for i := range t.Columns {
		versions = append(versions, t.Columns[i].Added)
		if t.Columns[i].Dropped {
			versions = append(versions, t.Columns[i].Removed)
		}
	}
	slices.Sort(versions)
	var layouts []*Layout
	for _, version := range slices.Compact(versions) {
		var stored []int
		for i := range t.Columns {
			c := &t.Columns[i]
			there := c.Added <= version && (!c.Dropped || c.Removed > version)
			if there && (!key.Has(i) || c.Collation != keycodec.CollateBytes) {
				stored = append(stored, i)
			}
		}
		layouts = append(layouts, newLayout(t, version, stored))
	}
	return layouts
}

func (t *Table) buildIndex(x *Index) error {
	b := &builtIndex{table: t, each: -1, include: newLayout(t, 0, x.Include)}
	for i, k := range x.Columns {
		f := newKeyField(t, k.KeyColumn, k.Each)
		if k.Each {
			b.each = i
		}
		b.fields = append(b.fields, f)
		if f.readable {
			b.own.Add(k.Ordinal)
		}
	}
	for _, i := range x.Include {
		b.own.Add(i)
	}
	b.covers = b.own
	for _, f := range slices.Concat(t.built.pk, t.built.sk) {
		if f.readable {
			b.covers.Add(f.ordinal)
		}
	}
	if x.Where != nil {
		var err error
		x.Where, b.filtered = t.resolve(x.Where), true
		if b.where, err = expr.Compile(x.Where); err != nil {
			return err
		}
	}
	head := binary.BigEndian.AppendUint32([]byte{entryMark}, t.ID)
	b.setHead(binary.BigEndian.AppendUint32(head, x.ID), x.ID)
	b.search = t.buildSearchKey(x)
	x.built = b
	return nil
}

// buildPrimary returns the index that the rows of a sharded table are.
func (t *Table) buildPrimary() *Index {
	x := &Index{Name: "primary", Unique: true, Shard: t.Shard, ShardColumns: t.ShardColumns,
		State: Ready, built: &builtIndex{table: t, fields: t.built.sk, each: -1,
			search: t.built.search}}
	for _, k := range t.SK {
		x.Columns = append(x.Columns, IndexColumn{KeyColumn: k})
	}
	x.built.setHead(t.AppendRowPrefix(nil), 0)
	return x
}

// setHead sets what the partition keys of an index begin with.
func (b *builtIndex) setHead(head []byte, index uint32) {
	b.head, b.crc = head, crc32.ChecksumIEEE(head)
	b.rotation = rotation(b.table.ID, index)
}

// resolve gives the columns of an expression their present names and collations.
func (t *Table) resolve(e expr.Expr) expr.Expr {
	return expr.MapColumns(e, func(c expr.Column) expr.Expr { return t.Ref(0, c.Ordinal) })
}

// KeyOrdinals returns the columns of the partition key and of the sort key, in this order. They
// must not be changed.
func (t *Table) KeyOrdinals() []int { return t.built.search.Ordinals }

// Fields returns the fields of the index, in their order: entries sort by them, inside a bucket.
// After them entries that are not unique sort by the row's key; see Table.SearchKey. They must not
// be changed.
func (x *Index) Fields() []keycodec.Field {
	return x.built.search.Fields[:len(x.Columns):len(x.Columns)]
}

// Ordinals returns the columns of the index, in their order. They must not be changed.
func (x *Index) Ordinals() []int {
	return x.built.search.Ordinals[:len(x.Columns):len(x.Columns)]
}

// Covers returns the columns whose values can be read from an entry: those of the index
// and of the primary key, but for lists and for collated texts, whose folded form
// alone is in keys; and the included ones.
func (x *Index) Covers() ColumnSet { return x.built.covers }

// OwnColumns returns those of Covers that can be read without the row's key.
func (x *Index) OwnColumns() ColumnSet { return x.built.own }

// Layouts returns the layouts of the rows of all versions, the oldest first. New rows have
// the last one.
func (t *Table) Layouts() []*Layout { return slices.Clone(t.built.layouts) }

// Layout returns the layout of new rows.
func (t *Table) Layout() *Layout { return t.built.layouts[len(t.built.layouts)-1] }
