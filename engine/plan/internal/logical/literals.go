package logical

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// A program that writes values into the text of its queries asks for the same query again and
// again. With parameters for the values it has one key in the cache.
//
// Only values that say nothing else about the query become parameters: integers and texts that
// WHERE compares with columns of the same kind. Those in results, groups, orders and limits give
// types, names and places; those of other kinds are converted; and a table with partial indexes
// needs the values to know which of them answer the query.

// maxLiterals bounds the parameters that values become.
const maxLiterals = 64

// WithLiterals returns a query with parameters for the values that its WHERE compares columns
// with, and those values; sel itself and none if there are no such values. The result is a query
// for the caller's eyes only: it shares the rest with sel.
//
// Requires: sel is resolved and has no parameters.
func WithLiterals(sel *Select) (*Select, []expr.Value) {
	if sel.Where == nil || sel.Page || sel.After != nil || sel.RowKeys ||
		sel.Hints.RefuseFullScan {
		return sel, nil
	}
	for _, s := range sel.From {
		if s.Table == nil || slices.ContainsFunc(s.Table.Indexes, partial) {
			return sel, nil
		}
	}
	if HasSubquery(sel) {
		return sel, nil
	}
	l := literals{sel: sel}
	out := *sel
	if out.Where = l.condition(sel.Where); len(l.values) == 0 || len(l.values) > maxLiterals {
		return sel, nil
	}
	return &out, l.values
}

func partial(x *schema.Index) bool { return x.Where != nil }

// literals collects the values of a query.
type literals struct {
	sel    *Select
	values []expr.Value
}

// condition returns a condition with parameters for the values that it compares columns with.
func (l *literals) condition(e expr.Expr) expr.Expr {
	switch e := e.(type) {
	case expr.And:
		return expr.And{Terms: l.conditions(e.Terms)}
	case expr.Or:
		return expr.Or{Terms: l.conditions(e.Terms)}
	case expr.Not:
		return expr.Not{X: l.condition(e.X)}
	case expr.Cmp:
		column, ok := e.L.(expr.Column)
		value, known := e.R.(expr.Const)
		if ok && known && l.isPlain(column, value.Kind()) {
			e.R = expr.Param{Index: len(l.values)}
			l.values = append(l.values, value.Value)
		}
		return e
	}
	return e
}

func (l *literals) conditions(terms []expr.Expr) []expr.Expr {
	out := make([]expr.Expr, len(terms))
	for i, t := range terms {
		out[i] = l.condition(t)
	}
	return out
}

// isPlain reports whether a column holds values of a kind as they are.
func (l *literals) isPlain(c expr.Column, kind expr.Kind) bool {
	if c.Source < 0 || c.Source >= len(l.sel.From) || c.Collation != 0 ||
		kind != expr.KindInt && kind != expr.KindString {
		return false
	}
	of := &l.sel.From[c.Source].Table.Columns[c.Ordinal]
	return of.Kind() == kind && !of.List && of.Collation == 0
}
