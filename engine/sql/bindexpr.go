package sql

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
)

// expr binds an expression of a SELECT.
func (sc *scope) expr(e syntax.Expr) expr.Expr {
	return sc.mark(sc.expression(e), e.Position())
}

func (sc *scope) exprs(list []syntax.Expr) []expr.Expr {
	out := make([]expr.Expr, len(list))
	for i, e := range list {
		out[i] = sc.expr(e)
	}
	return out
}

func (sc *scope) expression(e syntax.Expr) expr.Expr {
	switch e := e.(type) {
	case *syntax.Literal:
		return expr.Const{Value: sc.b.literal(e)}
	case *syntax.Param:
		return sc.b.param(e)
	case *syntax.Ref:
		return sc.ref(e)
	case *syntax.Unary:
		if e.Op == "NOT" {
			return expr.Not{X: sc.expr(e.X)}
		}
		return expr.Arith{Op: expr.Neg, L: sc.expr(e.X)}
	case *syntax.Binary:
		return sc.binary(e)
	case *syntax.Row:
		return expr.Row{Items: sc.exprs(e.Items)}
	case *syntax.List:
		return sc.list(e)
	case *syntax.Call:
		return sc.call(e)
	case *syntax.Case:
		return sc.caseExpr(e)
	case *syntax.Cast:
		return sc.cast(e)
	case *syntax.Exists:
		return sc.subquery(e.Query, expr.Exists)
	case *syntax.Scalar:
		return sc.subquery(e.Query, expr.Scalar)
	}
	return sc.predicate(e)
}

// predicate binds the conditions of several keywords.
func (sc *scope) predicate(e syntax.Expr) expr.Expr {
	switch e := e.(type) {
	case *syntax.Between:
		x := sc.compared([]syntax.Expr{e.X, e.Lo, e.Hi})
		return expr.Between{X: x[0], Lo: x[1], Hi: x[2], Not: e.Not}
	case *syntax.In:
		return sc.in(e)
	case *syntax.IsNull:
		return expr.IsNull{X: sc.expr(e.X), Not: e.Not}
	case *syntax.IsDistinct:
		x, y := sc.expr(e.X), sc.expr(e.Y)
		return expr.IsDistinct{L: sc.coerceTo(y, x, e.X), R: sc.coerceTo(x, y, e.Y), Not: e.Not}
	case *syntax.Match:
		return sc.match(e)
	}
	sc.b.fail(e.Position(), "this expression is not possible here")
	return nil
}

// comparisonOf returns a comparison by its operator.
func comparisonOf(op string) expr.Op {
	switch op {
	case "<>":
		return expr.Ne
	case "<":
		return expr.Lt
	case "<=":
		return expr.Le
	case ">":
		return expr.Gt
	case ">=":
		return expr.Ge
	}
	return expr.Eq
}

// arithOf returns arithmetic by its operator, which may be another one.
func arithOf(op string) (out expr.ArithOp, ok bool) {
	switch op {
	case "+":
		return expr.Add, true
	case "-":
		return expr.Sub, true
	case "*":
		return expr.Mul, true
	case "/":
		return expr.Div, true
	case "%":
		return expr.Mod, true
	}
	return 0, false
}

func (sc *scope) binary(e *syntax.Binary) expr.Expr {
	switch e.Op {
	case "AND":
		return expr.And{Terms: sc.terms(make([]expr.Expr, 0, termsOf(e, "AND")), e, "AND")}
	case "OR":
		return expr.Or{Terms: sc.terms(make([]expr.Expr, 0, termsOf(e, "OR")), e, "OR")}
	case "||":
		return sc.concat(e)
	}
	if out := sc.shifted(e); out != nil {
		return out
	}
	l, r := sc.expr(e.L), sc.expr(e.R)
	if out := sc.difference(e, l, r); out != nil {
		return out
	}
	if op, ok := arithOf(e.Op); ok {
		return expr.Arith{Op: op, L: l, R: r}
	}
	return expr.Cmp{Op: comparisonOf(e.Op), L: sc.coerceTo(r, l, e.L),
		R: sc.coerceTo(l, r, e.R)}
}

