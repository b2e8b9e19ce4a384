package present

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/overview"
)

// Result is the result of a query over tables.
type Result struct {
	Names []string
	Table string // what INSERT statements name; "" for any
	Rows  iter.Seq2[[]expr.Value, error]
}

// WriteRows writes the rows of a result and returns how many there were. An error of the
// rows is returned after what came before it has been written.
func WriteRows(w io.Writer, r Result, o Options) (n int, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	switch {
	case o.Format == CSV:
		n, err = writeRowCSV(out, r)
	case o.Format == JSON, o.Format == JSONL:
		n, err = writeRowJSON(out, r, o.Format == JSON)
	case o.Format == Insert:
		n, err = writeRowInserts(out, r)
	case o.Format == DynamoDB:
		n, err = writeRowDynamoDB(out, r)
	case o.Format.sheet():
		n, err = writeRowSheet(out, r, o)
	default:
		return 0, fmt.Errorf("rows are written as %s, not as %s",
			strings.Join(FormatNames(RowFormats), ", "), o.Format)
	}
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return n, err
}

// writeRowSheet writes rows as a table, or in another form for people.
func writeRowSheet(w *bufio.Writer, r Result, o Options) (n int, err error) {
	head := r.Names
	if o.Format == TSV {
		head = make([]string, len(r.Names))
		for i, name := range r.Names {
			head[i] = tsvEscapes.Replace(name)
		}
	}
	s := &sheet{w: w, o: o, head: head}
	return s.write(cutRows(r.Rows, func(row []expr.Value) sheetRow {
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = o.cell(v)
		}
		return sheetRow{fixed: line}
	}))
}

// cell returns a value as people read it, or as a cell of TSV.
func (o *Options) cell(v expr.Value) string {
	switch s, text := v.AsString(); {
	case v.IsNull() && o.Format == TSV:
		return `\N` // which no text is, when it is escaped
	case v.IsNull():
		return "NULL"
	case o.Format == TSV:
		return tsvEscapes.Replace(string(plainText(nil, v)))
	case text:
		return o.show([]byte(s))
	}
	return string(plainText(nil, v))
}

