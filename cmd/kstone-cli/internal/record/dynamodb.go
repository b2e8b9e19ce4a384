package record

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// DynamoDB exports an item as a line of JSON whose values carry their types:
//
//	{"Item":{"id":{"S":"a"},"n":{"N":"1.50"},"tags":{"SS":["x","y"]}}}
//
// A row has them as plain JSON. What JSON has no form for stands in an object of one member:
//
//	S "text"   N 1.50   BOOL true   NULL null   L […]   M {…}   B {"$b64":"AP8="}
//	SS {"$ss":["x"]}   NS {"$ns":["1.50"]}   BS {"$bs":["AP8="]}
//
// A number that JSON writes in another way (+1, 007) is {"$n":"007"}, and a map that would
// read as one of these is {"$m":{…}}. So both forms have the same values, and each is made of the
// other without a loss, in the order of members and the digits of numbers as they were written.
const (
	numberName     = "$n"
	stringSetName  = "$ss"
	numberSetName  = "$ns"
	binarySetName  = "$bs"
	literalMapName = "$m"
)

// numberSyntax is that of DynamoDB's numbers.
var numberSyntax = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)

// NewDynamoDB returns a reader of DynamoDB's export format. With lists set it reads sets as
// lists, for columns of tables.
func NewDynamoDB(r io.Reader, lists bool) Reader {
	return &lineReader{newLines(r), isBlank, func(line []byte, row *Row) error {
		row.reset()
		p := tagged{parser{src: line, out: row.buf}, lists}
		err := p.line(row)
		row.buf = p.out
		if err != nil {
			row.reset()
			return err
		}
		row.settle()
		row.Typed = true
		return nil
	}}
}

// tagged is a parser of typed values. It writes plain ones.
type tagged struct {
	parser
	lists bool
}

var errNoItem = errors.New(`want {"Item":{…}}, a line of a full export in the format ` +
	`DYNAMODB_JSON`)

// line reads a line: one object with the member Item.
func (p *tagged) line(row *Row) error {
	p.space()
	if !p.take('{') {
		return p.unexpected("an object {…}")
	}
	items := 0
	err := p.members(func() error {
		start := len(p.out)
		if err := p.stringBody(); err != nil {
			return err
		}
		if name := p.out[start:]; items > 0 || string(name) != `"Item"` {
			return fmt.Errorf("the member %s: %w", Text(name), errNoItem)
		}
		items, p.out = 1, p.out[:start]
		return nil
	}, func() error { return p.item(row) })
	switch {
	case err != nil:
		return err
	case items == 0:
		return errNoItem
	}
	return p.end()
}

// item reads the attributes of an item into the fields of row.
func (p *tagged) item(row *Row) error {
	if !p.take('{') {
		return p.unexpected("an object of attributes")
	}
	return p.fields(row, func() error { return p.value(1) })
}

// value reads a typed value.
func (p *tagged) value(depth int) error {
	p.space()
	switch {
	case depth > maxDepth:
		return p.fail("nested more than %d deep", maxDepth)
	case !p.take('{'):
		return p.unexpected(`a typed value such as {"S":"text"}`)
	}
	start, tag := len(p.out), ""
	err := p.members(func() error {
		if tag != "" {
			return p.fail("a value has one type")
		}
		if err := p.stringBody(); err != nil {
			return err
		}
		tag, p.out = string(p.out[start+1:len(p.out)-1]), p.out[:start]
		return nil
	}, func() error { return p.ofType(tag, depth) })
	if err == nil && tag == "" {
		err = p.fail("a value without a type")
	}
	return err
}

// ofType reads what stands after the name of a type.
func (p *tagged) ofType(tag string, depth int) error {
	switch start := len(p.out); tag {
	case "S":
		return p.text("a string")
	case "N":
		return p.numberText(start)
	case "B":
		p.out = append(p.out, `{"`+b64Name+`":`...)
		err := p.binary()
		p.out = append(p.out, '}')
		return err
	case "BOOL", "NULL":
		if err := p.parser.value(depth); err != nil {
			return err
		}
		switch word := string(p.out[start:]); {
		case tag == "NULL" && word == "true":
			p.out = append(p.out[:start], "null"...)
		case tag == "NULL" || word != "true" && word != "false":
			return p.fail("%s is not a value of %s", Text(p.out[start:]), tag)
		}
		return nil
	case "L":
		return p.list(func() error { return p.value(depth + 1) })
	case "M":
		return p.mapOf(depth)
	case "SS":
		return p.set(stringSetName, func() error { return p.text("a string") })
	case "NS":
		return p.set(numberSetName, p.setNumber)
	case "BS":
		return p.set(binarySetName, p.setBinary)
	}
	return p.fail("%q is not a type; types are S, N, B, BOOL, NULL, L, M, SS, NS and BS", tag)
}

