package sql

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// A query in FROM, one with a name of WITH, and the operands of UNION are the same: a source of
// the planner with queries instead of a table. For the names in the query around it has a table
// of its own that stands nowhere but here.
//
// INTERSECT and EXCEPT are groups over UNION ALL: each operand has a column more, its number, and
// a row that both have is a group with two of them.

// maxDerived bounds the queries in FROM of a statement: a query with a name is bound wherever
// it is used, so that names in names multiply.
const maxDerived = 1000

// table returns the columns of a source.
func (sc *scope) table(i int) *schema.Table {
	s := &sc.sel.From[i]
	if s.Table != nil {
		return s.Table
	}
	return sc.b.virtual[s.Queries[0]]
}

// boundWith is a query of WITH, and the query around the one that WITH begins.
type boundWith struct {
	syntax.With
	outer *scope
}

// derivedSource binds a subquery of FROM or a name of WITH, which may use columns of the queries
// around, or a view, which may not; without queries it is a table.
func (sc *scope) derivedSource(s *syntax.Source) plan.Source {
	b, outer := sc.b, sc.outer
	query, columns, before := s.Query, []syntax.Name(nil), b.with
	name := s.Alias
	if query == nil {
		for i := len(b.with) - 1; i >= 0 && query == nil; i-- {
			if w := &before[i]; sameName(w.Name.Text, s.Table.Text) {
				query, columns, outer = w.Query, w.Columns, w.outer
				b.with = before[:i]
			}
		}
		if name == "" {
			name = s.Table.Text
		}
		if query == nil {
			return b.viewSource(s.Table, name)
		}
	}
	defer func() { b.with = before }()
	return b.derived(b.selectAt(query, outer, sc.depth), columns, name, s.Table.Pos)
}

// derived makes a source of a bound query.
func (b *binder) derived(sc *scope, columns []syntax.Name, name string, pos int) plan.Source {
	if columns != nil && len(columns) != len(sc.outputs) {
		b.fail(columns[0].Pos, "%d names for %d columns", len(columns), len(sc.outputs))
	}
	for i, n := range columns {
		sc.outputs[i].name = n.Text
		sc.sel.Columns[i].Name = n.Text
	}
	if name == "" {
		name = "subquery" // a name that other subqueries may have, too
		for range len(b.virtual) {
			name += "_"
		}
	}
	b.describe(sc.sel, name, sc.outputs, pos)
	return plan.Source{Queries: []*plan.Select{sc.sel}, Alias: name}
}

// describe keeps the columns of a query in FROM.
func (b *binder) describe(sel *plan.Select, name string, outputs []boundOutput, pos int) {
	if b.virtual == nil {
		b.virtual = map[*plan.Select]*schema.Table{}
	}
	if len(b.virtual) == maxDerived {
		b.fail(pos, "the statement has more than %d queries in FROM", maxDerived)
	}
	t := &schema.Table{Name: name}
	for _, o := range outputs {
		if t.Column(o.name) >= 0 {
			b.fail(pos, "the query has two columns %s; give one another name with AS",
				syntax.QuoteName(o.name))
		}
		c := o.typ.column()
		c.Name, c.Nullable = o.name, true
		c.Collation = expr.CollationOf(o.expr)
		t.Columns = append(t.Columns, c)
	}
	b.virtual[sel] = t
}

// bindSet binds UNION, INTERSECT and EXCEPT.
func (sc *scope) bindSet(s *syntax.SetOperation) {
	b := sc.b
	var queries []*plan.Select
	var outputs []boundOutput
	for i, q := range s.Queries {
		part := b.selectAt(q, sc.outer, sc.depth)
		if i == 0 {
			outputs = part.outputs
		}
		if len(part.outputs) != len(outputs) {
			b.fail(q.Pos, "%s of %d and %d columns", s.Op, len(outputs), len(part.outputs))
		}
		for j, o := range part.outputs {
			outputs[j].typ = union(outputs[j].typ, o.typ)
			// Rows are compared under the collation that takes most texts for equal.
			outputs[j].expr = expr.Column{
				Collation: expr.CollationOfPair(outputs[j].expr, o.expr)}
		}
		if s.Op != "UNION" {
			tag := plan.Output{Expr: expr.Const{Value: expr.Int(int64(i))}, Name: "operand"}
			part.sel.Columns = append(part.sel.Columns, tag)
		}
		queries = append(queries, part.sel)
	}
	name := strings.ToLower(s.Op)
	unique := make([]boundOutput, len(outputs)) // positions tell columns of one name apart
	for i, o := range outputs {
		same := func(other boundOutput) bool { return other.name == o.name }
		for slices.ContainsFunc(unique[:i], same) {
			o.name += "_"
		}
		unique[i] = o
	}
	if s.Op != "UNION" {
		unique = append(unique, boundOutput{name: "operand of " + name})
	}
	b.describe(queries[0], name, unique, sc.ast.Pos)
	sc.sel.From = []plan.Source{{Queries: queries, Alias: name}}
	for i, o := range outputs {
		sc.outputs = append(sc.outputs, boundOutput{name: o.name, alias: true, typ: o.typ,
			expr: sc.columnExpr(0, i)})
	}
	if s.Op == "UNION" {
		sc.sel.Distinct = !s.All
		return
	}
	for _, o := range sc.outputs {
		sc.sel.GroupBy = append(sc.sel.GroupBy, o.expr)
	}
	operand := sc.columnExpr(0, len(outputs))
	sc.sel.Aggregates = []plan.Aggregate{{Func: plan.Min, Arg: operand},
		{Func: plan.Max, Arg: operand}}
	low, high := expr.Agg{Index: 0, Name: "first operand"}, expr.Agg{Index: 1, Name: "last operand"}
	sc.sel.Having = expr.Cmp{Op: expr.Lt, L: low, R: high}
	if s.Op == "EXCEPT" {
		sc.sel.Having = expr.Cmp{Op: expr.Eq, L: high, R: expr.Const{Value: expr.Int(0)}}
	}
}

// union returns the type of what is a value of one of two types: the first that is known, a wider
// one for numbers of several kinds.
func union(a, b typ) typ {
	switch {
	case !a.known(), a.date() && b.time():
		return b
	case b.known() && a.of != b.of && a.kind().Numeric() &&
		(b.float() || a.integer()):
		return b.widest()
	}
	return a
}
