package operator

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
)

// AggregateFunc is a function over the rows of a group.
type AggregateFunc uint8

// The aggregate functions. NULLs are left out; Sum, Min, Max, Avg and Concat of nothing are
// NULL, Count is 0.
const (
	Count AggregateFunc = iota // of rows if Arg is nil, else of values
	Sum
	Min
	Max
	Avg
	Concat // of texts, one after the other in the order of the rows
)

// String returns the name of the function, "count" for example.
func (f AggregateFunc) String() string {
	return [...]string{"count", "sum", "min", "max", "avg", "concat", "", ""}[f&7]
}

// Aggregate is one aggregate of a query with groups.
type Aggregate struct {
	Func     AggregateFunc
	Arg      expr.Expr // nil only with Count: COUNT(*)
	Distinct bool      // only different values count
}

// String returns the aggregate in SQL.
func (a Aggregate) String() string {
	arg := "*"
	if a.Arg != nil {
		arg = a.Arg.String()
	}
	if a.Distinct {
		arg = "DISTINCT " + arg
	}
	return strings.ToUpper(a.Func.String()) + "(" + arg + ")"
}
