package table

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// checkNew refuses what next has and old, which may be nil, has not: partial indexes and checks
// whose conditions take what they cannot, so that no row could be written any more, and an index
// with the name of the primary key.
func checkNew(old, next *schema.Table) error {
	if next.Index(plan.PrimaryIndex) != nil && (old == nil || old.Index(plan.PrimaryIndex) == nil) {
		return invalid("an index cannot be named %q, as the primary key is", plan.PrimaryIndex)
	}
	for _, x := range next.Indexes {
		if x.Where == nil || old != nil && old.IndexByID(x.ID) != nil {
			continue
		}
		if err := next.CheckWhere(x.Where); err != nil {
			return fmt.Errorf("%w: the condition of index %q: %w", ErrInvalid, x.Name, err)
		}
	}
	for i := range next.Checks {
		c := &next.Checks[i]
		if old != nil && old.Check(c.Name) != nil {
			continue
		}
		if err := next.CheckWhere(c.Condition); err != nil {
			return fmt.Errorf("%w: the check %q: %w", ErrInvalid, c.Name, err)
		}
	}
	return nil
}
