package syntax

import (
	"strconv"
	"strings"
)

// atQuery reports whether a query begins at the present token.
func (p *parser) atQuery() bool {
	return p.isWord("SELECT") || p.isWord("WITH") || p.isWord("VALUES")
}

// atRest reports whether what follows a query in parentheses makes it part of a longer one.
func (p *parser) atRest() bool {
	return p.tok.is("UNION", "INTERSECT", "EXCEPT", "ORDER", "LIMIT", "OFFSET")
}

// selectStatement reads a query: set operations of SELECTs, and what follows all of them.
// INTERSECT binds tighter than UNION and EXCEPT.
func (p *parser) selectStatement() *Select { return p.queryFrom(nil) }

// queryFrom reads a query whose first operand, in parentheses, has been read if it is not nil.
func (p *parser) queryFrom(first *Select) *Select {
	p.enter()
	defer p.leave()
	pos := p.tok.pos
	if first != nil {
		pos = first.Pos
	}
	var with []With
	if p.word("WITH") {
		with = p.withs()
		if p.tok.is("INSERT", "UPDATE", "DELETE") {
			p.fail("kstone has no WITH before %s; write its queries as subqueries",
				strings.ToUpper(p.tok.text))
		}
	}
	s := p.setOperations(first)
	more := with != nil || p.isWord("ORDER") || p.isWord("LIMIT") || p.isWord("OFFSET")
	if more && (s.With != nil || s.OrderBy != nil || s.Limit != nil || s.Offset != nil) {
		s = &Select{Set: &SetOperation{"UNION", true, []*Select{s}}} // it was in parentheses
	}
	if s.Pos = pos; with != nil {
		s.With = with
	}
	if p.words("ORDER", "BY") {
		s.OrderBy = p.orders()
	}
	if p.word("LIMIT") {
		if s.Limit = p.expr(); p.op(",") { // LIMIT offset, count
			s.Offset, s.Limit = s.Limit, p.expr()
		}
	}
	if s.Offset != nil && p.isWord("OFFSET") {
		p.fail("LIMIT offset, count has an offset already")
	}
	if p.word("OFFSET") {
		s.Offset = p.expr()
	}
	return s
}

// withs reads the queries of WITH.
func (p *parser) withs() []With {
	if p.isWord("RECURSIVE") {
		p.fail("kstone has no WITH RECURSIVE; repeat the query from the program")
	}
	return list(p, nil, func() With {
		w := With{Name: p.name("name of a query")}
		if p.isOp("(") {
			w.Columns = p.columnNames()
		}
		p.needWord("AS")
		p.needOp("(")
		w.Query = p.selectStatement()
		p.needOp(")")
		return w
	})
}

func (p *parser) setOperations(first *Select) *Select {
	l := p.intersections(first)
	for p.isWord("UNION") || p.isWord("EXCEPT") {
		l = p.setOperation(l, func() *Select { return p.intersections(nil) })
	}
	return l
}

func (p *parser) intersections(l *Select) *Select {
	if l == nil {
		l = p.selectCore()
	}
	for p.isWord("INTERSECT") {
		l = p.setOperation(l, p.selectCore)
	}
	return l
}

// setOperation reads the operator and its right operand. A chain of UNION ALL, or of UNION, is
// one operation.
func (p *parser) setOperation(l *Select, operand func() *Select) *Select {
	op, pos := strings.ToUpper(p.tok.text), p.tok.pos
	p.advance()
	all := p.word("ALL")
	if !all {
		p.word("DISTINCT")
	} else if op != "UNION" {
		p.failAt(pos, "kstone has no %s ALL; write %s", op, op)
	}
	r := operand()
	if l.Set != nil && l.Set.Op == "UNION" && op == "UNION" && l.Set.All == all &&
		l.OrderBy == nil && l.Limit == nil && l.Offset == nil && l.With == nil {
		l.Set.Queries = append(l.Set.Queries, r)
		return l
	}
	return &Select{Pos: l.Pos, Set: &SetOperation{op, all, []*Select{l, r}}}
}

