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
	if p.word("FROM") {
		s.From = p.sources()
	}
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

// sources reads the tables of FROM and how they are joined. Parentheses round a join are gone
// in the tree: joins are from left to right, and inner joins may change places.
func (p *parser) sources() []Source {
	p.enter()
	defer p.leave()
	out := p.factor(JoinFirst)
	for {
		switch {
		case p.op(","), p.words("CROSS", "JOIN"):
			out = append(out, p.factor(JoinInner)...)
		case p.word("LEFT"):
			p.word("OUTER")
			p.needWord("JOIN")
			out = append(out, p.joined(JoinLeft)...)
		case p.words("INNER", "JOIN"), p.word("JOIN"):
			out = append(out, p.joined(JoinInner)...)
		default:
			for _, word := range []string{"NATURAL", "RIGHT", "FULL"} {
				if p.isWord(word) {
					p.refuseAbsent(absentClauses)
				}
			}
			return out
		}
	}
}

// joined reads what is joined on a condition.
func (p *parser) joined(kind JoinKind) []Source {
	out := p.factor(kind)
	last := &out[len(out)-1]
	pos := p.tok.pos
	if p.isWord("USING") {
		p.refuseAbsent(absentClauses)
	}
	p.needWord("ON")
	on := p.expr()
	if last.On != nil {
		on = &Binary{pos, "AND", last.On, on}
	}
	last.On = on
	return out
}

// factor reads a table, or joined tables in parentheses.
func (p *parser) factor(kind JoinKind) []Source {
	pos := p.tok.pos
	if !p.op("(") {
		return []Source{p.source(kind)}
	}
	out := p.sources()
	p.needOp(")")
	out[0].Join = kind
	for _, s := range out[1:] {
		if kind == JoinLeft || kind == JoinInner && s.Join == JoinLeft {
			p.failAt(pos, "kstone has no LEFT JOIN of or in parentheses that do not begin FROM; "+
				"join the tables from left to right")
		}
	}
	return out
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
