package syntax

func (p *parser) selectStatement() *Select {
	p.enter()
	defer p.leave()
	s := &Select{Pos: p.tok.pos}
	p.needWord("SELECT")
	s.Distinct = p.word("DISTINCT")
	if !s.Distinct {
		p.word("ALL")
	}
	for {
		s.Outputs = append(s.Outputs, p.output())
		if !p.op(",") {
			break
		}
	}
	p.needWord("FROM")
	s.From = p.sources()
	if p.word("WHERE") {
		s.Where = p.expr()
	}
	if p.words("GROUP", "BY") {
		s.GroupBy = p.exprs()
	}
	if p.word("HAVING") {
		s.Having = p.expr()
	}
	if p.words("ORDER", "BY") {
		s.OrderBy = p.orders()
	}
	if p.word("LIMIT") {
		s.Limit = p.expr()
	}
	if p.word("OFFSET") {
		s.Offset = p.expr()
	}
	return s
}

func (p *parser) output() Output {
	o := Output{Pos: p.tok.pos}
	if p.op("*") {
		o.Star = true
		return o
	}
	o.Expr = p.expr()
	if ref, ok := o.Expr.(*Ref); ok && ref.Column == "" { // table.*
		p.star = -1
		return Output{Pos: o.Pos, Star: true, Table: ref.Table}
	}
	if p.word("AS") || p.isName() {
		o.Alias = p.name("name of a column").Text
	}
	return o
}

func (p *parser) sources() []Source {
	out := []Source{p.source(JoinFirst)}
	for {
		switch {
		case p.op(","):
			out = append(out, p.source(JoinInner))
		case p.words("CROSS", "JOIN"):
			out = append(out, p.source(JoinInner))
		case p.word("LEFT"):
			p.word("OUTER")
			p.needWord("JOIN")
			out = append(out, p.joined(JoinLeft))
		case p.words("INNER", "JOIN"), p.word("JOIN"):
			out = append(out, p.joined(JoinInner))
		default:
			return out
		}
	}
}

func (p *parser) joined(kind JoinKind) Source {
	s := p.source(kind)
	p.needWord("ON")
	s.On = p.expr()
	return s
}

func (p *parser) source(kind JoinKind) Source {
	s := Source{Table: p.name("table"), Join: kind}
	if p.word("AS") || p.isName() {
		s.Alias = p.name("name of a table").Text
	}
	switch {
	case p.words("INDEXED", "BY"):
		s.Index = p.name("index").Text
	case p.words("NOT", "INDEXED"):
		s.NotIndexed = true
	}
	return s
}

func (p *parser) orders() []Order {
	var out []Order
	for {
		o := Order{Expr: p.expr()}
		o.Desc, o.Nulls = p.direction()
		out = append(out, o)
		if !p.op(",") {
			return out
		}
	}
}

// direction reads ASC or DESC and NULLS FIRST or LAST.
func (p *parser) direction() (desc bool, nulls NullOrder) {
	if desc = p.word("DESC"); !desc {
		p.word("ASC")
	}
	if p.word("NULLS") {
		switch {
		case p.word("FIRST"):
			nulls = NullsFirst
		case p.word("LAST"):
			nulls = NullsLast
		default:
			p.fail("expected FIRST or LAST, found %s", p.found())
		}
	}
	return desc, nulls
}

func (p *parser) exprs() []Expr {
	var out []Expr
	for {
		out = append(out, p.expr())
		if !p.op(",") {
			return out
		}
	}
}
