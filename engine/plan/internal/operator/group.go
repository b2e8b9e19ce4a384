package operator

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// AggregateFunc is a function over the rows of a group.
type AggregateFunc uint8

// The aggregate functions. NULLs are left out; Count of nothing is 0, all others are NULL.
const (
	Count AggregateFunc = iota // of rows if Arg is nil, else of values
	Sum
	Min
	Max
	Avg
	Concat // of texts, one after the other in their order, or in that of the rows
	Any    // the first value: of several that are equal, or no matter which
)

// String returns the name of the function, "count" for example.
func (f AggregateFunc) String() string {
	return [...]string{"count", "sum", "min", "max", "avg", "concat", "any_value", ""}[f&7]
}

// Aggregate is one aggregate of a query with groups.
type Aggregate struct {
	Func     AggregateFunc
	Arg      expr.Expr // nil only with Count: COUNT(*)
	Distinct bool      // only different values count
	// Order is that of the texts of Concat; nil is that of the rows.
	Order []Order
	// Collation is that of Arg if Arg alone does not say it.
	Collation keycodec.Collation
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
	for i, k := range a.Order {
		if i == 0 {
			arg += " ORDER BY "
		} else {
			arg += ", "
		}
		if arg += k.Expr.String(); k.Desc {
			arg += " DESC"
		}
	}
	return strings.ToUpper(a.Func.String()) + "(" + arg + ")"
}
