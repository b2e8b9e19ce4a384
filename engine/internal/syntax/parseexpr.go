package syntax

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The levels of precedence, loosest first: OR, AND, NOT, comparisons, + - ||, * / %, sign.

func (p *parser) expr() Expr {
	p.enter()
	e := p.disjunction()
	p.leave() // not deferred: a failure ends the parse
	return e
}

func (p *parser) disjunction() Expr {
	l := p.conjunction()
	for p.isWord("OR") {
		pos := p.tok.pos
		p.advance()
		l = p.binaries.put(Binary{At{pos}, "OR", l, p.conjunction()})
	}
	return l
}

func (p *parser) conjunction() Expr {
	l := p.negation()
	for p.isWord("AND") {
		pos := p.tok.pos
		p.advance()
		l = p.binaries.put(Binary{At{pos}, "AND", l, p.negation()})
	}
	return l
}

func (p *parser) negation() Expr {
	pos := p.tok.pos
	if !p.word("NOT") {
		return p.comparison()
	}
	p.enter()
	defer p.leave()
	return &Unary{At{pos}, "NOT", p.negation()}
}

func (p *parser) comparison() Expr {
	l := p.sum()
	for {
		pos := p.tok.pos
		if p.tok.kind == tokenOperator {
			op := p.tok.text
			switch op {
			case "==":
				op = "="
			case "!=":
				op = "<>"
			case "=", "<>", "<", "<=", ">", ">=", "<=>":
			default:
				return l
			}
			if p.advance(); op == "<=>" {
				l = &IsDistinct{At{pos}, l, p.sum(), true}
			} else {
				l = p.compared(l, pos, op)
			}
			continue
		}
		if p.tok.kind != tokenName {
			return l
		}
		if p.word("IS") {
			l = p.is(l, pos)
			continue
		}
		if p.tok.is("ISNULL", "NOTNULL") {
			l = &IsNull{At{pos}, l, p.isWord("NOTNULL")}
			p.advance()
			continue
		}
		next, ok := p.membership(l, pos, p.word("NOT"))
		if !ok {
			return l
		}
		l = next
	}
}

// compared reads what follows a comparison; = ANY and <> ALL of a query are IN and NOT IN.
func (p *parser) compared(l Expr, pos int, op string) Expr {
	if !p.tok.is("ANY", "SOME", "ALL") || p.peek().text != "(" {
		return p.binaries.put(Binary{At{pos}, op, l, p.sum()})
	}
	word := strings.ToUpper(p.tok.text)
	if all := word == "ALL"; op == "=" && all || op == "<>" && !all || op != "=" && op != "<>" {
		p.fail("kstone has no %s %s; compare with a value: (SELECT min(x) …) or (SELECT max(x) …)",
			op, word)
	}
	p.advance()
	return p.in(l, pos, op == "<>")
}

// is reads what follows IS.
func (p *parser) is(l Expr, pos int) Expr {
	not := p.word("NOT")
	at := p.tok.pos
	switch {
	case p.word("NULL"), p.word("UNKNOWN"):
		return &IsNull{At{pos}, l, not}
	case p.word("TRUE"):
		return &IsDistinct{At{pos}, l, &Literal{At{at}, LiteralBool, "TRUE"}, !not}
	case p.word("FALSE"):
		return &IsDistinct{At{pos}, l, &Literal{At{at}, LiteralBool, "FALSE"}, !not}
	case p.words("DISTINCT", "FROM"):
		return &IsDistinct{At{pos}, l, p.sum(), not}
	}
	p.fail("expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS, found %s", p.found())
	return nil
}

// membership reads IN, BETWEEN, LIKE, BEGINS WITH and CONTAINS, after a NOT or not.
func (p *parser) membership(l Expr, pos int, not bool) (Expr, bool) {
	switch {
	case p.word("IN"):
		return p.in(l, pos, not), true
	case p.word("BETWEEN"):
		lo := p.sum()
		p.needWord("AND")
		return &Between{At{pos}, l, lo, p.sum(), not}, true
	case p.word("LIKE"):
		return p.like("LIKE", l, pos, not), true
	case p.word("ILIKE"):
		return p.like("ILIKE", l, pos, not), true
	case p.words("BEGINS", "WITH"):
		return &Match{At: At{pos}, Op: "BEGINS WITH", X: l, Y: p.sum(), Not: not}, true
	case p.word("CONTAINS"):
		return &Match{At: At{pos}, Op: "CONTAINS", X: l, Y: p.sum(), Not: not}, true
	case not && p.word("NULL"): // as SQLite writes IS NOT NULL
		return &IsNull{At{pos}, l, true}, true
	case not:
		p.fail("expected IN, BETWEEN, LIKE, BEGINS WITH or CONTAINS after NOT, found %s",
			p.found())
	}
	return nil, false
}

// like reads a pattern and the character that takes a wildcard its meaning.
func (p *parser) like(op string, l Expr, pos int, not bool) Expr {
	m := &Match{At: At{pos}, Op: op, X: l, Y: p.sum(), Not: not}
	if p.word("ESCAPE") {
		at := p.tok.pos
		if m.Escape = p.text("character after ESCAPE"); utf8.RuneCountInString(m.Escape) != 1 {
			p.failAt(at, "ESCAPE takes one character")
		}
	}
	return m
}

