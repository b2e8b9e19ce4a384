package plan_test

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// catalog holds the tables of a test, written as SQL, and makes queries of SQL text. It is
// far less than the real binder: names are left to the planner, errors are panics.
type catalog struct {
	t      testing.TB
	tables map[string]*schema.Table
	stats  map[string]*plan.TableStats
}

func newCatalog(t testing.TB, statements ...string) *catalog {
	w := &catalog{t: t, tables: map[string]*schema.Table{}, stats: map[string]*plan.TableStats{}}
	for _, s := range statements {
		w.exec(s)
	}
	return w
}

// Table implements plan.Stats.
func (w *catalog) Table(t *schema.Table) *plan.TableStats { return w.stats[t.Name] }

func (w *catalog) exec(text string) {
	w.t.Helper()
	s, err := syntax.Parse(text)
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	switch s := s.(type) {
	case *syntax.CreateTable:
		w.createTable(s)
	case *syntax.CreateIndex:
		old := w.tables[s.Table.Text]
		def := *old
		def.Version++
		def.Indexes = append(def.Indexes[:len(def.Indexes):len(def.Indexes)], indexOf(old, s))
		w.tables[s.Table.Text] = w.newTable(def)
	default:
		w.t.Fatalf("%s: neither table nor index", text)
	}
}

func (w *catalog) newTable(def schema.Table) *schema.Table {
	w.t.Helper()
	t, err := schema.New(def)
	ok(w.t, err)
	for _, x := range t.Indexes {
		if x.State == schema.Building {
			x.State = schema.Ready
		}
	}
	return t
}

func (w *catalog) createTable(s *syntax.CreateTable) {
	w.t.Helper()
	def := schema.Table{ID: uint32(len(w.tables) + 1), Name: s.Table.Text}
	for _, c := range s.Columns {
		def.Columns = append(def.Columns, columnOf(c))
	}
	ordinals := &schema.Table{Columns: def.Columns}
	def.PK = keysOf(ordinals, s.Partition)
	def.SK = keysOf(ordinals, s.Sort)
	def.Shard, def.ShardColumns = specOf(s.Sharding), s.ShardColumns
	for i := range s.Indexes {
		def.Indexes = append(def.Indexes, indexOf(ordinals, &s.Indexes[i]))
	}
	w.tables[s.Table.Text] = w.newTable(def)
}

func columnOf(c syntax.ColumnDef) schema.Column {
	out := schema.Column{Name: c.Name.Text, Nullable: c.Nullable, List: c.Type.List}
	switch c.Type.Name {
	case "INT", "INTEGER", "BIGINT":
		out.Type = keycodec.TypeInt64
	case "SMALLINT":
		out.Type = keycodec.TypeInt16
	case "TEXT":
		out.Type = keycodec.TypeString
	case "BOOL", "BOOLEAN":
		out.Type = keycodec.TypeBool
	case "DOUBLE", "FLOAT", "REAL":
		out.Type = keycodec.TypeFloat64
	case "TIMESTAMP":
		out.Type, out.Unit = keycodec.TypeTime, keycodec.Millisecond
	case "UUID":
		out.Type = keycodec.TypeUUID
	default:
		panic("no type " + c.Type.Name)
	}
	if c.Collation != "" {
		out.Collation = keycodec.CollateASCII
	}
	return out
}

func keysOf(t *schema.Table, keys []syntax.KeyColumn) (out []schema.KeyColumn) {
	for _, k := range keys {
		out = append(out, schema.KeyColumn{Ordinal: t.Column(k.Name.Text), Desc: k.Desc,
			NullsLast: k.Nulls == syntax.NullsLast})
	}
	return out
}

func indexOf(t *schema.Table, s *syntax.CreateIndex) *schema.Index {
	x := &schema.Index{Name: s.Index.Text, Unique: s.Unique, State: schema.Ready}
	for i, k := range keysOf(t, s.Columns) {
		x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: k, Each: s.Columns[i].Each})
	}
	for _, n := range s.Include {
		x.Include = append(x.Include, t.Column(n.Text))
	}
	if s.Local {
		x.Placement = schema.Local
	}
	x.Shard, x.ShardColumns = specOf(s.Sharding), s.ShardColumns
	if s.Where != nil {
		x.Where = resolved(t, exprOf(nil, s.Where))
	}
	return x
}

