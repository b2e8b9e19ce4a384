package present

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-runewidth"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
)

const (
	// chunkRows is how many rows of a long table are laid out at a time, so that
	// memory stays bounded.
	chunkRows = 1000
	// briefRows is how many rows a brief table shows at its start and at its end.
	briefRows = 20
	// minCellCols is how narrow a column may become before the table is allowed to
	// be wider than the terminal.
	minCellCols = 8
	// maxCellCols is the widest cell where the width of the table is not limited.
	maxCellCols = 200
)

// Columns that do not come from value fields.
const (
	valueColumn   = "value"
	expiresColumn = "expires"
)

// tableRow holds the cells of one item by column name.
type tableRow struct {
	pk, sk string
	names  []string
	cells  map[string]string
}

// tableWriter lays out rows in chunks.
type tableWriter struct {
	w      *bufio.Writer
	o      Options
	record layout.Record
	rows   []tableRow
}

func writeTable(w *bufio.Writer, items Items, o Options) (n int, err error) {
	t := &tableWriter{w: w, o: o}
	limit := chunkRows
	if o.Brief {
		limit = 2 * briefRows
	}
	var tail []tableRow // the last rows of a brief table, as a ring
	for item, err := range items {
		if err != nil {
			t.flush(nil)
			return n, err
		}
		n++
		row := t.cut(&item)
		switch {
		case len(t.rows) < limit:
			t.rows = append(t.rows, row)
		case o.Brief && tail == nil:
			tail = slices.Clone(t.rows[briefRows:])
			fallthrough
		case o.Brief:
			tail[(n-1)%briefRows] = row
		default:
			t.flush(nil)
			t.rows = append(t.rows, row)
		}
	}
	note := ""
	if tail != nil {
		t.rows = t.rows[:briefRows]
		at := n % briefRows
		t.flush(slices.Concat(tail[at:], tail[:at]))
		note = fmt.Sprintf(" (%d shown; --limit N shows the first N, -o jsonl all of them)",
			2*briefRows)
	}
	t.flush(nil)
	_, err = fmt.Fprintf(w, "%s%s\n", Rows(int64(n)), note)
	return n, err
}

// cut takes an item apart into cells.
func (t *tableWriter) cut(item *engine.Item) tableRow {
	s := t.o.Schema
	row := tableRow{pk: s.FormatPK(item.Key.PK), cells: map[string]string{}}
	if item.Key.SK != nil {
		row.sk = s.FormatSK(item.Key.SK)
	}
	s.Split(item, &t.record)
	if t.record.Typed {
		for _, f := range t.record.Fields {
			row.add(layout.Show(f.Name), cellOf(f.JSON))
		}
	} else {
		row.add(valueColumn, showValue(item.Value))
	}
	if at, ok := item.ExpiresAt(); ok {
		row.add(expiresColumn, at.Local().Format("2006-01-02 15:04:05"))
	}
	return row
}

func (r *tableRow) add(name, cell string) {
	r.names = append(r.names, name)
	r.cells[name] = cell
}

func cellOf(json []byte) string {
	if json[0] == '"' {
		if b, err := record.Unquote(nil, json); err == nil {
			return layout.Show(b)
		}
	}
	return string(json)
}

// showValue shows the beginning of a value; what is beyond the widest cell is not
// worth the work.
func showValue(v []byte) string {
	const most = 4 * maxCellCols
	if len(v) <= most {
		return layout.Show(v)
	}
	return layout.Show(v[:most/2]) + "…" + layout.Show(v[len(v)-most/2:])
}

// flush lays out the rows collected so far, and after a gap the rows of tail.
func (t *tableWriter) flush(tail []tableRow) {
	all := slices.Concat(t.rows, tail)
	if len(all) == 0 {
		return
	}
	head, names := t.columns(all)
	cells := make([][]string, 0, len(all)+1)
	for i, row := range all {
		if i == len(t.rows) {
			cells = append(cells, slices.Repeat([]string{"⋮"}, len(head)))
		}
		line := []string{row.pk}
		if len(head) > len(names)+1 {
			line = append(line, row.sk)
		}
		for _, name := range names {
			line = append(line, row.cells[name])
		}
		cells = append(cells, line)
	}
	t.draw(head, cells, len(head)-len(names))
	t.rows = t.rows[:0]
}

// columns returns the headings, and the names of the value columns.
func (t *tableWriter) columns(rows []tableRow) (head, names []string) {
	head = []string{"PK"}
	if fields := t.o.Schema.PKFields(); fields != nil {
		head[0] = strings.Join(fields, " / ")
	}
	hasSK := false
	seen := map[string]bool{}
	for _, row := range rows {
		hasSK = hasSK || row.sk != ""
		for _, name := range row.names {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	if i := slices.Index(names, expiresColumn); i >= 0 {
		names = append(slices.Delete(names, i, i+1), expiresColumn)
	}
	if hasSK {
		sk := "SK"
		if fields := t.o.Schema.SKFields(); fields != nil {
			sk = strings.Join(fields, " / ")
		}
		head = append(head, sk)
	}
	return append(head, names...), names
}

// draw writes one table, whose first columns hold the keys.
func (t *tableWriter) draw(head []string, cells [][]string, keys int) {
	widths := fitColumns(head, cells, t.o.Width)
	out := table.NewWriter()
	out.SetStyle(table.StyleRounded)
	style := out.Style()
	style.Format.Header = text.FormatDefault
	if t.o.Color {
		style.Color.Header = text.Colors{text.Bold}
	}
	row := make(table.Row, len(head))
	for i, cell := range head {
		row[i] = shorten(cell, widths[i])
	}
	out.AppendHeader(row)
	configs := make([]table.ColumnConfig, len(head))
	for i := range head {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft}
		if i >= keys && allNumbers(cells, i) {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	out.SetColumnConfigs(configs)
	for _, line := range cells {
		row := make(table.Row, len(head))
		for i, cell := range line {
			row[i] = shorten(cell, widths[i])
		}
		out.AppendRow(row)
	}
	t.w.WriteString(out.Render())
	t.w.WriteByte('\n')
}

func allNumbers(cells [][]string, col int) bool {
	some := false
	for _, line := range cells {
		c := line[col]
		if c == "" || c == "⋮" || c == "NULL" {
			continue
		}
		if c[0] != '-' && (c[0] < '0' || c[0] > '9') || strings.Trim(c, "0123456789+-.eE") != "" {
			return false
		}
		some = true
	}
	return some
}

// fitColumns returns the widths of the columns: their own, with the widest cut down
// until the table fits.
func fitColumns(head []string, cells [][]string, width int) []int {
	widths := make([]int, len(head))
	for i := range head {
		widths[i] = runewidth.StringWidth(head[i])
		for _, line := range cells {
			widths[i] = max(widths[i], runewidth.StringWidth(line[i]))
		}
		widths[i] = min(widths[i], maxCellCols)
	}
	if width <= 0 {
		return widths
	}
	total := 1 // each column takes two spaces and a line
	for _, w := range widths {
		total += w + 3
	}
	for total > width {
		widest := 0
		for i := range widths {
			if widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= minCellCols {
			break
		}
		widths[widest]--
		total--
	}
	return widths
}

// shorten cuts the middle out of text that is wider than width.
func shorten(s string, width int) string {
	if runewidth.StringWidth(s) <= width {
		return s
	}
	left := (width - 1 + 1) / 2
	head := runewidth.Truncate(s, left, "")
	tail := runewidth.TruncateLeft(s,
		runewidth.StringWidth(s)-(width-1-runewidth.StringWidth(head)), "")
	return head + "…" + tail
}
