package table

import (
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// withTables returns the query with its tables replaced by the given ones, which stand in the order
// of Select.Tables. The query itself if it has these.
func (p *Prepared) withTables(states []*tableState) *plan.Select {
	same := true
	for i, s := range states {
		same = same && p.tables[i] == s.Schema
	}
	if same {
		return p.sel
	}
	byID := map[uint32]*schema.Table{}
	for _, s := range states {
		byID[s.Schema.ID] = s.Schema
	}
	return swapTables(p.sel, byID)
}

func swapTables(sel *plan.Select, byID map[uint32]*schema.Table) *plan.Select {
	return sel.WithTables(func(t *schema.Table) *schema.Table { return byID[t.ID] })
}