func specOf(s syntax.Sharding) (spec shard.Spec) {
	if s.Buckets == 0 {
		return spec
	}
	spec = shard.Spec{Function: shard.Mix64, Count: s.Buckets}
	if s.Function != "" {
		var err error
		if spec.Function, err = shard.ParseFunction(strings.ToLower(s.Function)); err != nil {
			panic(err)
		}
	}
	return spec
}

// resolved gives columns of a condition their places.
func resolved(t *schema.Table, e expr.Expr) expr.Expr {
	out, _ := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
		if c, ok := x.(expr.Column); ok {
			return t.Ref(0, t.Column(c.Name)), nil
		}
		return x, nil
	})
	return out
}

// query makes a plan.Select of SELECT.
func (w *catalog) query(text string) *plan.Select {
	w.t.Helper()
	s, err := syntax.Parse(text)
	if err != nil {
		w.t.Fatalf("%s: %v", text, err)
	}
	return w.selectOf(s.(*syntax.Select))
}

func (w *catalog) selectOf(s *syntax.Select) *plan.Select {
	out := &plan.Select{Distinct: s.Distinct, Where: w.expr(out0, s.Where)}
	for i, f := range s.From {
		t := w.tables[f.Table.Text]
		if t == nil {
			w.t.Fatalf("no table %s", f.Table.Text)
		}
		out.From = append(out.From, plan.Source{Table: t, Alias: f.Alias})
		if i > 0 {
			j := plan.Join{On: w.expr(out0, f.On)}
			switch f.Join {
			case syntax.JoinLeft:
				j.Kind = plan.Left
			case syntax.JoinFull:
				j.Kind = plan.Full
			}
			out.Joins = append(out.Joins, j)
		}
		if f.Index != "" {
			out.Hints.Index = map[int]string{i: f.Index}
		}
	}
	for _, g := range s.GroupBy {
		out.GroupBy = append(out.GroupBy, w.expr(out, g))
	}
	for _, o := range s.Outputs {
		if o.Star {
			continue
		}
		out.Columns = append(out.Columns, plan.Output{Expr: w.expr(out, o.Expr), Name: o.Alias})
	}
	out.Having = w.expr(out, s.Having)
	for _, o := range s.OrderBy {
		last := o.Nulls == syntax.NullsLast || o.Nulls == syntax.NullsDefault && o.Desc
		out.OrderBy = append(out.OrderBy, plan.Order{Expr: w.expr(out, o.Expr), Desc: o.Desc,
			NullsLast: last})
	}
	out.Limit, out.Offset = w.expr(out0, s.Limit), w.expr(out0, s.Offset)
	return out
}

var out0 *plan.Select

func (w *catalog) expr(sel *plan.Select, e syntax.Expr) expr.Expr {
	if e == nil {
		return nil
	}
	c := &converter{w: w, sel: sel}
	return c.expr(e)
}

// exprOf converts an expression without subqueries and aggregates.
func exprOf(w *catalog, e syntax.Expr) expr.Expr { return (&converter{w: w}).expr(e) }

type converter struct {
	w   *catalog
	sel *plan.Select // takes the aggregates
}

var cmpOps = map[string]expr.Op{"=": expr.Eq, "<>": expr.Ne, "<": expr.Lt, "<=": expr.Le,
	">": expr.Gt, ">=": expr.Ge}

var arithOps = map[string]expr.ArithOp{"+": expr.Add, "-": expr.Sub, "*": expr.Mul,
	"/": expr.Div, "%": expr.Mod}

