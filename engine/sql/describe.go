package sql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// Definition returns the statements that make an empty table like t: CREATE TABLE over
// several lines, and CREATE INDEX for each index that is not being dropped, each with a
// semicolon and a line break after it. Dropped columns are left out. It fails if there is
// something in the table that the language has no words for; only definitions that were not
// made by statements can have that.
func Definition(t *schema.Table) (string, error) {
	d := describer{table: t}
	f := formatter{wide: true}
	f.statement(d.createTable())
	f.put(";\n")
	for _, x := range t.Indexes {
		if x.State != schema.Dropping {
			f.statement(d.createIndex(x))
			f.put(";\n")
		}
	}
	return f.String(), d.err
}

// describer makes trees of definitions.
type describer struct {
	table *schema.Table
	err   error // the first one
}

func (d *describer) fail(what any) {
	if d.err == nil {
		d.err = fmt.Errorf("sql: table %s: there is no statement for %v", quoteName(d.table.Name),
			what)
	}
}

func (d *describer) createTable() *CreateTable {
	t := d.table
	out := &CreateTable{Table: Name{Text: t.Name}}
	for i := range t.Columns {
		if c := &t.Columns[i]; !c.Dropped {
			out.Columns = append(out.Columns, d.column(c))
		}
	}
	for _, k := range t.PK {
		out.Partition = append(out.Partition, d.keyColumn(k))
	}
	for _, k := range t.SK {
		out.Sort = append(out.Sort, d.keyColumn(k))
	}
	if t.TTL != nil {
		out.TTL = &TTL{Column: d.name(t.TTL.Ordinal)}
		if t.TTL.After != 0 {
			out.TTL.After = t.TTL.After.String()
		}
	}
	return out
}

func (d *describer) name(ordinal int) Name { return Name{Text: d.table.Columns[ordinal].Name} }

func (d *describer) column(c *schema.Column) ColumnDef {
	out := ColumnDef{Name: Name{Text: c.Name}, Nullable: c.Nullable}
	scalar := *c
	scalar.List = false
	name, args, _ := strings.Cut(strings.TrimSuffix(TypeText(&scalar), ")"), "(")
	if out.Type = (TypeName{Name: name, List: c.List}); name == "" {
		d.fail("the type of column " + quoteName(c.Name))
	}
	if args != "" {
		out.Type.Args = strings.Split(args, ", ")
	}
	if c.Default != nil {
		out.Default = d.literal(*c.Default)
	}
	switch c.Collation {
	case keycodec.CollateASCII:
		out.Collation = "nocase"
	case keycodec.CollateUnicode:
		out.Collation = "unicode"
	}
	return out
}

func (d *describer) keyColumn(k schema.KeyColumn) KeyColumn {
	out := KeyColumn{Name: d.name(k.Ordinal), Desc: k.Desc}
	usual := k.Desc && d.table.Columns[k.Ordinal].Nullable
	switch {
	case k.NullsLast == usual:
	case k.NullsLast:
		out.Nulls = NullsLast
	default:
		out.Nulls = NullsFirst
	}
	return out
}

func (d *describer) createIndex(x *schema.Index) *CreateIndex {
	out := &CreateIndex{Index: Name{Text: x.Name}, Table: Name{Text: d.table.Name},
		Unique: x.Unique, Local: x.Placement == schema.Local, Buckets: x.Shard.Count}
	for _, c := range x.Columns {
		k := d.keyColumn(c.KeyColumn)
		k.Each = c.Each
		out.Columns = append(out.Columns, k)
	}
	for _, i := range x.Include {
		out.Include = append(out.Include, d.name(i))
	}
	if x.Shard.Seed != 0 {
		d.fail("the seed of the shard function of index " + quoteName(x.Name))
	}
	if x.Shard.Count > 0 && x.Shard.Function != shard.Mix64 {
		out.Function = x.Shard.Function.String()
	}
	if x.ShardColumns > 1 {
		out.ShardColumns = x.ShardColumns
	}
	if x.Where != nil {
		out.Where = d.expr(x.Where)
	}
	return out
}

