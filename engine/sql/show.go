package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// show returns SHOW and DESCRIBE as a query of constants, which are the definitions as they are
// now.
func (b *binder) show(s *syntax.Show) *syntax.Select {
	if s.What == "TABLES" {
		var rows [][]syntax.Expr
		names := append(b.catalog.Names(), b.catalog.Views()...)
		for _, name := range slices.Sorted(slices.Values(names)) {
			if t := b.catalog.Schema(name); t == nil || !t.Dropping {
				rows = append(rows, []syntax.Expr{textLiteral(name)})
			}
		}
		return constantRows(s.Pos, rows, "table")
	}
	if v := b.catalog.View(s.Table.Text); v != nil {
		return b.showView(s, v)
	}
	d := &describer{table: b.table(s.Table)}
	var out *syntax.Select
	switch s.What {
	case "COLUMNS":
		out = constantRows(s.Pos, d.showColumns(), showColumnsHead...)
	case "INDEX":
		out = constantRows(s.Pos, d.showIndexes(), "index", "unique", "columns", "definition")
	default:
		text, err := Definition(d.table)
		if d.err = err; err == nil {
			out = constantRows(s.Pos, [][]syntax.Expr{{textLiteral(d.table.Name),
				textLiteral(text)}}, "table", "definition")
		}
	}
	if d.err != nil {
		b.refuse(s.Table.Pos, d.err)
	}
	return out
}

// showView returns SHOW and DESCRIBE of a view.
func (b *binder) showView(s *syntax.Show, v *table.View) *syntax.Select {
	switch s.What {
	case "COLUMNS":
		from := b.expand(v, s.Table.Pos, v.Name)
		d := &describer{table: b.virtual[from.Queries[0]]}
		return constantRows(s.Pos, d.showColumns(), showColumnsHead...)
	case "INDEX":
		b.notTable(s.Table)
	}
	text, err := viewDefinition(v)
	if err != nil {
		b.refuse(s.Table.Pos, err)
	}
	return constantRows(s.Pos, [][]syntax.Expr{{textLiteral(v.Name), textLiteral(text)}}, "view",
		"definition")
}

var showColumnsHead = []string{"column", "type", "nullable", "key", "default"}

// showColumns returns a row for each column.
func (d *describer) showColumns() (rows [][]syntax.Expr) {
	t := d.table
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Dropped {
			continue
		}
		is := func(k schema.KeyColumn) bool { return k.Ordinal == i }
		var key, value syntax.Expr = null(), null()
		switch {
		case slices.ContainsFunc(t.PK, is):
			key = textLiteral("partition")
		case slices.ContainsFunc(t.SK, is):
			key = textLiteral("sort")
		}
		if c.Default != nil {
			value = textLiteral(syntax.FormatExpr(d.literal(*c.Default)))
		}
		rows = append(rows, []syntax.Expr{textLiteral(c.Name), textLiteral(TypeText(c)),
			boolLiteral(c.Nullable), key, value})
	}
	return rows
}

// showIndexes returns a row for the primary key and each index.
func (d *describer) showIndexes() [][]syntax.Expr {
	row := func(name string, unique bool, columns []syntax.KeyColumn, text string) []syntax.Expr {
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = c.Name.Text
		}
		return []syntax.Expr{textLiteral(name), boolLiteral(unique),
			textLiteral(strings.Join(names, ", ")), textLiteral(text)}
	}
	made := d.createTable()
	text := syntax.Format(&syntax.CreateTable{Partition: made.Partition, Sort: made.Sort})
	text = text[strings.Index(text, "(")+1 : len(text)-1]
	rows := [][]syntax.Expr{row(plan.PrimaryIndex, true, slices.Concat(made.Partition, made.Sort),
		text)}
	for _, x := range d.table.Indexes {
		if x.State != schema.Dropping {
			tree := d.createIndex(x)
			rows = append(rows, row(x.Name, x.Unique, tree.Columns, syntax.Format(tree)))
		}
	}
	return rows
}

// constantRows returns the query VALUES (…), … with names for its columns; rows may be none.
func constantRows(pos int, rows [][]syntax.Expr, names ...string) *syntax.Select {
	core := func(values []syntax.Expr) *syntax.Select {
		s := &syntax.Select{Pos: pos}
		for i, v := range values {
			s.Outputs = append(s.Outputs, syntax.Output{Pos: pos, Expr: v, Alias: names[i]})
		}
		return s
	}
	switch len(rows) {
	case 0:
		none := make([]syntax.Expr, len(names))
		for i := range none {
			none[i] = textLiteral("")
		}
		s := core(none)
		s.Where = boolLiteral(false)
		return s
	case 1:
		return core(rows[0])
	}
	set := &syntax.SetOperation{Op: "UNION", All: true}
	for _, r := range rows {
		set.Queries = append(set.Queries, core(r))
	}
	return &syntax.Select{Pos: pos, Set: set}
}

func textLiteral(text string) *syntax.Literal {
	return &syntax.Literal{Kind: syntax.LiteralString, Text: text}
}

func null() *syntax.Literal { return &syntax.Literal{Kind: syntax.LiteralNull, Text: "NULL"} }

func boolLiteral(is bool) *syntax.Literal {
	return &syntax.Literal{Kind: syntax.LiteralBool, Text: strings.ToUpper(strconv.FormatBool(is))}
}
