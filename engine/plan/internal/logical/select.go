// Package logical has queries as they are asked: a [Select], where its expressions stand, its key
// in a cache, and the changes that are made to it before names are resolved. It knows no plans.
package logical

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// Select is a logical query: what is wanted, not how. Prepare reads it and does not
// change it. Columns of expressions are expr.Column: Source is a position in From. A
// column that is not resolved yet has Source [Unresolved] and a Name, "column" or
// "alias.column"; Prepare looks it up, first among the sources of its own query, then
// among those of the query around it. A resolved column of the query around a subquery
// has the Source that [Outer] gives.
//
// UPDATE and DELETE by predicate are a Select with RowKeys.
type Select struct {
	From []Source
	// Joins has one element less than From: Joins[i] joins From[i+1] to what is
	// before it.
	Joins []Join
	// Where is the condition on rows; nil accepts all.
	Where expr.Expr

	// GroupBy and Aggregates make groups; with Aggregates alone there is exactly one.
	// Expressions of Having, Columns and OrderBy refer to Aggregates[i] with
	// expr.Agg{Index: i} and may otherwise use the expressions of GroupBy only.
	GroupBy    []expr.Expr
	Aggregates []operator.Aggregate
	Having     expr.Expr

	// Columns is what is returned; nil is every column of every source that is not
	// dropped (with groups: GroupBy, then Aggregates).
	Columns  []Output
	Distinct bool
	OrderBy  []operator.Order
	// Limit and Offset are constants or parameters; nil means no bound. A NULL Limit is no
	// limit. Negative values are an error of Bind.
	Limit, Offset expr.Expr

	// After resumes after the row that a cursor of the same query was made for:
	// see Plan.Cursor. Nil starts at the beginning.
	After []byte
	// Page makes rows carry what Plan.Cursor needs. After implies it.
	Page bool
	// RowKeys appends two columns of bytes to every row: the row's partition key and
	// sort key in the engine (NULL without one). Only for queries of one source
	// without groups and without Distinct.
	RowKeys bool

	Hints Hints

	// Position returns where an expression of this query, or for nil the query, stands in its
	// text, counted from 1, or 0: for errors. Nil knows nothing.
	Position func(expr.Expr) int
}

// MaxSources bounds the tables of one query, with its subqueries that become joins:
// sets of them are the bits of a uint64.
const MaxSources = 64

// Unresolved is the Source of a column that Prepare shall find by its name.
const Unresolved = -1

// Aggregates, in OuterAt, is the source of the aggregates of a query around: the Ordinal of a
// column of it is the Index of an expr.Agg there.
const Aggregates = MaxSources

// outerStride is how many sources a query has for OuterAt.
const outerStride = MaxSources + 1

// Outer is the Source, inside a subquery, of a column of source of the query around
// it.
func Outer(source int) int { return OuterAt(1, source) }

// OuterAt is Outer for the query around that is so many steps out: 1 is the next one. Queries of
// FROM are no step: what is around them is what is around the query that they belong to.
func OuterAt(steps, source int) int { return -2 - source - (steps-1)*outerStride }

// OuterOf is the opposite of OuterAt; steps is 0 if a Source is not a column of a query around.
func OuterOf(column int) (steps, source int) {
	if column > Outer(0) {
		return 0, column
	}
	n := -2 - column
	return n/outerStride + 1, n % outerStride
}

// Correlated reports whether a subquery has columns of a query around.
func (sel *Select) Correlated() bool { return sel.reaches(0) }

// reaches reports whether an expression has columns of a query more than so many steps out.
func (sel *Select) reaches(steps int) (found bool) {
	for _, s := range sel.From {
		for _, inner := range s.Queries {
			found = found || inner.reaches(steps)
		}
	}
	Places(sel, func(e *expr.Expr) {
		expr.Walk(*e, func(x expr.Expr) bool {
			if inner := subqueryOf(x); inner != nil {
				found = found || inner.reaches(steps+1)
			}
			if c, ok := x.(expr.Column); ok {
				out, _ := OuterOf(c.Source)
				found = found || out > steps
			}
			return !found
		})
	})
	return found
}

// Source is a table of FROM, or queries.
type Source struct {
	Table *schema.Table
	// Queries, without a Table, are subqueries of equally many columns: their rows follow each
	// other. They have no columns of the sources beside them.
	Queries []*Select
	Alias   string // name in messages and EXPLAIN; "" is the table's name
}

// Name returns the alias, or else the name of the table.
func (s Source) Name() string {
	if s.Alias == "" && s.Table != nil {
		return s.Table.Name
	}
	return s.Alias
}

// Join joins one more source.
type Join struct {
	Kind operator.JoinKind
	On   expr.Expr // nil: all pairs
}

// Output is one column of the result.
type Output struct {
	Expr expr.Expr
	Name string // "" is the text of Expr
}

// Hints restrict the choice of plans. They never change the result.
type Hints struct {
	// Index names, for a position in From, the index to use; the name "primary" means
	// the rows themselves. It is an error if the index cannot answer the query.
	Index map[int]string
	// NoIndex reads rows only, as if there were no index.
	NoIndex bool
	// RefuseFullScan fails with a *FullScanError where a source would be read
	// completely.
	RefuseFullScan bool
	// ForceOrder keeps joins in the order of From.
	ForceOrder bool
	// ForceJoin, if not empty, names the method of every join that can use it: "lookup",
	// "merge", "hash" or "loop".
	ForceJoin string
}