// literal returns the expression for a value.
func (d *describer) literal(v expr.Value) Expr {
	text := v.String()
	switch v.Kind() {
	case expr.KindNull:
		return &Literal{Kind: LiteralNull, Text: text}
	case expr.KindBool:
		return &Literal{Kind: LiteralBool, Text: text}
	case expr.KindFloat:
		f, _ := v.AsFloat()
		if strings.HasPrefix(text, "FLOAT") {
			return &Literal{Kind: LiteralFloat, Text: strconv.FormatFloat(f, 'g', -1, 64)}
		}
	case expr.KindDecimal:
		decimal, _ := v.AsDecimal()
		if text = decimal.String(); !strings.Contains(text, ".") || strings.Contains(text, "E") {
			return &Literal{Kind: LiteralDecimal, Text: text}
		}
	case expr.KindBytes:
		return &Literal{Kind: LiteralBlob, Text: text[2 : len(text)-1]}
	case expr.KindTime:
		at, ok := v.AsTime()
		if year := at.Year(); !ok || year < 0 || year > 9999 {
			d.fail("the time " + text)
		}
		return &Literal{Kind: LiteralTime, Text: at.Format(time.RFC3339Nano)}
	case expr.KindString:
		s, _ := v.AsString()
		return &Literal{Kind: LiteralString, Text: s}
	case expr.KindUUID, expr.KindIP, expr.KindIPPrefix: // texts, which have no quotes in them
		return &Literal{Kind: LiteralString, Text: text[1 : len(text)-1]}
	case expr.KindList:
		list := &List{}
		for e := range v.Elements() {
			list.Items = append(list.Items, d.literal(e))
		}
		return list
	}
	return &Literal{Kind: LiteralNumber, Text: text}
}

func (d *describer) exprs(list []expr.Expr) []Expr {
	out := make([]Expr, len(list))
	for i, e := range list {
		out[i] = d.expr(e)
	}
	return out
}

// chain connects terms by an operator.
func (d *describer) chain(terms []expr.Expr, op, none string) Expr {
	if len(terms) == 0 {
		return &Literal{Kind: LiteralBool, Text: none}
	}
	out := d.expr(terms[0])
	for _, t := range terms[1:] {
		out = &Binary{Op: op, L: out, R: d.expr(t)}
	}
	return out
}

// expr returns the tree of a condition of an index.
func (d *describer) expr(e expr.Expr) Expr {
	switch e := e.(type) {
	case expr.Const:
		return d.literal(e.Value)
	case expr.Column:
		return &Ref{Column: d.table.Columns[e.Ordinal].Name}
	case expr.Cmp:
		return &Binary{Op: e.Op.String(), L: d.expr(e.L), R: d.expr(e.R)}
	case expr.And:
		return d.chain(e.Terms, "AND", "TRUE")
	case expr.Or:
		return d.chain(e.Terms, "OR", "FALSE")
	case expr.Not:
		return &Unary{Op: "NOT", X: d.expr(e.X)}
	case expr.Between:
		return &Between{X: d.expr(e.X), Lo: d.expr(e.Lo), Hi: d.expr(e.Hi), Not: e.Not}
	case expr.In:
		return &In{X: d.expr(e.X), List: d.exprs(e.List), Not: e.Not}
	case expr.IsNull:
		return &IsNull{X: d.expr(e.X), Not: e.Not}
	case expr.Like:
		if e.Escape != 0 {
			d.fail(e)
		}
		return &Match{Op: "LIKE", X: d.expr(e.X), Y: d.expr(e.Pattern), Not: e.Not}
	case expr.BeginsWith:
		return &Match{Op: "BEGINS WITH", X: d.expr(e.X), Y: d.expr(e.Prefix)}
	case expr.Contains:
		return &Match{Op: "CONTAINS", X: d.expr(e.X), Y: d.expr(e.Item)}
	case expr.Arith:
		if e.R == nil {
			return &Unary{Op: "-", X: d.expr(e.L)}
		}
		return &Binary{Op: e.Op.String(), L: d.expr(e.L), R: d.expr(e.R)}
	case expr.Func:
		return &Call{Name: e.Name, Args: d.exprs(e.Args)}
	case expr.Row:
		return &Row{Items: d.exprs(e.Items)}
	}
	d.fail(e)
	return &Literal{Kind: LiteralNull, Text: "NULL"}
}
