package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// fallback is a Fallback whose limit is not known yet.
type fallback struct {
	Fallback
	count, offset expr.Expr
}

// maxFallback bounds the rows that a fallback keeps.
const maxFallback = 1000

// A plan is bounded by another one if it would cost so many times as much, and so much more, should
// its limit not be reached.
const (
	riskyFactor = 2
	riskyCost   = 100_000 // nanoseconds
	doubtFactor = 3       // of what a join was expected to cost
)

// bounded returns a plan that may turn out to be dear, because rows may be rarer than was expected,
// with the plan that costs least whatever there is.
func (q *query) bounded(best Node, all []Node) Node {
	wanted := q.constantCount(q.limit, -1) + q.constantCount(q.offset, 0)
	single := q.grouped && len(q.groups) == 0
	if (q.limit == nil || wanted > maxFallback) && !single || q.repeated() {
		return best
	}
	safe := slices.MinFunc(all, func(a, b Node) int {
		return compareCost(wholeCost(a), wholeCost(b))
	})
	least := wholeCost(safe)
	risky := func(n Node) bool { return wholeCost(n) >= riskyFactor*least+riskyCost }
	if risky(best) {
		return q.fallback(best, safe, least)
	}
	if len(q.rels) == 1 {
		return best
	}
	// How many rows a join has is not known well, so one that reads all of them is left, when it
	// has taken far longer than was expected, for one that may be done after a few.
	var early Node
	for _, n := range all {
		if risky(n) && (early == nil || n.Estimate().Cost < early.Estimate().Cost) {
			early = n
		}
	}
	if early == nil {
		return best
	}
	after := doubtFactor*best.Estimate().Cost + riskyCost // all of it is at most three times best
	return q.fallback(best, q.fallback(early, safe, after), after)
}

// fallback returns a plan that has another one after a cost.
func (q *query) fallback(n, then Node, after float64) Node {
	if !slices.Equal(n.Layout(), then.Layout()) {
		return n
	}
	f := &fallback{Fallback{First: n, Then: then, Bound: q.bound(after)}, q.limit, q.offset}
	f.Elements, f.Expected = n.Layout(), n.Estimate()
	return f
}

// wholeCost is what a plan costs if no limit is reached.
func wholeCost(n Node) float64 {
	e := n.Estimate()
	switch n := n.(type) {
	case *limit:
		if a, ok := n.Input.(*access); ok && a.path.exact {
			return e.Cost // it is reached, or there are few rows
		}
		return wholeCost(n.Input)
	case *access:
		if n.path.exact {
			return e.Cost
		}
		return max(e.Cost, n.path.whole)
	}
	for _, c := range n.Children() {
		e.Cost += wholeCost(c) - c.Estimate().Cost
	}
	return e.Cost
}

func (b *binder) fallback(n *fallback) (Node, error) {
	count, err := countOf(n.count, b.params, "LIMIT", -1)
	if err != nil {
		return nil, err
	}
	offset, err := countOf(n.offset, b.params, "OFFSET", 0)
	if err != nil {
		return nil, err
	}
	first, err := b.bind(n.First)
	all := count < 0 && n.count != nil // LIMIT NULL
	if err != nil || all || count > maxFallback || offset > maxFallback || b.never {
		return first, err
	}
	then, err := b.bind(n.Then)
	return &Fallback{Step: n.Step, First: first, Then: then, Bound: n.Bound}, err
}
