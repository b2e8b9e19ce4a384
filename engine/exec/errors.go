package exec

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
)

// ErrMemory is matched by *MemoryError.
var ErrMemory = errors.New("exec: out of the memory allowed for a query")

// MemoryError says that an execution would keep more rows in memory than allowed.
type MemoryError struct {
	Operator string // what keeps the rows: "sort", "hash join" …
	Limit    int64  // Options.MemoryBytes
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("exec: the %s needs more than the %d bytes allowed; an index in the "+
		"order wanted, a stricter condition or Options.MemoryBytes helps", e.Operator, e.Limit)
}

// Is makes errors.Is(err, ErrMemory) true.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// SpillError says that a temporary file, for what an operator has no memory for, failed. What
// was written is removed. It wraps the cause: a full disk matches engine.ErrDiskFull.
type SpillError struct {
	Operator string // "sort", "hash join" …
	Limit    int64  // Options.MemoryBytes
	What     string // "write FILE", for example
	Err      error
}

// Error implements error.
func (e *SpillError) Error() string {
	return fmt.Sprintf("exec: the %s needs more than the %d bytes of memory allowed, and "+
		"cannot %s: %v; more space on the disk of the database, an index in the order wanted, a "+
		"stricter condition or Options.MemoryBytes helps", e.Operator, e.Limit, e.What, e.Err)
}

// Unwrap returns the cause.
func (e *SpillError) Unwrap() error { return e.Err }

// ErrDangling is matched by the error for an index entry without its row: the index is
// damaged. Verify reports more.
var ErrDangling = errors.New("exec: an index entry has no row")

// ErrManyRows is returned if a scalar subquery has more than one row.
var ErrManyRows = errors.New("exec: a subquery that stands for a value returned more " +
	"than one row; LIMIT 1 takes the first")

// atSubquery gives ErrManyRows the place of the subquery, if it is known.
func atSubquery(pos int, err error) error {
	if err != ErrManyRows || pos == 0 {
		return err
	}
	return &expr.CallError{Pos: pos, Err: err}
}

// errNoProbe means that a plan is not one that package plan makes.
var errNoProbe = errors.New("exec: the right side of a lookup join is not a probe")
