package present

import (
	"bufio"
	"iter"
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

func writeItemSheet(w *bufio.Writer, items Items, o Options) (n int, err error) {
	s := &sheet{w: w, o: o, items: true, head: []string{"PK", "SK"}}
	for i, fields := range [][]string{o.Schema.PKFields(), o.Schema.SKFields()} {
		if fields != nil {
			s.head[i] = strings.Join(fields, " / ")
		}
	}
	r := layout.Record{KeysOnly: o.KeysOnly}
	cut := func(item engine.Item) sheetRow { return o.cut(&item, &r) }
	if o.Last != nil {
		s.last = func(n int) iter.Seq2[sheetRow, error] { return cutRows(o.Last(n), cut) }
	}
	return s.write(cutRows(items, cut))
}

// cut takes an item apart into cells.
func (o *Options) cut(item *engine.Item, r *layout.Record) sheetRow {
	row := sheetRow{fixed: []string{o.Schema.FormatPK(item.Key.PK), ""},
		cells: map[string]string{}}
	if item.Key.SK != nil {
		row.fixed[1] = o.Schema.FormatSK(item.Key.SK)
	}
	o.Schema.Split(item, r)
	if r.Typed {
		for _, f := range r.Fields {
			row.add(layout.Show(f.Name), cellOf(f.JSON))
		}
	} else if !o.KeysOnly {
		row.add(valueColumn, o.show(item.Value))
	}
	if at, ok := item.ExpiresAt(); ok {
		row.add(expiresColumn, at.Local().Format("2006-01-02 15:04:05"))
	}
	return row
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
