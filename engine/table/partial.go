package table

import (
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// checkConditions refuses the partial indexes of next that old, which may be nil, has not, if
// their conditions compare what cannot be compared: no row could be written any more.
func checkConditions(old, next *schema.Table) error {
	for _, x := range next.Indexes {
		if x.Where == nil || old != nil && indexByID(old, x.ID) != nil {
			continue
		}
		sel := &plan.Select{From: []plan.Source{{Table: next}}, Where: x.Where,
			Columns: []plan.Output{{Expr: next.Ref(0, next.PK[0].Ordinal)}}}
		if _, err := plan.Prepare(sel, plan.Options{}); err != nil {
			return invalid("the condition of index %q: %v", x.Name, err)
		}
	}
	return nil
}
