package engine

import (
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Column zones are the least and greatest values, and whether there are NULLs, of columns that are
// somewhere in the keys and values of items. A layer above that knows where describes the items of
// each block that a flush or merge writes, with DB.Describe. Each block and file keeps the zones of
// its items, and a Query, Scan or Gather with MayHold does not read those that cannot have what it
// looks for.
//
// Files that were written without Describe, or whose items were not described, are read as
// always. So it may be called at any time after Open, and what it describes may change.

// Zone has the column zones of a block or a file, see [zone.Columns].
type Zone = zone.Columns

// ZoneItems are the items of a block, see [zone.Items].
type ZoneItems = zone.Items

// ZoneBuilder takes the description of items, see [zone.ColumnsBuilder].
type ZoneBuilder = zone.ColumnsBuilder

// BlockCounts counts the blocks that a reading has tested: see Query.
type BlockCounts = zone.BlockCounts

// Describe makes flushes and merges from now on collect column zones. f describes the items of a
// block that were put: it calls Rows of b, with the number of a group, and Values or Nulls for each
// column, or Unknown. If an item is in no group, the block is never pruned. Keys are in their
// ordered form. Items are valid during the call and must not be modified. f is called by several
// goroutines, and calls nothing of the database.
func (db *DB) Describe(f func(items *ZoneItems, b *ZoneBuilder)) {
	db.env.Describe.Store(&f)
}

// checkMayHold validates MayHold of an operation with its filter.
func checkMayHold(op string, mayHold func(Zone) bool, filter func(Item) bool) error {
	if mayHold != nil && filter == nil {
		return invalid("%s: MayHold without a Filter", op)
	}
	return nil
}
