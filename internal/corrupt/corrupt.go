// Package corrupt defines the error that every decoder of a kstone file returns
// when the bytes are not what a writer would have written.
package corrupt

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCorrupt is matched by every *Error through errors.Is.
var ErrCorrupt = errors.New("corrupt")

// ErrVersion is matched, beside ErrCorrupt, by an *Error about a format version
// that this program does not know.
var ErrVersion = errors.New("unknown format version")

// Error says which file is damaged, where, and in what way.
type Error struct {
	File    string // name of the file, or "" where the caller fills it in
	Offset  int64  // byte offset of the damaged structure, -1 if not known
	What    string // the structure: "data block", "footer", "log record"
	Want    string // what was expected
	Got     string // what was found
	Version bool   // the damage is an unknown format version
}

// New returns an *Error. Want and got are formatted with %v.
func New(file string, offset int64, what string, want, got any) *Error {
	return &Error{
		File: file, Offset: offset, What: what,
		Want: fmt.Sprint(want), Got: fmt.Sprint(got),
	}
}

// NewVersion returns the *Error for an unknown format version.
func NewVersion(file, what string, want, got any) *Error {
	e := New(file, 0, what, want, got)
	e.Version = true
	return e
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("corrupt ")
	b.WriteString(e.What)
	if e.Version {
		b.Reset()
		b.WriteString("unknown format version of ")
		b.WriteString(e.What)
	}
	if e.File != "" {
		fmt.Fprintf(&b, " in %s", e.File)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, " at offset %d", e.Offset)
	}
	fmt.Fprintf(&b, ": want %s, got %s", e.Want, e.Got)
	return b.String()
}

// Is makes errors.Is(err, ErrCorrupt) true, and ErrVersion for version errors.
func (e *Error) Is(target error) bool {
	return target == ErrCorrupt || (e.Version && target == ErrVersion)
}
