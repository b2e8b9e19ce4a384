package syntax

import (
	"math"
	"strconv"
	"strings"
)

// What MySQL and TiDB write in other words, read as the tree of the words that kstone has.

// peek returns the token after the present one.
func (p *parser) peek() token {
	after := p.lex
	tok, err := after.next()
	if err != nil {
		return token{kind: tokenEnd}
	}
	return tok
}

// is reports whether a token is one of the keywords.
func (t token) is(words ...string) bool {
	for _, w := range words {
		if t.isWord(w) {
			return true
		}
	}
	return false
}

// isWord reports whether a token is the keyword. Why not EqualFold alone: the parser asks for
// dozens of words at each operand, and most of them have another length.
func (t *token) isWord(word string) bool {
	return len(t.text) == len(word) && t.kind == tokenName && sameLetters(t.text, word)
}

// sameWord reports whether a text is a keyword, in any case.
func sameWord(text, word string) bool { return len(text) == len(word) && sameLetters(text, word) }

// sameLetters is sameWord for texts of one length, which are not empty.
func sameLetters(text, word string) bool {
	return (text[0]^word[0])&^0x20 == 0 && strings.EqualFold(text, word)
}

// atIndexHint reports whether USE INDEX or the like stands here, and no alias.
func (p *parser) atIndexHint() bool {
	return p.tok.is("USE", "FORCE", "IGNORE") && p.peek().is("INDEX", "KEY")
}

// indexHint reads USE INDEX (name) and FORCE INDEX (name) as INDEXED BY, USE INDEX () as NOT
// INDEXED.
func (p *parser) indexHint(s *Source) {
	if p.isWord("IGNORE") {
		p.fail("kstone has no IGNORE INDEX; NOT INDEXED leaves out all indexes")
	}
	use := p.isWord("USE")
	p.advance()
	p.advance()
	p.needOp("(")
	if use && p.op(")") {
		s.NotIndexed = true
		return
	}
	if s.Index = p.name("index").Text; strings.EqualFold(s.Index, "primary") {
		s.Index = "primary"
	}
	if p.isOp(",") {
		p.fail("kstone takes one index for a table; name the one to use")
	}
	p.needOp(")")
}

// onDuplicate reads what follows ON DUPLICATE as ON CONFLICT DO UPDATE: VALUES(column) is
// excluded.column.
func (p *parser) onDuplicate(pos int) *Upsert {
	p.needWord("KEY")
	p.needWord("UPDATE")
	p.duplicate = true
	u := &Upsert{Pos: pos, Set: p.assignments()}
	p.duplicate = false
	return u
}

// atExcluded reports whether VALUES(column) of ON DUPLICATE KEY UPDATE stands here.
func (p *parser) atExcluded() bool { return p.duplicate && p.isWord("VALUES") }

// excluded reads VALUES(column).
func (p *parser) excluded(pos int) Expr {
	p.advance()
	p.needOp("(")
	ref := &Ref{At: At{pos}, Table: "excluded", Column: p.name("column").Text}
	p.needOp(")")
	return ref
}

// atKey reports whether KEY name (column or KEY (column stands here, the definition of an index,
// and no column with the name key, which may be of the type TIMESTAMP(ms).
func (p *parser) atKey() bool {
	if !p.isWord("KEY") {
		return false
	}
	after := p.lex
	var next [3]token
	for i := range next {
		next[i], _ = after.next() // a fault is found again when it is the present token
	}
	open := func(t token) bool { return t.kind == tokenOperator && t.text == "(" }
	named := next[0].kind == tokenName || next[0].kind == tokenQuoted
	return open(next[0]) || named && !next[0].is("TIMESTAMP", "DATETIME") && open(next[1]) &&
		next[2].kind != tokenNumber
}

// indexPart reads UNIQUE [INDEX | KEY], INDEX or KEY, a name, which may be missing, and the body
// of the index.
func (p *parser) indexPart(table Name) CreateIndex {
	x := CreateIndex{Table: table, Unique: p.word("UNIQUE")}
	if !p.word("INDEX") && !p.word("KEY") && !x.Unique {
		p.needWord("INDEX")
	}
	x.Index.Pos = p.tok.pos
	if !p.isOp("(") {
		x.Index = p.name("index")
	}
	p.indexBody(&x)
	return x
}

// nameIndexes names the indexes that have no name after their first columns, with a number if the
// name is taken, as that of the primary key is.
func nameIndexes(list []CreateIndex) {
	taken := map[string]bool{"primary": true}
	for i := range list {
		taken[list[i].Index.Text] = true
	}
	for i := range list {
		x := &list[i]
		if x.Index.Text != "" {
			continue
		}
		first := x.Columns[0].Name.Text
		x.Index.Text = first
		for n := 2; taken[x.Index.Text]; n++ {
			x.Index.Text = first + "_" + strconv.Itoa(n)
		}
		taken[x.Index.Text] = true
	}
}

