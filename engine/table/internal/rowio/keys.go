package rowio

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// Rows is the range of all rows of a table.
func Rows(t *schema.Table) store.Range { return beginningWith(t.AppendRowPrefix(nil)) }

// Entries is the range of all entries of an index, those in buckets it has not included.
func Entries(x *schema.Index) store.Range {
	const head = 9 // the mark, the ids of the table and of the index
	return beginningWith(x.BucketPK(nil, 0)[:head])
}

func beginningWith(prefix []byte) store.Range {
	end, _ := keycodec.PrefixEnd(nil, prefix)
	return store.Interval(prefix, end)
}

// SetKey puts the values of a primary key, in its order, to their places in a row.
func SetKey(t *schema.Table, row, key []expr.Value) error {
	ordinals := t.KeyOrdinals()
	if len(key) != len(ordinals) {
		return fmt.Errorf("%w: %d values for a primary key of %d columns", store.ErrInvalid,
			len(key), len(ordinals))
	}
	for i, o := range ordinals {
		row[o] = key[i]
	}
	return nil
}
