package table

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// Errors to test with errors.Is. Each is a case in which a caller acts differently.
var (
	// ErrNotFound: there is no row with the key.
	ErrNotFound = store.ErrNotFound
	// ErrConditionFailed: a condition of an update or delete does not hold. Nothing was
	// written.
	ErrConditionFailed = store.ErrConditionFailed
	// ErrConflict: a transaction lost a race. Nothing was written; run it again.
	ErrConflict = store.ErrConflict
	// ErrChanged: the definition of a table is not the one that rows were made for: see
	// DB.Bound. Nothing was written, except earlier commits of a call that makes several.
	ErrChanged = errors.New("table: the definition of the table has changed")
	// ErrTxAge: a transaction was rolled back because of its age: see Options.MaxTxAge.
	ErrTxAge = store.ErrTxAge
	// ErrUnique: a row with the same key, or the same columns of a unique index, is there.
	// Nothing was written. The error is a *UniqueError.
	ErrUnique = errors.New("table: not unique")
	// ErrNoTable, ErrNoView, ErrNoIndex: there is none of that name. The error is a *NameError.
	ErrNoTable = errors.New("table: no such table")
	ErrNoView  = errors.New("table: no such view")
	ErrNoIndex = errors.New("table: no such index")
	// ErrCheck: a check of the table is false for a row. Nothing was written. The error is a
	// *schema.CheckError.
	ErrCheck = schema.ErrCheck
	// ErrNoCheck: there is none of that name. The error is a *NameError.
	ErrNoCheck = errors.New("table: no such check")
	// ErrExists: there is a table, view or index of that name. The error is a *NameError.
	ErrExists = errors.New("table: exists already")
	// ErrClosed: the DB or its store has been closed.
	ErrClosed = store.ErrClosed
	// ErrTooLarge: a row, or a set of rows to be written as one, is beyond the limits.
	ErrTooLarge = store.ErrTooLarge
	// ErrInvalid: an argument makes no sense.
	ErrInvalid = store.ErrInvalid
)

// UniqueError says which row is in the way of another one. It matches ErrUnique.
type UniqueError struct {
	Table string
	Index string // plan.PrimaryIndex if the primary keys are equal
	// Values are those of the index's columns (of the primary key's) of the row that was
	// not written.
	Values []expr.Value
	// Key is the primary key of the row that is there: the columns of the partition key,
	// then those of the sort key. Texts with a collation are in their folded form.
	Key []expr.Value
}

// Error implements error.
func (e *UniqueError) Error() string {
	if e.Index == plan.PrimaryIndex {
		return fmt.Sprintf("table: %s: there is a row with the key (%s)", e.Table,
			join(e.Values))
	}
	return fmt.Sprintf("table: %s: unique index %s has (%s) for the row (%s)", e.Table, e.Index,
		join(e.Values), join(e.Key))
}

// Is makes errors.Is(err, ErrUnique) true.
func (e *UniqueError) Is(target error) bool { return target == ErrUnique }

func join(values []expr.Value) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = v.String()
	}
	return strings.Join(texts, ", ")
}

// NameError is about a name of the catalogue. It matches ErrNoTable, ErrNoView, ErrNoIndex,
// ErrNoCheck or ErrExists.
type NameError struct {
	Name string // of the table, or "table.index"
	Err  error  // one of these
}

// Error implements error.
func (e *NameError) Error() string { return fmt.Sprintf("%v: %q", e.Err, e.Name) }

// Unwrap returns the sentinel.
func (e *NameError) Unwrap() error { return e.Err }

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
}
