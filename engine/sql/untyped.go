package sql

import (
	"errors"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// Untyped is an argument as people type it: it takes the type of what the parameter is
// compared with or written to. Where that is not known it is NULL, TRUE, FALSE, a number,
// or else a text.
type Untyped string

// Read returns the value that a text stands for in a column. Numbers are taken as in SQL,
// times and the like as schema.Column.Convert takes them. The value fits the column.
func Read(c *schema.Column, text string) (expr.Value, error) {
	v, err := typeOfColumn(c).read(text)
	if err != nil {
		return v, err
	}
	return c.Convert(v)
}

// read gives a text the type t, as far as that says what it means.
func (t typ) read(text string) (expr.Value, error) {
	if t.list {
		return expr.String(text), nil
	}
	switch kind := t.kind(); {
	case !t.known():
		return guess(text), nil
	case kind.Numeric():
		parse := expr.ParseExact
		if t.float() {
			parse = expr.ParseNumber
		}
		v, err := parse(text)
		if err != nil {
			return v, errors.New(syntax.QuoteText(text) + " is not a number")
		}
		return v, nil
	case t.of == keycodec.TypeBool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return expr.Value{}, errors.New(syntax.QuoteText(text) + " is neither true nor false")
		}
		return expr.Bool(b), nil
	case t.of == keycodec.TypeBytes:
		return expr.Bytes([]byte(text)), nil
	}
	return expr.String(text), nil
}

// guess returns what a text looks like.
func guess(text string) expr.Value {
	switch strings.ToUpper(text) {
	case "NULL":
		return expr.Null()
	case "TRUE":
		return expr.Bool(true)
	case "FALSE":
		return expr.Bool(false)
	}
	if v, err := expr.ParseNumber(text); err == nil && strings.Trim(text, "0123456789.eE+-") == "" {
		return v
	}
	return expr.String(text)
}
