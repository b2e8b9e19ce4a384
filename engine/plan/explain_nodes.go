package plan

import (
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
)

func (n *OneRow) describe(e *Explanation) { e.Operator = "one row" }

func (n *Derived) describe(e *Explanation) { e.Operator = "subquery" }

func (n *Union) describe(e *Explanation) {
	if e.Operator = "union by row key"; n.All {
		e.Operator = "concatenation"
	}
}

func (n *Intersect) describe(e *Explanation) { e.Operator = "intersection by row key" }

func (n *Fetch) describe(e *Explanation) {
	e.Operator = "fetch " + n.Source.Name
	if n.Filter != nil {
		e.attr("filter", n.Filter.String())
	}
}

func (n *Filter) describe(e *Explanation) {
	e.Operator = "filter"
	e.attr("condition", n.Pred.String())
}

func (n *Project) describe(e *Explanation) {
	e.Operator = "project"
	e.attr("columns", exprList(n.Exprs))
}

func (n *Sort) describe(e *Explanation) {
	if e.Operator = "sort"; n.Limit >= 0 {
		e.Operator = "top " + strconv.FormatInt(n.Limit, 10)
	}
	e.attr("by", sortKeys(n.Keys))
}

func (n *Limit) describe(e *Explanation) {
	e.Operator = "limit"
	e.attrIf(n.Count >= 0, "count", strconv.FormatInt(n.Count, 10))
	e.attrIf(n.Offset > 0, "offset", strconv.FormatInt(n.Offset, 10))
}

func (n *Group) describe(e *Explanation) {
	e.Operator = "group " + n.Mode.String()
	e.attrIf(len(n.Keys) > 0, "by", exprList(n.Keys))
	e.attrIf(len(n.Aggregates) > 0, "aggregates", aggregateList(n.Aggregates))
}

func (n *Distinct) describe(e *Explanation) { e.Operator = "distinct " + n.Mode.String() }

func (n *JoinNode) describe(e *Explanation) {
	e.Operator = n.Method.String() + " join"
	if n.Kind != Inner {
		e.Operator = n.Kind.String() + " " + e.Operator
	}
	terms := make([]string, len(n.LeftKeys))
	for i := range n.LeftKeys {
		terms[i] = n.LeftKeys[i].String() + " = " + n.RightKeys[i].String()
	}
	e.attrIf(len(terms) > 0, "keys", strings.Join(terms, " AND "))
	if n.On != nil {
		e.attr("on", n.On.String())
	}
	e.attrIf(n.NullAware, "null aware", "")
	e.attrIf(n.Partitioned, "per bucket", "")
}

func exprList(list []expr.Expr) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return strings.Join(texts, ", ")
}

func sortKeys(keys []SortKey) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.Expr.String() + direction(k.Desc, k.NullsLast)
	}
	return strings.Join(texts, ", ")
}

func direction(desc, nullsLast bool) string {
	s := ""
	if desc {
		s = " DESC"
	}
	if nullsLast {
		s += " NULLS LAST"
	}
	return s
}

func aggregateList(list []Aggregate) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
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