// termsOf returns how many terms terms appends.
func termsOf(e syntax.Expr, op string) int {
	if bin, ok := e.(*syntax.Binary); ok && bin.Op == op {
		return termsOf(bin.L, op) + termsOf(bin.R, op)
	}
	return 1
}

// terms appends what a chain of one operator connects.
func (sc *scope) terms(dst []expr.Expr, e syntax.Expr, op string) []expr.Expr {
	if bin, ok := e.(*syntax.Binary); ok && bin.Op == op {
		return sc.terms(sc.terms(dst, bin.L, op), bin.R, op)
	}
	return append(dst, sc.expr(e))
}

// compared binds operands. The first is compared with all others. Constants and parameters take the
// type of the first operand that is neither or, without one, of the first that has a type.
func (sc *scope) compared(list []syntax.Expr) []expr.Expr {
	out := sc.exprs(list)
	if _, row := out[0].(expr.Row); row {
		for i := range out {
			out[i] = sc.coerceTo(out[0], out[i], list[i])
		}
		return out
	}
	t := sc.typeBeside(out)
	for i := 0; i < len(out) && !t.known(); i++ {
		t = sc.typeOf(out[i])
	}
	for i := range out {
		out[i] = sc.coerce(t, out[i], list[i])
	}
	return out
}

func (sc *scope) in(e *syntax.In) expr.Expr {
	if e.Query != nil {
		x, sub := sc.expr(e.X), sc.subquery(e.Query, expr.Rows)
		return expr.In{X: sc.coerceTo(sub, x, e.X), List: []expr.Expr{sub}, Not: e.Not}
	}
	if len(e.List) == 0 { // nothing is in it, NULL neither
		return expr.Const{Value: expr.Bool(e.Not)}
	}
	out := sc.compared(append([]syntax.Expr{e.X}, e.List...))
	return expr.In{X: out[0], Not: e.Not, List: out[1:]}
}

func (sc *scope) match(e *syntax.Match) expr.Expr {
	x, y := sc.expr(e.X), sc.expr(e.Y)
	if e.Op != "CONTAINS" {
		y = sc.coerce(sc.typeOf(x), y, e.Y)
	}
	switch e.Op {
	case "LIKE", "ILIKE":
		escape, _ := utf8.DecodeRuneInString(e.Escape)
		if e.Escape == "" {
			escape = 0
		}
		return expr.Like{X: x, Pattern: y, Escape: escape, Fold: e.Op == "ILIKE", Not: e.Not}
	case "BEGINS WITH":
		x = expr.BeginsWith{X: x, Prefix: y}
	default:
		t := sc.typeOf(x)
		t.list = false
		x = expr.Contains{X: x, Item: sc.coerce(t, y, e.Y)}
	}
	if e.Not {
		return expr.Not{X: sc.mark(x, e.Pos)}
	}
	return x
}

// list binds a list of constants.
func (sc *scope) list(e *syntax.List) expr.Expr {
	values := make([]expr.Value, len(e.Items))
	for i, item := range e.Items {
		c, ok := sc.expr(item).(expr.Const)
		if !ok || c.Kind() == expr.KindList {
			sc.b.fail(item.Position(), "the elements of a list are constants here")
		}
		values[i] = c.Value
	}
	return expr.Const{Value: expr.List(values)}
}

// aggregateNames are the aggregate functions.
var aggregateNames = map[string]plan.AggregateFunc{
	"count": plan.Count, "sum": plan.Sum, "min": plan.Min, "max": plan.Max, "avg": plan.Avg,
	"total": plan.Sum, "group_concat": plan.Concat, "string_agg": plan.Concat,
	"any_value": plan.Any,
}

