package present

import (
	"bufio"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
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

// itemSheet lays out items: their keys, then the fields of their values.
type itemSheet struct {
	o      Options
	record layout.Record
}

func writeItemSheet(w *bufio.Writer, items Items, o Options) (n int, err error) {
	s := &itemSheet{o: o, record: layout.Record{KeysOnly: o.KeysOnly}}
	return writeSheet(w, items, o, s.cut, s.lay)
}

// cut takes an item apart into cells.
func (t *itemSheet) cut(item engine.Item) tableRow {
	s := t.o.Schema
	row := tableRow{pk: s.FormatPK(item.Key.PK), cells: map[string]string{}}
	if item.Key.SK != nil {
		row.sk = s.FormatSK(item.Key.SK)
	}
	s.Split(&item, &t.record)
	if t.record.Typed {
		for _, f := range t.record.Fields {
			row.add(layout.Show(f.Name), cellOf(f.JSON))
		}
	} else if !t.o.KeysOnly {
		row.add(valueColumn, t.o.show(item.Value))
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

// show shows a value, in a table only its ends: what is beyond the widest cell is not worth
// the work.
func (o *Options) show(v []byte) string {
	const most = 4 * maxCellCols
	if len(v) <= most || o.whole() {
		return layout.Show(v)
	}
	return layout.Show(v[:most/2]) + "…" + layout.Show(v[len(v)-most/2:])
}

// lay chooses the columns of a table from its first rows.
func (t *itemSheet) lay(rows []tableRow) grid[tableRow] {
	head, names := t.columns(rows)
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	return grid[tableRow]{head: head, keys: len(head) - len(names),
		cells: func(row tableRow) (line []string, complete bool) {
			line = []string{row.pk}
			if len(head) > len(names)+1 {
				line = append(line, row.sk)
			}
			for _, name := range names {
				line = append(line, row.cells[name])
			}
			return line, !slices.ContainsFunc(row.names, func(n string) bool { return !known[n] })
		}}
}

// columns returns the headings, and the names of the value columns.
func (t *itemSheet) columns(rows []tableRow) (head, names []string) {
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
