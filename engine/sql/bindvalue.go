package sql

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// literal returns the value of a constant.
func (b *binder) literal(l *syntax.Literal) expr.Value {
	switch l.Kind {
	case syntax.LiteralBool:
		return expr.Bool(l.Text == "TRUE")
	case syntax.LiteralNumber:
		v, err := expr.ParseNumber(l.Text)
		if err != nil {
			b.fail(l.Pos, "%s is no possible number", l.Text)
		}
		return v
	case syntax.LiteralString:
		return expr.String(l.Text)
	case syntax.LiteralBlob:
		raw, err := hex.DecodeString(l.Text)
		if err != nil {
			b.fail(l.Pos, "a blob is an even number of hexadecimal digits")
		}
		return expr.Bytes(raw)
	case syntax.LiteralFloat:
		f, err := strconv.ParseFloat(l.Text, 64)
		if err != nil {
			b.fail(l.Pos, "%s is no float", syntax.QuoteText(l.Text))
		}
		return expr.Float(f)
	case syntax.LiteralDecimal:
		d, err := keycodec.ParseDecimal(l.Text)
		if err != nil {
			b.fail(l.Pos, "%s is no decimal", syntax.QuoteText(l.Text))
		}
		return expr.Decimal(d)
	case syntax.LiteralInterval:
		b.fail(l.Pos, "an interval is possible after + and - only, beside a time")
	case syntax.LiteralTime:
		c := schema.Column{Type: keycodec.TypeTime, Unit: keycodec.FullRange}
		v, err := c.Convert(expr.String(l.Text))
		if err != nil {
			b.fail(l.Pos, "%s is not a time; write it like '2026-01-17T08:00:00Z'",
				syntax.QuoteText(l.Text))
		}
		return v
	}
	return expr.Null()
}

// params are the parameters of a statement. Those with names stand after the numbered
// ones, in the order in which they appear.
type params struct {
	numbered int // how many ? or the highest number
	names    []string
	types    map[int]typ // what parameters are compared with
	places   map[int]int // where they stand first

	// A parameter that is compared with values of several classes has a value for each of
	// them, and the time of the statement is one value, too: after all parameters stand the
	// values in extra. Base is how many parameters there are, once final is set: not in a first
	// run, which finds that out and sets again if it matters.
	base  int
	final bool
	again bool
	extra []extraParam
}

// extraParam is one more value of a parameter, or the time of the statement.
type extraParam struct {
	of  int // the parameter, or timeOfStatement
	typ typ
}

// timeOfStatement is extraParam.of of the time at which a statement begins.
const timeOfStatement = -1

// isNow reports whether a parameter is the time of the statement.
func (p *params) isNow(x expr.Param) bool {
	i := x.Index - p.base
	return i >= 0 && i < len(p.extra) && p.extra[i].of == timeOfStatement
}

// now returns the expression for the time of the statement.
func (p *params) now() expr.Expr {
	if !p.final {
		p.again = true
		return expr.Const{Value: expr.UnixTime(0, 0)}
	}
	for i, x := range p.extra {
		if x.of == timeOfStatement {
			return expr.Param{Index: p.base + i, Name: "now"}
		}
	}
	p.extra = append(p.extra, extraParam{timeOfStatement, plainType(keycodec.TypeTime)})
	return expr.Param{Index: p.base + len(p.extra) - 1, Name: "now"}
}

// typeOf returns the type of a parameter that stands for the time of the statement.
func (p *params) typeOf(e expr.Param) typ {
	if i := e.Index - p.base; p.final && i >= 0 && i < len(p.extra) &&
		p.extra[i].of == timeOfStatement {
		return p.extra[i].typ
	}
	return typ{}
}

// param binds a parameter.
func (b *binder) param(e *syntax.Param) expr.Expr {
	p := &b.params
	if e.Index > 0 {
		p.numbered = max(p.numbered, e.Index)
		if len(p.names) > 0 {
			b.fail(e.Pos, "parameters with names stand beside numbered ones")
		}
		return p.at(e.Pos, expr.Param{Index: e.Index - 1})
	}
	if p.numbered > 0 {
		b.fail(e.Pos, "parameters with names stand beside numbered ones")
	}
	i := indexOf(p.names, e.Name)
	if i < 0 {
		i = len(p.names)
		p.names = append(p.names, e.Name)
	}
	return p.at(e.Pos, expr.Param{Index: i, Name: e.Name})
}

// at notes where a parameter stands.
func (p *params) at(pos int, x expr.Param) expr.Param {
	if p.places == nil {
		p.places = map[int]int{}
	}
	if _, known := p.places[x.Index]; !known {
		p.places[x.Index] = pos
	}
	return x
}

// of returns the parameter that one is, which may be one of the extra ones.
func (p *params) of(index int) int {
	if i := index - p.base; p.final && i >= 0 && i < len(p.extra) {
		return p.extra[i].of
	}
	return index
}

// count returns how many values the statement needs.
func (p *params) count() int { return max(p.numbered, len(p.names)) }

// any reports whether the statement has parameters, its time among them.
func (p *params) any() bool { return p.count() > 0 || len(p.extra) > 0 }