// aggregate binds the call of an aggregate function: equal calls are one aggregate.
func (sc *scope) aggregate(e *syntax.Call, fn plan.AggregateFunc) expr.Expr {
	a := plan.Aggregate{Func: fn, Distinct: e.Distinct}
	b, around := sc.b, len(sc.b.reaches)
	b.reaches = append(b.reaches, reach{from: sc.depth, nearest: -1})
	defer func() { b.reaches = b.reaches[:around] }()
	switch {
	case fn == plan.Concat:
		return sc.groupConcat(e)
	case e.OrderBy != nil:
		sc.b.fail(e.OrderBy[0].Expr.Position(), "%s is the same in any order; ORDER BY is for "+
			"group_concat", strings.ToUpper(e.Name))
	case e.Star && fn == plan.Count:
		if e.Filter != nil {
			a.Arg = sc.filtered(e, expr.Const{Value: expr.Int(1)})
		}
	case e.Star || len(e.Args) != 1:
		sc.b.fail(e.Pos, "%s takes one argument", strings.ToUpper(e.Name))
	default:
		arg := sc.clause("an aggregate", false, e.Args[0])
		a.Arg = sc.filtered(e, arg)
		a.Collation = expr.CollationOf(arg)
	}
	if e.Name == "total" { // a float, and 0 of nothing
		sum := expr.Cast{X: sc.aggregated(a, e), Pos: sc.b.place(e.Pos),
			To: expr.CastType{Kind: expr.KindFloat, Bits: 64}}
		return expr.Func{Name: "coalesce", Pos: sc.b.place(e.Pos),
			Args: []expr.Expr{sum, expr.Const{Value: expr.Float(0)}}}
	}
	return sc.aggregated(a, e)
}

// filtered returns what an aggregate with FILTER is of: NULL, which aggregates leave out, where
// the condition is not true.
func (sc *scope) filtered(e *syntax.Call, arg expr.Expr) expr.Expr {
	if e.Filter == nil {
		return arg
	}
	condition := sc.clause("FILTER", false, e.Filter)
	out := expr.Case{Whens: []expr.When{{If: condition, Then: arg}}, Else: expr.Const{}}
	return sc.mark(out, e.Filter.Position())
}

// aggregated returns the result of an aggregate. One of columns of queries around alone is one of
// the nearest of these, and there a value.
func (sc *scope) aggregated(a plan.Aggregate, e *syntax.Call) expr.Expr {
	steps := sc.stepsOf(a, e)
	far := sc.around(steps)
	if !far.aggregates {
		sc.b.fail(e.Pos, "%s cannot use %s: it is known when the rows are grouped only",
			far.where, strings.ToUpper(e.Name))
	}
	if steps == 0 {
		return sc.add(a, e)
	}
	if a.Arg = outward(a.Arg, steps); a.Order != nil {
		a.Order = slices.Clone(a.Order)
		for i := range a.Order {
			a.Order[i].Expr = outward(a.Order[i].Expr, steps)
		}
	}
	out := far.add(a, e)
	return expr.Column{Source: plan.OuterAt(steps, plan.Aggregates), Ordinal: out.Index,
		Name: out.Name}
}

// reach is whose columns an aggregate has, those in its subqueries, too.
type reach struct {
	from, nearest int // depths: of the query that has it, of the nearest; -1: no columns
}

// reached notes that a column is of the query at a depth.
func (b *binder) reached(depth int) {
	for i := range b.reaches {
		r := &b.reaches[i]
		if depth <= r.from { // not of one of its own subqueries
			r.nearest = max(r.nearest, depth)
		}
	}
}

// stepsOf returns how far out the nearest query is that an aggregate has columns of; 0 if it has
// none.
func (sc *scope) stepsOf(a plan.Aggregate, e *syntax.Call) int {
	r := sc.b.reaches[len(sc.b.reaches)-1]
	if r.nearest < 0 || r.nearest == r.from {
		return 0
	}
	queries := false
	note := func(x expr.Expr) bool {
		_, is := x.(expr.Subquery)
		queries = queries || is
		return true
	}
	expr.Walk(a.Arg, note)
	for _, k := range a.Order {
		expr.Walk(k.Expr, note)
	}
	if queries {
		sc.b.fail(e.Pos, "kstone has no aggregate of a subquery for the query around; compute %s "+
			"in a subquery of FROM there", strings.ToUpper(e.Name))
	}
	return r.from - r.nearest
}

