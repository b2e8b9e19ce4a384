package schema

import (
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Zones of index entries are those of the columns after the first of the index, and of those that
// it includes, if the table describes them. The group is the id of the table, then of the index.
//
// Before entries had zones they were items of group OtherItems. So a block, or file, with such
// items may have entries that are not described, and one without does not.

// OtherItems is the group of what is neither a row nor an entry of an index that is known. It has
// no columns. Tables are counted from 1.
const OtherItems = 0

// entryHead is the length of what the partition keys of entries begin with: mark, table, index.
const entryHead = 9

// ZoneGroup returns the group of the index's entries in column zones.
func (x *Index) ZoneGroup() uint64 { return uint64(x.built.table.ID)<<32 | uint64(x.ID) }

// HasZone reports whether the entries of the index are described by a column.
func (x *Index) HasZone(ordinal int) bool {
	b := x.built
	if !b.table.HasZone(ordinal) {
		return false
	}
	for i := range b.fields[1:] {
		if b.fields[1+i].ordinal == ordinal {
			return b.fields[1+i].readable
		}
	}
	return b.include.Slot(ordinal) != nil
}

// EntryRun returns table and index of the entries from an item on, and where they end. entry is
// false if the item is not an entry; then it is a run of its own.
func EntryRun(items *zone.Items, from, most int) (table, index uint32, entry bool, to int) {
	key := items.Key(from)
	id, n, entry := headOf(key, entryMark, entryHead)
	if !entry {
		return 0, 0, false, from + 1
	}
	return uint32(id >> 32), uint32(id), true, runOf(items, from, most, key[:n])
}

// DescribeEntries describes items, which are entries of the index, for column zones. What cannot be
// decoded is Unknown.
func (x *Index) DescribeEntries(b *zone.ColumnsBuilder, items *zone.Items, from, to int) {
	b.Rows(x.ZoneGroup(), to-from)
	if !x.describeOwn(b, items, from, to) || !x.describeIncluded(b, items, from, to) {
		b.Unknown()
	}
}

// describeOwn describes the columns of the index.
func (x *Index) describeOwn(b *zone.ColumnsBuilder, items *zone.Items, from, to int) bool {
	if len(x.built.fields) == 1 {
		return true
	}
	for from < to {
		n, ok := keycodec.OrderedPKLen(items.Key(from))
		if !ok {
			return false
		}
		end := runOf(items, from, to, items.Key(from)[:n])
		if !x.built.table.describeSK(b, items, from, end, n, x.built.fields, 1) {
			return false
		}
		from = end
	}
	return true
}

// describeIncluded describes the columns that the index includes.
func (x *Index) describeIncluded(b *zone.ColumnsBuilder, items *zone.Items, from, to int) bool {
	l := x.built.include
	if len(l.Slots) == 0 {
		return true
	}
	var rows [64]zoneBody
	for from < to {
		n := min(len(rows), to-from)
		for i := range n {
			body, ok := x.includedOf(items.Key(from+i), items.Value(from+i))
			if !ok || len(body) == 0 || !rows[i].set(body[0], body[1:], l) {
				return false
			}
		}
		for i := range x.built.table.built.zones {
			f := &x.built.table.built.zones[i]
			if s := l.Slot(f.ordinal); s != nil && !f.describe(b, rows[:n], l, s) {
				return false
			}
		}
		from += n
	}
	return true
}

// includedOf returns the included columns of an entry: what follows the row's key in its value, if
// that is there.
func (x *Index) includedOf(key, value []byte) (body []byte, ok bool) {
	if !x.Unique {
		return value, true
	}
	n, ok := keycodec.OrderedPKLen(key)
	if !ok {
		return nil, false
	}
	rest, unique, err := x.decodeOwn(nil, key[n:], &ColumnSet{})
	if err == nil && unique {
		_, value, err = cutRowKey(rest, value)
	}
	return value, err == nil
}

// set makes it a body in a layout, and reports whether that has all fixed columns and ends.
func (r *zoneBody) set(format byte, body []byte, l *Layout) bool {
	r.body, r.width = body, int(format)
	known := format == formatNarrow || format == formatMiddle || format == formatWide
	return known && len(body) >= l.base+max(l.Vars-1, 0)*r.width
}
