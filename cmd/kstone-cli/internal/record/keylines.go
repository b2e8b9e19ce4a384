package record

import (
	"bytes"
	"io"
)

// keyLines reads one key per line.
type keyLines struct {
	lines  *lines
	field  string
	decode func(line []byte) ([]byte, error)
}

// NewKeyLines returns a reader of plain lines. Each is a key: a record with one
// field of the given name. Decode returns the bytes that a line stands for; what it refuses
// is a *Reject. Line feeds come with or without carriage returns, blank lines are skipped.
func NewKeyLines(r io.Reader, field string, decode func(line []byte) ([]byte, error)) Reader {
	return &keyLines{newLines(r), field, decode}
}

// Next implements Reader.
func (k *keyLines) Next(row *Row) error {
	row.reset()
	for {
		line, err := k.lines.into(row)
		if err != nil {
			return err
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		key, err := k.decode(line)
		if err != nil {
			return reject(row.Line, "%v", err)
		}
		row.buf = append(row.buf, k.field...)
		row.spans = append(row.spans, len(row.buf))
		row.buf = AppendBytes(row.buf, key)
		row.spans = append(row.spans, len(row.buf))
		row.settle()
		return nil
	}
}