// compare notes what a parameter is compared with, and returns the one that stands for its
// value there.
func (p *params) compare(e expr.Param, t typ) expr.Param {
	first, known := p.types[e.Index]
	switch {
	case p.final && e.Index >= p.base: // one of extra
		return e
	case !known:
		if p.types == nil {
			p.types = map[int]typ{}
		}
		p.types[e.Index] = t
		return e
	case first.class() == t.class():
		return e
	case !p.final:
		p.again = true
		return e
	}
	out := expr.Param{Index: p.base + len(p.extra), Name: e.Name}
	for i, x := range p.extra {
		if x.of == e.Index && x.typ.class() == t.class() {
			out.Index = p.base + i
			return out
		}
	}
	p.extra = append(p.extra, extraParam{e.Index, t})
	return out
}

// NamedValue is an argument for a parameter with a name; see Named.
type NamedValue struct {
	Name  string
	Value any
}

// Named returns an argument for the parameter :name.
func Named(name string, value any) NamedValue { return NamedValue{name, value} }

// paramError is an error about the value of a parameter.
type paramError struct {
	index int
	err   error
}

// Error implements error.
func (e *paramError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *paramError) Unwrap() error { return e.err }

// values is params.values, whose errors get a place.
func (b *asked) values(args []any, now func() time.Time, start int) ([]expr.Value, error) {
	out, err := b.params.values(args, now)
	if err == nil {
		return out, nil
	}
	var about *paramError
	if errors.As(err, &about) {
		if pos, known := b.params.places[about.index]; known {
			start = pos
		}
	}
	return nil, b.failed(start, err, "%s",
		strings.TrimPrefix(plainText(err), ErrArguments.Error()+": "))
}

// values returns the values of the parameters of a statement, and after them the extra
// ones. Now is called at most once.
func (p *params) values(args []any, now func() time.Time) ([]expr.Value, error) {
	given, err := p.arguments(args)
	if err != nil {
		return nil, err
	}
	out := make([]expr.Value, 0, len(given)+len(p.extra))
	add := func(i int, t typ) error {
		v, err := t.argument(given[i])
		if err != nil {
			return &paramError{i, fmt.Errorf("%w: parameter %s: %w", ErrArguments, p.name(i), err)}
		}
		out = append(out, v)
		return nil
	}
	for i := range given {
		if err := add(i, p.types[i]); err != nil {
			return nil, err
		}
	}
	for _, x := range p.extra {
		if x.of == timeOfStatement {
			out = append(out, expr.Time(now()))
			continue
		}
		if err := add(x.of, x.typ); err != nil {
			return nil, err
		}
		if v := out[len(out)-1]; !x.typ.comparable(v) {
			return nil, &paramError{x.of, fmt.Errorf("%w: parameter %s: %s cannot be compared "+
				"with a %s", ErrArguments, p.name(x.of), v, x.typ)}
		}
	}
	return out, nil
}

// arguments returns the arguments in the order of the parameters.
func (p *params) arguments(args []any) ([]any, error) {
	out := make([]any, p.count())
	if len(p.names) == 0 && len(args) != len(out) {
		return nil, &paramError{len(args), tooManyOrFew(len(args), len(out))}
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
			return nil, tooManyOrFew(len(args), len(out))
		}
		out[at], given[at] = arg, true
	}
	for i, ok := range given {
		if !ok {
			return nil, &paramError{i, fmt.Errorf("%w: there is no value for %s", ErrArguments,
				p.name(i))}
		}
	}
	return out, nil
}

// argument returns the value of an argument that is compared with values of the type: in
// the form for that, of a list each element.
func (t typ) argument(arg any) (v expr.Value, err error) {
	if text, ok := arg.(Untyped); ok {
		if strings.EqualFold(string(text), "NULL") {
			return v, nil
		}
		v, err = t.read(string(text))
	} else {
		v, err = expr.From(arg)
	}
	if err != nil || !t.known() {
		return v, err
	}
	return t.each(v, typ.given)
}

// each returns what a function makes of a value or, of a list, of each element.
func (t typ) each(v expr.Value, f func(typ, expr.Value) (expr.Value, error)) (expr.Value, error) {
	if t.list = false; v.Kind() != expr.KindList {
		return f(t, v)
	}
	elements := make([]expr.Value, 0, v.Len())
	for e := range v.Elements() {
		e, err := f(t, e)
		if err != nil {
			return v, err
		}
		elements = append(elements, e)
	}
	return expr.List(elements), nil
}

// given is adapt of an argument. A text may be a decimal, which Go has no type for.
func (t typ) given(v expr.Value) (expr.Value, error) {
	text, ok := v.AsString()
	if ok && (t.of == keycodec.TypeDecimal || t.of == keycodec.TypeFixed) {
		d, err := keycodec.ParseDecimal(text)
		if err != nil {
			return v, fmt.Errorf("%s is no decimal", v)
		}
		return expr.Decimal(d), nil
	}
	return t.adapt(v)
}

func tooManyOrFew(values, params int) error {
	counted := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return fmt.Errorf("%w: %s for %s", ErrArguments, counted(values, "value"),
		counted(params, "parameter"))
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
