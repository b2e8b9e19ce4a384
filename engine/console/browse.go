package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/overview"
)

const (
	// pageRows is how many rows or items a page has, and maxPageRows the most that may be asked.
	pageRows    = 50
	maxPageRows = 500
	// maxLooked is how many items a page looks at: filters may accept few.
	maxLooked = 100_000
)

// browsePage is the body of the page with tables and items.
type browsePage struct{ Tables, Operators []string }

func (c *Console) browsePage(*http.Request) (any, error) {
	p := browsePage{Operators: operators}
	for _, t := range c.db.Tables() {
		p.Tables = append(p.Tables, t.Name())
	}
	snap, err := c.e.Snapshot()
	if err != nil {
		return nil, err
	}
	return p, snap.Close()
}

// filter is a condition on a column.
type filter struct {
	Column string `json:"column"`
	Op     string `json:"op"`
	Value  string `json:"value"`
}

// operators are those of filters.
var operators = []string{"=", "<>", "<", "<=", ">", ">=", "LIKE", "ILIKE", "IS NULL", "IS NOT NULL",
	"CONTAINS"}

var comparisons = map[string]expr.Op{"=": expr.Eq, "<>": expr.Ne, "<": expr.Lt, "<=": expr.Le,
	">": expr.Gt, ">=": expr.Ge}

// condition returns the filter as a condition on rows of a table.
func (f *filter) condition(t *schema.Table) (expr.Expr, error) {
	i := slices.IndexFunc(t.Columns, func(c schema.Column) bool {
		return c.Name == f.Column && !c.Dropped
	})
	if i < 0 {
		return nil, fmt.Errorf("%s has no column %s", t.Name, f.Column)
	}
	column, x := &t.Columns[i], t.Ref(0, i)
	switch f.Op {
	case "IS NULL", "IS NOT NULL":
		return expr.IsNull{X: x, Not: f.Op == "IS NOT NULL"}, nil
	case "LIKE", "ILIKE":
		return expr.Like{X: x, Pattern: expr.Const{Value: expr.String(f.Value)},
			Fold: f.Op == "ILIKE"}, nil
	}
	op, compares := comparisons[f.Op]
	if !compares && f.Op != "CONTAINS" {
		return nil, fmt.Errorf("there is no operator %q", f.Op)
	}
	if element := *column; f.Op == "CONTAINS" {
		element.List = false
		column = &element
	}
	v, err := sql.Read(column, f.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Column, err)
	}
	if f.Op == "CONTAINS" {
		return expr.Contains{X: x, Item: expr.Const{Value: v}}, nil
	}
	return expr.Cmp{Op: op, L: x, R: expr.Const{Value: v}}, nil
}

// rowPage is a page of rows.
type rowPage struct {
	Columns []column    `json:"columns"`
	Rows    [][]*string `json:"rows"`
	Next    []byte      `json:"next,omitempty"` // the cursor after them, if there are more
}

// rowQuery is what rows are asked for.
type rowQuery struct {
	Table   string   `json:"table"`
	Filters []filter `json:"filters"`
	After   []byte   `json:"after"`
	Limit   int      `json:"limit"`
}

func pageOf(limit int) int {
	if limit <= 0 {
		return pageRows
	}
	return min(limit, maxPageRows)
}

// rows returns a page of rows of a table.
func (c *Console) rows(ctx context.Context, in *rowQuery) (any, error) {
	limit := pageOf(in.Limit)
	t, err := c.db.Table(in.Table)
	if err != nil {
		return nil, err
	}
	def := t.Schema()
	sel := &plan.Select{From: []plan.Source{{Table: def}}, Page: true, After: in.After,
		Limit: expr.Const{Value: expr.Int(int64(limit) + 1)}}
	var all []expr.Expr
	for i := range in.Filters {
		one, err := in.Filters[i].condition(def)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		sel.Where = expr.And{Terms: all}
	}
	out := &rowPage{Rows: [][]*string{}}
	for i := range def.Columns {
		if col := &def.Columns[i]; !col.Dropped {
			out.Columns = append(out.Columns, column{Name: col.Name, Type: col.TypeText()})
		}
	}
	rows, err := c.db.Query(ctx, sel)
	if err != nil {
		return nil, err
	}
	left := maxResultBytes
	var next []byte
	for row, err := range rows.All() {
		if err != nil {
			return nil, err
		}
		if len(out.Rows) == limit || left <= 0 {
			out.Next = next
			break
		}
		out.Rows = append(out.Rows, cells(out.Columns, row, &left))
		next = append(next[:0], rows.Cursor()...)
	}
	return out, nil
}

