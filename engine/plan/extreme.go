package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// maxExtremes bounds the accesses that MIN and MAX are replaced by.
const maxExtremes = 4

// shortcuts returns the candidate that reads the first and last entries only, for a query
// of nothing but MIN and MAX of columns of one table.
func (q *query) shortcuts() []candidate {
	if len(q.groups) > 0 || len(q.aggregates) == 0 || len(q.aggregates) > maxExtremes ||
		len(q.rels) != 1 || q.rels[0].table == nil || q.sel.Hints.NoIndex ||
		len(q.late) > 0 {
		return nil
	}
	var inputs []Node
	for _, a := range q.aggregates {
		c, ok := a.Arg.(expr.Column)
		if !ok || a.Func != Min && a.Func != Max {
			return nil
		}
		n := q.extreme(c, a.Func == Max)
		if n == nil || len(inputs) > 0 && !slices.Equal(n.Layout(), inputs[0].Layout()) {
			return nil
		}
		inputs = append(inputs, n)
	}
	if len(inputs) == 1 {
		return []candidate{{node: inputs[0], set: 1}}
	}
	u := &Union{Inputs: inputs, All: true}
	u.Elements = inputs[0].Layout()
	for _, n := range inputs {
		u.Expected.Rows += n.Estimate().Rows
		u.Expected.Cost += n.Estimate().Cost
	}
	return []candidate{{node: u, set: 1}}
}

// extreme returns the cheapest access to the row with the smallest or largest value of a
// column, NULLs aside; nil if no index is in order.
func (q *query) extreme(c expr.Column, largest bool) (best Node) {
	r := *q.rels[0]
	wanted := q.orderColumn(c, largest, false)
	if wanted.Nullable {
		r.pred = append(slices.Clone(r.pred), expr.IsNull{X: c, Not: true})
		wanted.Nullable = false // there are none any more
	}
	var room [usualIndexes]*schema.Index
	indexes, err := q.usable(room[:0], &r)
	if err != nil {
		return nil
	}
	e := q.estimatorOf(&r)
	wants := []want{{order: []operator.OrderColumn{wanted}}}
	for _, x := range indexes {
		for _, p := range q.variants(nil, q.newPath(&r, x, false), wants, 0) {
			if !p.ordered {
				continue
			}
			p.limit = 1
			if p.price(e, q.costs()); p.fullScan && q.refusesFullScan() {
				continue
			}
			if n := p.access(); best == nil || n.Estimate().Cost < best.Estimate().Cost {
				best = n
			}
		}
	}
	return best
}

// markExtremes marks an access whose rows the query needs only for MIN and MAX of columns with
// zones. Without an order, an access for a MAX reads from the end: columns that rise with the key
// have it there, and the blocks before it are skipped.
func markExtremes(g *Group) {
	a, ok := g.Input.(*Access)
	if !ok || a.Index != nil || a.Skip != nil || a.Point || a.Limit >= 0 || len(g.Keys) > 0 ||
		len(g.Aggregates) == 0 {
		return
	}
	var extremes []operator.Extreme
	for _, agg := range g.Aggregates {
		slot, ok := agg.Arg.(expr.Slot)
		if !ok || agg.Func != Min && agg.Func != Max {
			return
		}
		o := a.Layout()[slot.I].Ordinal
		if o < 0 || !a.Table.HasZone(o) {
			return
		}
		extremes = append(extremes, operator.Extreme{Ordinal: o, Max: agg.Func == Max})
	}
	a.Extremes = extremes
	several := slices.ContainsFunc(a.Streams, func(s Stream) bool { return len(s.Ranges) > 1 })
	if !a.Ordered && !a.Merge && !several {
		a.Reverse = extremes[0].Max
	}
}