// outward returns an expression for a query that is so many steps further out.
func outward(e expr.Expr, steps int) expr.Expr {
	return expr.MapColumns(e, func(c expr.Column) expr.Expr {
		out, source := plan.OuterOf(c.Source)
		if c.Source = source; out > steps {
			c.Source = plan.OuterAt(out-steps, source)
		}
		return c
	})
}

// add adds an aggregate, if there is no equal one.
func (sc *scope) add(a plan.Aggregate, e *syntax.Call) expr.Agg {
	for i, have := range sc.sel.Aggregates {
		if have.Func == a.Func && have.Distinct == a.Distinct && expr.Equal(have.Arg, a.Arg) &&
			have.Collation == a.Collation && slices.EqualFunc(have.Order, a.Order, sameKey) {
			return expr.Agg{Index: i, Name: syntax.FormatExpr(e)}
		}
	}
	sc.sel.Aggregates = append(sc.sel.Aggregates, a)
	return expr.Agg{Index: len(sc.sel.Aggregates) - 1, Name: syntax.FormatExpr(e)}
}

// groupConcat binds group_concat(x, separator): the texts are appended to each other, each with
// the separator before it, and the first separator is cut off.
func (sc *scope) groupConcat(e *syntax.Call) expr.Expr {
	separator := expr.String(",")
	if e.Star || len(e.Args) == 0 || len(e.Args) > 2 {
		sc.b.fail(e.Pos, "%s takes a value and a separator", strings.ToUpper(e.Name))
	}
	if len(e.Args) == 2 {
		l, ok := e.Args[1].(*syntax.Literal)
		if !ok || l.Kind != syntax.LiteralString {
			sc.b.fail(e.Args[1].Position(), "the separator is a text in single quotes")
		}
		separator = expr.String(l.Text)
	}
	text, _ := separator.AsString()
	x := sc.clause("an aggregate", false, e.Args[0])
	parts := []expr.Expr{expr.Const{Value: separator}, x}
	sc.writtenDates(parts)
	a := plan.Aggregate{Func: plan.Concat, Distinct: e.Distinct,
		Collation: expr.CollationOf(x),
		Arg:       sc.filtered(e, expr.Func{Name: "concat", Args: parts, Pos: sc.b.place(e.Pos)})}
	for _, o := range e.OrderBy {
		k := sc.order(o, sc.clause("an aggregate", false, o.Expr))
		if e.Distinct && !expr.Equal(k.Expr, x) {
			sc.b.fail(o.Expr.Position(), "with DISTINCT, ORDER BY is of the value itself: several "+
				"rows may have it")
		}
		a.Order = append(a.Order, k)
	}
	after := expr.Const{Value: expr.Int(int64(utf8.RuneCountInString(text)) + 1)}
	return expr.Func{Name: "substr", Pos: sc.b.place(e.Pos),
		Args: []expr.Expr{sc.aggregated(a, e), after}}
}

func sameKey(a, b plan.Order) bool {
	return a.Desc == b.Desc && a.NullsLast == b.NullsLast && expr.Equal(a.Expr, b.Expr)
}

func (sc *scope) subquery(s *syntax.Select, kind expr.SubqueryKind) expr.Expr {
	if sc.free {
		sc.b.fail(s.Pos, "%s cannot have subqueries", sc.where)
	}
	inner := sc.b.selectQuery(s, sc)
	if n := len(inner.outputs); kind == expr.Scalar && n != 1 {
		sc.b.fail(s.Pos, "a subquery that stands for a value has %d columns", n)
	}
	if inner.sel.Limit == nil && inner.sel.Offset == nil {
		inner.sel.OrderBy = nil // of a set, or of one row
	}
	return expr.Subquery{Query: inner.sel, Kind: kind}
}

// found is a column and how far out it was found.
type found struct {
	source, ordinal int
}

// lookup finds a column among the tables of FROM; n is how many there are.
func (sc *scope) lookup(r *syntax.Ref) (f found, n int) {
	for i := range sc.parts {
		p := &sc.parts[i]
		if r.Table != "" && !sameName(r.Table, p.name) {
			continue
		}
		at, ok := p.column(r.Column)
		if ok && (r.Table != "" || !sc.merged.hidden[at]) {
			f, n = at, n+1
		}
	}
	return f, n
}

