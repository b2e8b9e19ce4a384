package sql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
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
	script := []syntax.Statement{d.createTable()}
	for _, x := range t.Indexes {
		if x.State != schema.Dropping {
			script = append(script, d.createIndex(x))
		}
	}
	return syntax.FormatScript(script...), d.err
}

// describer makes trees of definitions.
type describer struct {
	table *schema.Table
	err   error // the first one
}

func (d *describer) fail(what any) {
	if d.err == nil {
		d.err = fmt.Errorf("sql: table %s: there is no statement for %v",
			syntax.QuoteName(d.table.Name), what)
	}
}

func (d *describer) createTable() *syntax.CreateTable {
	t := d.table
	out := &syntax.CreateTable{Table: syntax.Name{Text: t.Name}}
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
	if t.Sharded() {
		out.Partition, out.Sort = out.Sort[:1], out.Sort[1:]
		out.Sharding = d.sharding("the primary key", t.Primary())
	}
	for i := range t.Checks {
		c := &t.Checks[i]
		out.Checks = append(out.Checks, syntax.Check{Name: syntax.Name{Text: c.Name},
			Condition: d.expr(c.Condition)})
	}
	if t.TTL != nil {
		out.TTL = &syntax.TTL{Column: d.name(t.TTL.Ordinal)}
		if t.TTL.After != 0 {
			out.TTL.After = t.TTL.After.String()
		}
	}
	if t.Zones != nil {
		out.Zones = make([]syntax.Name, len(t.Zones))
		for i, o := range t.Zones {
			out.Zones[i] = d.name(o)
		}
	}
	return out
}

func (d *describer) name(ordinal int) syntax.Name {
	return syntax.Name{Text: d.table.Columns[ordinal].Name}
}

func (d *describer) column(c *schema.Column) syntax.ColumnDef {
	out := syntax.ColumnDef{Name: syntax.Name{Text: c.Name}, Nullable: c.Nullable}
	scalar := *c
	scalar.List = false
	if out.Type = typeNamed(scalar.TypeText()); out.Type.Name == "" {
		d.fail("the type of column " + syntax.QuoteName(c.Name))
	}
	out.Type.List = c.List
	if c.Default != nil {
		out.Default = d.literal(*c.Default)
	}
	switch c.Generated {
	case schema.Identity:
		out.Identity = true
	case schema.RandomUUID:
		out.Default = &syntax.Call{Name: "uuid"}
	case schema.CurrentTime:
		out.Default = &syntax.Call{Name: "now"}
	}
	switch c.Collation {
	case keycodec.CollateASCII:
		out.Collation = "nocase"
	case keycodec.CollateUnicode:
		out.Collation = "unicode"
	}
	return out
}

func (d *describer) keyColumn(k schema.KeyColumn) syntax.KeyColumn {
	out := syntax.KeyColumn{Name: d.name(k.Ordinal), Desc: k.Desc}
	usual := k.Desc && d.table.Columns[k.Ordinal].Nullable
	switch {
	case k.NullsLast == usual:
	case k.NullsLast:
		out.Nulls = syntax.NullsLast
	default:
		out.Nulls = syntax.NullsFirst
	}
	return out
}

func (d *describer) createIndex(x *schema.Index) *syntax.CreateIndex {
	out := &syntax.CreateIndex{
		Index: syntax.Name{Text: x.Name}, Table: syntax.Name{Text: d.table.Name}, Unique: x.Unique,
		Local:    x.Placement == schema.Local,
		Sharding: d.sharding("index "+syntax.QuoteName(x.Name), x),
	}
	for _, c := range x.Columns {
		k := d.keyColumn(c.KeyColumn)
		k.Each = c.Each
		out.Columns = append(out.Columns, k)
	}
	for _, i := range x.Include {
		out.Include = append(out.Include, d.name(i))
	}
	if x.Where != nil {
		out.Where = d.expr(x.Where)
	}
	return out
}

// sharding returns how an index is spread.
func (d *describer) sharding(name string, x *schema.Index) (out syntax.Sharding) {
	if x.Shard.Seed != 0 {
		d.fail("the seed of the shard function of " + name)
	}
	out.Buckets = x.Shard.Count
	if x.Shard.Count > 0 && x.Shard.Function != shard.Mix64 {
		out.Function = x.Shard.Function.String()
	}
	if x.ShardColumns > 1 {
		out.ShardColumns = x.ShardColumns
	}
	return out
}

