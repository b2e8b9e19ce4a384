package syntax

import "strings"

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
		if t.kind == tokenName && strings.EqualFold(t.text, w) {
			return true
		}
	}
	return false
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
	ref := &Ref{Pos: pos, Table: "excluded", Column: p.name("column").Text}
	p.needOp(")")
	return ref
}
