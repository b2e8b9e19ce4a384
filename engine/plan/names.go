package plan

import (
	"github.com/kstonedb/kstone/engine/plan/internal/advise"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/explain"
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
)

// The rooms below this package are internal. What users name of them has its name here.

// A query: what is wanted.
type (
	// Select is a logical query. It is read by [Prepare] and not changed.
	Select = logical.Select
	// Source is a table of FROM, or queries.
	Source = logical.Source
	// Join joins one more source.
	Join = logical.Join
	// Output is one column of the result.
	Output = logical.Output
	// Order is one term of ORDER BY.
	Order = operator.Order
	// Hints restrict the choice of plans. They never change the result.
	Hints = logical.Hints
)

// Unresolved is the Source of a column that Prepare shall find by its name.
const Unresolved = logical.Unresolved

// Outer is the Source, inside a subquery, of a column of source of the query around it.
func Outer(source int) int { return logical.Outer(source) }

// OuterAt is Outer for the query around that is so many steps out.
func OuterAt(steps, source int) int { return logical.OuterAt(steps, source) }

// Aggregates, in OuterAt, is the source of the aggregates of a query around: the Ordinal of a
// column of it is the Index of an expr.Agg there.
const Aggregates = logical.Aggregates

// OuterOf is the opposite of OuterAt; steps is 0 if a Source is not a column of a query around.
func OuterOf(column int) (steps, source int) { return logical.OuterOf(column) }

// Statistics of tables.
type (
	// Stats gives what is known about a table.
	Stats = stats.Source
	// Counter counts roughly what is in a table now.
	Counter = estimate.Counter
	// TableStats are the statistics of a table.
	TableStats = stats.Table
	// KeyStats are the statistics of an index, or of the key of the rows.
	KeyStats = stats.Key
	// Heavy is a frequent value of a first column.
	Heavy = stats.Heavy
	// Sketch counts different values in little memory: HyperLogLog (Flajolet, Fusy, Gandouet,
	// Meunier, 2007) with linear counting for small numbers.
	Sketch = stats.Sketch
	// Collector makes the statistics of one key from its entries, in any order, in bounded
	// memory.
	Collector = stats.Collector
)

// NewCollector returns a collector for a key of so many columns; index is the
// schema.Index.ID, or 0 for the key of the rows.
func NewCollector(index uint32, columns int) *Collector {
	return stats.NewCollector(index, columns)
}

// Costs are the constants of the cost model, in nanoseconds.
type Costs = estimate.Costs

// DefaultCosts is what is used without calibration.
var DefaultCosts = estimate.DefaultCosts

// Operators of a plan.
type (
	// Node is a step of a plan. A tree of nodes belongs to one execution.
	Node = operator.Node
	// Divisions say which steps several goroutines may run.
	Divisions = operator.Divisions
	// ColumnRef names one element of a row.
	ColumnRef = operator.ColumnRef
	// Actual counts what an operator did, without the operators below it.
	Actual = operator.Actual
	// Access reads one table, through an index or its rows.
	Access = operator.Access
	// Stream is a sorted sequence of entries or rows.
	Stream = operator.Stream
	// Fetch replaces the row keys that its input returns (RowPK and RowSK are its last two
	// elements) by rows, in the order of the input.
	Fetch = operator.Fetch
	// Union returns the rows of its inputs, which have equal layouts, one input after the other.
	Union = operator.Union
	// Intersect returns the rows of the first input whose keys all other inputs have.
	Intersect = operator.Intersect
	// Derived is a subquery that is joined: its first elements, under the names of the query
	// around.
	Derived = operator.Derived
	// Keep keeps its input for all runs of a subquery.
	Keep = operator.Keep
	// OneRow returns a single row without elements: a query without FROM.
	OneRow = operator.OneRow
	// JoinNode joins two inputs.
	JoinNode = operator.Join
	// Bound ends what an operator does when another way would be cheaper.
	Bound = operator.Bound
	// Fallback returns the rows of one input, or of another one if that takes too long.
	Fallback = operator.Fallback
	// Filter passes the rows for which Pred is true.
	Filter = operator.Filter
	// Group makes one row for each group: first Keys, then Aggregates.
	Group = operator.Group
	// Distinct leaves out rows that are equal in their first Columns elements.
	Distinct = operator.Distinct
	// Sort returns its input in order.
	Sort = operator.Sort
	// Limit skips Offset rows and returns at most Count of the rest; a negative Count is no
	// limit.
	Limit = operator.Limit
	// Project returns one element for each expression.
	Project = operator.Project
	// JoinKind says which rows a join returns.
	JoinKind = operator.JoinKind
	// Aggregate is one aggregate of a query with groups.
	Aggregate = operator.Aggregate
	// AggregateFunc is a function over the rows of a group.
	AggregateFunc = operator.AggregateFunc
)

// The kinds and the methods of joins.
const (
	Inner = operator.Inner
	Left  = operator.Left
	Full  = operator.Full
	Semi  = operator.Semi
	Anti  = operator.Anti

	JoinLookup = operator.JoinLookup
	JoinMerge  = operator.JoinMerge
	JoinHash   = operator.JoinHash
	JoinLoop   = operator.JoinLoop
)

// The aggregate functions, and how groups and duplicates are found.
const (
	Count = operator.Count
	Sum   = operator.Sum
	Min   = operator.Min
	Max   = operator.Max
	Avg   = operator.Avg
	// Concat appends texts to each other, in their order or that of the rows.
	Concat = operator.Concat
	Any    = operator.Any

	GroupHash = operator.GroupHash

	DistinctStreaming = operator.DistinctStreaming
)

// The text of EXPLAIN.
type (
	// Explanation is a plan for people and programs: a tree of steps.
	Explanation = explain.Explanation
	// Attribute is one property of a step.
	Attribute = explain.Attribute
)

// Advice is one recommendation of Advise.
type Advice = advise.Advice
