package present

import (
	"bufio"
	"bytes"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
)

// CSV needs its columns before the first row, so the items are read twice: once to
// find the fields and what they hold, once to write.
//
// A column is text if every row has the field and holds a string there; ":number" if
// it is a number or missing everywhere; ":json" otherwise. So an import of the file
// gives the same items. Rows that do not fit (see layout) stand in "$item:json".

type column struct {
	record.Column
	rows              int // rows that have the field
	strings, nonTexts bool
	numbers           bool
}

type columns struct {
	list  []*column
	index map[string]int
	rows  int // rows with fields
	item  bool
}

func (c *columns) add(name []byte, text []byte) {
	i, ok := c.index[string(name)]
	if !ok {
		i = len(c.list)
		c.index[string(name)] = i
		c.list = append(c.list, &column{Column: record.Column{Name: string(name)}})
	}
	col := c.list[i]
	col.rows++
	switch {
	case text[0] == '"':
		// A string that reads like bytes would come back as bytes.
		col.strings = true
		col.nonTexts = col.nonTexts || bytes.Contains(text, []byte(`{\"$b64`))
	case text[0] == '-' || '0' <= text[0] && text[0] <= '9':
		col.numbers = true
	default:
		col.nonTexts = true
	}
}

// fits reports whether the fields come in the order of the columns that exist.
func (c *columns) fits(fields []record.Field) bool {
	last := -1
	for _, f := range fields {
		i, ok := c.index[string(f.Name)]
		if !ok {
			last = len(c.list) // new columns follow each other
			continue
		}
		if i <= last {
			return false
		}
		last = i
	}
	return true
}

// settle decides the types.
func (c *columns) settle() {
	for _, col := range c.list {
		everywhere := col.rows == c.rows
		switch {
		case col.strings && !col.numbers && !col.nonTexts && everywhere &&
			record.CanBeText(col.Name):
			col.Type = record.TextColumn
		case col.numbers && !col.strings && !col.nonTexts:
			col.Type = record.NumberColumn
		default:
			col.Type = record.JSONColumn
		}
	}
}

func writeCSV(w *bufio.Writer, items Items, o Options) (n int, err error) {
	if o.Schema == nil {
		return writePlainCSV(w, items, o.KeysOnly)
	}
	cols := &columns{index: map[string]int{}}
	var row record.Row
	r := layout.Record{KeysOnly: o.KeysOnly}
	var text []byte
	for item, err := range items {
		if err != nil {
			return 0, err
		}
		fields := itemFields(o.Schema, &item, &r, &row, &text)
		if fields == nil || !cols.fits(fields) {
			cols.item = true
			continue
		}
		cols.rows++
		for _, f := range fields {
			cols.add(f.Name, f.JSON)
		}
	}
	cols.settle()
	if err := cols.writeHeader(w); err != nil {
		return 0, err
	}
	return writeEach(w, items, func(dst []byte, _ int, item engine.Item) []byte {
		fields := itemFields(o.Schema, &item, &r, &row, &text)
		if fields == nil || !cols.fits(fields) {
			fields = nil
			text = (*layout.Schema)(nil).AppendJSON(text[:0], &item, &r)
		}
		return cols.appendRow(dst, fields, text)
	})
}

// itemFields returns all fields of an item as JSON; nil if it does not fit the schema.
func itemFields(s *layout.Schema, item *engine.Item, r *layout.Record, row *record.Row,
	text *[]byte) []record.Field {
	*text = s.AppendJSON((*text)[:0], item, r)
	if !r.Typed || record.ParseObject(*text, row) != nil {
		return nil
	}
	return row.Fields
}

func (c *columns) writeHeader(w *bufio.Writer) error {
	var line []byte
	for _, col := range c.list {
		line = append(record.AppendCell(line, []byte(col.String())), ',')
	}
	if c.item || len(line) == 0 {
		line = append(line, "$item:json,"...)
	}
	line[len(line)-1] = '\n'
	_, err := w.Write(line)
	return err
}

// appendRow appends a line with the fields, or with the whole item if there are none.
func (c *columns) appendRow(line []byte, fields []record.Field, item []byte) []byte {
	next := 0
	for _, col := range c.list {
		if next < len(fields) && string(fields[next].Name) == col.Name {
			line = appendTypedCell(line, col.Type, fields[next].JSON)
			next++
		}
		line = append(line, ',')
	}
	if c.item {
		if fields == nil {
			line = record.AppendCell(line, item)
		}
		line = append(line, ',')
	}
	line[len(line)-1] = '\n'
	return line
}

func appendTypedCell(dst []byte, typ record.ColumnType, text []byte) []byte {
	if typ != record.TextColumn {
		return record.AppendCell(dst, text)
	}
	cell, err := record.Unquote(nil, text)
	if err != nil {
		cell = text
	}
	return record.AppendCell(dst, cell)
}

// writePlainCSV writes items with plain keys. Cells are text, or {"$b64":"…"}.
func writePlainCSV(w *bufio.Writer, items Items, keysOnly bool) (n int, err error) {
	head := "pk,sk,value,expires\n"
	if keysOnly {
		head = "pk,sk,expires\n"
	}
	if _, err := w.WriteString(head); err != nil {
		return 0, err
	}
	return writeEach(w, items, func(dst []byte, _ int, item engine.Item) []byte {
		dst = append(appendPlainCell(dst, item.Key.PK), ',')
		dst = append(appendPlainCell(dst, item.Key.SK), ',')
		if !keysOnly {
			dst = append(appendPlainCell(dst, item.Value), ',')
		}
		if t, ok := item.ExpiresAt(); ok {
			dst = t.UTC().AppendFormat(dst, layout.ExpiryLayout)
		}
		return append(dst, '\n')
	})
}

func appendPlainCell(dst, b []byte) []byte {
	text := record.AppendBytes(nil, b)
	if record.IsBytes(text) {
		return record.AppendCell(dst, text)
	}
	if record.IsBytes(b) { // text that reads like bytes becomes bytes
		return record.AppendCell(dst, record.AppendBase64(nil, b))
	}
	return record.AppendCell(dst, b)
}
