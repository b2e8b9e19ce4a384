package plan

import (
	"cmp"
	"math"
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
	// safeFactor is up to how many times the least one is taken after it that may end early.
	safeFactor = 1.5
)

// triedShare is the share of what a plan costs for which another one is tried before it if nothing
// is known, and doubtedShare that for one that is expected to cost up to doubtedCost times as much.
// leastTried is what the plan costs at least, in nanoseconds.
const (
	triedShare   = 0.25
	doubtedShare = 0.5
	doubtedCost  = 1.5
	leastTried   = 80_000
)

// bounded returns a plan that may turn out to be dear, because rows may be rarer than was expected,
// or values more, with the plan that costs least whatever there is. skips says that there are skip
// scans among all.
func (q *query) bounded(best Node, all []Node, skips bool) Node {
	rows := best.Estimate().Rows
	ends := q.limit != nil || q.grouped && len(q.groups) == 0
	if q.limit != nil {
		rows = float64(q.constantCount(q.limit, -1) + q.constantCount(q.offset, 0))
	}
	if q.repeated() || len(all) == 1 || !ends && !skips {
		return best
	}
	safe := slices.MinFunc(all, func(a, b Node) int {
		return cmp.Compare(wholeCost(a), wholeCost(b))
	})
	least := wholeCost(safe)
	for _, n := range all {
		if n.Estimate().Cost < safe.Estimate().Cost && wholeCost(n) <= safeFactor*least {
			safe = n
		}
	}
	risky := func(n Node) bool { return wholeCost(n) >= riskyFactor*least+riskyCost }
	switch {
	case rows <= maxFallback && risky(best):
		return q.fallback(best, safe, least)
	case len(q.rels) == 1:
		return q.tried(best, all)
	case !ends || rows > maxFallback:
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

// tried returns a plan with another one before it that is expected to cost more, but may end far
// earlier: nothing is known of where the rows are that are sought, or it skips to rows that may
// come sooner in their groups.
func (q *query) tried(best Node, all []Node) Node {
	r := q.rels[0]
	cost := best.Estimate().Cost
	if r.table == nil || cost < leastTried {
		return best
	}
	e := q.estimatorOf(r)
	share, most := triedShare, math.Inf(1)
	vague := e.Vague(r.pred)
	switch {
	case !vague && wholeCost(best) > cost, vague && !e.Counts():
		return best
	case !vague:
		share, most = doubtedShare, doubtedCost*cost
	}
	var early Node
	for _, n := range all {
		skips, toRanges := skipping(n)
		if n == best || wholeCost(n) <= n.Estimate().Cost || toRanges || !vague && !skips ||
			!slices.Equal(n.Layout(), best.Layout()) {
			continue
		}
		if c := n.Estimate().Cost; c <= most {
			early, most = n, c
		}
	}
	if early == nil {
		return best
	}
	n := q.fallback(early, best, share*cost).(*fallback)
	n.Expected = best.Estimate()
	n.Expected.Cost += n.Bound.Cost
	return n
}

// skipping reports whether a plan skips over values, and whether it reads ranges of each of them,
// which costs little only if there are few of both.
func skipping(n Node) (skips, toRanges bool) {
	if a, ok := n.(*path); ok && a.skip != nil {
		return true, a.skip.template != nil
	}
	for _, c := range n.Children() {
		s, t := skipping(c)
		skips, toRanges = skips || s, toRanges || t
	}
	return skips, toRanges
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
		if a, ok := n.Input.(*path); ok && a.exact {
			return e.Cost // it is reached, or there are few rows
		}
		return wholeCost(n.Input)
	case *path:
		if n.exact {
			return e.Cost
		}
		return max(e.Cost, n.whole)
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