// around returns the query that is so many steps out.
func (sc *scope) around(steps int) *scope {
	depth := sc.depth - steps
	for sc.depth > depth {
		sc = sc.outer
	}
	return sc
}

// sameName compares names of sources; like columns they are found in any case.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }

// ref resolves a column: in this query, or else in the nearest query around it that has one.
func (sc *scope) ref(r *syntax.Ref) expr.Expr {
	if sc.free {
		return sc.freeColumn(r)
	}
	f, n := sc.lookup(r)
	switch {
	case n > 1:
		sc.ambiguous(r, f)
	case n == 1:
		sc.b.reached(sc.depth)
	}
	switch {
	case n == 1 && r.Table == "":
		return sc.merged.expr(sc, f)
	case n == 1:
		return sc.refTo(f)
	}
	if out := sc.outputNamed(r.Column); out != nil && r.Table == "" && sc.behindOutputs() {
		return out.expr
	}
	for far := sc.outer; far != nil; far = far.outer {
		switch f, n := far.lookup(r); {
		case n > 1:
			far.ambiguous(r, f)
		case n == 1 && r.Table == "" && far.merged.either[f] != nil:
			sc.b.fail(r.Pos, "column %s of a FULL JOIN stands for those of several tables; "+
				"in a subquery write coalesce() of them", syntax.QuoteName(r.Column))
		case n == 1:
			sc.b.reached(far.depth)
			c := far.columnExpr(f.source, f.ordinal)
			far.mark(c, r.Pos)
			c.Source = plan.OuterAt(sc.depth-far.depth, f.source)
			return c
		}
	}
	sc.noColumn(r)
	return nil
}

// ambiguous fails for a column that several tables have, f being one of them.
func (sc *scope) ambiguous(r *syntax.Ref, f found) {
	sc.b.fail(r.Pos, "column %s is in more than one table; write %s.%s",
		syntax.QuoteName(r.Column), syntax.QuoteName(sc.partOf(f).name),
		syntax.QuoteName(r.Column))
}

// behindOutputs reports whether the clause being bound may use the names of outputs.
func (sc *scope) behindOutputs() bool {
	return sc.where == "GROUP BY" || sc.where == "HAVING" || sc.where == "ORDER BY"
}

// noColumn fails with what may have been meant.
func (sc *scope) noColumn(r *syntax.Ref) {
	var names []string
	known := r.Table == ""
	for s := sc; s != nil; s = s.outer {
		for _, p := range s.parts {
			if r.Table != "" && !sameName(r.Table, p.name) {
				continue
			}
			known = true
			names = append(names, columnNames(p.table)...)
		}
	}
	if !known {
		sc.b.fail(r.Pos, "there is no table %s in FROM%s", syntax.QuoteName(r.Table),
			hint(r.Table, sc.sourceNames()))
	}
	meant := hint(r.Column, names)
	if r.Quoted && meant == "" {
		meant = "; texts stand in single quotes: " + syntax.QuoteText(r.Column)
	}
	sc.b.fail(r.Pos, "there is no column %s%s", syntax.FormatExpr(r), meant)
}

func (sc *scope) sourceNames() (names []string) {
	for _, p := range sc.parts {
		names = append(names, p.name)
	}
	return names
}

// refTo is columnExpr, once for each column.
func (sc *scope) refTo(f found) expr.Expr {
	for _, e := range sc.refs {
		if c := e.(expr.Column); c.Source == f.source && c.Ordinal == f.ordinal {
			return e
		}
	}
	e := expr.Expr(sc.columnExpr(f.source, f.ordinal))
	sc.refs = append(sc.refs, e)
	return e
}

// columnExpr returns the expression of a column of FROM. Why without the name of the only table:
// so has the planner it, which then keeps the expressions around it.
func (sc *scope) columnExpr(source, ordinal int) expr.Column {
	c := sc.table(source).Ref(source, ordinal)
	f := found{source, ordinal}
	c.Name = sc.columnOf(f).Name
	if sc.outer != nil || sc.ast == nil || sc.ast.Nests || len(sc.sel.From) > 1 {
		c.Table = sc.partOf(f).name
	}
	return c
}
