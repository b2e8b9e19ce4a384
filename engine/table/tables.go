package table

import (
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// withTables returns a query with its tables replaced by the given ones, which stand in
// the order of Select.Tables. The query itself if it has these.
func withTables(sel *plan.Select, states []*tableState) *plan.Select {
	same, i := true, 0
	sel.Tables(func(t *schema.Table) {
		same = same && t == states[i].Schema
		i++
	})
	if same {
		return sel
	}
	byID := map[uint32]*schema.Table{}
	for _, s := range states {
		byID[s.Schema.ID] = s.Schema
	}
	return swapTables(sel, byID)
}

func swapTables(sel *plan.Select, byID map[uint32]*schema.Table) *plan.Select {
	return sel.WithTables(func(t *schema.Table) *schema.Table { return byID[t.ID] })
}
