package sql

import (
	"errors"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
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
	switch kind := t.column.Kind(); {
	case !t.known():
		return guess(text), nil
	case kind.Numeric():
		v, err := number(text)
		if err != nil {
			return v, errors.New(quoteText(text) + " is no number")
		}
		return v, nil
	case t.column.Type == keycodec.TypeBool:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return expr.Value{}, errors.New(quoteText(text) + " is neither true nor false")
		}
		return expr.Bool(b), nil
	case t.column.Type == keycodec.TypeBytes:
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
	if v, err := number(text); err == nil && strings.Trim(text, "0123456789.eE+-") == "" {
		return v
	}
	return expr.String(text)
}

// Complete reports whether a text ends with a semicolon that is not inside quotes or a
// comment: the statement that is being typed is done.
func Complete(text string) bool {
	l := lexer{text: text}
	done := false
	for {
		before := l.pos
		tok, err := l.next()
		if err != nil {
			// Text after an open quote or comment is taken to the end; other faults are for
			// the parser to report.
			if l.pos <= before || l.pos == len(text) {
				return done && l.pos == len(text) && before == len(text)
			}
			done = false
			continue
		}
		if tok.kind == tokenEnd {
			return done
		}
		done = tok.kind == tokenOperator && tok.text == ";"
	}
}

// Keywords returns the words of the language, in upper case and sorted, for completion.
func Keywords() []string { return append([]string(nil), keywords...) }

var keywords = strings.Fields(`ADD ALTER ANALYZE AND AS ASC AVG BEGINS BETWEEN BY COALESCE COLUMN
	CONTAINS COUNT CREATE CROSS DEFAULT DELETE DESC DISTINCT DROP EACH EXISTS EXPLAIN FALSE
	FROM GROUP HAVING IF IGNORE IN INCLUDE INDEX INDEXED INNER INSERT INTO IS JOIN KEY LEFT
	LIKE LIMIT LOCAL MAX MIN NOT NULL NULLS OFFSET ON OR ORDER OUTER PARTITION PRIMARY RENAME
	REPLACE SELECT SET SHARD SORT SUM TABLE TIMESTAMP TRUE TTL UNIQUE UPDATE VALUES WHERE WITH`)
