package sql

import (
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/keycodec"
)

// functionNames are other names of functions.
var functionNames = map[string]string{
	"substring": "substr", "char_length": "length", "character_length": "length",
	"ceiling": "ceil", "pow": "power", "ifnull": "coalesce", "lcase": "lower", "ucase": "upper",
	"now": "current_timestamp", "strpos": "instr", "truncate": "trunc",
}

// ofSeveral are functions of several values that have the names of aggregates.
var ofSeveral = map[string]string{"min": "least", "max": "greatest"}

func (sc *scope) call(e *syntax.Call) expr.Expr {
	name := e.Name
	if other := functionNames[name]; other != "" {
		name = other
	}
	fn, isAggregate := aggregateNames[name]
	if several := ofSeveral[name]; several != "" && len(e.Args) > 1 && !e.Distinct {
		name, isAggregate = several, false
	}
	if isAggregate {
		return sc.aggregate(e, fn)
	}
	if out := sc.shiftedBy(e); out != nil {
		return out
	}
	switch {
	case e.Star:
		sc.b.fail(e.Pos, "%s(*): * is possible with count only", e.Name)
	case e.Filter != nil:
		sc.b.fail(e.Filter.Position(), "FILTER is possible with aggregates only, such as count")
	case e.OrderBy != nil:
		sc.b.fail(e.OrderBy[0].Expr.Position(), "ORDER BY is possible in group_concat only")
	case e.Distinct:
		sc.b.fail(e.Pos, "DISTINCT is possible with aggregates only, such as count")
	case name == "mod" && len(e.Args) == 2:
		return expr.Arith{Op: expr.Mod, L: sc.expr(e.Args[0]), R: sc.expr(e.Args[1])}
	case name == "current_timestamp" && len(e.Args) == 0:
		return sc.b.params.now()
	case name == "current_date" && len(e.Args) == 0:
		return expr.Cast{X: sc.b.params.now(), To: dateType, Pos: sc.b.place(e.Pos)}
	case expr.FuncUsage(name) == "":
		sc.noFunction(e)
	}
	if expr.CheckFunc(name, len(e.Args)) != nil {
		sc.b.fail(e.Pos, "%s does not take %d arguments: %s", e.Name, len(e.Args),
			expr.FuncUsage(name))
	}
	f := expr.Func{Name: name, Args: sc.exprs(e.Args), Pos: sc.b.place(e.Pos)}
	if strings.HasPrefix(name, "concat") {
		sc.writtenDates(f.Args)
	}
	if !expr.Chooses(name) {
		return f
	}
	if t := sc.typeBeside(f.Args); t.known() {
		return sc.coerceArgs(t, f, e)
	}
	return f
}

// typeBeside returns the type that constants and parameters take from what stands beside them.
func (sc *scope) typeBeside(list []expr.Expr) typ {
	for _, e := range list {
		switch e.(type) {
		case expr.Const, expr.Param:
			continue
		}
		if t := sc.typeOf(e); t.known() {
			return t
		}
	}
	return typ{}
}

// concat binds a chain of ||, which is one call.
func (sc *scope) concat(e *syntax.Binary) expr.Expr {
	f := expr.Func{Name: "concat", Pos: sc.b.place(e.Pos)}
	f.Args = sc.terms(nil, e, "||")
	sc.writtenDates(f.Args)
	return f
}

// interval returns an expression that is an interval, or nil.
func interval(e syntax.Expr) *syntax.Literal {
	l, ok := e.(*syntax.Literal)
	if !ok || l.Kind != syntax.LiteralInterval {
		return nil
	}
	return l
}

// shiftedBy binds date_add(time, INTERVAL …) and date_sub, nil for other calls.
func (sc *scope) shiftedBy(e *syntax.Call) expr.Expr {
	op := "+"
	switch e.Name {
	case "date_sub":
		op = "-"
	case "date_add":
	default:
		return nil
	}
	if len(e.Args) != 2 || interval(e.Args[1]) == nil {
		return nil
	}
	return sc.shifted(&syntax.Binary{At: e.At, Op: op, L: e.Args[0], R: e.Args[1]})
}

