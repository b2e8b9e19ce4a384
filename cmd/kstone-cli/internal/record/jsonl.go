package record

import (
	"bytes"
	"io"
)

// lineReader reads a record from each line that is not blank.
type lineReader struct {
	lines *lines
	blank func(line []byte) bool
	parse func(line []byte, row *Row) error
}

func isBlank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// Next implements Reader.
func (r *lineReader) Next(row *Row) error {
	for {
		line, err := r.lines.into(row)
		switch {
		case err != nil:
			return err
		case r.blank(line):
			continue
		}
		if err := r.parse(line, row); err != nil {
			return reject(row.Line, "%v", err)
		}
		return nil
	}
}

// NewJSONL returns a reader of JSON lines: one object per line, UTF-8, line feeds with
// or without carriage returns. Blank lines are skipped. An array of objects is read, too.
func NewJSONL(r io.Reader) Reader {
	lines := newLines(r)
	if beginsArray(lines.r) {
		lines = newLines(&elements{from: lines.r})
	}
	return &lineReader{lines, isBlank, ParseObject}
}

// NewKeyLines returns a reader of plain lines. Each is a key: a record with one
// field of the given name. Decode returns the bytes that a line stands for; what it refuses
// is a *Reject. Line feeds come with or without carriage returns, blank lines are skipped.
func NewKeyLines(r io.Reader, field string, decode func(line []byte) ([]byte, error)) Reader {
	end := []byte("\r")
	empty := func(line []byte) bool { return len(bytes.TrimSuffix(line, end)) == 0 }
	return &lineReader{newLines(r), empty, func(line []byte, row *Row) error {
		row.reset()
		key, err := decode(bytes.TrimSuffix(line, end))
		if err != nil {
			return err
		}
		row.buf = append(row.buf, field...)
		row.spans = append(row.spans, len(row.buf))
		row.buf = AppendBytes(row.buf, key)
		row.spans = append(row.spans, len(row.buf))
		row.settle()
		return nil
	}}
}
