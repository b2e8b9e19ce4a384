// Package record reads and writes the records of imports and exports: lines of JSON
// objects, and CSV, plain or compressed.
//
// Both readers give [Row]s: named fields whose values are canonical JSON text. A
// record that is not well formed becomes a [Reject] with its line number, and the
// reader goes on after it. Memory is bounded by the longest record allowed
// ([MaxRecordBytes]), whatever the input holds.
//
// Canonical JSON text has no white space outside strings, escapes in strings only what
// has to be escaped, and keeps numbers and the order of fields as they were written.
// Two rows with equal canonical text say the same thing; reading and writing a
// canonical text changes no byte of it.
package record

import (
	"bytes"
	"fmt"
)

// MaxRecordBytes is the longest record that is read. It leaves room for the largest
// value (64 MiB) in base64 together with its keys.
const MaxRecordBytes = 96 << 20

// Field is one named value of a row.
type Field struct {
	Name []byte
	JSON []byte // canonical JSON text of the value
	Bare bool   // a cell of text that stands without quotes in CSV
}

// Row is one record. Its slices are valid until the row is read into again.
type Row struct {
	Line   int // the line it starts on, counted from 1
	Fields []Field
	// Untyped says that the record comes from a format whose cells are all text, so
	// that an empty string may also mean that there is nothing.
	Untyped bool
	// Typed says that every value has the type that the record gives it: a string is not a number.
	Typed bool

	buf   []byte // names and values, one after the other
	name  []byte // scratch
	spans []int  // end offsets in buf: of the name, of the value, of the next name …
}

// Find returns the value of a field, nil if the row has none of that name.
func (r *Row) Find(name string) []byte {
	for _, f := range r.Fields {
		if string(f.Name) == name {
			return f.JSON
		}
	}
	return nil
}

// reset empties the row and keeps its memory.
func (r *Row) reset() {
	r.Fields, r.buf, r.spans = r.Fields[:0], r.buf[:0], r.spans[:0]
}

// settle cuts the fields out of the buffer, which does not move any more.
func (r *Row) settle() {
	at := 0
	for i := 0; i+1 < len(r.spans); i += 2 {
		name, value := r.buf[at:r.spans[i]], r.buf[r.spans[i]:r.spans[i+1]]
		r.Fields = append(r.Fields, Field{Name: name, JSON: value})
		at = r.spans[i+1]
	}
}

// Reject says why a record was not taken. The reader that returned it goes on with
// the next record.
type Reject struct {
	Line   int // the line the record starts on
	Reason string
}

// Error implements error.
func (r *Reject) Error() string { return fmt.Sprintf("line %d: %s", r.Line, r.Reason) }

func reject(line int, format string, args ...any) *Reject {
	return &Reject{Line: line, Reason: fmt.Sprintf(format, args...)}
}

// Reader yields the records of one input.
type Reader interface {
	// Next reads the next record into row. It returns a *Reject for a record that
	// is not well formed, io.EOF after the last one, and any other error if the
	// input cannot be read further.
	Next(row *Row) error
}

var bom = []byte("\ufeff")

// cutBOM removes the byte order mark that some programs write before UTF-8 text. For
// UTF-16, which nothing here can read, it returns an error that says so.
func cutBOM(first []byte) ([]byte, error) {
	if bytes.HasPrefix(first, []byte{0xff, 0xfe}) || bytes.HasPrefix(first, []byte{0xfe, 0xff}) {
		return nil, fmt.Errorf("the input is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8")
	}
	return bytes.TrimPrefix(first, bom), nil
}
