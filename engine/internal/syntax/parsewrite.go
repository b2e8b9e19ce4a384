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
		} else if p.word("IGNORE") {
			s.Conflict = ConflictIgnored
		}
	}
	p.needWord("INTO")
	s.Table = p.name("table")
	if p.isWord("SET") {
		p.fail("kstone has no INSERT … SET; write INSERT INTO table (columns) VALUES (…)")
	}
	switch {
	case p.isOp("(") && p.peek().text == ")": // MySQL's () VALUES ()
		p.advance()
		p.advance()
		s.Columns = []Name{}
	case p.isOp("("):
		s.Columns = p.columnNames()
	}
	switch {
	case s.Columns == nil && p.words("DEFAULT", "VALUES"):
		s.Columns, s.Rows = []Name{}, [][]Expr{{}}
	case p.isWord("SELECT"), p.isWord("WITH"):
		s.Query = p.selectStatement()
	default:
		p.rows(s)
	}
	if at := p.tok.pos; p.word("ON") {
		if p.word("DUPLICATE") {
			s.Upsert = p.onDuplicate(at)
		} else {
			p.needWord("CONFLICT")
			s.Upsert = p.upsert(at)
		}
	}
	s.Returning = p.returning()
	return s
}

// rows reads VALUES and rows.
func (p *parser) rows(s *Insert) {
	if !p.word("VALUES") {
		p.fail("expected VALUES or SELECT, found %s%s", p.found(), p.meant("VALUES", "SELECT"))
	}
	s.Rows = list(p, nil, func() []Expr {
		pos := p.tok.pos
		p.needOp("(")
		row := []Expr{}
		for !p.isOp(")") || s.Columns == nil || len(s.Columns) > 0 {
			row = append(row, p.assigned())
			if !p.op(",") {
				break
			}
		}
		p.needOp(")")
		if want := len(s.Columns); s.Columns != nil && len(row) != want {
			p.failAt(pos, "%d values for %d columns", len(row), want)
		}
		return row
	})
}

// assigned reads an expression or DEFAULT.
func (p *parser) assigned() Expr {
	pos := p.tok.pos
	if p.isWord("DEFAULT") {
		if next := p.peek(); next.text != "." && next.text != "(" {
			p.advance()
			return &Default{At{pos}}
		}
	}
	return p.expr()
}

// upsert reads what follows ON CONFLICT.
func (p *parser) upsert(pos int) *Upsert {
	u := &Upsert{Pos: pos}
	if p.isOp("(") {
		u.Columns = p.columnNames()
	}
	p.needWord("DO")
	if p.word("NOTHING") {
		return u
	}
	p.needWord("UPDATE")
	p.needWord("SET")
	u.Set = p.assignments()
	if p.word("WHERE") {
		u.Where = p.expr()
	}
	return u
}

func (p *parser) assignments() []Assignment {
	return list(p, nil, func() Assignment {
		a := Assignment{Column: p.name("column")}
		if p.isOp(".") {
			p.failAt(a.Column.Pos, "SET takes the name of the column alone; leave out %s.",
				a.Column.Text)
		}
		p.needOp("=")
		a.Value = p.assigned()
		return a
	})
}

func (p *parser) update() Statement {
	s := &Update{}
	p.needWord("UPDATE")
	s.Table = p.name("table")
	s.Alias = p.alias()
	p.refuseAbsent(absentWrites)
	p.needWord("SET")
	s.Set = p.assignments()
	s.Where = p.writeWhere()
	s.Returning = p.returning()
	return s
}

// alias reads another name of the table that is written, which may be missing.
func (p *parser) alias() string {
	if !p.word("AS") && !p.isName() {
		return ""
	}
	return p.name("name of a table").Text
}

// writeWhere reads the WHERE of UPDATE and DELETE, nil without.
func (p *parser) writeWhere() (where Expr) {
	p.refuseAbsent(absentWrites)
	if p.word("WHERE") {
		where = p.expr()
		p.refuseAbsent(absentWrites)
	}
	return where
}

func (p *parser) delete() Statement {
	s := &Delete{}
	p.needWord("DELETE")
	if next := p.peek(); p.isName() && next.is("FROM", "USING") {
		p.fail("kstone has no DELETE of several tables; write DELETE FROM table WHERE key IN " +
			"(SELECT …)")
	}
	p.needWord("FROM")
	s.Table = p.name("table")
	s.Alias = p.alias()
	s.Where = p.writeWhere()
	s.Returning = p.returning()
	return s
}

// returning reads RETURNING and its columns, nil without.
func (p *parser) returning() []Output {
	if !p.word("RETURNING") {
		return nil
	}
	return list(p, &p.outputs, p.output)
}
