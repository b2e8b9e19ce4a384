package schema

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

var (
	// ErrType is matched by errors about values of a type that a column does not take.
	ErrType = errors.New("schema: wrong type")
	// ErrRange is matched by errors about values that a column cannot hold exactly.
	ErrRange = errors.New("schema: out of range")
	// ErrNull is matched by errors about NULL for a column that is not nullable.
	ErrNull = errors.New("schema: NULL in a column that is not nullable")
)

func (c *Column) wrongType(v expr.Value) error {
	return fmt.Errorf("%w: %s for column %q of type %s", ErrType, v, c.Name, c.typeName())
}

func (c *Column) outOfRange(v expr.Value) error {
	what := v.String()
	if v.Kind() == expr.KindFloat && c.Type == keycodec.TypeFixed {
		what += ", a float, exactly: CAST rounds it, a text or a decimal is exact"
	}
	return fmt.Errorf("%w: column %q of type %s cannot hold %s",
		ErrRange, c.Name, c.typeName(), what)
}

func (c *Column) noNull() error { return fmt.Errorf("%w: column %q", ErrNull, c.Name) }

func damaged(what string, offset int, want, got any) error {
	return corrupt.New("", int64(offset), what, want, got)
}

// EntryError reports that a row cannot have an entry in an index: the condition of the index
// cannot be evaluated for it, or the key of the entry would be too long. So the row cannot
// be written while the index exists. It wraps the cause.
type EntryError struct {
	Table, Index string
	Err          error
}

// Error implements error.
func (e *EntryError) Error() string {
	return fmt.Sprintf("schema: a row of table %q cannot be in index %q, which would have to be "+
		"dropped for it: %v", e.Table, e.Index, e.Err)
}

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }
