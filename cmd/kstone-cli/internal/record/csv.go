package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Format: CSV as in RFC 4180. Fields are separated by commas (or another byte) and may
// stand in double quotes, in which quotes are doubled and line breaks are data. The
// first record names the columns. A column is text, unless its name ends in
//
//	:json      the cell is JSON text; an empty cell means that the row has no such field
//	:number    the same, for numbers only
//
// A text cell that is a {"$b64":"…"} object stands for those bytes.

// ColumnType says how the cells of a column are read and written.
type ColumnType uint8

// The types of columns.
const (
	TextColumn   ColumnType = iota // any text
	JSONColumn                     // JSON text, empty for "no such field"
	NumberColumn                   // a JSON number, empty for "no such field"
)

var columnSuffixes = [...]string{TextColumn: "", JSONColumn: ":json", NumberColumn: ":number"}

// Column is one column of a CSV file.
type Column struct {
	Name string
	Type ColumnType
}

// parseColumn reads a name of the first record.
func parseColumn(header string) Column {
	for typ, suffix := range columnSuffixes {
		if name, ok := strings.CutSuffix(header, suffix); ok && suffix != "" {
			return Column{name, ColumnType(typ)}
		}
	}
	return Column{header, TextColumn}
}

// String returns the name as the first record holds it; parseColumn reads it back if
// the column is typed or CanBeText allows its name.
func (c Column) String() string { return c.Name + columnSuffixes[c.Type] }

// CanBeText reports whether a text column may have this name. A name that ends like a
// type has to have a type after it.
func CanBeText(name string) bool { return parseColumn(name).Type == TextColumn }

// replayBudgetBytes bounds how much is read twice after quotes that are never closed.
const replayBudgetBytes = 4 * MaxRecordBytes

// csvReader reads CSV. A record that runs over several lines and turns out malformed
// is most likely one line with a stray quote; so only its first line is rejected and
// the others are read again as records of their own.
type csvReader struct {
	lines   *lines
	comma   byte
	columns []Column

	replay   [][]byte // lines to read again
	line     int      // the line last returned by nextLine
	replayed int

	rest  [][]byte // copies of the lines of the present record, but the first
	cells []byte   // the unquoted cells of the record, one after the other
	ends  []int
	bare  []bool // which cells stood without quotes
}

// NewCSV returns a reader of CSV whose fields are separated by comma. It fails if the
// first record does not name the columns.
func NewCSV(r io.Reader, comma byte) (Reader, error) {
	switch comma {
	case '"', '\n', '\r', 0:
		return nil, fmt.Errorf("%q cannot separate CSV fields", comma)
	}
	c := &csvReader{lines: newLines(r), comma: comma}
	err := c.record()
	if err == io.EOF {
		return nil, errors.New("the CSV input is empty; its first line must name the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the names of the CSV columns: %w", err)
	}
	seen := map[string]bool{}
	for i := range c.ends {
		col := parseColumn(string(c.cell(i)))
		switch {
		case col.Name == "":
			return nil, fmt.Errorf("column %d of the CSV input has no name", i+1)
		case c.bare[i] && strings.Contains(col.Name, "\r"):
			return nil, errors.New("the lines of the CSV input end in carriage returns alone; " +
				"convert it first: tr '\\r' '\\n'")
		case !utf8.ValidString(col.Name):
			return nil, fmt.Errorf("the name of CSV column %d is not valid UTF-8", i+1)
		case seen[col.Name]:
			return nil, fmt.Errorf("two columns of the CSV input are named %q", col.Name)
		}
		seen[col.Name] = true
		c.columns = append(c.columns, col)
	}
	return c, nil
}

// Next implements Reader.
func (c *csvReader) Next(row *Row) error {
	for {
		row.reset()
		row.Untyped = true
		if err := c.record(); err != nil {
			return err
		}
		row.Line = c.line - len(c.rest)
		if len(c.ends) == 1 && c.ends[0] == 0 && len(c.columns) > 1 {
			continue // a blank line
		}
		if len(c.ends) != len(c.columns) {
			columns := "columns"
			if len(c.ends) == 1 {
				columns = "column"
			}
			return reject(row.Line, "%d %s instead of %d", len(c.ends), columns, len(c.columns))
		}
		return c.fill(row)
	}
}

// fill turns the cells into fields.
func (c *csvReader) fill(row *Row) error {
	for i, col := range c.columns {
		cell := c.cell(i)
		if !utf8.Valid(cell) {
			return reject(row.Line, "column %q is not valid UTF-8", col.Name)
		}
		if col.Type != TextColumn && len(cell) == 0 {
			continue
		}
		row.buf = append(row.buf, col.Name...)
		row.spans = append(row.spans, len(row.buf))
		start := len(row.buf)
		var err error
		row.buf, err = col.append(row.buf, cell)
		if err != nil {
			return reject(row.Line, "column %q: %v", col.Name, err)
		}
		if col.Type == NumberColumn && !isNumber(row.buf[start:]) {
			return reject(row.Line, "column %q: %q is not a number", col.Name, cell)
		}
		row.spans = append(row.spans, len(row.buf))
	}
	row.settle()
	next := 0
	for i, col := range c.columns {
		if col.Type == TextColumn {
			row.Fields[next].Bare = c.bare[i]
		} else if len(c.cell(i)) == 0 {
			continue
		}
		next++
	}
	return nil
}

