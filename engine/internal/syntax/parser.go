package syntax

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of a statement.
const (
	// MaxStatementBytes bounds the text of statements. It has room for the longest row, whose
	// bytes have two digits each.
	MaxStatementBytes = 192 << 20
	// MaxPlainBytes bounds that text without its literals in quotes. Why: the tree of a
	// statement is many times as large.
	MaxPlainBytes = 1 << 20
	// maxDepth bounds the nesting of expressions and subqueries. Why: the parser and
	// everything after it recurse.
	maxDepth = 200
)

// Parse reads one statement, with or without a semicolon after it. The error is an
// *Error and matches ErrSyntax.
func Parse(text string) (Statement, error) { return ParseIn(nil, text) }

// ParseIn is Parse of a text whose tree is in the given memory, if that is not nil and the text is
// a query.
func ParseIn(m *Memory, text string) (Statement, error) {
	first := lexer{text: text}
	tok, err := first.next()
	if m == nil || err != nil || !tok.is("SELECT", "WITH", "VALUES") {
		m = new(Memory)
	}
	var room [1]Part
	statements, err := parse(m, text, room[:0])
	if err != nil {
		return nil, err
	}
	switch len(statements) {
	case 0:
		return nil, NewError(text, len(text), true, "there is no statement")
	case 1:
		return statements[0].Statement, nil
	}
	return nil, NewError(text, statements[1].Pos, true,
		"only one statement is possible here; a second one begins")
}

// Part is a statement of a longer text.
type Part struct {
	Statement
	Pos, End int // offsets in the text, without the semicolon
	Values   int // that parameters without names take
}

// ParseAll reads any number of statements with semicolons between them.
func ParseAll(text string) ([]Part, error) {
	return parse(new(Memory), text, nil)
}