// literal returns the expression for a value.
func (d *describer) literal(v expr.Value) syntax.Expr {
	text := v.String()
	switch v.Kind() {
	case expr.KindNull:
		return &syntax.Literal{Kind: syntax.LiteralNull, Text: text}
	case expr.KindBool:
		return &syntax.Literal{Kind: syntax.LiteralBool, Text: text}
	case expr.KindFloat:
		f, _ := v.AsFloat()
		if strings.HasPrefix(text, "FLOAT") {
			text := strconv.FormatFloat(f, 'g', -1, 64)
			return &syntax.Literal{Kind: syntax.LiteralFloat, Text: text}
		}
	case expr.KindDecimal:
		decimal, _ := v.AsDecimal()
		if text = decimal.String(); !strings.Contains(text, ".") || strings.Contains(text, "E") {
			return &syntax.Literal{Kind: syntax.LiteralDecimal, Text: text}
		}
	case expr.KindBytes:
		return &syntax.Literal{Kind: syntax.LiteralBlob, Text: text[2 : len(text)-1]}
	case expr.KindTime:
		at, ok := v.AsTime()
		if year := at.Year(); !ok || year < 0 || year > 9999 {
			d.fail("the time " + text)
		}
		return &syntax.Literal{Kind: syntax.LiteralTime, Text: at.Format(time.RFC3339Nano)}
	case expr.KindString:
		s, _ := v.AsString()
		return &syntax.Literal{Kind: syntax.LiteralString, Text: s}
	case expr.KindUUID, expr.KindIP, expr.KindIPPrefix: // texts, which have no quotes in them
		return &syntax.Literal{Kind: syntax.LiteralString, Text: text[1 : len(text)-1]}
	case expr.KindList:
		list := &syntax.List{}
		for e := range v.Elements() {
			list.Items = append(list.Items, d.literal(e))
		}
		return list
	}
	return &syntax.Literal{Kind: syntax.LiteralNumber, Text: text}
}

func (d *describer) exprs(list []expr.Expr) []syntax.Expr {
	out := make([]syntax.Expr, len(list))
	for i, e := range list {
		out[i] = d.expr(e)
	}
	return out
}

// chain connects terms by an operator.
func (d *describer) chain(terms []expr.Expr, op, none string) syntax.Expr {
	if len(terms) == 0 {
		return &syntax.Literal{Kind: syntax.LiteralBool, Text: none}
	}
	out := d.expr(terms[0])
	for _, t := range terms[1:] {
		out = &syntax.Binary{Op: op, L: out, R: d.expr(t)}
	}
	return out
}

// expr returns the tree of a condition of an index.
func (d *describer) expr(e expr.Expr) syntax.Expr {
	switch e := e.(type) {
	case expr.Const:
		return d.literal(e.Value)
	case expr.Column:
		return &syntax.Ref{Column: d.table.Columns[e.Ordinal].Name}
	case expr.Cmp:
		return &syntax.Binary{Op: e.Op.String(), L: d.expr(e.L), R: d.expr(e.R)}
	case expr.And:
		return d.chain(e.Terms, "AND", "TRUE")
	case expr.Or:
		return d.chain(e.Terms, "OR", "FALSE")
	case expr.Not:
		return &syntax.Unary{Op: "NOT", X: d.expr(e.X)}
	case expr.Between:
		return &syntax.Between{X: d.expr(e.X), Lo: d.expr(e.Lo), Hi: d.expr(e.Hi), Not: e.Not}
	case expr.In:
		return &syntax.In{X: d.expr(e.X), List: d.exprs(e.List), Not: e.Not}
	case expr.IsNull:
		return &syntax.IsNull{X: d.expr(e.X), Not: e.Not}
	case expr.Like:
		m := &syntax.Match{Op: "LIKE", X: d.expr(e.X), Y: d.expr(e.Pattern), Not: e.Not}
		if e.Fold {
			m.Op = "ILIKE"
		}
		if e.Escape != 0 {
			m.Escape = string(e.Escape)
		}
		return m
	case expr.BeginsWith:
		return &syntax.Match{Op: "BEGINS WITH", X: d.expr(e.X), Y: d.expr(e.Prefix)}
	case expr.Contains:
		return &syntax.Match{Op: "CONTAINS", X: d.expr(e.X), Y: d.expr(e.Item)}
	case expr.Arith:
		if e.R == nil {
			return &syntax.Unary{Op: "-", X: d.expr(e.L)}
		}
		return &syntax.Binary{Op: e.Op.String(), L: d.expr(e.L), R: d.expr(e.R)}
	case expr.Func:
		return &syntax.Call{Name: e.Name, Args: d.exprs(e.Args)}
	case expr.Row:
		return &syntax.Row{Items: d.exprs(e.Items)}
	case expr.IsDistinct:
		return &syntax.IsDistinct{X: d.expr(e.L), Y: d.expr(e.R), Not: e.Not}
	case expr.Cast:
		return &syntax.Cast{X: d.expr(e.X), To: typeNamed(e.To.String())}
	case expr.Case:
		return d.caseExpr(e)
	}
	d.fail(e)
	return &syntax.Literal{Kind: syntax.LiteralNull, Text: "NULL"}
}

func (d *describer) caseExpr(e expr.Case) syntax.Expr {
	out := &syntax.Case{Else: d.expr(e.Else)}
	if e.X != nil {
		out.X = d.expr(e.X)
	}
	for _, w := range e.Whens {
		out.Whens = append(out.Whens, syntax.When{If: d.expr(w.If), Then: d.expr(w.Then)})
	}
	return out
}
