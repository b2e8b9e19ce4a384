package engine

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap"
)

// Column zones are the least and greatest values, and the NULLs, of columns that are somewhere in
// the keys and values of items. A layer above that knows where describes each item that a flush
// or merge writes, with DB.Describe. Each block and file keeps the zones of its items, and a
// Query, Scan or Gather with MayHold does not read those that cannot have what it looks for.
//
// Files that were written without Describe, or whose items were not described, are read as
// always. So it may be called at any time after Open, and what it describes may change.

// Zone has the column zones of a block or a file, see [zonemap.Columns].
type Zone = zonemap.Columns

// ZoneBuilder takes the description of an item, see [zonemap.ColumnsBuilder].
type ZoneBuilder = zonemap.ColumnsBuilder

// BlockCounts counts the blocks that a reading has tested: see Query.
type BlockCounts = zonemap.BlockCounts

// Describe makes flushes and merges from now on collect column zones. f describes an item that
// was put: it calls Row of b, with the number of a group, and Value or Null for each column, or
// Unknown. What it does not describe is never pruned. Key and value are valid during the call and
// must not be modified. f is called by several goroutines, and calls nothing of the database.
func (db *DB) Describe(f func(key Key, value []byte, b *ZoneBuilder)) {
	describe := func(e *base.Entry, b *ZoneBuilder) {
		key, scratch, err := keycodec.DecodeOrdered(e.Key, b.KeyScratch[:0])
		if b.KeyScratch = scratch; err == nil {
			f(key, e.Value, b)
		}
	}
	db.env.Describe.Store(&describe)
}

// checkMayHold validates MayHold of an operation with its filter.
func checkMayHold(op string, mayHold func(Zone) bool, filter func(Item) bool) error {
	if mayHold != nil && filter == nil {
		return invalid("%s: MayHold without a Filter", op)
	}
	return nil
}
