package typed

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/table"
)

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{table.ErrInvalid}, a...)...)
}
