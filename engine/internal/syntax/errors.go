package syntax

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrSyntax is matched by the errors of Parse.
var ErrSyntax = errors.New("sql: syntax error")

// Error is a fault in a statement: a syntax error, or a name or type that does not fit.
type Error struct {
	// Pos is the offset in the text, in bytes; Line and Column count from 1, columns in
	// characters.
	Pos, Line, Column int
	// Message says what is wrong.
	Message string
	// Syntax reports whether Parse found it.
	Syntax bool

	// Err is the error of the planner or the table layer that it places in the text, or nil.
	Err error

	text string
}

// NewError returns an error at an offset of text.
func NewError(text string, pos int, syntax bool, format string, args ...any) *Error {
	pos = max(0, min(pos, len(text)))
	before := text[:pos]
	start := strings.LastIndexByte(before, '\n') + 1
	return &Error{
		Pos: pos, Line: 1 + strings.Count(before, "\n"),
		Column:  1 + utf8.RuneCountInString(before[start:]),
		Message: fmt.Sprintf(format, args...), Syntax: syntax, text: text,
	}
}

// Caught returns the *Error that a step panics with. So parsers fail, and what binds their trees.
func Caught(step func()) (err error) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case *Error:
			err = failure
		default: // a bug, which must be seen
			panic(failure)
		}
	}()
	step()
	return nil
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("sql: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// Is makes errors.Is(err, ErrSyntax) true for syntax errors.
func (e *Error) Is(target error) bool { return e.Syntax && target == ErrSyntax }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxExcerpt bounds what Excerpt shows of a long line, in characters on each side.
const maxExcerpt = 60

// Excerpt returns the line of the statement that is wrong, and a second line with a mark
// under the position.
func (e *Error) Excerpt() string {
	start := strings.LastIndexByte(e.text[:e.Pos], '\n') + 1
	end := len(e.text)
	if n := strings.IndexByte(e.text[e.Pos:], '\n'); n >= 0 {
		end = e.Pos + n
	}
	left := []rune(strings.ReplaceAll(e.text[start:e.Pos], "\t", " "))
	right := []rune(strings.ReplaceAll(e.text[e.Pos:end], "\t", " "))
	if len(left) > maxExcerpt {
		left = append([]rune("…"), left[len(left)-maxExcerpt:]...)
	}
	if len(right) > maxExcerpt {
		right = append(right[:maxExcerpt:maxExcerpt], '…')
	}
	return string(left) + string(right) + "\n" + strings.Repeat(" ", len(left)) + "^"
}
