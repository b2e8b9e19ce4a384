package syntax

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is the kind of a token.
type tokenKind uint8

const (
	tokenEnd      tokenKind = iota
	tokenName               // a name or keyword: text is as written
	tokenQuoted             // a name in double quotes or backticks: text is without them
	tokenString             // 'text': text is without quotes
	tokenBlob               // X'00ff': text is the digits
	tokenNumber             // text is as written
	tokenParam              // ?, ?3, $3, :name: text is as written
	tokenOperator           // text is the operator
)

// token is a token of a statement.
type token struct {
	kind tokenKind
	pos  int // offset of its first byte
	end  int // offset after its last byte
	text string
}

// lexer splits a statement into tokens.
type lexer struct {
	text string
	pos  int
}

// next returns the next token. After the end it goes on returning tokenEnd.
func (l *lexer) next() (token, error) {
	if err := l.skipSpace(); err != nil {
		return token{}, err
	}
	start := l.pos
	if start == len(l.text) {
		return token{kind: tokenEnd, pos: start, end: start}, nil
	}
	c := l.text[start]
	var tok token
	var err error
	switch {
	case (c == 'x' || c == 'X') && start+1 < len(l.text) && l.text[start+1] == '\'':
		l.pos++
		tok, err = l.quoted('\'', tokenBlob, "blob")
	case c == '\'':
		tok, err = l.quoted('\'', tokenString, "text")
	case c == '"', c == '`':
		tok, err = l.quoted(c, tokenQuoted, "name")
	case isDigit(c) || c == '.' && start+1 < len(l.text) && isDigit(l.text[start+1]):
		tok, err = l.number()
	case c == '?' || c == '$' || c == ':':
		tok, err = l.param()
	default:
		tok, err = l.nameOrOperator()
	}
	tok.pos, tok.end = start, l.pos
	return tok, err
}

// skipSpace steps over white space and comments.
func (l *lexer) skipSpace() error {
	for l.pos < len(l.text) {
		rest := l.text[l.pos:]
		switch c := rest[0]; {
		case c == ' ', c == '\t', c == '\r', c == '\n', c == '\f':
			l.pos++
		case c != '-' && c != '/':
			return nil
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.pos += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return l.errorf(l.pos, "the comment has no end")
			}
			l.pos += n + 4
		default:
			return nil
		}
	}
	return nil
}

// quoted reads a text between quotes, in which a doubled quote stands for one.
func (l *lexer) quoted(quote byte, kind tokenKind, what string) (token, error) {
	start := l.pos
	l.pos++
	if n := strings.IndexByte(l.text[l.pos:], quote); n >= 0 {
		end := l.pos + n
		if end+1 == len(l.text) || l.text[end+1] != quote {
			l.pos = end + 1
			return token{kind: kind, text: l.text[start+1 : end]}, nil
		}
	}
	var out strings.Builder
	for {
		n := strings.IndexByte(l.text[l.pos:], quote)
		if n < 0 {
			l.pos = len(l.text)
			return token{}, l.errorf(start, "the %s that begins here has no end", what)
		}
		out.WriteString(l.text[l.pos : l.pos+n])
		l.pos += n + 1
		if l.pos == len(l.text) || l.text[l.pos] != quote {
			return token{kind: kind, text: out.String()}, nil
		}
		out.WriteByte(quote)
		l.pos++
	}
}

// number reads digits, a fraction and an exponent.
func (l *lexer) number() (token, error) {
	start := l.pos
	l.digits()
	if l.peekByte() == '.' {
		l.pos++
		l.digits()
	}
	if c := l.peekByte(); c == 'e' || c == 'E' {
		mark := l.pos
		l.pos++
		if c := l.peekByte(); c == '+' || c == '-' {
			l.pos++
		}
		before := l.pos
		if l.digits(); l.pos == before {
			l.pos = mark
		}
	}
	if l.namePart() > 0 {
		return token{}, l.errorf(start, "a number goes over into a name")
	}
	return token{kind: tokenNumber, text: l.text[start:l.pos]}, nil
}

func (l *lexer) digits() {
	for l.pos < len(l.text) && isDigit(l.text[l.pos]) {
		l.pos++
	}
}

// peekByte returns the byte at the position, 0 at the end.
func (l *lexer) peekByte() byte {
	if l.pos == len(l.text) {
		return 0
	}
	return l.text[l.pos]
}

// param reads ?, ?NNN, $NNN or :name.
func (l *lexer) param() (token, error) {
	start := l.pos
	c := l.text[start]
	l.pos++
	if c == ':' {
		l.name()
	} else {
		l.digits()
	}
	if c == ':' && strings.HasPrefix(l.text[l.pos:], ":") {
		return token{}, l.errorf(start, "kstone has no ::; write CAST(x AS type)")
	}
	if l.pos == start+1 && c != '?' {
		return token{}, l.errorf(start, "%q is no parameter; write ?, ?1, $1 or :name", string(c))
	}
	return token{kind: tokenParam, text: l.text[start:l.pos]}, nil
}

// name steps over the characters of a name.
func (l *lexer) name() {
	for {
		for l.pos < len(l.text) && nameBytes[l.text[l.pos]] {
			l.pos++
		}
		n := l.namePart()
		if n == 0 {
			return
		}
		l.pos += n
	}
}

// nameBytes are the characters of one byte that may stand in a name.
var nameBytes = func() (is [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		is[c] = c == '_' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	return is
}()

// namePart returns how many bytes the character at the position has if it may stand in a name, 0
// for another one and at the end.
func (l *lexer) namePart() int {
	if l.pos == len(l.text) {
		return 0
	}
	switch c := l.text[l.pos]; {
	case nameBytes[c]:
		return 1
	case c < utf8.RuneSelf:
		return 0
	}
	r, n := utf8.DecodeRuneInString(l.text[l.pos:])
	if !isNamePart(r) {
		return 0
	}
	return n
}

// operators are the operators, longer ones before their beginnings.
var operators = []string{
	"<=>", "<=", ">=", "<>", "!=", "==", "||",
	"(", ")", "[", "]", ",", ".", ";", "*", "+", "-", "/", "%", "=", "<", ">",
}

// operatorsOf are the operators by their first byte.
var operatorsOf = func() (of [utf8.RuneSelf][]string) {
	for _, op := range operators {
		of[op[0]] = append(of[op[0]], op)
	}
	return of
}()

func (l *lexer) nameOrOperator() (token, error) {
	start := l.pos
	for _, op := range operatorsOf[l.text[start]%utf8.RuneSelf] {
		if strings.HasPrefix(l.text[start:], op) {
			l.pos += len(op)
			return token{kind: tokenOperator, text: op}, nil
		}
	}
	if l.namePart() == 0 {
		r, n := utf8.DecodeRuneInString(l.text[start:])
		l.pos += n
		if what := absentSigns[r]; what != "" {
			return token{}, l.errorf(start, "kstone has no %s", what)
		}
		return token{}, l.errorf(start, "%q is not expected anywhere", string(r))
	}
	l.name()
	return token{kind: tokenName, text: l.text[start:l.pos]}, nil
}

func (l *lexer) errorf(pos int, format string, args ...any) error {
	return NewError(l.text, pos, true, format, args...)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isNamePart reports whether r may stand in a name without quotes. Invalid UTF-8 may not.
func isNamePart(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) ||
		unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r))
}