// itemQuery is what items are asked for.
type itemQuery struct {
	PK     string `json:"pk"`
	Prefix bool   `json:"prefix"` // PK is the beginning of partition keys
	SK     string `json:"sk"`     // the beginning of sort keys
	Text   string `json:"text"`   // what values contain
	After  string `json:"after"`
	Limit  int    `json:"limit"`
}

// shownItem is an item as people read it.
type shownItem struct {
	PK      string `json:"pk"`
	SK      string `json:"sk"`
	Value   string `json:"value"`
	Bytes   int    `json:"bytes"` // of the value
	Expires string `json:"expires,omitempty"`
	Version uint64 `json:"version"`
}

// itemPage is a page of items.
type itemPage struct {
	Items  []shownItem `json:"items"`
	Looked int         `json:"looked"` // how many items were looked at
	Next   string      `json:"next,omitempty"`
}

// items returns a page of items that were put by their keys.
func (c *Console) items(ctx context.Context, in *itemQuery) (any, error) {
	var pk []byte
	var err error
	if in.PK != "" && !in.Prefix {
		if pk, err = c.o.ReadPK(in.PK); err != nil {
			return nil, err
		}
	}
	var after engine.Cursor
	if in.After != "" {
		if after, err = engine.ParseCursor(in.After); err != nil {
			return nil, err
		}
	}
	scan := engine.Scan{After: after}
	query := engine.Query{PK: pk, After: after}
	items, cursor := c.e.Scan(ctx, scan), scan.CursorAfter
	switch {
	case in.PK != "" && !in.Prefix:
		items, cursor = c.e.Query(ctx, query), query.CursorAfter
	case in.PK != "":
		scan.From = engine.Key{PK: []byte(in.PK)}
		items, cursor = c.e.Scan(ctx, scan), scan.CursorAfter
	}
	owners := overview.OwnersIn(c.db)
	out := &itemPage{Items: []shownItem{}}
	left, limit := maxResultBytes, pageOf(in.Limit)
	var next engine.Cursor
	for item, err := range items {
		switch {
		case err != nil:
			return nil, err
		case in.Prefix && !bytes.HasPrefix(item.Key.PK, []byte(in.PK)):
			return out, nil // in the order of keys, none follows
		case len(out.Items) == limit, out.Looked == maxLooked, left <= 0:
			out.Next = next.String()
			return out, nil
		}
		if out.Looked++; c.wanted(in, item) && !owners.Of(item.Key.PK).Inner() {
			one := c.shown(item)
			left -= len(one.Value)
			out.Items = append(out.Items, one)
		}
		next = cursor(item)
	}
	return out, nil
}

// wanted reports whether an item passes the filters.
func (c *Console) wanted(in *itemQuery, item engine.Item) bool {
	return (in.SK == "" || bytes.HasPrefix(item.Key.SK, []byte(in.SK)) ||
		strings.HasPrefix(c.o.FormatSK(item.Key.SK), in.SK)) &&
		(in.Text == "" || bytes.Contains(item.Value, []byte(in.Text)))
}

func (c *Console) shown(item engine.Item) shownItem {
	one := shownItem{PK: c.o.FormatPK(item.Key.PK), SK: c.o.FormatSK(item.Key.SK),
		Bytes: len(item.Value), Version: item.Version}
	if utf8.Valid(item.Value) {
		one.Value = shorten(string(item.Value), one.Bytes)
	} else {
		shown := item.Value[:min(one.Bytes, maxCellBytes)]
		one.Value = shorten(fmt.Sprintf("x%x", shown), one.Bytes)
	}
	if item.Expiry != 0 {
		one.Expires = time.UnixMilli(item.Expiry).UTC().Format(time.RFC3339)
	}
	return one
}
