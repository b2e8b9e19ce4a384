package sql

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// binder turns the tree of one statement into what the planner takes. Like the parser it
// fails by panicking with an *Error: see syntax.Caught.
type binder struct {
	catalog catalog
	then    catalog // of the query of an INSERT
	asked
	// used are the tables of the statement, for errors of views; views are its views.
	used  []*schema.Table
	views []*table.View
	// inside are the views whose text is being bound, outermost first.
	inside []*table.View
	placed int // from 1: where the outermost of them stands; 0 without
	// virtual are the columns of the subqueries of FROM, by the first of their queries.
	virtual map[*plan.Select]*schema.Table
	with    []boundWith // the queries with names that can be used here
	asOf    syntax.Expr // the moment of the statement, which the tables are of; or nil
	scopes  []*scope    // the queries, in their order
	reaches []reach     // of the aggregates whose arguments are being bound, outermost first
	// query, if not nil, is what is kept of the query that is bound: see marked. Without it, scopes
	// have marks.
	query   *boundQuery
	scratch *scratch // of query
}

// asked is what a statement says beside its query: what errors and values of parameters need when
// it is bound.
type asked struct {
	text   string
	params params
}

// scratch is the memory that a query is bound in.
//
// Invariant: nothing of what is bound refers to it, so that it is used again.
type scratch struct {
	binder  binder
	scope   scope // of the outermost query
	outputs [4]boundOutput
	scopes  [1]*scope
	reaches [2]reach
	used    [2]*schema.Table
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// marked binds a query another time, as far as that goes, with marks, which its binder had not.
// Why: they are for errors alone.
func (s *Stmt) marked(p params) *binder {
	again := s.binder(p)
	_ = syntax.Caught(func() { again.selectQuery(s.selects(), nil) }) // as the first time
	return &again
}

func (b *binder) fail(pos int, format string, args ...any) {
	panic(b.failed(pos, nil, format, args...))
}

// failed returns an error at a place of the text, which has a cause or nil.
func (b *asked) failed(pos int, cause error, format string, args ...any) error {
	e := syntax.NewError(b.text, pos, false, format, args...)
	e.Err = cause
	return e
}

// refused returns an error of another package at a place of the text, without its name.
func (b *asked) refused(pos int, err error) error {
	var call *expr.CallError
	if errors.As(err, &call) {
		pos, err = call.Pos-1, call.Err
	}
	return b.failed(pos, err, "%s", plainText(err))
}

// refuse fails with what refused returns.
func (b *binder) refuse(pos int, err error) { panic(b.refused(pos, err)) }

// missing fails for a name that no table, view or index has.
func (b *binder) missing(n syntax.Name, kind error, what string, others []string) {
	panic(b.failed(n.Pos, &table.NameError{Name: n.Text, Err: kind}, "there is no %s %s%s", what,
		syntax.QuoteName(n.Text), hint(n.Text, others)))
}

// table finds a table by its name, for a query or anything else but FROM, where views stand, too.
func (b *binder) table(n syntax.Name) *schema.Table {
	t := b.catalog.Schema(n.Text)
	if v := b.catalog.View(n.Text); v != nil {
		b.notTable(n)
	}
	if t == nil || t.Dropping {
		all := append(b.catalog.Names(), b.catalog.Views()...)
		b.missing(n, table.ErrNoTable, "table", all)
	}
	b.used = append(b.used, t)
	return t
}

// column finds a column of a table.
func (b *binder) column(t *schema.Table, n syntax.Name) int {
	i := columnNamed(t, n.Text)
	if i < 0 {
		b.fail(n.Pos, "table %s has no column %s%s", syntax.QuoteName(t.Name),
			syntax.QuoteName(n.Text), hint(n.Text, columnNames(t)))
	}
	return i
}

// scope is a SELECT whose names are being resolved.
type scope struct {
	b *binder
	// outer is the next query around whose columns can be used here. It is one that has this one
	// in an expression or, of a query of WITH, one around the query that WITH begins.
	outer *scope
	// depth is how many queries are around that have this one in an expression.
	depth   int
	number  int // among the scopes of the binder
	ast     *syntax.Select
	sel     *plan.Select
	parts   []part
	outputs []boundOutput
	marks   []mark
	refs    []expr.Expr // see refTo
	merged  merged
	// What most queries have is part of the scope.
	partRoom [2]part
	refRoom  [4]expr.Expr
	// aggregates says whether they may stand where an expression is bound now; where names
	// that place.
	aggregates bool
	// free says that names are columns without having been declared: see ParseCondition.
	free  bool
	where string
}

// boundOutput is a column of the result.
type boundOutput struct {
	name  string
	alias bool // the name was given with AS
	expr  expr.Expr
	typ   typ
}

// mark remembers where an expression stands.
type mark struct {
	expr expr.Expr
	pos  int
}

// selectQuery binds a SELECT, which stands in an expression of the outer query if there is one.
func (b *binder) selectQuery(s *syntax.Select, outer *scope) *scope {
	depth := 0
	if outer != nil {
		depth = outer.depth + 1
	}
	return b.selectAt(s, outer, depth)
}

// selectAt binds a SELECT at a depth of queries.
func (b *binder) selectAt(s *syntax.Select, outer *scope, depth int) *scope {
	before := b.with
	b.with = b.with[:len(b.with):len(b.with)]
	for _, w := range s.With {
		b.with = append(b.with, boundWith{w, outer})
	}
	defer func() { b.with = before }()
	sc := b.newScope()
	sc.b, sc.outer, sc.depth, sc.ast = b, outer, depth, s
	sc.sel.Distinct = s.Distinct
	sc.parts, sc.refs = sc.partRoom[:0], sc.refRoom[:0]
	sc.begin()
	if s.Set != nil {
		sc.bindSet(s.Set)
		sc.bindOrder(s)
		return sc
	}
	sc.sources(s.From)
	b.moment(s.AsOf)
	if s.Where != nil {
		sc.sel.Where = sc.clause("WHERE", false, s.Where)
	}
	sc.bindOutputs()
	for _, g := range s.GroupBy {
		sc.sel.GroupBy = append(sc.sel.GroupBy, sc.named("GROUP BY", false, g))
	}
	if s.Having != nil {
		sc.sel.Having = sc.named("HAVING", true, s.Having)
	}
	sc.bindOrder(s)
	return sc
}

// newScope returns the scope of a query, with its Select.
func (b *binder) newScope() *scope {
	if b.query != nil && len(b.scopes) == 0 {
		sc := &b.scratch.scope
		sc.sel, sc.outputs = &b.query.sel, b.scratch.outputs[:0]
		return sc
	}
	in := new(struct {
		scope
		made plan.Select
	})
	in.sel = &in.made
	return &in.scope
}

// begin lets the planner ask where expressions of the query stand.
func (sc *scope) begin() {
	b := sc.b
	sc.number, b.scopes = len(b.scopes), append(b.scopes, sc)
	if b.query == nil {
		sc.sel.Position = sc.position
		return
	}
	s, base, final := b.query.stmt, b.params.base, b.params.final
	n, pos := sc.number, sc.ast.Pos+1
	sc.sel.Position = func(e expr.Expr) int {
		if e == nil {
			return pos
		}
		again := s.marked(params{base: base, final: final})
		if n < len(again.scopes) {
			return again.scopes[n].position(e)
		}
		return 0
	}
}

// bindOrder binds what follows the rows of a query, and sets its columns.
func (sc *scope) bindOrder(s *syntax.Select) {
	for _, o := range s.OrderBy {
		sc.sel.OrderBy = append(sc.sel.OrderBy, sc.order(o, sc.orderTerm(o.Expr)))
	}
	sc.sel.Limit, sc.sel.Offset = sc.count("LIMIT", s.Limit), sc.count("OFFSET", s.Offset)
	if len(sc.outputs) > 0 {
		sc.sel.Columns = make([]plan.Output, len(sc.outputs))
	}
	for i, o := range sc.outputs {
		sc.sel.Columns[i] = plan.Output{Expr: o.expr, Name: o.name}
	}
}

// order binds a term of ORDER BY whose expression is bound.
func (sc *scope) order(o syntax.Order, e expr.Expr) plan.Order {
	return plan.Order{Expr: sc.collate(o, e), Desc: o.Desc, NullsLast: nullsLast(o.Desc, o.Nulls)}
}

// nullsLast says where NULLs stand: without a word before all values in ascending and
// after them in descending order.
func nullsLast(desc bool, n syntax.NullOrder) bool {
	return n == syntax.NullsLast || n == syntax.NullsDefault && desc
}

// sources binds the tables of FROM.
func (sc *scope) sources(list []syntax.Source) {
	from := sc.exchanged(list)
	for i := range from {
		sc.source(&from[i])
	}
}

// source binds a table of FROM.
func (sc *scope) source(s *syntax.Source) {
	b := sc.b
	i := len(sc.sel.From)
	if s.Nested != nil {
		sc.nest(s)
		sc.join(i, s)
		return
	}
	src, t := sc.derivedSource(s), (*schema.Table)(nil)
	if src.Queries == nil {
		t = b.table(s.Table)
		src = plan.Source{Table: t, Alias: s.Alias}
	}
	sc.sel.From = append(sc.sel.From, src)
	sc.addPart(part{name: src.Name(), source: i, table: sc.table(i)}, s.Table.Pos)
	switch {
	case t == nil && (s.NotIndexed || s.Index != ""):
		b.fail(s.Table.Pos, "a query or view in FROM has no index; name it in the query itself")
	case s.NotIndexed:
		sc.hint(i, "primary")
	case s.Index != "":
		if s.Index != "primary" && t.Index(s.Index) == nil {
			b.fail(s.Table.Pos, "table %s has no index %s%s", syntax.QuoteName(t.Name),
				syntax.QuoteName(s.Index), hint(s.Index, indexNames(t)))
		}
		sc.hint(i, s.Index)
	}
	sc.join(i, s)
}

// join binds how a source is joined to those before it.
func (sc *scope) join(i int, s *syntax.Source) {
	if i == 0 {
		return
	}
	sc.inOrder(i)
	sc.sel.Joins = append(sc.sel.Joins, plan.Join{})
	join := &sc.sel.Joins[i-1]
	switch s.Join {
	case syntax.JoinLeft:
		join.Kind = plan.Left
	case syntax.JoinFull:
		join.Kind = plan.Full
	}
	switch {
	case s.On != nil:
		join.On = sc.clause("ON", false, s.On)
	case s.Natural:
		join.On = sc.using(i, sc.common(i, s.Table.Pos))
	case s.Using != nil:
		join.On = sc.using(i, s.Using)
	}
}

func (sc *scope) hint(source int, index string) {
	if sc.sel.Hints.Index == nil {
		sc.sel.Hints.Index = map[int]string{}
	}
	sc.sel.Hints.Index[source] = index
}

// clause binds an expression of a clause; aggregates says whether they may stand in it.
func (sc *scope) clause(where string, aggregates bool, e syntax.Expr) expr.Expr {
	w, a := sc.where, sc.aggregates
	sc.where, sc.aggregates = where, aggregates
	out := sc.expr(e)
	sc.where, sc.aggregates = w, a
	return out
}

// bindOutputs binds the columns of the result.
func (sc *scope) bindOutputs() {
	if n := len(sc.ast.Outputs); n > cap(sc.outputs) {
		sc.outputs = make([]boundOutput, 0, n)
	}
	for i := range sc.ast.Outputs {
		o := &sc.ast.Outputs[i]
		if o.Star {
			sc.star(o)
			continue
		}
		e := sc.clause("SELECT", true, o.Expr)
		if _, ok := e.(expr.Row); ok {
			sc.b.fail(o.Expr.Position(),
				"a row is not a value; write its columns without parentheses")
		}
		out := boundOutput{name: o.Alias, alias: o.Alias != "", expr: e, typ: sc.typeOf(e)}
		if !out.alias {
			out.name = nameOf(o.Expr, e)
		}
		sc.outputs = append(sc.outputs, out)
	}
}

// nameOf returns the name of a column of the result without an alias, which is bound to e.
func nameOf(o syntax.Expr, e expr.Expr) string {
	switch o := o.(type) {
	case *syntax.Ref:
		return o.Column
	case *syntax.Call:
		if a, ok := e.(expr.Agg); ok { // whose name is its text
			return a.Name
		}
	}
	return syntax.FormatExpr(o)
}

// star appends the columns that * or table.* stands for. Names that several tables have
// get that of their table before them.
func (sc *scope) star(o *syntax.Output) {
	count, found := map[string]int{}, false
	columns := sc.starColumns(o.Table)
	for _, f := range columns {
		count[sc.columnOf(f).Name]++
	}
	for _, p := range sc.parts {
		found = found || o.Table == "" || sameName(o.Table, p.name)
	}
	for _, f := range columns {
		c := sc.columnOf(f)
		name := c.Name
		if count[name] > 1 && o.Table == "" {
			name = sc.partOf(f).name + "." + name
		}
		e := expr.Expr(sc.columnExpr(f.source, f.ordinal))
		if o.Table == "" {
			e = sc.merged.expr(sc, f)
		}
		sc.outputs = append(sc.outputs, boundOutput{name: name, expr: sc.mark(e, o.Pos),
			typ: typeOfColumn(c)})
	}
	switch {
	case len(sc.sel.From) == 0:
		sc.b.fail(o.Pos, "* needs a FROM with tables")
	case !found:
		sc.b.fail(o.Pos, "there is no table %s in FROM%s", syntax.QuoteName(o.Table),
			hint(o.Table, sc.sourceNames()))
	}
}

// named binds an expression in which the names of outputs may stand for them, where no
// table has a column of that name (see ref); an integer is the position of an output in
// GROUP BY.
func (sc *scope) named(where string, aggregates bool, e syntax.Expr) expr.Expr {
	if where == "GROUP BY" {
		if out := sc.byNumber(where, e); out != nil {
			return out.expr
		}
	}
	return sc.clause(where, aggregates, e)
}

// orderTerm binds a term of ORDER BY: a position, the name of an output, or an expression.
func (sc *scope) orderTerm(e syntax.Expr) expr.Expr {
	if out := sc.byNumber("ORDER BY", e); out != nil {
		return out.expr
	}
	if ref, ok := e.(*syntax.Ref); ok && ref.Table == "" {
		if out := sc.outputNamed(ref.Column); out != nil {
			return sc.mark(out.expr, ref.Pos)
		}
	}
	return sc.clause("ORDER BY", true, e)
}

// outputNamed returns the output with the given alias or, if only one has it in another case,
// that.
func (sc *scope) outputNamed(name string) (out *boundOutput) {
	several := false
	for i := range sc.outputs {
		switch o := &sc.outputs[i]; {
		case !o.alias || !sameName(o.name, name):
		case o.name == name:
			return o
		default:
			out, several = o, out != nil
		}
	}
	if several {
		return nil
	}
	return out
}

// byNumber returns the output that a number stands for, nil if e is not a number.
func (sc *scope) byNumber(where string, e syntax.Expr) *boundOutput {
	l, ok := e.(*syntax.Literal)
	if !ok || l.Kind != syntax.LiteralNumber {
		return nil
	}
	n, err := strconv.Atoi(l.Text)
	if err != nil || n < 1 || n > len(sc.outputs) {
		sc.b.fail(l.Pos, "%s %s: the result has columns 1 to %d", where, l.Text, len(sc.outputs))
	}
	return &sc.outputs[n-1]
}

// count binds the operand of LIMIT or OFFSET.
func (sc *scope) count(where string, e syntax.Expr) expr.Expr {
	switch e := e.(type) {
	case nil:
		return nil
	case *syntax.Param:
		return sc.mark(sc.b.param(e), e.Pos)
	case *syntax.Literal:
		v := sc.b.literal(e)
		n, ok := v.AsInt()
		if !ok && where == "LIMIT" && v.Kind() == expr.KindUint {
			v = expr.Null() // above all numbers of rows: MySQL has OFFSET with a LIMIT only
		}
		if v.IsNull() || ok && n >= 0 {
			return sc.mark(expr.Const{Value: v}, e.Pos)
		}
	}
	sc.b.fail(e.Position(), "%s is a whole number that is not negative, or a parameter", where)
	return nil
}

// mark remembers where a bound expression stands, for errors of the planner.
func (sc *scope) mark(e expr.Expr, pos int) expr.Expr {
	if sc.b.query == nil {
		sc.marks = append(sc.marks, mark{e, pos})
	}
	return e
}

// position is plan.Select.Position: the planner gives back expressions with the columns it
// has found, which differ in their names only. That of what is not found is the first of its
// operands'; nil is the query itself.
func (sc *scope) position(e expr.Expr) int {
	switch {
	case e == nil && sc.ast == nil:
		return 0
	case e == nil:
		return sc.ast.Pos + 1
	case sc.b.query != nil:
		return sc.sel.Position(e)
	}
	want := anonymous(e)
	for _, m := range sc.marks {
		if m.expr != nil && anonymous(m.expr) == want {
			return m.pos + 1
		}
	}
	for _, child := range expr.Children(e) {
		if _, constant := child.(expr.Const); constant {
			continue
		}
		if pos := sc.position(child); pos > 0 {
			return pos
		}
	}
	return 0
}

// anonymous returns the text of an expression with numbers for the names of columns, and without
// the text of subqueries.
func anonymous(e expr.Expr) string {
	if e == nil {
		return ""
	}
	return expr.Map(e, func(x expr.Expr) expr.Expr {
		switch x := x.(type) {
		case expr.Column:
			return expr.Column{Name: fmt.Sprintf("c%d_%d", x.Source, x.Ordinal)}
		case expr.Agg:
			return expr.Agg{Name: fmt.Sprint("a", x.Index)}
		case expr.Subquery: // whose text changes when it is resolved
			return expr.Agg{Name: fmt.Sprint("q", x.Kind)}
		}
		return x
	}).String()
}

// planError turns an error of the planner into one that points at the text.
func (b *asked) planError(err error, start int) error {
	var q *plan.QueryError
	var u *plan.UnsupportedError
	var call *expr.CallError
	var already *syntax.Error
	pos, message := 0, ""
	switch {
	case errors.As(err, &already):
		return err
	case errors.As(err, &call):
		pos, message = call.Pos, plainText(call.Err)
	case errors.As(err, &q):
		pos, message = q.Pos, q.Message
		if at, known := b.params.places[b.params.of(q.Param-1)]; pos == 0 && known {
			pos = at + 1
		}
	case errors.As(err, &u):
		pos, message = u.Pos, "not supported: "+u.What
	case errors.Is(err, expr.ErrType), errors.Is(err, expr.ErrRange):
		message = plainText(err)
	default:
		return err
	}
	if pos > 0 {
		start = pos - 1
	}
	return b.failed(start, err, "%s", message)
}