func (p *parser) in(l Expr, pos int, not bool) Expr {
	in := &In{At: At{pos}, X: l, Not: not}
	p.needOp("(")
	if p.atQuery() {
		in.Query = p.selectStatement()
	} else if !p.isOp(")") { // an empty list holds nothing
		in.List = p.exprs()
		if q, ok := in.List[0].(*Scalar); ok && len(in.List) == 1 { // in more parentheses
			in.List, in.Query = nil, p.queryFrom(q.Query)
		}
	}
	p.needOp(")")
	return in
}

func (p *parser) sum() Expr {
	l := p.product()
	for p.isOp("+") || p.isOp("-") || p.isOp("||") {
		pos, op := p.tok.pos, p.tok.text
		p.advance()
		l = p.binaries.put(Binary{At{pos}, op, l, p.product()})
	}
	return l
}

func (p *parser) product() Expr {
	l := p.operand()
	for p.isOp("*") || p.isOp("/") || p.isOp("%") {
		pos, op := p.tok.pos, p.tok.text
		p.advance()
		l = p.binaries.put(Binary{At{pos}, op, l, p.operand()})
	}
	return l
}

func (p *parser) operand() Expr {
	p.enter()
	e := p.primary()
	p.leave()
	return e
}

// primary is operand, within the bound of the depth.
func (p *parser) primary() Expr {
	pos := p.tok.pos
	switch tok := p.tok; tok.kind {
	case tokenOperator:
		switch {
		case p.op("-"):
			return p.negative(pos)
		case p.op("+"):
			return p.operand()
		case p.op("("):
			return p.parenthesis(pos)
		case p.op("["):
			return p.list(pos)
		}
	case tokenName:
		if e := p.wordOperand(pos); e != nil {
			return e
		}
	case tokenNumber:
		p.advance()
		return p.literals.put(Literal{At{pos}, LiteralNumber, tok.text})
	case tokenString:
		p.advance()
		return p.literals.put(Literal{At{pos}, LiteralString, tok.text})
	case tokenBlob:
		p.advance()
		return p.blob(pos, tok.text)
	case tokenParam:
		p.advance()
		return p.param(pos, tok.text)
	}
	if !p.isName() {
		if what := absentPairs[p.before.text+p.tok.text]; p.before.end == pos && what != "" {
			p.failAt(p.before.pos, "kstone has no %s", what)
		}
		p.fail("expected a value, a column or an expression, found %s", p.found())
	}
	return p.refOrCall(pos)
}

// negative reads what a minus sign stands before; a number takes the sign.
func (p *parser) negative(pos int) Expr {
	x := p.operand()
	if n, ok := x.(*Literal); ok && n.Kind == LiteralNumber && !strings.HasPrefix(n.Text, "-") {
		if n.Pos == pos+1 {
			n.Text = p.lex.text[pos : n.Pos+len(n.Text)]
		} else {
			n.Text = "-" + n.Text
		}
		n.Pos = pos
		return n
	}
	return &Unary{At{pos}, "-", x}
}

// parenthesis reads a subquery, a row value or an expression.
func (p *parser) parenthesis(pos int) Expr {
	if p.atQuery() && !p.atExcluded() {
		q := p.selectStatement()
		p.needOp(")")
		return &Scalar{At{pos}, q}
	}
	first := p.expr()
	if q, ok := first.(*Scalar); ok && p.atRest() {
		first = &Scalar{At{pos}, p.queryFrom(q.Query)}
	}
	if p.op(")") {
		return first
	}
	if !p.op(",") {
		p.needOp(")")
	}
	items := append([]Expr{first}, p.exprs()...)
	p.needOp(")")
	return &Row{At{pos}, items}
}

func (p *parser) list(pos int) Expr {
	l := &List{At: At{pos}}
	if !p.isOp("]") {
		l.Items = p.exprs()
	}
	p.needOp("]")
	return l
}

func (p *parser) blob(pos int, digits string) Expr {
	if len(digits)%2 != 0 || strings.Trim(digits, "0123456789abcdefABCDEF") != "" {
		p.failAt(pos, "a blob is an even number of hexadecimal digits")
	}
	return &Literal{At{pos}, LiteralBlob, strings.ToLower(digits)}
}

// maxParams bounds the number of a parameter.
const maxParams = 1 << 15

// param numbers a parameter. Numbered ones and ? without a number exclude each other.
func (p *parser) param(pos int, text string) Expr {
	if text[0] == ':' {
		return &Param{At: At{pos}, Name: text[1:]}
	}
	if text == "?" {
		if p.params.highest > 0 {
			p.failAt(pos, "? stands beside numbered parameters; number all of them")
		}
		p.params.unnumbered++
		return &Param{At: At{pos}, Index: p.params.unnumbered}
	}
	n, err := strconv.Atoi(text[1:])
	if err != nil || n < 1 || n > maxParams {
		p.failAt(pos, "the number of a parameter is 1 to %d", maxParams)
	}
	if p.params.unnumbered > 0 {
		p.failAt(pos, "a numbered parameter stands beside ?; number all of them")
	}
	p.params.highest = max(p.params.highest, n)
	return &Param{At: At{pos}, Index: n}
}

