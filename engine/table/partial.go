package table

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/schema"
)

// checkConditions refuses the partial indexes and checks of next that old, which may be nil, has
// not, if their conditions take what they cannot: no row could be written any more.
func checkConditions(old, next *schema.Table) error {
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
