package sql

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// literal returns the value of a constant.
func (b *binder) literal(l *Literal) expr.Value {
	switch l.Kind {
	case LiteralBool:
		return expr.Bool(l.Text == "TRUE")
	case LiteralNumber:
		v, err := number(l.Text)
		if err != nil {
			b.fail(l.Pos, "%s is no possible number", l.Text)
		}
		return v
	case LiteralString:
		return expr.String(l.Text)
	case LiteralBlob:
		raw, err := hex.DecodeString(l.Text)
		if err != nil {
			b.fail(l.Pos, "a blob is an even number of hexadecimal digits")
		}
		return expr.Bytes(raw)
	case LiteralTime:
		c := schema.Column{Type: keycodec.TypeTime, Unit: keycodec.FullRange}
		v, err := c.Convert(expr.String(l.Text))
		if err != nil {
			b.fail(l.Pos, "%s is no time; it looks like '2026-01-17T08:00:00Z'",
				quoteText(l.Text))
		}
		return v
	}
	return expr.Null()
}

// number reads a number: an integer, a decimal if it has a point or too many digits, a
// float if it has an exponent.
func number(text string) (expr.Value, error) {
	if strings.ContainsAny(text, "eE") {
		f, err := strconv.ParseFloat(text, 64)
		return expr.Float(f), err
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return expr.Int(i), nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return expr.Uint(u), nil
	}
	d, err := keycodec.ParseDecimal(decimalText(text))
	return expr.Decimal(d), err
}

// decimalText returns a number with digits on both sides of its point.
func decimalText(text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	return sign + strings.TrimSuffix(text, ".")
}

// params are the parameters of a statement. Those with names stand behind the numbered
// ones, in the order in which they appear.
type params struct {
	numbered int // how many ? or the highest number
	names    []string
	types    map[int]typ // what parameters are compared with
}

// param binds a parameter.
func (b *binder) param(e *Param) expr.Expr {
	p := &b.params
	if e.Index > 0 {
		p.numbered = max(p.numbered, e.Index)
		if len(p.names) > 0 {
			b.fail(e.Pos, "parameters with names stand beside numbered ones")
		}
		return expr.Param{Index: e.Index - 1}
	}
	if p.numbered > 0 {
		b.fail(e.Pos, "parameters with names stand beside numbered ones")
	}
	for i, name := range p.names {
		if name == e.Name {
			return expr.Param{Index: i, Name: e.Name}
		}
	}
	p.names = append(p.names, e.Name)
	return expr.Param{Index: len(p.names) - 1, Name: e.Name}
}

// count returns how many values the statement needs.
func (p *params) count() int { return max(p.numbered, len(p.names)) }

// compare notes what a parameter is compared with; the first type counts.
func (p *params) compare(i int, t typ) {
	if _, ok := p.types[i]; ok {
		return
	}
	if p.types == nil {
		p.types = map[int]typ{}
	}
	p.types[i] = t
}

// NamedValue is an argument for a parameter with a name; see Named.
type NamedValue struct {
	Name  string
	Value any
}

// Named returns an argument for the parameter :name.
func Named(name string, value any) NamedValue { return NamedValue{name, value} }

// values returns the values of the parameters of a statement.
func (p *params) values(args []any) ([]expr.Value, error) {
	out := make([]expr.Value, p.count())
	if len(p.names) == 0 && len(args) != len(out) {
		return nil, fmt.Errorf("%w: %d values for %d parameters", ErrArguments, len(args), len(out))
	}
	given := make([]bool, len(out))
	for i, arg := range args {
		at := i
		if named, ok := arg.(NamedValue); ok {
			arg = named.Value
			if at = indexOf(p.names, named.Name); at < 0 {
				return nil, fmt.Errorf("%w: there is no parameter :%s%s", ErrArguments, named.Name,
					hint(named.Name, p.names))
			}
		}
		if at >= len(out) {
			return nil, fmt.Errorf("%w: %d values for %d parameters", ErrArguments, len(args),
				len(out))
		}
		v, err := p.read(at, arg)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter %s: %w", ErrArguments, p.name(at), err)
		}
		out[at], given[at] = v, true
	}
	for i, ok := range given {
		if !ok {
			return nil, fmt.Errorf("%w: there is no value for %s", ErrArguments, p.name(i))
		}
	}
	return out, nil
}

// read returns the value of an argument.
func (p *params) read(i int, arg any) (expr.Value, error) {
	var v expr.Value
	var err error
	if text, ok := arg.(Untyped); ok {
		if strings.EqualFold(string(text), "NULL") {
			return v, nil
		}
		v, err = p.types[i].read(string(text))
	} else {
		v, err = expr.From(arg)
	}
	if err != nil {
		return v, err
	}
	return p.adapt(i, v)
}

// adapt gives a value the form for what it is compared with; of a list each element.
func (p *params) adapt(i int, v expr.Value) (expr.Value, error) {
	t, ok := p.types[i]
	if !ok {
		return v, nil
	}
	if v.Kind() != expr.KindList {
		return t.adapt(v)
	}
	var elements []expr.Value
	for e := range v.Elements() {
		e, err := t.adapt(e)
		if err != nil {
			return v, err
		}
		elements = append(elements, e)
	}
	return expr.List(elements), nil
}

func (p *params) name(i int) string {
	if i < len(p.names) {
		return ":" + p.names[i]
	}
	return "?" + strconv.Itoa(i+1)
}

func indexOf(names []string, name string) int {
	for i, n := range names {
		if n == name {
			return i
		}
	}
	return -1
}
