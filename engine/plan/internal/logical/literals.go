package logical

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
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

// LiteralKeyOf returns the shape of a query, after a byte, without the values that its WHERE
// compares columns with: Literals returns them. It is nil if there are no such values, or too many.
// Why: most texts come once, and a query with parameters would be made for its key alone.
//
// Requires: sel is resolved and has no parameters.
func LiteralKeyOf(mark byte, sel *Select, known stats.Source) *Shape {
	if !sel.mayHaveLiterals() {
		return nil
	}
	s := shapes.Get().(*Shape)
	s.literals = literals{of: sel, values: s.literals.values[:0]}
	s.key([]byte{mark}, sel, known)
	if n := len(s.literals.values); n == 0 || n > maxLiterals {
		s.Release()
		return nil
	}
	return s
}

// Literals returns the values that LiteralKeyOf has left out. They are the caller's.
func (s *Shape) Literals() []expr.Value { return slices.Clone(s.literals.values) }

// WithLiterals returns a query with parameters for the values that LiteralKeyOf leaves out. It
// shares the rest with sel.
func WithLiterals(sel *Select) *Select {
	l := literals{of: sel}
	out := *sel
	out.Where = expr.Replace(sel.Where, func(e expr.Expr) (expr.Expr, bool) {
		c, compares := e.(expr.Cmp)
		if compares && l.take(c) {
			c.R = expr.Param{Index: len(l.values) - 1}
			return c, true
		}
		return e, !combines(e)
	})
	return &out
}

// mayHaveLiterals reports whether values in WHERE say nothing else about the query.
func (sel *Select) mayHaveLiterals() bool {
	if sel.Where == nil || sel.Page || sel.After != nil || sel.RowKeys ||
		sel.Hints.RefuseFullScan {
		return false
	}
	for _, s := range sel.From {
		if s.Table == nil || slices.ContainsFunc(s.Table.Indexes, partial) {
			return false
		}
	}
	return !HasSubquery(sel)
}

func partial(x *schema.Index) bool { return x.Where != nil }

// literals are the values in the WHERE of a query that parameters stand for.
type literals struct {
	of     *Select // nil: values stay
	values []expr.Value
}

// combines reports whether literals are looked for in the operands of an expression.
func combines(e expr.Expr) bool {
	switch e.(type) {
	case expr.And, expr.Or, expr.Not:
		return true
	}
	return false
}

// take adds the value that a column is compared with, and reports whether a parameter stands for
// it.
func (l *literals) take(c expr.Cmp) bool {
	column, ok := c.L.(expr.Column)
	value, known := c.R.(expr.Const)
	if !ok || !known || !l.isPlain(column, value.Kind()) || len(l.values) > maxLiterals {
		return false
	}
	l.values = append(l.values, value.Value)
	return true
}

// isPlain reports whether a column holds values of a kind as they are.
func (l *literals) isPlain(c expr.Column, kind expr.Kind) bool {
	if c.Source < 0 || c.Source >= len(l.of.From) || c.Collation != 0 ||
		kind != expr.KindInt && kind != expr.KindString {
		return false
	}
	of := &l.of.From[c.Source].Table.Columns[c.Ordinal]
	return of.Kind() == kind && !of.List && of.Collation == 0
}
