package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// Exit codes. Scripts depend on them.
const (
	exitOK        = 0
	exitError     = 1 // anything that has no code of its own
	ExitUsage     = 2 // wrong arguments
	exitNotFound  = 3 // no such item
	exitCondition = 4 // a condition failed, nothing was written
	exitCorrupt   = 5 // stored bytes are damaged or unknown
	exitLocked    = 6 // another process writes the database

	exitInterrupted = 130 // Ctrl-C, as shells have it: 128 and the number of the signal
)

// Error is an error with what to do, on a line of its own.
type Error struct {
	text, hint string
	of         error // what it matches
}

// Error returns what is wrong.
func (e *Error) Error() string { return e.text }

// Unwrap returns the error that the advice is about.
func (e *Error) Unwrap() error { return e.of }

// WithHint sets what to do.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

var errUsage = errors.New("wrong arguments")

// Usage returns an error in the arguments.
func Usage(format string, args ...any) *Error {
	return &Error{text: fmt.Sprintf(format, args...), of: errUsage}
}

// NotFound returns an error that says what was looked for.
func NotFound(text, hint string) error { return &Error{text, hint, engine.ErrNotFound} }

// Advise adds what to do to an error. Advice on arguments stays what it is.
func Advise(err error, hint string) error {
	var e *Error
	if errors.Is(err, errUsage) && errors.As(err, &e) {
		hint = e.hint
	}
	return &Error{err.Error(), hint, err}
}

// ExitCode returns the code that belongs to err.
func ExitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var statement *sql.Error
	for _, e := range exits {
		if slices.ContainsFunc(e.of, func(of error) bool { return errors.Is(err, of) }) ||
			e.code == ExitUsage && errors.As(err, &statement) {
			return e.code
		}
	}
	return exitError
}

// exits are the codes of errors; the first that matches counts.
var exits = []struct {
	code int
	of   []error
}{
	{exitNotFound, []error{table.ErrNoTable, table.ErrNoIndex}},
	{exitCondition, []error{table.ErrUnique, table.ErrExists, table.ErrConflict}},
	{ExitUsage, []error{sql.ErrArguments, sql.ErrNoResult}},
	{exitInterrupted, []error{context.Canceled}},
	{exitNotFound, []error{engine.ErrNotFound}},
	{exitCondition, []error{engine.ErrConditionFailed}},
	{exitLocked, []error{engine.ErrLocked}},
	{exitCorrupt, []error{engine.ErrCorrupt}},
	{ExitUsage, wrongArguments},
}

var wrongArguments = []error{
	errUsage, layout.ErrUsage, engine.ErrInvalid, engine.ErrInvalidCursor, engine.ErrEmptyPK,
	engine.ErrEmptySK, engine.ErrTooLarge, keycodec.ErrKeyTooLarge,
}

// IsArgumentError reports whether the command, the engine or the layout refused an argument.
func IsArgumentError(err error) bool {
	return slices.ContainsFunc(wrongArguments, func(of error) bool { return errors.Is(err, of) })
}

// message returns the text of an error for people: without the names of packages, and
// with what to do next on a line of its own.
func message(err error) (text, hint string) {
	var e *Error
	var condition *engine.ConditionError
	if errors.As(err, &e) {
		hint = e.hint
	}
	if text = sqlMessage(err); text != "" {
		return text, hint
	}
	text = PlainText(err)
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted", hint
	case e != nil:
		return text, hint
	case errors.As(err, &condition) && condition.Exists:
		return text, "nothing was written; get shows the item that is there, put without" +
			" --if-absent replaces it"
	}
	for _, h := range hints {
		if errors.Is(err, h.of) {
			return text, h.hint
		}
	}
	return text, ""
}

// packages matches the names of packages where an error names them: in front, or after
// what it is wrapped in. Elsewhere they are not names of packages: "094-64.sst: want …".
var packages = regexp.MustCompile(`(^|\n|: |\()(?:(?:engine|keycodec|manifest|stripe|wal|sst|` +
	`vfs|table|schema|ship|sql|plan|exec|expr|zonemap|keyset): )+`)

// PlainText returns the text of an error without the names of packages.
func PlainText(err error) string {
	return packages.ReplaceAllString(err.Error(), "$1")
}

// hints are what to do about errors of the engine, of stores on other machines and of the system.
var hints = []struct {
	of   error
	hint string
}{
	{engine.ErrNotExist, "check the path; put and import create a database where there is none"},
	{engine.ErrNotDatabase, "nothing in it was changed; name the directory of a kstone database, " +
		"or a new one; if it is a damaged one, repair saves what is intact"},
	{engine.ErrLocked,
		"that program has to close it first; commands that only read work meanwhile"},
	{engine.ErrVersion, "it was written by a newer kstone; use a kstone-cli of that version"},
	{engine.ErrCorrupt, "kstone-cli repair DB DEST saves all that is intact into a new database, " +
		"and lists what is lost; a backup is a database of its own"},
	{engine.ErrInvalidCursor,
		"give --after exactly what `next:` printed, with the query it came from unchanged"},
	{engine.ErrEmptyPK, "every item needs a partition key of at least one byte"},
	{engine.ErrEmptySK, "leave the sort key out if there is none"},
	{keycodec.ErrKeyTooLarge, "keys hold at most 64 KiB; store long data in the value"},
	{engine.ErrTooLarge, "write less at a time, or split the data over several sort keys"},
	{engine.ErrDiskFull, "nothing is lost; free some space and run the command again"},
	{fs.ErrPermission, "check the permissions of the directory and its files"},
	{store.ErrUnknown, "it was written as a whole or not at all: look before you repeat it"},
	{store.ErrStale, "the store keeps old versions for a limited time; run the command again"},
}

// sqlMessage returns the text of an error about statements, "" for others.
func sqlMessage(err error) string {
	var e *sql.Error
	if !errors.As(err, &e) {
		return ""
	}
	text := e.Error()
	if e.Line == 1 {
		text = e.Message
	}
	return packages.ReplaceAllString(text, "$1") + "\n" + e.Excerpt()
}

// quiet wraps an error whose text would repeat what has been said.
type quiet struct{ error }

func (quiet) Error() string { return "" }

func (q quiet) Unwrap() error { return q.error }

// Quiet returns an error that matches what err matches, and has no text.
func Quiet(err error) error { return quiet{err} }

// silent is an error that has been reported already; it carries the exit code.
type silent struct{ error }

func (s silent) Unwrap() error { return s.error }

// Silent returns an error for the exit code of one that has been reported.
func Silent(err error) error { return silent{err} }
