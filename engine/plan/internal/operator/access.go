package operator

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
)

// SourceTable says which table an operator reads and where it stands in FROM.
type SourceTable struct {
	Source int
	Table  *schema.Table
	Name   string // alias or name of the table
}

// Access reads one table, through an index or its rows.
//
// The layout is the columns that the query needs of this source in ascending order,
// and then, if the query needs the row's key, RowPK and RowSK.
//
// An execution reads the ranges of each stream. For an index, entries are decoded, and
// those for which Filter is not true are left out. Unless Covering, the row of the
// entry is then fetched (in batches, keeping the order). Rows for which Residual is not
// true are left out. What remains counts for Limit.
//
// As the right side of a lookup join an Access has no streams: see [Probe].
type Access struct {
	Step
	SourceTable

	Index *schema.Index // nil: the rows
	// Key is the key of Index, or of the rows.
	Key spans.Key
	// Spans is what the predicate demands of the key columns; for EXPLAIN.
	Spans spans.Set
	// Streams is what to read. No streams: nothing can be found.
	Streams []Stream
	// Reverse reads each range from its end. Streams and Ranges stand in reading
	// order already: the executor only turns the direction inside a range.
	Reverse bool
	// Merge merges the streams by the bytes of their keys from Stream.Prefix on, with
	// Reverse the largest first. Without Merge, and with Ordered, streams are read one
	// after the other as they are listed; without both, in any order, also in parallel.
	Merge   bool
	Ordered bool
	// Order is what the rows are ordered by, for EXPLAIN; nil if in no order.
	Order []OrderColumn

	// Point says that every column of a unique key is fixed: at most one row is found,
	// at the single key that Point.Key gives. Streams then has one stream with one
	// range that holds this key.
	Point bool
	// Covering says that every column of the layout is in the entry.
	Covering bool
	// KeysOnly says that the value of the entry or row is not needed either.
	KeysOnly bool
	// Filter is over the layout, and uses elements only that the entry has. Nil
	// accepts all. Always nil for rows.
	Filter expr.Expr
	// Residual is over the layout. Nil accepts all.
	Residual expr.Expr
	// Zones, if not nil, is what Residual demands of the column zones of blocks: no row for which
	// Residual is true is in a block, or file, for which it is false.
	Zones *spans.Zones
	// Extremes, if not nil, are all that is wanted of the rows: the least or greatest values of
	// columns. Blocks without a value beyond those seen before may be left out.
	Extremes []Extreme
	// Limit ends the reading after that many rows; negative is no limit. With Merge
	// or without any order no stream has to deliver more than Limit rows.
	Limit int64
	// Skip, if not nil, reads only parts of each range.
	Skip *Skip
	// Probe is set on the right side of a lookup join.
	Probe *Probe
	// FullScan says that the whole table or index is read.
	FullScan bool
	// Reads is how many entries and rows are expected to be read, of a Probe for each left row.
	Reads float64
	// Deferred says that streams are not known yet, because a subquery has not run:
	// see [Plan.Resolve].
	Deferred bool
}

// Divisible reports whether several goroutines may read the access, each some stripes of the rows
// or some streams of an index. The order of the result is lost, but for that inside of a stream.
func (a *Access) Divisible() bool {
	if a.Limit >= 0 || a.Skip != nil || a.Probe != nil || a.Deferred || a.Extremes != nil ||
		len(a.Streams) == 0 {
		return false
	}
	first := &a.Streams[0]
	if first.PK == nil {
		return !a.Ordered && !a.Merge && len(a.Streams) == 1 && len(first.Ranges) == 1
	}
	return a.Index != nil && len(a.Streams) > 1
}

// Spread returns the index that says in which buckets the access reads: Index, or a sharded
// primary key. It is nil where rows are spread by their partition keys.
func (n *Access) Spread() *schema.Index {
	if n.Index == nil {
		return n.Table.Primary()
	}
	return n.Index
}

// Stream is a sorted sequence of entries or rows.
type Stream struct {
	// Bucket is the partition of the index, 0 of an index without shards, -1 of rows that are
	// spread by their partition keys.
	Bucket int
	// PK is the engine's partition key. Nil, for rows only: all partitions of the
	// table, and the ranges are of partition keys (engine.Scan's From and To), to be
	// read in their order.
	PK []byte
	// Prefix is the number of leading bytes of each key that are the same in the
	// stream and that a merge leaves out.
	Prefix int
	// Ranges are disjoint, in reading order. They are ranges of sort keys, but for a
	// nil PK. A row of a table without sort key is at PK alone, and Ranges is empty.
	Ranges []spans.Range
}

// OrderColumn is one column of the order that rows come in.
type OrderColumn struct {
	Source, Ordinal int
	Desc            bool
	NullsLast       bool // only if Nullable
	Nullable        bool
}

// Skip makes an Access seek instead of reading on. Inside every range of every stream:
// seek to the first entry (with Access.Reverse: the last); take the encoding p of its
// first Columns key columns; if Ranges is nil, return this one entry for which the
// filters hold, else return the entries between p+Lo and p+Hi of each of Ranges; then go
// on after all entries that begin with p.
//
// Merged streams may each return an entry of the same p.
type Skip struct {
	Columns int
	Ranges  []spans.Range // relative to p; nil: one entry for each p
	Spans   spans.Set     // what Ranges was made from; for EXPLAIN
}

// Extreme is the least or, with Max, the greatest value of a column.
type Extreme struct {
	Ordinal int
	Max     bool
}

// Probe says how a lookup join finds the rows of its right side: the first columns of
// the key (of Access.Index, or of the row: PK, then SK) are equal to Exprs. The
// executor evaluates them for a batch of left rows, encodes them with
// [Access.AppendProbe], sorts, removes duplicates and reads.
type Probe struct {
	// Exprs are over the layout of the join's left side, or constant.
	Exprs []expr.Expr
	// Unique says that at most one row is found for a probe.
	Unique bool
}
