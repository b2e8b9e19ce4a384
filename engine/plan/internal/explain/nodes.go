package explain

import (
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
)

// describe adds an operator's line and attributes.
func (e *Explanation) describe(n operator.Node, d *operator.Divisions) {
	switch n := n.(type) {
	case *operator.OneRow:
		e.Operator = "one row"
	case *operator.Derived:
		e.Operator = "subquery"
	case *operator.Keep:
		e.Operator = "keep for all runs"
	case *operator.Union:
		if e.Operator = "union by row key"; n.All {
			e.Operator = "concatenation"
		}
	case *operator.Intersect:
		e.Operator = "intersection by row key"
	case *operator.Fetch:
		e.Operator = "fetch " + n.Source.Name
		if n.Filter != nil {
			e.attr("filter", n.Filter.String())
		}
	case *operator.Filter:
		e.Operator = "filter"
		e.attr("condition", n.Pred.String())
	case *operator.Project:
		e.Operator = "project"
		e.attr("columns", exprList(n.Exprs))
	case *operator.Sort:
		if e.Operator = "sort"; n.Limit >= 0 {
			e.Operator = "top " + strconv.FormatInt(n.Limit, 10)
		}
		by := sortKeys(n.Keys[n.Prefix:])
		if n.Prefix > 0 {
			by += " within " + sortKeys(n.Keys[:n.Prefix])
		}
		e.attr("by", by)
	case *operator.Limit:
		e.Operator = "limit"
		e.attrIf(n.Count >= 0, "count", strconv.FormatInt(n.Count, 10))
		e.attrIf(n.Offset > 0, "offset", strconv.FormatInt(n.Offset, 10))
	case *operator.Group:
		e.Operator = "group " + n.Mode.String()
		e.attrIf(len(n.Keys) > 0, "by", exprList(n.Keys))
		e.attrIf(len(n.Aggregates) > 0, "aggregates", aggregateList(n.Aggregates))
	case *operator.Distinct:
		e.Operator = "distinct " + n.Mode.String()
	case *operator.Fallback:
		e.Operator = "fallback"
		e.attr("after", "~"+Cost(n.Bound.Cost))
	case *operator.Join:
		e.describeJoin(n)
	case *operator.Access:
		accessText{n}.describe(e, d.Parallel(n))
	}
}

func (e *Explanation) describeJoin(n *operator.Join) {
	e.Operator = n.Method.String() + " join"
	if n.Kind != operator.Inner {
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
	e.attrIf(n.Whole != nil, "hash join after", "~"+Cost(n.Bound.Cost))
}

func exprList(list []expr.Expr) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return strings.Join(texts, ", ")
}

func sortKeys(keys []operator.Order) string {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.Expr.String() + Direction(k.Desc, k.NullsLast)
	}
	return strings.Join(texts, ", ")
}

// Direction returns what follows a column in ORDER BY or a key, "" for ascending.
func Direction(desc, nullsLast bool) string {
	s := ""
	if desc {
		s = " DESC"
	}
	if nullsLast {
		s += " NULLS LAST"
	}
	return s
}

func aggregateList(list []operator.Aggregate) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