// append appends a cell as canonical JSON.
func (c Column) append(dst, cell []byte) ([]byte, error) {
	if c.Type == TextColumn && !IsBytes(cell) {
		return AppendString(dst, cell), nil
	}
	return AppendCanonical(dst, cell)
}

func isNumber(text []byte) bool { return text[0] == '-' || '0' <= text[0] && text[0] <= '9' }

func (c *csvReader) cell(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.cells[start:c.ends[i]]
}

func (c *csvReader) nextLine() ([]byte, error) {
	if len(c.replay) > 0 {
		line := c.replay[0]
		c.replay = c.replay[1:]
		c.line++
		return line, nil
	}
	line, err := c.lines.next()
	c.line = c.lines.n
	return line, err
}

// record reads the cells of the next record.
func (c *csvReader) record() error {
	c.cells, c.ends, c.rest, c.bare = c.cells[:0], c.ends[:0], c.rest[:0], c.bare[:0]
	line, err := c.nextLine()
	start := c.line
	switch {
	case errors.Is(err, errTooLong):
		return reject(start, "longer than %d MiB", MaxRecordBytes>>20)
	case err != nil:
		return err
	}
	quoted, total := false, len(line)
	for {
		if quoted, err = c.split(line, quoted); err != nil {
			return c.giveUp(start, err.Error())
		}
		if !quoted {
			return nil
		}
		line, err = c.nextLine()
		switch {
		case errors.Is(err, io.EOF):
			return c.giveUp(start, "a quote is opened and never closed")
		case err != nil && !errors.Is(err, errTooLong):
			return err
		}
		total += len(line)
		c.rest = append(c.rest, bytes.Clone(line))
		if err != nil || total > MaxRecordBytes {
			return c.giveUp(start, fmt.Sprintf("longer than %d MiB", MaxRecordBytes>>20))
		}
	}
}

// giveUp rejects the record that starts on the given line and puts its other lines
// back to be read again.
func (c *csvReader) giveUp(start int, reason string) error {
	size := 0
	for _, line := range c.rest {
		size += len(line)
	}
	if len(c.rest) > 0 && c.replayed+size <= replayBudgetBytes {
		c.replayed += size
		c.replay = append(append([][]byte(nil), c.rest...), c.replay...)
		c.line = start
	}
	return &Reject{Line: start, Reason: reason}
}

var errStrayQuote = errors.New("a quote inside of a cell that does not begin with one")

// split cuts a line into cells. If quoted is true the line continues a quoted cell. It
// returns whether the line ends inside of one.
func (c *csvReader) split(line []byte, quoted bool) (bool, error) {
	if quoted {
		c.cells = append(c.cells, '\n')
	}
	for {
		if !quoted {
			if len(line) == 0 || line[0] != '"' {
				end := bytes.IndexByte(line, c.comma)
				last := end < 0
				if last {
					end = len(bytes.TrimSuffix(line, []byte{'\r'}))
				}
				if bytes.IndexByte(line[:end], '"') >= 0 {
					return false, errStrayQuote
				}
				c.cells = append(c.cells, line[:end]...)
				c.ends, c.bare = append(c.ends, len(c.cells)), append(c.bare, true)
				if last {
					return false, nil
				}
				line = line[end+1:]
				continue
			}
			line = line[1:]
		}
		end := bytes.IndexByte(line, '"')
		if end < 0 {
			c.cells = append(c.cells, line...)
			return true, nil
		}
		c.cells = append(c.cells, line[:end]...)
		line, quoted = line[end+1:], false
		switch {
		case len(line) > 0 && line[0] == '"':
			c.cells = append(c.cells, '"')
			line, quoted = line[1:], true
		case len(line) == 0 || len(line) == 1 && line[0] == '\r':
			c.ends, c.bare = append(c.ends, len(c.cells)), append(c.bare, false)
			return false, nil
		case line[0] == c.comma:
			c.ends, c.bare = append(c.ends, len(c.cells)), append(c.bare, false)
			line = line[1:]
		default:
			return false, errors.New("text after a closing quote")
		}
	}
}

// AppendCell appends one CSV cell, in quotes if it needs them.
func AppendCell(dst, cell []byte) []byte {
	if len(cell) > 0 && !bytes.ContainsAny(cell, ",\"\r\n") && cell[0] != ' ' {
		return append(dst, cell...)
	}
	if len(cell) == 0 {
		return dst
	}
	dst = append(dst, '"')
	for {
		i := bytes.IndexByte(cell, '"')
		if i < 0 {
			break
		}
		dst = append(append(dst, cell[:i]...), '"', '"')
		cell = cell[i+1:]
	}
	return append(append(dst, cell...), '"')
}
