package plan

import (
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// keyColumns returns the columns that the key of an entry alone gives back. A collated
// column in a key has lost its case, one with an entry for each element is not there as a
// list, and the row's key is in the value of an entry that is unique.
func keyColumns(t *schema.Table, x *schema.Index) (s schema.ColumnSet) {
	if !x.Unique {
		s = rowKeyColumns(t)
	}
	for _, c := range x.Columns {
		if !c.Each && t.Columns[c.Ordinal].Collation == keycodec.CollateBytes {
			s.Add(c.Ordinal)
		}
	}
	return s
}
