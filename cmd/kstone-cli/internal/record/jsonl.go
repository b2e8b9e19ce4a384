package record

import (
	"bytes"
	"io"
)

// jsonl reads one JSON object per line.
type jsonl struct {
	lines *lines
}

// NewJSONL returns a reader of JSON lines: one object per line, UTF-8, line feeds with
// or without carriage returns. Blank lines are skipped. An array of objects is read, too.
func NewJSONL(r io.Reader) Reader {
	lines := newLines(r)
	if beginsArray(lines.r) {
		lines = newLines(&elements{from: lines.r})
	}
	return &jsonl{lines}
}

// Next implements Reader.
func (j *jsonl) Next(row *Row) error {
	for {
		line, err := j.lines.into(row)
		switch {
		case err != nil:
			return err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		if err := ParseObject(line, row); err != nil {
			return reject(row.Line, "%v", err)
		}
		return nil
	}
}
