package table_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// model is a table as a map, with the unique indexes checked by comparing all rows.
type model struct {
	t    *schema.Table
	rows map[string]modelRow // by their keys
}

// modelRow is a row, and when it expires in Unix milliseconds; 0 is never.
type modelRow struct {
	row   []expr.Value
	until int64
}

func (r modelRow) gone(now int64) bool { return r.until != 0 && r.until <= now }

func (m *model) clone() *model { return &model{m.t, maps.Clone(m.rows)} }

// fold is a value as keys have it.
func fold(c *schema.Column, v expr.Value) string {
	if s, ok := v.AsString(); ok && !c.List {
		return fmt.Sprintf("%q", c.Collation.Fold(s))
	}
	return v.Canonical().String()
}

func (m *model) key(r []expr.Value) string {
	out := ""
	for _, o := range m.t.KeyOrdinals() {
		out += fold(&m.t.Columns[o], r[o]) + "|"
	}
	return out
}

// uniques returns what a row has to have alone: with pending also in indexes being built.
func (m *model) uniques(r []expr.Value, pending bool) (all []string) {
	for _, x := range m.t.Indexes {
		if !x.Unique || x.State == schema.Dropping || x.State == schema.Building && !pending {
			continue
		}
		if x.Where != nil {
			truth, err := expr.Test(x.Where, func(_, o int) expr.Value { return r[o] }, nil)
			if err != nil || truth != expr.True {
				continue
			}
		}
		texts := []string{x.Name}
		for _, k := range x.Columns {
			c, v := &m.t.Columns[k.Ordinal], r[k.Ordinal]
			var next []string
			if k.Each {
				seen := map[string]bool{}
				for e := range v.Elements() {
					if !seen[e.String()] {
						seen[e.String()] = true
						next = append(next, with(texts, e.String())...)
					}
				}
			} else if !v.IsNull() {
				next = with(texts, fold(c, v))
			}
			texts = next
		}
		all = append(all, texts...)
	}
	return all
}

func with(texts []string, more string) (out []string) {
	for _, t := range texts {
		out = append(out, t+"|"+more)
	}
	return out
}

// outcome is what a write makes of the rows; those that it writes come last.
type outcome struct {
	rows  []modelRow
	fresh int
}

// valid reports whether rows may be together in the table: with pending also when the indexes that
// are being built are ready.
func (m *model) valid(o outcome, pending bool) bool {
	seen := map[string]bool{}
	for _, r := range o.rows {
		for _, u := range append(m.uniques(r.row, pending), "primary "+m.key(r.row)) {
			if seen[u] {
				return false
			}
			seen[u] = true
		}
	}
	return true
}

// checked reports whether the rows that are written satisfy the checks.
func (m *model) checked(o outcome) bool {
	return !slices.ContainsFunc(o.rows[len(o.rows)-o.fresh:], func(r modelRow) bool {
		return m.t.CheckRow(r.row) != nil
	})
}

// with returns the rows without those with the given keys, and with others more.
func (m *model) with(without map[string]bool, more ...[]expr.Value) (o outcome) {
	for k, r := range m.rows {
		if !without[k] {
			o.rows = append(o.rows, r)
		}
	}
	for _, row := range more {
		r := modelRow{row: row}
		if at, ok := m.t.Expiry(row); ok {
			r.until = at.UnixMilli()
		}
		o.rows = append(o.rows, r)
	}
	o.fresh = len(more)
	return o
}

// set replaces the rows by those that have not expired.
func (m *model) set(o outcome, now int64) {
	m.rows = map[string]modelRow{}
	for _, r := range o.rows {
		if !r.gone(now) {
			m.rows[m.key(r.row)] = r
		}
	}
}

// expire removes what has expired.
func (m *model) expire(now int64) {
	maps.DeleteFunc(m.rows, func(_ string, r modelRow) bool { return r.gone(now) })
}

// learn takes over a definition. Rows from before a column have its default.
func (m *model) learn(t *schema.Table) {
	for i := len(m.t.Columns); i < len(t.Columns); i++ {
		v := expr.Null()
		if d := t.Columns[i].Default; d != nil {
			v = *d
		}
		for k, r := range m.rows {
			r.row = append(slices.Clone(r.row), v)
			m.rows[k] = r
		}
	}
	m.t = t
}

// text is a row without dropped columns.
func (m *model) text(row []expr.Value) string {
	var live []expr.Value
	for i, v := range row {
		if !m.t.Columns[i].Dropped {
			live = append(live, v)
		}
	}
	return text(live)
}