func (c *converter) expr(e syntax.Expr) expr.Expr {
	switch e := e.(type) {
	case *syntax.Literal:
		return literal(e)
	case *syntax.Param:
		return expr.Param{Index: max(e.Index, 1) - 1, Name: e.Name}
	case *syntax.Ref:
		return expr.Column{Source: plan.Unresolved, Table: e.Table, Name: e.Column}
	case *syntax.Unary:
		if e.Op == "NOT" {
			return expr.Not{X: c.expr(e.X)}
		}
		return spans.Normalise(expr.Arith{Op: expr.Neg, L: c.expr(e.X)})
	case *syntax.Binary:
		return c.binary(e)
	case *syntax.Between:
		return expr.Between{X: c.expr(e.X), Lo: c.expr(e.Lo), Hi: c.expr(e.Hi), Not: e.Not}
	case *syntax.In:
		list := c.list(e.List)
		if e.Query != nil {
			list = []expr.Expr{expr.Subquery{Query: c.w.selectOf(e.Query), Kind: expr.Rows}}
		}
		return expr.In{X: c.expr(e.X), List: list, Not: e.Not}
	case *syntax.IsNull:
		return expr.IsNull{X: c.expr(e.X), Not: e.Not}
	case *syntax.Match:
		return c.match(e)
	case *syntax.Row:
		return expr.Row{Items: c.list(e.Items)}
	case *syntax.Call:
		return c.call(e)
	case *syntax.Exists:
		return expr.Subquery{Query: c.w.selectOf(e.Query), Kind: expr.Exists}
	case *syntax.Scalar:
		return expr.Subquery{Query: c.w.selectOf(e.Query), Kind: expr.Scalar}
	}
	panic(fmt.Sprintf("no conversion of %T", e))
}

func (c *converter) list(items []syntax.Expr) (out []expr.Expr) {
	for _, i := range items {
		out = append(out, c.expr(i))
	}
	return out
}

func (c *converter) binary(e *syntax.Binary) expr.Expr {
	l, r := c.expr(e.L), c.expr(e.R)
	if op, ok := cmpOps[e.Op]; ok {
		return expr.Cmp{Op: op, L: l, R: r}
	}
	if op, ok := arithOps[e.Op]; ok {
		return expr.Arith{Op: op, L: l, R: r}
	}
	if e.Op == "AND" {
		return expr.And{Terms: []expr.Expr{l, r}}
	}
	return expr.Or{Terms: []expr.Expr{l, r}}
}

func (c *converter) match(e *syntax.Match) expr.Expr {
	var out expr.Expr
	switch e.Op {
	case "LIKE":
		return expr.Like{X: c.expr(e.X), Pattern: c.expr(e.Y), Not: e.Not}
	case "CONTAINS":
		out = expr.Contains{X: c.expr(e.X), Item: c.expr(e.Y)}
	default:
		out = expr.BeginsWith{X: c.expr(e.X), Prefix: c.expr(e.Y)}
	}
	if e.Not {
		return expr.Not{X: out}
	}
	return out
}

func (c *converter) call(e *syntax.Call) expr.Expr {
	funcs := map[string]plan.AggregateFunc{"count": plan.Count, "sum": plan.Sum,
		"min": plan.Min, "max": plan.Max, "avg": plan.Avg}
	f, ok := funcs[e.Name]
	if !ok || c.sel == nil {
		return expr.Func{Name: e.Name, Args: c.list(e.Args)}
	}
	a := plan.Aggregate{Func: f, Distinct: e.Distinct}
	if !e.Star {
		a.Arg = c.expr(e.Args[0])
	}
	for i, have := range c.sel.Aggregates {
		if have.Func == a.Func && have.Distinct == a.Distinct && expr.Equal(have.Arg, a.Arg) {
			return expr.Agg{Index: i}
		}
	}
	c.sel.Aggregates = append(c.sel.Aggregates, a)
	return expr.Agg{Index: len(c.sel.Aggregates) - 1}
}

func literal(e *syntax.Literal) expr.Expr {
	var v expr.Value
	switch e.Kind {
	case syntax.LiteralBool:
		v = expr.Bool(e.Text == "TRUE")
	case syntax.LiteralNumber:
		if i, err := strconv.ParseInt(e.Text, 10, 64); err == nil {
			v = expr.Int(i)
		} else if d, err := keycodec.ParseDecimal(e.Text); err == nil {
			v = expr.Decimal(d)
		}
	case syntax.LiteralString:
		v = expr.String(e.Text)
	case syntax.LiteralBlob:
		b, _ := hex.DecodeString(e.Text)
		v = expr.Bytes(b)
	case syntax.LiteralTime:
		t, _ := time.Parse(time.RFC3339, e.Text)
		v = expr.Time(t)
	}
	return expr.Const{Value: v}
}
