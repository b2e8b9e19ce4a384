package syntax

import (
	"maps"
	"slices"
	"strings"
)

// Functions with words between their arguments are read as calls with commas: EXTRACT(day FROM
// t) is date_part('day', t).

// caseExpr reads what follows CASE.
func (p *parser) caseExpr(pos int) Expr {
	e := &Case{At: At{pos}}
	if !p.isWord("WHEN") {
		e.X = p.expr()
	}
	for p.word("WHEN") {
		w := When{If: p.expr()}
		p.needWord("THEN")
		w.Then = p.expr()
		e.Whens = append(e.Whens, w)
	}
	if len(e.Whens) == 0 {
		p.fail("expected WHEN, found %s", p.found())
	}
	if p.word("ELSE") {
		e.Else = p.expr()
	}
	p.needWord("END")
	return e
}

// wordCall reads CAST and the functions that take words, nil if there is none of them: a
// parenthesis follows their names.
func (p *parser) wordCall(pos int) Expr {
	if !p.tok.is(calledWords...) {
		return nil
	}
	name := strings.ToUpper(p.tok.text)
	if alone := currentTimes[name]; alone != "" {
		p.advance()
		if p.op("(") {
			if p.tok.kind == tokenNumber { // digits of MySQL: the column says how many are kept
				p.advance()
			}
			p.needOp(")")
		}
		return &Call{At: At{pos}, Name: alone}
	}
	if next := p.peek(); next.kind != tokenOperator || next.text != "(" {
		return nil
	}
	var read func(pos int) Expr
	switch name {
	case "CAST":
		read = p.cast
	case "EXTRACT":
		read = p.extract
	case "POSITION":
		read = p.position
	case "SUBSTRING":
		read = p.substring
	case "TRIM":
		read = p.trim
	default:
		return nil
	}
	p.advance()
	p.needOp("(")
	e := read(pos)
	p.needOp(")")
	return e
}

// calledWords are the words that wordCall reads.
var calledWords = slices.Concat(slices.Collect(maps.Keys(currentTimes)),
	[]string{"CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM"})

// currentTimes are the words that are calls without parentheses.
var currentTimes = map[string]string{"CURRENT_TIMESTAMP": "current_timestamp",
	"LOCALTIMESTAMP": "current_timestamp", "CURRENT_DATE": "current_date"}

func (p *parser) cast(pos int) Expr {
	c := &Cast{At: At{pos}, X: p.expr()}
	p.needWord("AS")
	c.To = p.typeName()
	return c
}

// extract reads field FROM time.
func (p *parser) extract(pos int) Expr {
	field := p.tok
	if field.kind != tokenName && field.kind != tokenString {
		p.fail("expected a field such as YEAR or DAY, found %s", p.found())
	}
	p.advance()
	p.needWord("FROM")
	return &Call{At: At{pos}, Name: "date_part", Args: []Expr{
		&Literal{At{field.pos}, LiteralString, strings.ToLower(field.text)}, p.expr()}}
}

// position reads part IN text.
func (p *parser) position(pos int) Expr {
	part := p.sum()
	p.needWord("IN")
	return &Call{At: At{pos}, Name: "instr", Args: []Expr{p.expr(), part}}
}

// substring reads text, from, count or text FROM from FOR count.
func (p *parser) substring(pos int) Expr {
	c := &Call{At: At{pos}, Name: "substr", Args: []Expr{p.expr()}}
	switch {
	case p.op(","):
		c.Args = append(c.Args, p.exprs()...)
	case p.word("FROM"):
		c.Args = append(c.Args, p.expr())
		if p.word("FOR") {
			c.Args = append(c.Args, p.expr())
		}
	default:
		p.fail("expected \",\" or FROM, found %s", p.found())
	}
	return c
}

// trim reads text, characters or [LEADING | TRAILING | BOTH] [characters] FROM text.
func (p *parser) trim(pos int) Expr {
	c := &Call{At: At{pos}, Name: "trim"}
	side := true
	switch {
	case p.word("LEADING"):
		c.Name = "ltrim"
	case p.word("TRAILING"):
		c.Name = "rtrim"
	default:
		side = p.word("BOTH")
	}
	if side && p.word("FROM") {
		c.Args = p.exprs()
		return c
	}
	c.Args = []Expr{p.expr()}
	switch {
	case p.word("FROM"):
		c.Args = append([]Expr{p.expr()}, c.Args...)
	case side:
		p.fail("expected FROM, found %s", p.found())
	case p.op(","):
		c.Args = append(c.Args, p.exprs()...)
	}
	return c
}

// intervalUnit joins the unit after INTERVAL 1 to it: INTERVAL 1 DAY is INTERVAL '1 day'.
func (p *parser) intervalUnit(l *Literal) Expr {
	if l.Kind == LiteralInterval && intervalUnits.has(p.tok.text) &&
		p.tok.kind == tokenName {
		l.Text += " " + strings.ToLower(p.tok.text)
		p.advance()
	}
	return l
}

var intervalUnits = wordSet(`year month week day hour minute second years months weeks days hours
	minutes seconds`)