// shifted binds a time and an interval, nil for other sums.
func (sc *scope) shifted(e *syntax.Binary) expr.Expr {
	at, by := e.L, interval(e.R)
	if by == nil && e.Op == "+" {
		at, by = e.R, interval(e.L)
	}
	if by == nil || e.Op != "+" && e.Op != "-" || interval(at) != nil {
		return nil
	}
	text, err := expr.Interval(by.Text, e.Op == "-")
	if err != nil {
		sc.b.refuse(by.Pos, err)
	}
	t := sc.expr(at)
	return expr.Func{Name: "date_add", Pos: sc.b.place(e.Pos), Args: []expr.Expr{
		sc.coerce(plainType(keycodec.TypeTime), t, at), expr.Const{Value: expr.String(text)}}}
}

// dateType is the type DATE.
var dateType = expr.CastType{Kind: expr.KindTime, Places: expr.PlacesOfDate}

// writtenDates replaces dates by their texts. Why: as values they are times.
func (sc *scope) writtenDates(list []expr.Expr) {
	for i, e := range list {
		if !sc.typeOf(e).date() {
			continue
		}
		text := expr.Cast{X: e, To: expr.CastType{Kind: expr.KindString}}
		list[i] = expr.Func{Name: "replace", Args: []expr.Expr{text,
			expr.Const{Value: expr.String("T00:00:00Z")}, expr.Const{Value: expr.String("")}}}
	}
}

// difference binds the difference of two times, nil for that of other values: between dates it is
// a number of days.
func (sc *scope) difference(e *syntax.Binary, l, r expr.Expr) expr.Expr {
	if e.Op != "-" {
		return nil
	}
	lt, rt := sc.typeOf(l), sc.typeOf(r)
	if !lt.time() || !rt.time() {
		return nil
	}
	if !lt.date() || !rt.date() {
		sc.b.fail(e.Pos, "kstone has no difference of times but of dates; subtract extract(epoch "+
			"FROM x), which is in seconds")
	}
	seconds := func(x expr.Expr) expr.Expr {
		return expr.Func{Name: "date_part", Pos: sc.b.place(e.Pos),
			Args: []expr.Expr{expr.Const{Value: expr.String("epoch")}, x}}
	}
	return expr.Arith{Op: expr.Div, L: expr.Arith{Op: expr.Sub, L: seconds(l), R: seconds(r)},
		R: expr.Const{Value: expr.Int(24 * 60 * 60)}}
}

// caseExpr binds a CASE: constants take the type of what they are compared with, and results
// that of the others.
func (sc *scope) caseExpr(e *syntax.Case) expr.Expr {
	out := expr.Case{Else: expr.Const{}}
	if e.X != nil {
		out.X = sc.expr(e.X)
	}
	results := make([]expr.Expr, 0, len(e.Whens)+1)
	for _, w := range e.Whens {
		test := sc.expr(w.If)
		if e.X != nil {
			test = sc.coerceTo(out.X, test, w.If)
		}
		out.Whens = append(out.Whens, expr.When{If: test, Then: sc.expr(w.Then)})
		results = append(results, out.Whens[len(out.Whens)-1].Then)
	}
	if e.Else != nil {
		out.Else = sc.expr(e.Else)
		results = append(results, out.Else)
	}
	if t := sc.typeBeside(results); t.known() {
		return sc.coerceResults(t, out, e)
	}
	return out
}

// coerceResults is coerce for the results of a CASE.
func (sc *scope) coerceResults(t typ, c expr.Case, at *syntax.Case) expr.Case {
	whens := make([]expr.When, len(c.Whens))
	for i, w := range c.Whens {
		whens[i] = expr.When{If: w.If, Then: sc.chosen(t, w.Then, at.Whens[i].Then)}
	}
	c.Whens = whens
	if at.Else != nil {
		c.Else = sc.chosen(t, c.Else, at.Else)
	}
	return c
}

// cast binds CAST.
func (sc *scope) cast(e *syntax.Cast) expr.Expr {
	c := sc.b.castColumn(&e.To)
	if c.List {
		sc.b.fail(e.To.Pos, "CAST does not make lists")
	}
	to := c.CastType()
	x := []expr.Expr{sc.expr(e.X)}
	if to.Kind == expr.KindString {
		sc.writtenDates(x)
	}
	return expr.Cast{X: x[0], To: to, Pos: sc.b.place(e.Pos)}
}