// valueWords are the words that wordOperand knows.
var valueWords = wordSet(`array case cast current_date current_timestamp date decimal exists extract
	false float interval left localtimestamp null position right shard substring timestamp trim true
	values`)

// wordOperand reads the operands that begin with a keyword, nil for another word.
func (p *parser) wordOperand(pos int) Expr {
	if !valueWords.has(p.tok.text) {
		return nil
	}
	switch {
	case p.word("NULL"):
		return &Literal{At{pos}, LiteralNull, "NULL"}
	case p.word("TRUE"):
		return &Literal{At{pos}, LiteralBool, "TRUE"}
	case p.word("FALSE"):
		return &Literal{At{pos}, LiteralBool, "FALSE"}
	case p.word("EXISTS"):
		p.needOp("(")
		q := p.selectStatement()
		p.needOp(")")
		return &Exists{At{pos}, q}
	case p.word("CASE"):
		return p.caseExpr(pos)
	case p.isWord("ARRAY") && p.peek().text == "[":
		p.advance()
		p.advance()
		return p.list(pos)
	case p.atExcluded():
		return p.excluded(pos)
	case p.isWord("LEFT"), p.isWord("RIGHT"), p.isWord("SHARD"):
		name := strings.ToLower(p.tok.text)
		if p.advance(); !p.isOp("(") {
			p.fail("expected \"(\" after the function %s, found %s", name, p.found())
		}
		return p.call(pos, name)
	}
	if e := p.wordCall(pos); e != nil {
		return e
	}
	if p.isWord("DATE") && p.peek().kind == tokenString {
		p.advance()
		x := &Literal{At{p.tok.pos}, LiteralString, p.text("date")}
		return &Cast{At: At{pos}, X: x, To: TypeName{Pos: pos, Name: "DATE"}}
	}
	at := slices.IndexFunc(typedLiterals, func(t typedLiteral) bool { return p.isWord(t.word) })
	if at < 0 {
		return nil
	}
	kind := typedLiterals[at].kind
	name := p.tok
	p.advance()
	switch {
	case p.tok.kind == tokenString:
		return p.intervalUnit(&Literal{At{pos}, kind, p.text("literal")})
	case kind == LiteralInterval && p.tok.kind == tokenNumber:
		l := &Literal{At{pos}, kind, p.tok.text}
		p.advance()
		return p.intervalUnit(l)
	}
	return p.refBehind(pos, name.text) // a column of that name
}

// typedLiterals are the types that may stand before a text, which is then a value of them.
var typedLiterals = []typedLiteral{
	{"TIMESTAMP", LiteralTime}, {"FLOAT", LiteralFloat}, {"DECIMAL", LiteralDecimal},
	{"INTERVAL", LiteralInterval},
}

type typedLiteral struct {
	word string
	kind LiteralKind
}

// refOrCall reads a column, table.column, table.* or a function call.
func (p *parser) refOrCall(pos int) Expr {
	quoted := p.tok.kind == tokenQuoted
	double := quoted && p.lex.text[pos] == '"'
	name := p.name("column")
	if !quoted && p.isOp("(") {
		return p.call(pos, strings.ToLower(name.Text))
	}
	ref := p.refBehind(pos, name.Text)
	ref.Quoted = double && ref.Table == ""
	return ref
}

// refBehind reads what follows the first name of a column.
func (p *parser) refBehind(pos int, name string) *Ref {
	if !p.op(".") {
		return p.refs.put(Ref{At: At{pos}, Column: name})
	}
	if p.op("*") {
		p.star = pos
		return &Ref{At: At{pos}, Table: name}
	}
	return p.refs.put(Ref{At: At{pos}, Table: name, Column: p.name("column").Text})
}

func (p *parser) call(pos int, name string) Expr {
	c := p.calls.put(Call{At: At{pos}, Name: name})
	p.needOp("(")
	switch {
	case p.op("*"):
		c.Star = true
	case !p.isOp(")"):
		if c.Distinct = p.word("DISTINCT"); !c.Distinct {
			p.word("ALL")
		}
		c.Args = p.exprs()
		if p.words("ORDER", "BY") {
			c.OrderBy = p.orders()
		}
		if name == "group_concat" && p.word("SEPARATOR") {
			c.Args = append(c.Args, &Literal{At{p.tok.pos}, LiteralString, p.text("separator")})
		}
	}
	p.needOp(")")
	if !p.tok.is("OVER", "FILTER") {
		return c
	}
	next := p.peek()
	open := next.kind == tokenOperator && next.text == "("
	switch {
	case p.isWord("OVER") &&
		(open || next.kind == tokenName && !reserved.has(next.text)):
		p.refuseAbsent(absentClauses)
	case open && p.word("FILTER"):
		p.needOp("(")
		p.needWord("WHERE")
		c.Filter = p.expr()
		p.needOp(")")
	}
	return c
}
