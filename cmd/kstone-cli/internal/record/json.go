package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of arrays and objects, and so the parser's recursion.
const maxDepth = 200

// ParseObject reads text, which must be one JSON object, into row. It is stricter than
// most parsers where leniency would change data silently: bad UTF-8, lone surrogates
// and repeated names are errors. Line of the row is left alone.
func ParseObject(text []byte, row *Row) error {
	row.reset()
	p := parser{src: text, out: row.buf}
	err := p.row(row)
	row.buf = p.out
	if err != nil {
		row.reset()
		return err
	}
	row.settle()
	return nil
}

// AppendCanonical appends the canonical form of text, which must be one JSON value.
func AppendCanonical(dst, text []byte) ([]byte, error) {
	p := parser{src: text, out: dst}
	p.space()
	if err := p.value(0); err != nil {
		return dst, err
	}
	if err := p.end(); err != nil {
		return dst, err
	}
	return p.out, nil
}

// parser is a recursive-descent parser (RFC 8259) that writes the canonical form of
// what it reads to out. Why not encoding/json: it replaces bad UTF-8 and lone surrogates, accepts
// repeated names, and reports no column for what is expected; a token of it costs an allocation.
type parser struct {
	src []byte
	pos int
	out []byte
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("column %d: %s", p.pos+1, fmt.Sprintf(format, args...))
}