// selectCore reads one SELECT up to HAVING, VALUES, or a query in parentheses.
func (p *parser) selectCore() *Select {
	pos := p.tok.pos
	switch {
	case p.op("("):
		s := p.selectStatement()
		p.needOp(")")
		return s
	case p.word("VALUES"):
		return p.valuesQuery(pos)
	}
	p.needWord("SELECT")
	s := p.selects.put(Select{Pos: pos})
	before := p.queries
	defer func() { s.Nests = p.queries > before; p.queries++ }()
	if s.Distinct = p.word("DISTINCT"); s.Distinct && p.isWord("ON") {
		p.fail("kstone has no DISTINCT ON; write GROUP BY, and any_value or min of the others")
	}
	if !s.Distinct {
		p.word("ALL")
	}
	if p.isWord("TOP") && p.peek().kind == tokenNumber {
		p.refuseAbsent(absentSelects)
	}
	s.Outputs = list(p, &p.outputs, p.output)
	if p.word("FROM") {
		s.From = p.sources()
		s.AsOf = p.asOf()
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
	return s
}

// valuesQuery reads rows as a query: each is a SELECT of column1, column2 and so on.
func (p *parser) valuesQuery(pos int) *Select {
	rows := list(p, nil, func() *Select {
		row := &Select{Pos: p.tok.pos}
		p.needOp("(")
		for i, e := range p.exprs() {
			name := "column" + strconv.Itoa(i+1)
			row.Outputs = append(row.Outputs, Output{Pos: e.Position(), Expr: e, Alias: name})
		}
		p.needOp(")")
		return row
	})
	if len(rows) == 1 {
		return rows[0]
	}
	return &Select{Pos: pos, Set: &SetOperation{"UNION", true, rows}}
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

// sources reads the tables of FROM and how they are joined. Parentheses round a join that make no
// difference are gone in the tree: joins are from left to right, and inner joins may change
// places.
func (p *parser) sources() []Source {
	p.enter()
	defer p.leave()
	out := p.factor(JoinFirst)
	for {
		if p.op(",") || p.words("CROSS", "JOIN") {
			out = append(out, p.factor(JoinInner)...)
			continue
		}
		natural := p.word("NATURAL")
		kind := JoinInner
		switch {
		case p.word("LEFT"):
			kind = JoinLeft
			p.word("OUTER")
		case p.word("RIGHT"):
			kind = JoinRight
			p.word("OUTER")
		case p.word("FULL"):
			kind = JoinFull
			p.word("OUTER")
		case p.word("INNER"), p.isWord("JOIN"), natural:
		default:
			return out
		}
		p.needWord("JOIN")
		out = append(out, p.joined(kind, natural)...)
	}
}

// joined reads what is joined on a condition, or on columns.
func (p *parser) joined(kind JoinKind, natural bool) []Source {
	out := p.factor(kind)
	last := &out[len(out)-1]
	pos := p.tok.pos
	using := !natural && p.word("USING")
	if (using || natural) && len(out) > 1 { // of all of them
		out = []Source{{Table: out[0].Table, Nested: out, Join: kind}}
		out[0].Nested[0].Join = JoinFirst
		last = &out[0]
	}
	if using {
		last.Using = p.columnNames()
	}
	if last.Natural = natural; using || natural {
		return out
	}
	if !p.isWord("ON") {
		p.fail("expected ON or USING, found %s; CROSS JOIN has neither", p.found())
	}
	p.advance()
	on := p.expr()
	if last.On != nil {
		on = &Binary{At{pos}, "AND", last.On, on}
	}
	last.On = on
	return out
}

// factor reads a table, a query, or joined tables in parentheses.
func (p *parser) factor(kind JoinKind) []Source {
	pos := p.tok.pos
	if !p.op("(") {
		one := [1]Source{p.source(kind)}
		return p.tables.list(one[:])
	}
	if p.atQuery() {
		return []Source{p.derived(kind, pos, nil)}
	}
	out := p.sources()
	if q := out[0].Query; q != nil && len(out) == 1 && out[0].Alias == "" &&
		(p.atRest() || p.isOp(")")) {
		return []Source{p.derived(kind, pos, q)}
	}
	p.needOp(")")
	for _, s := range out[1:] {
		plain := s.Join == JoinInner && s.Using == nil && !s.Natural
		if kind != JoinFirst && (kind != JoinInner || !plain) {
			return []Source{{Table: out[0].Table, Nested: out, Join: kind}}
		}
	}
	out[0].Join = kind
	return out
}

// derived reads a subquery of FROM, after its parenthesis and its first operand if that stands
// in others.
func (p *parser) derived(kind JoinKind, pos int, first *Select) Source {
	s := Source{Table: Name{Pos: pos}, Join: kind, Query: p.queryFrom(first)}
	p.needOp(")")
	if !p.atAsOf() && (p.word("AS") || p.isName()) {
		s.Alias = p.name("name of a subquery").Text
	}
	return s
}

func (p *parser) source(kind JoinKind) Source {
	p.refuseAbsent(absentSources)
	s := Source{Table: p.name("table"), Join: kind}
	if p.isOp("(") {
		p.fail("kstone has no functions in FROM; write VALUES or a query")
	}
	p.refuseAbsent(absentClauses)
	if !p.atAsOf() && (p.word("AS") || p.isName() && !p.atIndexHint()) {
		s.Alias = p.name("name of a table").Text
	}
	switch {
	case p.words("INDEXED", "BY"):
		s.Index = p.name("index").Text
	case p.words("NOT", "INDEXED"):
		s.NotIndexed = true
	case p.atIndexHint():
		p.indexHint(&s)
	}
	return s
}

// asOf reads the moment after the tables of a query, or returns nil.
func (p *parser) asOf() Expr {
	if !p.atAsOf() {
		return nil
	}
	p.advance()
	p.advance()
	m := p.operand()
	if p.isOp(",") || p.tok.is("JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "NATURAL") {
		p.fail("AS OF stands after the last table: it is the moment of the whole statement")
	}
	return m
}

// atAsOf reports whether AS OF and a moment stand here, and not an alias.
func (p *parser) atAsOf() bool {
	if !p.isWord("AS") {
		return false
	}
	after := p.lex
	if of, err := after.next(); err != nil || !of.is("OF") {
		return false
	}
	m, err := after.next()
	return err != nil || m.kind == tokenString || m.kind == tokenNumber || m.kind == tokenParam ||
		m.is("TIMESTAMP")
}

func (p *parser) orders() []Order {
	return list(p, nil, func() Order {
		o := Order{Expr: p.expr()}
		if p.word("COLLATE") {
			o.Collation = p.name("collation")
		}
		o.Desc, o.Nulls = p.direction()
		return o
	})
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

func (p *parser) exprs() []Expr { return list(p, &p.operands, p.expr) }