func (p *tagged) text(want string) error {
	if p.pos >= len(p.src) || p.src[p.pos] != '"' {
		return p.unexpected(want)
	}
	return p.stringBody()
}

// numberText reads a number, which stands in quotes.
func (p *tagged) numberText(start int) error {
	if err := p.text(`a number in "quotes"`); err != nil {
		return err
	}
	body := p.out[start+1 : len(p.out)-1]
	switch {
	case !numberSyntax.Match(body):
		return p.fail("%s is not a number", Text(p.out[start:]))
	case isJSONNumber(body):
		p.out = append(p.out[:start], body...)
	default:
		p.out = append(slices.Insert(p.out, start, []byte(`{"`+numberName+`":`)...), '}')
	}
	return nil
}

func isJSONNumber(text []byte) bool {
	p := parser{src: text}
	return p.number() == nil && p.pos == len(text)
}

// binary reads base64 in quotes.
func (p *tagged) binary() error {
	start := len(p.out)
	if err := p.text("base64"); err != nil {
		return err
	}
	if !isBase64(p.out[start+1 : len(p.out)-1]) {
		return p.fail("a binary that is not standard base64 with padding")
	}
	return nil
}

func isBase64(body []byte) bool {
	_, err := base64.StdEncoding.Strict().AppendDecode(nil, body)
	return err == nil && bytes.IndexByte(body, '\n') < 0
}

func (p *tagged) setNumber() error {
	start := len(p.out)
	if err := p.numberText(start); err != nil || p.lists {
		return err
	}
	if body := p.out[start:]; body[0] == '{' { // {"$n":"007"}
		body = body[len(`{"`+numberName+`":`) : len(body)-1]
		p.out = append(p.out[:start], body...)
	} else {
		p.out = append(slices.Insert(p.out, start, '"'), '"')
	}
	return nil
}

func (p *tagged) setBinary() error {
	if p.lists {
		return p.ofType("B", 0)
	}
	return p.binary()
}

// set reads a set as an object of one member, or as a list.
func (p *tagged) set(name string, element func() error) error {
	if p.lists {
		return p.list(element)
	}
	p.out = append(p.out, `{"`+name+`":`...)
	err := p.list(element)
	p.out = append(p.out, '}')
	return err
}

func (p *tagged) list(element func() error) error {
	if p.pos >= len(p.src) || p.src[p.pos] != '[' {
		return p.unexpected("a list […]")
	}
	return p.elements(element)
}

// mapOf reads a map.
func (p *tagged) mapOf(depth int) error {
	if p.pos >= len(p.src) || p.src[p.pos] != '{' {
		return p.unexpected("an object {…}")
	}
	start := len(p.out)
	if err := p.objectOf(func() error { return p.value(depth + 1) }); err != nil {
		return err
	}
	if special(p.out[start:]) != "" {
		p.out = append(slices.Insert(p.out, start, []byte(`{"`+literalMapName+`":`)...), '}')
	}
	return nil
}

// special returns the name of the only member of canonical text that stands for a value of another
// type, or for a map that would read as one; "" for any other text.
func special(text []byte) string {
	for _, name := range []string{b64Name, numberName, stringSetName, numberSetName,
		binarySetName, literalMapName} {
		rest, ok := bytes.CutPrefix(text, []byte(`{"`+name+`":`))
		if !ok {
			continue
		}
		rest = rest[:len(rest)-1]
		if isSpecial(name, rest) {
			return name
		}
	}
	return ""
}

func isSpecial(name string, value []byte) bool {
	p := parser{src: value}
	if p.value(0) != nil || p.pos != len(value) {
		return false // it is not the only member
	}
	if name == literalMapName {
		return special(value) != ""
	}
	if name == b64Name || name == numberName {
		return isElement(name, value)
	}
	if value[0] != '[' {
		return false
	}
	p = parser{src: value}
	all := true
	_ = p.elements(func() error {
		start := p.pos
		err := p.value(0)
		all = all && isElement(name, p.src[start:p.pos])
		return err
	})
	return all
}

// isElement reports whether canonical text is a string that can stand in a set, or for a single
// value.
func isElement(name string, text []byte) bool {
	if text[0] != '"' {
		return false
	}
	body := text[1 : len(text)-1]
	switch name {
	case numberName:
		return numberSyntax.Match(body) && !isJSONNumber(body)
	case numberSetName:
		return numberSyntax.Match(body)
	case b64Name, binarySetName:
		return isBase64(body)
	}
	return true
}