// parse is ParseAll that may use the memory of parts, which is empty.
func parse(m *Memory, text string, parts []Part) ([]Part, error) {
	err := Caught(func() {
		p := parser{star: -1, Memory: m}
		for p.begin(text, MaxStatementBytes); ; {
			for p.op(";") {
				p.params = paramState{}
			}
			if p.tok.kind == tokenEnd {
				return
			}
			start := p.tok.pos
			s := p.statement()
			p.noStar()
			values := max(p.params.unnumbered, p.params.highest)
			parts = append(parts, Part{s, start, p.last, values})
			if p.tok.kind != tokenEnd && !p.isOp(";") {
				p.refuseAbsent(absentClauses)
				p.refuseOperator()
				p.fail("unexpected %s%s", p.found(), p.meantAlias())
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return parts, nil
}

// ParseExpr reads an expression that stands alone. The error is as that of Parse.
func ParseExpr(text string) (e Expr, err error) {
	err = Caught(func() {
		p := parser{star: -1, Memory: new(Memory)}
		p.begin(text, MaxPlainBytes)
		one := p.expr()
		p.noStar()
		if p.tok.kind != tokenEnd {
			p.refuseOperator()
			p.fail("expected the end of the expression, found %s", p.found())
		}
		e = one
	})
	return e, err
}

// begin reads the first token of a text of so many bytes at most.
func (p *parser) begin(text string, most int) {
	if p.lex.text = text; len(text) > most {
		p.failAt(0, "the text has %d bytes, at most %d are possible", len(text), most)
	}
	p.advance()
}

// noStar fails if table.* has been read where it is not possible.
func (p *parser) noStar() {
	if p.star >= 0 {
		p.failAt(p.star, "* is possible as a column of the result only")
	}
}

// clauses are the words that may follow what a statement begins with.
var clauses = []string{"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES",
	"SET", "JOIN", "UNION", "INTERSECT", "EXCEPT"}

// parser holds the token at the position. It fails by panicking with an *Error, see Caught:
// every other way would put a check after each step of the grammar.
type parser struct {
	lex     lexer
	tok     token
	before  token
	last    int // offset after the token before tok
	plain   int // bytes of tokens that are no literals in quotes
	depth   int
	queries int // read so far
	params  paramState
	star    int // offset of a table.* in the wrong place, -1 without
	// duplicate says that VALUES(column) is possible, as in ON DUPLICATE KEY UPDATE.
	duplicate bool

	*Memory
}

// paramState numbers the parameters of one statement.
type paramState struct {
	unnumbered int
	highest    int // number
}

// advance reads the next token into tok.
func (p *parser) advance() {
	p.before, p.last = p.tok, p.tok.end
	tok, err := p.lex.next()
	if err != nil {
		panic(err.(*Error))
	}
	if p.tok = tok; tok.kind != tokenString && tok.kind != tokenBlob {
		if p.plain += tok.end - tok.pos; p.plain > MaxPlainBytes {
			p.fail("the text has more than %d bytes beside its literals in quotes", MaxPlainBytes)
		}
	}
}

// fail ends the parse with an error at the present token.
func (p *parser) fail(format string, args ...any) { p.failAt(p.tok.pos, format, args...) }

func (p *parser) failAt(pos int, format string, args ...any) {
	panic(NewError(p.lex.text, pos, true, format, args...))
}

// found describes the present token for an error.
func (p *parser) found() string {
	if p.tok.kind == tokenEnd {
		return "the end"
	}
	text := []rune(p.lex.text[p.tok.pos:p.tok.end])
	if len(text) > 32 {
		text = append(text[:32:32], '…')
	}
	return fmt.Sprintf("%q", string(text))
}

// isWord reports whether the present token is the keyword.
func (p *parser) isWord(word string) bool {
	return p.tok.isWord(word)
}

// word steps over the keyword if it is there.
func (p *parser) word(word string) bool {
	if !p.isWord(word) {
		return false
	}
	p.advance()
	return true
}

// words steps over several keywords; the first decides.
func (p *parser) words(first string, others ...string) bool {
	if !p.word(first) {
		return false
	}
	for _, w := range others {
		p.needWord(w)
	}
	return true
}

// atEnd reports whether a statement ends here.
func (p *parser) atEnd() bool { return p.tok.kind == tokenEnd || p.isOp(";") }

func (p *parser) needWord(word string) {
	if !p.word(word) {
		p.fail("expected %s, found %s", word, p.found())
	}
}

func (p *parser) isOp(op string) bool { return p.tok.kind == tokenOperator && p.tok.text == op }

// op steps over the operator if it is there.
func (p *parser) op(op string) bool {
	if !p.isOp(op) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) needOp(op string) {
	if !p.op(op) {
		p.refuseOperator()
		p.fail("expected %q, found %s", op, p.found())
	}
}

// reserved words cannot be names without quotes: they can stand where a name ends.
var reserved = wordSet(`all and as asc begins between by case contains create cross delete
	desc distinct drop each else end except exists explain from full group having ilike in
	include index indexed inner insert intersect into is join left like limit natural not null
	offset on or order outer returning right select set shard sort table then union unique
	update using values when where with`)

// words is a set of words in lower case, by their first letter.
type words [26][]string

func wordSet(list string) *words {
	set := new(words)
	for w := range strings.FieldsSeq(list) {
		set[w[0]-'a'] = append(set[w[0]-'a'], w)
	}
	return set
}

// has reports whether a word, in any case, is in the set.
func (s *words) has(word string) bool {
	if word == "" {
		return false
	}
	first := word[0] | 0x20
	if first < 'a' || first > 'z' {
		return false
	}
	for _, w := range s[first-'a'] {
		if sameWord(word, w) {
			return true
		}
	}
	return false
}

// isName reports whether the present token can be a name.
func (p *parser) isName() bool {
	return p.tok.kind == tokenQuoted ||
		p.tok.kind == tokenName && !reserved.has(p.tok.text)
}

// name reads a name of the given kind ("table", "column" …).
func (p *parser) name(what string) Name {
	if !p.isName() {
		if strings.IndexByte("aeiou", what[0]) >= 0 {
			what = "n " + what
		} else {
			what = " " + what
		}
		if p.tok.kind == tokenName {
			p.fail("expected a%s, found the keyword %s; as a name it stands in double quotes",
				what, strings.ToUpper(p.tok.text))
		}
		p.fail("expected a%s, found %s", what, p.found())
	}
	n := Name{p.tok.pos, p.tok.text}
	if n.Text == "" {
		p.fail("the name of the %s is empty", what)
	}
	p.advance()
	return n
}

// list reads things with commas between them, into a slab if it is not nil. A short list takes
// memory once.
func list[T any](p *parser, in *slab[T], one func() T) []T {
	var room [4]T
	all := append(room[:0], one())
	for p.op(",") {
		all = append(all, one())
	}
	if in != nil {
		return in.list(all)
	}
	return append([]T(nil), all...) // slices.Clone would make room escape
}

// columnNames reads names of columns in parentheses.
func (p *parser) columnNames() []Name {
	p.needOp("(")
	out := list(p, nil, func() Name { return p.name("column") })
	p.needOp(")")
	return out
}

// enter bounds the depth of the recursion; leave goes with it.
func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("the statement is nested more than %d levels deep", maxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) statement() Statement {
	switch pos := p.tok.pos; {
	case p.atQuery(), p.isOp("("):
		return p.selectStatement()
	case p.isWord("INSERT"), p.isWord("REPLACE"):
		return p.insert()
	case p.isWord("UPDATE"):
		return p.update()
	case p.isWord("DELETE"):
		return p.delete()
	case p.word("EXPLAIN"):
		return p.explain()
	case p.word("CREATE"):
		return p.create()
	case p.word("ALTER"):
		return p.alter(pos)
	case p.word("DROP"):
		return p.drop()
	case p.word("ANALYZE"):
		a := &Analyze{}
		if p.isName() {
			a.Table = p.name("table")
		}
		return a
	}
	if t := p.transaction(); t != nil {
		return t
	}
	if s := p.show(); s != nil {
		return s
	}
	p.refuseAbsent(absentStatements)
	p.fail("expected %s or %s, found %s%s", strings.Join(firstWords[1:], ", "), firstWords[0],
		p.found(),
		p.meant(slices.Concat(transactionWords, firstWords, []string{"SHOW", "DESCRIBE"})...))
	return nil
}

// firstWords are the words that statements begin with.
var firstWords = []string{"ANALYZE", "SELECT", "INSERT", "UPDATE", "DELETE", "EXPLAIN", "CREATE",
	"ALTER", "DROP"}

func (p *parser) explain() Statement {
	e := &Explain{Run: p.word("ANALYZE")}
	switch {
	case p.atQuery(), p.isOp("("):
		e.Statement = p.selectStatement()
	case p.isWord("UPDATE"):
		e.Statement = p.update()
	case p.isWord("DELETE"):
		e.Statement = p.delete()
	default:
		p.refuseAbsent(absentExplains)
		p.fail("expected SELECT, UPDATE or DELETE after EXPLAIN, found %s", p.found())
	}
	return e
}