// unexpected describes what stands at the present position.
func (p *parser) unexpected(want string) error {
	if p.pos >= len(p.src) {
		return p.fail("the line ends where %s is expected", want)
	}
	r, _ := utf8.DecodeRune(p.src[p.pos:])
	return p.fail("%q where %s is expected", r, want)
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// take consumes c if it is next.
func (p *parser) take(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) end() error {
	p.space()
	if p.pos < len(p.src) {
		return p.unexpected("the end of the line")
	}
	return nil
}

// row reads the outermost object: names without their quotes, values canonical.
func (p *parser) row(row *Row) error {
	p.space()
	if p.pos >= len(p.src) || p.src[p.pos] != '{' {
		return p.unexpected("an object {…}")
	}
	p.pos++
	if err := p.fields(row, func() error { return p.value(1) }); err != nil {
		return err
	}
	return p.end()
}

// fields reads the inside of an object as the fields of row.
func (p *parser) fields(row *Row, value func() error) error {
	var seen names
	return p.members(func() error {
		start := len(p.out)
		if err := p.stringBody(); err != nil {
			return err
		}
		text, err := Unquote(row.name[:0], p.out[start:])
		if err != nil {
			return err
		}
		row.name = text
		p.out = append(p.out[:start], text...)
		row.spans = append(row.spans, len(p.out))
		return seen.add(p.out[start:])
	}, func() error {
		if err := value(); err != nil {
			return err
		}
		row.spans = append(row.spans, len(p.out))
		return nil
	})
}

// members reads the inside of an object up to its closing brace.
func (p *parser) members(name, value func() error) error {
	p.space()
	if p.take('}') {
		return nil
	}
	for {
		p.space()
		if p.pos >= len(p.src) || p.src[p.pos] != '"' {
			return p.unexpected(`a name in "quotes"`)
		}
		if err := name(); err != nil {
			return err
		}
		p.space()
		if !p.take(':') {
			return p.unexpected("a colon")
		}
		p.space()
		if err := value(); err != nil {
			return err
		}
		p.space()
		if p.take('}') {
			return nil
		}
		if !p.take(',') {
			return p.unexpected("a comma or }")
		}
	}
}

func (p *parser) value(depth int) error {
	if depth > maxDepth {
		return p.fail("nested more than %d deep", maxDepth)
	}
	if p.pos >= len(p.src) {
		return p.unexpected("a value")
	}
	switch c := p.src[p.pos]; {
	case c == '{':
		return p.objectOf(func() error { return p.value(depth + 1) })
	case c == '[':
		return p.elements(func() error { return p.value(depth + 1) })
	case c == '"':
		return p.stringBody()
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if end := p.pos + len(word); end <= len(p.src) && string(p.src[p.pos:end]) == word {
			p.out = append(p.out, word...)
			p.pos = end
			return nil
		}
	}
	return p.unexpected("a value")
}

// objectOf reads an object whose values are read by value.
func (p *parser) objectOf(value func() error) error {
	p.pos++
	p.out = append(p.out, '{')
	first := true
	var seen names
	err := p.members(func() error {
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		start := len(p.out)
		if err := p.stringBody(); err != nil {
			return err
		}
		return seen.add(p.out[start+1 : len(p.out)-1])
	}, func() error {
		p.out = append(p.out, ':')
		return value()
	})
	p.out = append(p.out, '}')
	return err
}

// elements reads an array whose elements are read by value.
func (p *parser) elements(value func() error) error {
	p.pos++
	p.out = append(p.out, '[')
	p.space()
	if p.take(']') {
		p.out = append(p.out, ']')
		return nil
	}
	for {
		p.space()
		if err := value(); err != nil {
			return err
		}
		p.space()
		if p.take(']') {
			p.out = append(p.out, ']')
			return nil
		}
		if !p.take(',') {
			return p.unexpected("a comma or ]")
		}
		p.out = append(p.out, ',')
	}
}

// number copies a number as it stands: 1.0 and 1 stay different texts, and no digit
// is lost.
func (p *parser) number() error {
	start := p.pos
	p.take('-')
	switch {
	case p.take('0'):
	case p.digits() == 0:
		return p.unexpected("a digit")
	}
	if p.take('.') && p.digits() == 0 {
		return p.unexpected("a digit")
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if p.digits() == 0 {
			return p.unexpected("a digit")
		}
	}
	p.out = append(p.out, p.src[start:p.pos]...)
	return nil
}

func (p *parser) digits() (n int) {
	for p.pos < len(p.src) && '0' <= p.src[p.pos] && p.src[p.pos] <= '9' {
		p.pos++
		n++
	}
	return n
}

// stringBody reads a string, from its opening to its closing quote.
func (p *parser) stringBody() error {
	p.out = append(p.out, '"')
	p.pos++
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			p.out = append(p.out, '"')
			return nil
		case c == '\\':
			if err := p.escape(); err != nil {
				return err
			}
		case c < 0x20:
			return p.fail("control character %#02x in a string; write it as \\u%04x", c, c)
		case c < utf8.RuneSelf:
			p.out = append(p.out, c)
			p.pos++
		default:
			r, n := utf8.DecodeRune(p.src[p.pos:])
			if r == utf8.RuneError && n == 1 {
				return p.fail("byte %#02x is not valid UTF-8", c)
			}
			p.out = append(p.out, p.src[p.pos:p.pos+n]...)
			p.pos += n
		}
	}
	return p.fail("the string is not closed")
}

var errSurrogate = errors.New("a lone surrogate is no character")

func (p *parser) escape() error {
	if p.pos+1 >= len(p.src) {
		p.pos++
		return p.unexpected("an escape")
	}
	c := p.src[p.pos+1]
	if c == 'u' {
		return p.unicodeEscape()
	}
	i := strings.IndexByte(shortNames, c)
	if i < 0 {
		p.pos++
		return p.unexpected("an escape")
	}
	p.out = appendEscaped(p.out, rune(short[i]))
	p.pos += 2
	return nil
}

func (p *parser) unicodeEscape() error {
	r, ok := p.hex4(p.pos)
	if !ok {
		return p.fail(`\u needs four hexadecimal digits`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		low, ok := p.hex4(p.pos + 6)
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return p.fail("%v", errSurrogate)
		}
		n = 12
	}
	p.out = appendEscaped(p.out, r)
	p.pos += n
	return nil
}

// hex4 reads \uXXXX at the given position.
func (p *parser) hex4(at int) (r rune, ok bool) {
	if at+6 > len(p.src) || p.src[at] != '\\' || p.src[at+1] != 'u' {
		return 0, false
	}
	for _, c := range p.src[at+2 : at+6] {
		d := unhex(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
