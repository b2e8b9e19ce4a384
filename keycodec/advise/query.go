package advise

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Query is a pattern of queries: the fields they compare, without the values.
type Query struct {
	Text  string   // as it was given
	Equal []string // fields compared for equality
	Range string   // field compared with <, <=, >, >=, BETWEEN or BEGINS; or empty
	Order string   // field of ORDER BY, or empty
}

// next returns the field that has to stand after those compared for equality.
func (q Query) next() string {
	if q.Range != "" {
		return q.Range
	}
	if slices.Contains(q.Equal, q.Order) {
		return "" // one value needs no order
	}
	return q.Order
}

// SyntaxError says what is wrong with the text of a query, and where.
type SyntaxError struct {
	Text   string
	Column int // counted from 1, in characters
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("query, column %d: %s", e.Column, e.Reason)
}

// ParseQuery reads a pattern:
//
//	user_id = ? AND order_date BETWEEN ? AND ? ORDER BY order_date
//
// Conditions are joined by AND. A condition is a field and one of = < <= > >= with a value,
// BETWEEN with two values and AND, or BEGINS with a value. Values are words or stand in
// quotes; they are not looked at. WHERE may stand in front. Keywords may be in lower case.
// At most one field has conditions other than =; it may have two. The error is a
// *SyntaxError.
func ParseQuery(text string) (Query, error) {
	p := &parser{text: text}
	if err := p.scan(); err != nil {
		return Query{}, err
	}
	q := Query{Text: text}
	p.keyword("WHERE")
	for first := true; !p.at("ORDER") && (first || p.more()); first = false {
		if !first && !p.keyword("AND") {
			return Query{}, p.fail("AND is expected before %s", p.here())
		}
		if err := p.condition(&q); err != nil {
			return Query{}, err
		}
	}
	if p.keyword("ORDER") {
		if !p.keyword("BY") {
			return Query{}, p.fail("BY is expected after ORDER")
		}
		var err error
		if q.Order, err = p.word("a field"); err != nil {
			return Query{}, err
		}
		if !p.keyword("ASC") {
			p.keyword("DESC")
		}
	}
	if p.more() {
		return Query{}, p.fail("%s stands after the end", p.here())
	}
	return q, nil
}

// condition reads one condition.
func (p *parser) condition(q *Query) error {
	start := p.pos
	field, err := p.word("a field")
	if err != nil {
		return err
	}
	op := strings.ToUpper(p.take())
	known := []string{"=", "<", "<=", ">", ">=", "BETWEEN", "BEGINS"}
	if !slices.Contains(known, op) {
		if op != "" {
			p.pos--
		}
		return p.fail("%s is not a comparison; there are = < <= > >= BETWEEN BEGINS", p.here())
	}
	if _, err := p.word("a value"); err != nil {
		return err
	}
	if op == "BETWEEN" {
		if !p.keyword("AND") {
			return p.fail("AND and a second value are expected")
		}
		if _, err := p.word("a value"); err != nil {
			return err
		}
	}
	isRange := q.Range == field && field != ""
	p.pos, start = start, p.pos
	switch {
	case op == "=" && (isRange || slices.Contains(q.Equal, field)),
		op != "=" && slices.Contains(q.Equal, field):
		return p.fail("field %q is compared before", field)
	case op != "=" && q.Range != "" && !isRange:
		return p.fail("a range of %q and one of %q: a key serves only one of them", field, q.Range)
	}
	p.pos = start
	if op == "=" {
		q.Equal = append(q.Equal, field)
	} else {
		q.Range = field
	}
	return nil
}

// parser goes over the words of a text.
type parser struct {
	text  string
	words []token
	pos   int
}

type token struct {
	text   string
	at     int // byte position
	quoted bool
}

// scan cuts the text into words, operators and quoted texts.
func (p *parser) scan() error {
	for i := 0; i < len(p.text); {
		c := p.text[i]
		start := i
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
			continue
		case c == '\'' || c == '"':
			end := strings.IndexByte(p.text[i+1:], c)
			if end < 0 {
				return &SyntaxError{p.text, p.column(i), "the quote is not closed"}
			}
			i += end + 2
		case strings.IndexByte(operators, c) >= 0:
			for i < len(p.text) && strings.IndexByte(operators, p.text[i]) >= 0 {
				i++
			}
		default:
			for i < len(p.text) && strings.IndexByte(operators+" \t\n\r'\"", p.text[i]) < 0 {
				i++
			}
		}
		p.words = append(p.words, token{p.text[start:i], start, c == '\'' || c == '"'})
	}
	return nil
}

const operators = "=<>"

func (p *parser) more() bool { return p.pos < len(p.words) }

// at reports whether the next word is the keyword.
func (p *parser) at(keyword string) bool {
	return p.more() && !p.words[p.pos].quoted && strings.EqualFold(p.words[p.pos].text, keyword)
}

// keyword skips the keyword if it is next.
func (p *parser) keyword(keyword string) bool {
	if !p.at(keyword) {
		return false
	}
	p.pos++
	return true
}

// take returns the next token, "" at the end.
func (p *parser) take() string {
	if !p.more() {
		return ""
	}
	p.pos++
	return p.words[p.pos-1].text
}

// word returns the next word, without its quotes.
func (p *parser) word(what string) (string, error) {
	if !p.more() || strings.IndexByte(operators, p.words[p.pos].text[0]) >= 0 {
		return "", p.fail("%s is expected before %s", what, p.here())
	}
	t := p.words[p.pos]
	p.pos++
	if t.quoted {
		return t.text[1 : len(t.text)-1], nil
	}
	return t.text, nil
}

// here names the next word, for messages.
func (p *parser) here() string {
	if !p.more() {
		return "the end"
	}
	return fmt.Sprintf("%q", p.words[p.pos].text)
}

func (p *parser) fail(format string, args ...any) error {
	at := len(p.text)
	if p.more() {
		at = p.words[p.pos].at
	}
	return &SyntaxError{p.text, p.column(at), fmt.Sprintf(format, args...)}
}

func (p *parser) column(at int) int { return utf8.RuneCountInString(p.text[:at]) + 1 }
