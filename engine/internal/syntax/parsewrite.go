package syntax

func (p *parser) insert() Statement {
	s := &Insert{Pos: p.tok.pos}
	if p.word("REPLACE") {
		s.Conflict = ConflictReplaces
	} else {
		p.needWord("INSERT")
		if p.word("OR") {
			switch {
			case p.word("REPLACE"):
				s.Conflict = ConflictReplaces
			case p.word("IGNORE"):
				s.Conflict = ConflictIgnored
			default:
				p.fail("expected REPLACE or IGNORE, found %s", p.found())
			}
		}
	}
	p.needWord("INTO")
	s.Table = p.name("table")
	if p.isOp("(") {
		s.Columns = p.names("column")
	}
	p.needWord("VALUES")
	for {
		pos := p.tok.pos
		p.needOp("(")
		row := p.exprs()
		p.needOp(")")
		if want := len(s.Columns); want > 0 && len(row) != want {
			p.failAt(pos, "%d values for %d columns", len(row), want)
		}
		s.Rows = append(s.Rows, row)
		if !p.op(",") {
			return s
		}
	}
}

func (p *parser) update() Statement {
	s := &Update{Pos: p.tok.pos}
	p.needWord("UPDATE")
	s.Table = p.name("table")
	p.needWord("SET")
	for {
		a := Assignment{Column: p.name("column")}
		p.needOp("=")
		a.Value = p.expr()
		s.Set = append(s.Set, a)
		if !p.op(",") {
			break
		}
	}
	if p.word("WHERE") {
		s.Where = p.expr()
	}
	return s
}

func (p *parser) delete() Statement {
	s := &Delete{Pos: p.tok.pos}
	p.needWord("DELETE")
	p.needWord("FROM")
	s.Table = p.name("table")
	if p.word("WHERE") {
		s.Where = p.expr()
	}
	return s
}
