package syntax

import "strconv"

// levels are the operators that may stand in a chain, which is read from left to right. Why without
// parentheses: a long one would be nested deeper than the parser goes.
var levels = map[string]int{"OR": 1, "AND": 2, "+": 3, "-": 3, "||": 3, "*": 4, "/": 4, "%": 4}

// operand formats an expression inside another, in parentheses if it is an operation.
func (f *formatter) operand(e Expr) {
	enclose := false
	switch e := e.(type) {
	case *Unary, *Binary, *Between, *In, *IsNull, *IsDistinct, *Match:
		enclose = true
	case *Literal: // two signs would begin a comment
		enclose = e.Kind == LiteralNumber && e.Text[0] == '-'
	}
	f.when(enclose, "(")
	f.expr(e)
	f.when(enclose, ")")
}

func (f *formatter) expr(e Expr) {
	switch e := e.(type) {
	case *Literal:
		f.literal(e)
	case *Param:
		f.when(e.Index > 0, "?"+strconv.Itoa(e.Index))
		f.when(e.Index == 0, ":", e.Name)
	case *Ref:
		f.when(e.Table != "", QuoteName(e.Table), ".")
		f.put(QuoteName(e.Column))
	case *Unary:
		f.put(e.Op)
		f.when(e.Op == "NOT", " ")
		f.operand(e.X)
	case *Binary:
		if l, ok := e.L.(*Binary); ok && levels[l.Op] > 0 && levels[l.Op] == levels[e.Op] {
			f.expr(l)
		} else {
			f.operand(e.L)
		}
		f.put(" ", e.Op, " ")
		f.operand(e.R)
	case *Row:
		f.enclosed(e.Items)
	case *Default:
		f.put("DEFAULT")
	case *List:
		f.put("[")
		f.exprs(e.Items)
		f.put("]")
	case *Call:
		f.put(e.Name, "(")
		f.when(e.Star, "*")
		f.when(e.Distinct, "DISTINCT ")
		f.exprs(e.Args)
		if len(e.OrderBy) > 0 {
			f.put(" ORDER BY ")
			f.orders(e.OrderBy)
		}
		f.put(")")
		if e.Filter != nil {
			f.clause(" FILTER (WHERE ", e.Filter)
			f.put(")")
		}
	case *Case:
		f.put("CASE")
		f.clause(" ", e.X)
		for _, w := range e.Whens {
			f.clause(" WHEN ", w.If)
			f.clause(" THEN ", w.Then)
		}
		f.clause(" ELSE ", e.Else)
		f.put(" END")
	case *Cast:
		f.clause("CAST(", e.X)
		f.put(" AS ")
		f.typeName(&e.To)
		f.put(")")
	default:
		f.condition(e)
	}
}

// condition formats the expressions of several keywords.
func (f *formatter) condition(e Expr) {
	not := func(is bool) { f.when(is, "NOT ") }
	switch e := e.(type) {
	case *Between:
		f.operand(e.X)
		f.put(" ")
		not(e.Not)
		f.put("BETWEEN ")
		f.operand(e.Lo)
		f.put(" AND ")
		f.operand(e.Hi)
	case *In:
		f.operand(e.X)
		f.put(" ")
		not(e.Not)
		f.put("IN ")
		if e.Query != nil {
			f.subquery(e.Query)
			return
		}
		f.enclosed(e.List)
	case *IsNull:
		f.operand(e.X)
		f.put(" IS ")
		not(e.Not)
		f.put("NULL")
	case *Match:
		f.operand(e.X)
		f.put(" ")
		not(e.Not)
		f.put(e.Op, " ")
		f.operand(e.Y)
		f.when(e.Escape != "", " ESCAPE ", QuoteText(e.Escape))
	case *IsDistinct:
		f.operand(e.X)
		f.put(" IS ")
		if l, ok := e.Y.(*Literal); ok && l.Kind == LiteralBool {
			not(!e.Not)
			f.put(l.Text)
			return
		}
		not(e.Not)
		f.put("DISTINCT FROM ")
		f.operand(e.Y)
	case *Exists:
		f.put("EXISTS ")
		f.subquery(e.Query)
	case *Scalar:
		f.subquery(e.Query)
	}
}

func (f *formatter) literal(l *Literal) {
	switch l.Kind {
	case LiteralString:
		f.put(QuoteText(l.Text))
	case LiteralBlob:
		f.put("X'", l.Text, "'")
	case LiteralTime:
		f.put("TIMESTAMP ", QuoteText(l.Text))
	case LiteralFloat:
		f.put("FLOAT ", QuoteText(l.Text))
	case LiteralDecimal:
		f.put("DECIMAL ", QuoteText(l.Text))
	case LiteralInterval:
		f.put("INTERVAL ", QuoteText(l.Text))
	default:
		f.put(l.Text)
	}
}
