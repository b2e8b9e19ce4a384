package schema

import (
	"slices"

	"github.com/kstonedb/kstone/keycodec"
)

// SearchKey is the key of rows, or of the entries of an index, as conditions on its columns see it.
// After the columns of an index that is not unique stands the row's key, so that ranges may go on
// there.
type SearchKey struct {
	Fields   []keycodec.Field // at most keycodec.MaxFields
	Ordinals []int            // positions of the columns in Table.Columns
	// Each says which columns hold one element of a list. Nil: none.
	Each []bool
	// Keep is the number of leading columns that decide where a row or entry is stored.
	Keep int
}

// SearchKey returns the key of an index of the table or, if x is nil, of its rows. It must not be
// changed.
func (t *Table) SearchKey(x *Index) *SearchKey {
	if x == nil {
		return &t.built.search
	}
	return &x.built.search
}

func (t *Table) buildSearchKey(x *Index) (k SearchKey) {
	columns := slices.Concat(t.PK, t.SK)
	if k.Keep = len(t.PK); t.Sharded() {
		k.Keep = t.ShardColumns
	}
	if x != nil {
		if k.Keep = 0; x.Sharded() {
			k.Keep = max(1, x.ShardColumns)
		}
		if x.Unique {
			columns = nil
		}
		columns = slices.Concat(x.keyColumns(), columns)
	}
	columns = columns[:min(len(columns), keycodec.MaxFields)]
	k.Fields, k.Ordinals = make([]keycodec.Field, 0, len(columns)), make([]int, 0, len(columns))
	for i, c := range columns {
		k.Fields = append(k.Fields, t.Columns[c.Ordinal].Field(c))
		k.Ordinals = append(k.Ordinals, c.Ordinal)
		if x != nil && i < len(x.Columns) && x.Columns[i].Each {
			k.Each = append(k.Each, make([]bool, len(columns)-len(k.Each))...)
			k.Each[i] = true
		}
	}
	return k
}

func (x *Index) keyColumns() []KeyColumn {
	out := make([]KeyColumn, len(x.Columns))
	for i, c := range x.Columns {
		out[i] = c.KeyColumn
	}
	return out
}