// clustered steps over CLUSTERED after a primary key, which all tables are.
func (p *parser) clustered() {
	if p.isWord("NONCLUSTERED") {
		p.fail("kstone stores rows by their primary key, spread over all stripes; " +
			"leave out NONCLUSTERED")
	}
	p.word("CLUSTERED")
}

// keyColumn reads a column of a key, with its direction.
func (p *parser) keyColumn() KeyColumn {
	k := KeyColumn{Name: p.name("column")}
	if p.isOp("(") {
		if p.peek().kind != tokenNumber {
			p.fail("kstone has no indexes of expressions; index a column that has the " +
				"value, or one with COLLATE NOCASE")
		}
		p.fail("kstone has no keys of the beginning of a text; leave out the length")
	}
	k.Desc, k.Nulls = p.direction()
	return k
}

// unsigned are the types of columns with UNSIGNED, by those without. They may have the width of a
// display in parentheses, which means nothing.
var unsigned = map[string]string{
	"INT": "UINT64", "INTEGER": "UINT64", "BIGINT": "UINT64", "INT64": "UINT64",
	"MEDIUMINT": "UINT32", "INT32": "UINT32", "SMALLINT": "UINT16", "INT16": "UINT16",
	"TINYINT": "UINT8", "INT8": "UINT8",
}

// integerType reads what may follow an integer type.
func (p *parser) integerType(t *TypeName) {
	other, integer := unsigned[t.Name]
	if integer && len(t.Args) == 1 && isDigit(t.Args[0][0]) {
		t.Args = nil
	}
	if p.isWord("UNSIGNED") {
		if !integer {
			p.fail("UNSIGNED stands after types of integers only")
		}
		p.advance()
		t.Name = other
	}
}

// tableOptions steps over what may follow the parts of a table in MySQL and does not change what
// is stored.
func (p *parser) tableOptions(t *CreateTable) {
	for {
		byDefault := p.word("DEFAULT")
		switch {
		case !byDefault && p.word("ENGINE"):
			p.op("=")
			p.name("engine")
		case p.charset("="):
		case !byDefault && p.isWord("AUTO_INCREMENT"):
			t.Number = p.nextNumber()
		case p.word("COLLATE"):
			p.op("=")
			if n := p.name("collation"); !BinaryCollation(n.Text) {
				p.failAt(n.Pos, "kstone has no collation of a table; a column compares texts "+
					"without case with COLLATE UNICODE")
			}
		case !byDefault && p.word("COMMENT"):
			p.op("=")
			p.text("comment")
		default:
			if p.refuseAbsent(absentConstraints); byDefault {
				p.fail("expected CHARSET or COLLATE, found %s", p.found())
			}
			return
		}
		p.op(",")
	}
}

// nextNumber reads AUTO_INCREMENT = n.
func (p *parser) nextNumber() int {
	p.needWord("AUTO_INCREMENT")
	p.op("=")
	return p.integer("next number", math.MaxInt)
}

// charset steps over the name of a character set, which is always that of UTF-8, and reports
// whether there is one.
func (p *parser) charset(equals string) bool {
	if !p.word("CHARSET") && !p.words("CHARACTER", "SET") {
		return false
	}
	if equals != "" {
		p.op(equals)
	}
	if n := p.name("character set"); !strings.HasPrefix(strings.ToLower(n.Text), "utf8") {
		p.failAt(n.Pos, "texts are UTF-8; write utf8mb4, or BYTES for the type")
	}
	return true
}

// BinaryCollation reports whether a collation compares texts byte by byte, as texts without one.
func BinaryCollation(name string) bool {
	name = strings.ToLower(name)
	return name == "binary" || strings.HasSuffix(name, "_bin")
}

// show reads SHOW, or DESCRIBE of a table, nil if there is none. The word DESC is short for
// DESCRIBE.
func (p *parser) show() Statement {
	s := &Show{Pos: p.tok.pos, What: "COLUMNS"}
	if p.word("DESCRIBE") || p.word("DESC") {
		s.Table = p.name("table")
		return s
	}
	if !p.word("SHOW") {
		return nil
	}
	switch {
	case p.word("TABLES"):
		s.What = "TABLES"
		return s
	case p.word("CREATE"):
		if !p.word("VIEW") {
			p.needWord("TABLE")
		}
		s.What = "CREATE TABLE"
		s.Table = p.name("table")
		return s
	case p.word("INDEX"), p.word("INDEXES"), p.word("KEYS"):
		s.What = "INDEX"
	case p.word("COLUMNS"):
	default:
		p.fail("expected TABLES, COLUMNS, INDEX or CREATE TABLE after SHOW, found %s%s", p.found(),
			p.meant("TABLES", "COLUMNS", "INDEX", "CREATE"))
	}
	if !p.word("IN") {
		p.needWord("FROM")
	}
	s.Table = p.name("table")
	return s
}
