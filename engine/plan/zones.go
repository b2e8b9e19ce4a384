package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/spans"
)

// Zones is a predicate on the column zones of blocks: see Access.Zones.
type Zones = spans.Zones

// zonesOf returns the template of what blocks of rows are tested for, nil if they are not. pred is
// the terms as one. Why not blocks of entries: they are in the order of the columns that
// conditions are on, so that spans select them.
func (p *path) zonesOf(terms []expr.Expr, pred expr.Expr) *spans.ZoneTemplate {
	if p.index != nil || p.point || p.probe != nil || p.skip != nil || len(terms) == 0 {
		return nil
	}
	return spans.CompileZones(p.rel.table, p.rel.source, pred, p.selected(terms))
}

// selected returns the columns that keys are selected by: those that are equal to something, and
// the next one.
func (p *path) selected(terms []expr.Expr) []int {
	n := 1
	for n < len(p.key.Ordinals) && slices.ContainsFunc(terms, func(t expr.Expr) bool {
		c, ok := t.(expr.Cmp)
		if !ok || c.Op != expr.Eq {
			return false
		}
		column, ok := c.L.(expr.Column)
		return ok && column.Ordinal == p.key.Ordinals[n-1]
	}) {
		n++
	}
	return p.key.Ordinals[:n]
}

// boundZones returns the predicate for the parameters, nil if it can leave out nothing.
func (b *binder) boundZones(n *Access, t *spans.ZoneTemplate) *Zones {
	if t == nil || n.Spans.Empty() || n.Residual == nil || n.Point {
		return nil
	}
	z := new(Zones)
	if !z.Bind(t, b.params) {
		return nil
	}
	return z
}
