// Package operator has the operators of a plan as an executor sees them. It knows no queries, and
// not how they were chosen.
package operator

import (
	"time"
	"unsafe"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Node is a step of a plan. A tree of nodes belongs to one execution: the executor
// writes counters into it.
//
// An operator's rows are []expr.Value. Layout says what each element is, and
// expressions of the operator above refer to the elements with expr.Slot. Expressions
// may still hold parameters; their values are Plan.Params.
type Node interface {
	// Children returns the inputs, the left one first. Do not modify them.
	Children() []Node
	// Layout describes the elements of a row. Do not modify it.
	Layout() []ColumnRef
	// Estimate returns what the planner expects.
	Estimate() Estimate
	// Actual returns the counters that the executor fills.
	Actual() *Actual
}

// ColumnRef names one element of a row.
type ColumnRef struct {
	// Source is a position in FROM, or Computed.
	Source int
	// Ordinal is the position in schema.Table.Columns, RowPK or RowSK. It is 0 if the
	// element is computed.
	Ordinal int
	// Name is for messages and EXPLAIN.
	Name string
}

// Computed is the Source of elements that are no columns of a table.
const Computed = -1

// Ordinals of a row's key in the engine, which is not a column: bytes, and NULL for the
// sort key of a table without one.
const (
	RowPK = -1
	RowSK = -2
)

// Estimate is what the planner expects of an operator and all below it. Costs are
// nanoseconds of the calibrated machine: see [Costs].
type Estimate struct {
	Rows float64 // rows returned
	Cost float64 // to return all of them
	// Startup is the part of Cost that is spent before the first row.
	Startup float64
	// Tail is the part of Cost that is spent after the last row.
	Tail float64
	// Lead is the share of Rows that come close together at first, for LeadCost after Startup.
	Lead, LeadCost float64
}

// FirstRows is the cost of the first n of e.Rows rows.
func (e Estimate) FirstRows(n float64) float64 {
	if e.Rows <= 0 || n >= e.Rows {
		return e.Cost
	}
	cost := max(0, e.Cost-e.Startup-e.Tail) * n / e.Rows
	if lead := e.Rows * e.Lead; lead > 0 && n <= lead {
		cost = min(cost, e.LeadCost*n/lead)
	}
	return e.Startup + cost
}

// Actual counts what an operator did, without the operators below it.
type Actual struct {
	Rows  int64 // rows returned
	Loops int64 // times it was started; more than one on the right of joins
	Seeks int64 // positions searched in the store
	// Fetched is the part of Seeks that is rows by their keys, in batches.
	Fetched int64
	Keys    int64         // entries and rows read from the store
	Bytes   int64         // bytes of these
	Time    time.Duration // including operators below
	// Spilled is the bytes written to temporary files.
	Spilled int64
	// Blocks are those of files that were tested by Access.Zones.
	Blocks zone.BlockCounts
	// Turned counts how often it went over to another way: see Bound.
	Turned int64
	// Workers is how many goroutines have shared its reading; 0: none but the caller's.
	Workers int
}

// Add adds the counters of another execution, or of another goroutine.
func (a *Actual) Add(b *Actual) {
	a.Rows, a.Loops, a.Seeks = a.Rows+b.Rows, a.Loops+b.Loops, a.Seeks+b.Seeks
	a.Keys, a.Bytes, a.Time = a.Keys+b.Keys, a.Bytes+b.Bytes, a.Time+b.Time
	a.Fetched, a.Spilled = a.Fetched+b.Fetched, a.Spilled+b.Spilled
	a.Turned += b.Turned
	a.Blocks.Add(b.Blocks)
}

// Fetch counts rows that are read by their keys.
func (a *Actual) Fetch(n int) {
	a.Seeks, a.Fetched = a.Seeks+int64(n), a.Fetched+int64(n)
}

// Step is what all operators have: the elements of their rows, what is expected of them, and
// what was counted.
type Step struct {
	Elements []ColumnRef
	Expected Estimate
	actual   Actual
}

// Layout returns Elements.
func (s *Step) Layout() []ColumnRef { return s.Elements }

// Estimate returns Expected.
func (s *Step) Estimate() Estimate { return s.Expected }

// Actual returns the counters.
func (s *Step) Actual() *Actual { return &s.actual }

// Children returns nothing: most operators have a Children of their own.
func (s *Step) Children() []Node { return nil }

// Unary is a Step with one input.
type Unary struct {
	Step
	Input Node
}

// Children returns the input, in its memory: trees are walked for each execution.
func (n *Unary) Children() []Node { return unsafe.Slice(&n.Input, 1) }

// Order is one term of ORDER BY. In a node, Expr is over the slots of the input.
type Order struct {
	Expr expr.Expr
	Desc bool
	// NullsLast puts NULLs after all values; otherwise they stand before them,
	// whatever Desc says.
	NullsLast bool
}

// OneRow returns a single row without elements: a query without FROM.
type OneRow struct{ Step }

// Union returns the rows of its inputs, which have equal layouts, one input after the
// other. Unless All, a row whose key was returned before is left out; RowPK and RowSK
// are then the last two elements of the layout.
type Union struct {
	Step
	Inputs []Node
	All    bool
}

// Intersect returns the rows of the first input whose keys all other inputs have, and others
// where it has no room for keys: a Fetch above tests them. The
// last two elements of every layout are RowPK and RowSK. The layout is that of the
// first.
type Intersect struct {
	Step
	Inputs []Node
}

// Filter passes the rows for which Pred is true.
type Filter struct {
	Unary
	Pred expr.Expr
}

// Project returns one element for each expression.
type Project struct {
	Unary
	Exprs []expr.Expr
}

// Sort returns its input in order. The sort is stable.
type Sort struct {
	Unary
	Keys []Order
	// Prefix is the number of first Keys that the input is in the order of: rows with equal values
	// of those are sorted by the others, group by group.
	Prefix int
	// Limit, if not negative, is how many rows are wanted: the executor keeps no more.
	Limit int64
}

// Limit skips Offset rows and returns at most Count of the rest; a negative Count is no
// limit.
type Limit struct {
	Unary
	Count  int64
	Offset int64
}

// GroupMode says how groups are made.
type GroupMode uint8

const (
	// GroupHash keeps all groups in memory. They come out in no order.
	GroupHash GroupMode = iota
	// GroupStreaming relies on an input in which the rows of a group are neighbours,
	// and keeps one group. They come out in the order of the input.
	GroupStreaming
	// GroupPerBucket is GroupStreaming for every stream of the Access below by itself,
	// in parallel: no group has rows in two of them. Without keys, it makes
	// partial results, which are combined. They come out in no order.
	GroupPerBucket
)

// String returns "hash", "streaming" or "per bucket".
func (m GroupMode) String() string {
	return [...]string{"hash", "streaming", "per bucket", ""}[m&3]
}

// Group makes one row for each group: first Keys, then Aggregates. Without keys there
// is exactly one group, also of no rows. NULLs are equal to each other.
type Group struct {
	Unary
	Mode       GroupMode
	Keys       []expr.Expr
	Aggregates []Aggregate // Arg is over the slots of the input
}

// DistinctMode says how duplicates are found.
type DistinctMode uint8

const (
	// DistinctHash keeps every row that was returned.
	DistinctHash DistinctMode = iota
	// DistinctStreaming compares with the row before: equal ones are neighbours.
	DistinctStreaming
)

// String returns "hash" or "streaming".
func (m DistinctMode) String() string { return [...]string{"hash", "streaming"}[m&1] }

// Distinct leaves out rows that are equal in their first Columns elements. NULLs are
// equal to each other.
type Distinct struct {
	Unary
	Mode    DistinctMode
	Columns int
	// Collations are those under which the elements are compared; nil: none has one.
	Collations []keycodec.Collation
}

// Fetch replaces the row keys that its input returns (RowPK and RowSK are its last two
// elements) by rows, in the order of the input. The executor reads in batches. Rows
// for which Filter is not true are left out.
type Fetch struct {
	Unary
	Source SourceTable
	Filter expr.Expr // nil accepts all; over the layout of this node
}

// Derived is a subquery that is joined: its first elements, under the names of the query
// around.
type Derived struct {
	Unary
}

// Keep is in a subquery that is run for many rows, where its input is the same in all runs: from
// the second run on its rows are kept in memory, if there is room.
type Keep struct {
	Unary
	// Of is the Keep that this is a bound copy of: copies share what is kept. Nil before binding.
	Of *Keep
}

// Children returns the inputs.
func (n *Union) Children() []Node { return n.Inputs }

// Children returns the inputs.
func (n *Intersect) Children() []Node { return n.Inputs }