// writeRowInserts writes a statement for each row, which inserts it into a table of that name.
func writeRowInserts(w *bufio.Writer, r Result) (n int, err error) {
	names := make([]string, len(r.Names))
	for i, name := range r.Names {
		names[i] = quoteName(name)
	}
	into := r.Table
	if into == "" {
		into = "result"
	}
	head := "INSERT INTO " + quoteName(into) + " (" + strings.Join(names, ", ") + ") VALUES ("
	return writeEach(w, r.Rows, func(dst []byte, _ int, row []expr.Value) []byte {
		dst = append(dst, head...)
		for i, v := range row {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = AppendLiteral(dst, v)
		}
		return append(dst, ");\n"...)
	})
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// AppendLiteral appends a value as a statement has it.
func AppendLiteral(dst []byte, v expr.Value) []byte {
	if v.Kind() != expr.KindList {
		return append(dst, v.String()...)
	}
	dst = append(dst, '[')
	first := true
	for e := range v.Elements() {
		if !first {
			dst = append(dst, ", "...)
		}
		dst, first = AppendLiteral(dst, e), false
	}
	return append(dst, ']')
}

// plainText appends a value without quotes, a list as JSON; NULL as nothing.
func plainText(dst []byte, v expr.Value) []byte {
	if v.Kind() == expr.KindList {
		return appendValueJSON(dst, v)
	}
	return overview.AppendValue(dst, v)
}

// appendValueJSON appends a value as JSON: numbers as numbers, bytes as in items, times in
// RFC 3339, lists as arrays.
func appendValueJSON(dst []byte, v expr.Value) []byte {
	switch v.Kind() {
	case expr.KindNull:
		return append(dst, "null"...)
	case expr.KindBool, expr.KindInt, expr.KindUint, expr.KindDecimal:
		return plainText(dst, v)
	case expr.KindFloat:
		if f, _ := v.AsFloat(); f-f == 0 {
			return plainText(dst, v)
		}
	case expr.KindString:
		s, _ := v.AsString()
		return record.AppendBytes(dst, []byte(s))
	case expr.KindBytes:
		s, _ := v.AsBytes()
		return record.AppendBase64(dst, []byte(s))
	case expr.KindList:
		dst = append(dst, '[')
		first := true
		for e := range v.Elements() {
			if !first {
				dst = append(dst, ',')
			}
			dst, first = appendValueJSON(dst, e), false
		}
		return append(dst, ']')
	}
	return record.AppendString(dst, plainText(nil, v))
}

// writeRowJSON writes an object for each row, the columns in their order.
func writeRowJSON(w *bufio.Writer, r Result, array bool) (n int, err error) {
	names := make([][]byte, len(r.Names))
	for i, name := range r.Names {
		names[i] = append(record.AppendString(nil, []byte(name)), ':')
	}
	object := func(dst []byte, row []expr.Value) []byte {
		return appendObject(dst, names, row)
	}
	if array {
		return writeArray(w, r.Rows, object)
	}
	return writeEach(w, r.Rows, func(dst []byte, _ int, row []expr.Value) []byte {
		return append(object(dst, row), '\n')
	})
}

// appendObject appends a JSON object with a value for each name.
func appendObject(dst []byte, names [][]byte, row []expr.Value) []byte {
	dst = append(dst, '{')
	for i, v := range row {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendValueJSON(append(dst, names[i]...), v)
	}
	return append(dst, '}')
}

// AppendRow appends a row of a table as a JSON object, as JSONL has it, of the given columns.
func AppendRow(dst []byte, t *schema.Table, ordinals []int, row []expr.Value) []byte {
	names, values := make([][]byte, len(ordinals)), make([]expr.Value, len(ordinals))
	for i, o := range ordinals {
		names[i] = append(record.AppendString(nil, []byte(t.Columns[o].Name)), ':')
		values[i] = row[o]
	}
	return appendObject(dst, names, values)
}

// writeRowDynamoDB writes a line of DynamoDB's export format for each row.
func writeRowDynamoDB(w *bufio.Writer, r Result) (n int, err error) {
	var plain []byte
	return writeEach(w, r.Rows, func(dst []byte, _ int, row []expr.Value) []byte {
		dst = append(dst, `{"Item":{`...)
		for i, v := range row {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(record.AppendString(dst, []byte(r.Names[i])), ':')
			plain = appendValueJSON(plain[:0], v)
			dst = record.AppendDynamoDB(dst, plain)
		}
		return append(dst, "}}\n"...)
	})
}

// writeRowCSV writes a line for each row: NULL is nothing, an empty text "", a list JSON; bytes
// and texts are as in plain items. A name that would give a column a type has JSON below it.
func writeRowCSV(w *bufio.Writer, r Result) (n int, err error) {
	var line []byte
	typed := make([]bool, len(r.Names))
	for i, name := range r.Names {
		if i > 0 {
			line = append(line, ',')
		}
		column := record.Column{Name: name}
		if typed[i] = !record.CanBeText(name); typed[i] {
			column.Type = record.JSONColumn
		}
		line = record.AppendCell(line, []byte(column.String()))
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	var cell []byte
	return writeEach(w, r.Rows, func(dst []byte, _ int, row []expr.Value) []byte {
		for i, v := range row {
			if i > 0 {
				dst = append(dst, ',')
			}
			if typed[i] {
				cell = appendValueJSON(cell[:0], v)
				dst = record.AppendCell(dst, cell)
				continue
			}
			dst = appendRowCell(dst, &cell, v)
		}
		return append(dst, '\n')
	})
}

// appendRowCell appends a value as a cell, with cell as scratch.
func appendRowCell(dst []byte, cell *[]byte, v expr.Value) []byte {
	s, text := v.AsString()
	if !text {
		s, text = v.AsBytes()
	}
	switch {
	case v.IsNull():
		return dst
	case text && s == "":
		return append(dst, `""`...)
	case text:
		*cell = append((*cell)[:0], s...)
		return appendPlainCell(dst, *cell)
	}
	*cell = plainText((*cell)[:0], v)
	return record.AppendCell(dst, *cell)
}

// Lines writes the rows of a result of one column, a plan for example, as lines of text. Lines that
// are longer than width, if that is not 0, go on beneath themselves.
func Lines(w io.Writer, r Result, width int) error {
	for row, err := range r.Rows {
		if err != nil {
			return err
		}
		s, _ := row[0].AsString()
		for _, line := range WrapLine(layout.ShowLines([]byte(s)), width) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// minStepCols is the least width of the text of a step: what is left of it by its depth.
const minStepCols = 20

// WrapLine breaks a line, of a plan for example, after so many columns, between its properties
// or at least between words. The lines that follow keep the branches of the tree on their left.
func WrapLine(line string, width int) (lines []string) {
	branches := len(line) - len(strings.TrimLeft(line, " │├└─"))
	head := strings.NewReplacer("├", "│", "└", " ", "─", " ").Replace(line[:branches]) + "     "
	for first := true; ; first = false {
		if width <= 0 || runewidth.StringWidth(line) <= width {
			return append(lines, line)
		}
		from := len(head)
		if first {
			from = branches
		}
		most := max(width, runewidth.StringWidth(line[:from])+minStepCols)
		cut, space := 0, 0
		for i, c := range line {
			if runewidth.StringWidth(line[:i]) > most {
				break
			}
			if i > from && c == ' ' {
				if space = i; strings.HasPrefix(line[i:], " | ") {
					cut = i
				}
			}
		}
		if 2*cut < space { // too little before the last property
			cut = space
		}
		if cut <= from {
			return append(lines, line) // one long word
		}
		lines = append(lines, line[:cut])
		line = head + strings.TrimPrefix(line[cut:], " ")
	}
}
