package plan

import (
	"errors"
	"fmt"
)

// ErrCursor is matched by the error for a cursor that is damaged or belongs to another
// query.
var ErrCursor = errors.New("plan: invalid cursor")

// QueryError says what is wrong with a query.
type QueryError struct {
	// Pos is where, counted from 1, in the text the query was made from; 0 if unknown.
	Pos     int
	Param   int // the parameter whose value it is about, counted from 1, or 0
	Message string
}

// Error returns the message and the position.
func (e *QueryError) Error() string {
	if e.Pos > 0 {
		return fmt.Sprintf("plan: %s (at %d)", e.Message, e.Pos)
	}
	return "plan: " + e.Message
}

func queryError(pos int, format string, args ...any) error {
	return &QueryError{Pos: pos, Message: fmt.Sprintf(format, args...)}
}

// aboutParam is queryError for the value of a parameter, which is counted from 1.
func aboutParam(param int, format string, args ...any) error {
	return &QueryError{Param: param, Message: fmt.Sprintf(format, args...)}
}

// UnsupportedError names what a query asks for and the planner cannot do.
type UnsupportedError struct {
	Pos  int // as in QueryError
	What string
}

// Error says that it is not supported, and where it stands.
func (e *UnsupportedError) Error() string {
	if e.Pos > 0 {
		return fmt.Sprintf("plan: not supported: %s (at %d)", e.What, e.Pos)
	}
	return "plan: not supported: " + e.What
}

// FullScanError is returned where Hints.RefuseFullScan or Options.RefuseFullScan
// forbids to read a whole table.
type FullScanError struct {
	Table string
	// Rows is the estimated number of rows that would be read.
	Rows float64
}

// Error names the table.
func (e *FullScanError) Error() string {
	return fmt.Sprintf("plan: full scan of %s refused: no index narrows it down", e.Table)
}
