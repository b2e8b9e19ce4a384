package table

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/schema"
)

// checkConditions refuses the partial indexes of next that old, which may be nil, has not, if
// their conditions take what they cannot: no row could be written any more.
func checkConditions(old, next *schema.Table) error {
	for _, x := range next.Indexes {
		if x.Where == nil || old != nil && old.IndexByID(x.ID) != nil {
			continue
		}
		if err := next.CheckWhere(x.Where); err != nil {
			return fmt.Errorf("%w: the condition of index %q: %w", ErrInvalid, x.Name, err)
		}
	}
	return nil
}
