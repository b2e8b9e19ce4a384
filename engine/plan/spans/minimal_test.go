package spans_test

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// This file decides, for one row, what a predicate lets of its tuple into spans: column by
// column, as far as the columns have values that the predicate names. It is the description
// in words of what spans leave out, so it knows no cuts, pieces or encodings.

// columnOf returns the position in the key of the column that a condition is about, -1 if it
// is another condition than those that spans know.
func (c *check) columnOf(e expr.Expr) int {
	var x expr.Expr
	var rest []expr.Expr
	switch e := e.(type) {
	case expr.Cmp:
		x, rest = e.L, []expr.Expr{e.R}
	case expr.In:
		x, rest = e.X, e.List
	case expr.BeginsWith:
		x, rest = e.X, []expr.Expr{e.Prefix}
	case expr.IsNull:
		x = e.X
	case expr.Not:
		begins, ok := e.X.(expr.BeginsWith)
		if !ok {
			return -1
		}
		x, rest = begins.X, []expr.Expr{begins.Prefix}
	}
	column, ok := x.(expr.Column)
	if !ok || slices.ContainsFunc(rest, hasColumns) {
		return -1
	}
	return slices.Index(c.key.Ordinals, column.Ordinal)
}

func hasColumns(e expr.Expr) (has bool) {
	expr.Walk(e, func(e expr.Expr) bool {
		_, column := e.(expr.Column)
		has = has || column
		return true
	})
	return has
}

// left returns what is left of a predicate for a row whose columns of the key before n
// are known: yes or no, or unknown and the rest.
func (c *check) left(e expr.Expr, j judge, n int) (truth, expr.Expr) {
	decides, terms := yes, []expr.Expr(nil)
	switch e := e.(type) {
	case expr.And:
		decides, terms = no, e.Terms
	case expr.Or:
		terms = e.Terms
	default:
		if at := c.columnOf(e); at >= n || at < 0 && hasColumns(e) {
			return unknown, e
		}
		return truthOf(j.truth(e) == yes), nil
	}
	var rest []expr.Expr
	for _, term := range terms {
		switch t, r := c.left(term, j, n); t {
		case decides:
			return decides, nil
		case unknown:
			rest = append(rest, r)
		}
	}
	switch {
	case len(rest) == 0:
		return yes - decides, nil
	case decides == no:
		return unknown, expr.And{Terms: rest}
	}
	return unknown, expr.Or{Terms: rest}
}

// names reports whether a predicate is about a column of the key, and whether it names the
// value that the row has there.
func (c *check) names(e expr.Expr, j judge, at int) (about, named bool) {
	column := c.w.column(c.key.Ordinals[at])
	expr.Walk(e, func(e expr.Expr) bool {
		if c.columnOf(e) != at {
			return true
		}
		about = true
		var values []expr.Expr
		switch e := e.(type) {
		case expr.Cmp:
			if e.Op == expr.Eq || e.Op == expr.Ne {
				values = []expr.Expr{e.R}
			}
		case expr.In:
			values = e.List
		}
		for _, v := range values {
			named = named || j.compareAny(expr.Eq, column, v) == yes
		}
		return false
	})
	return about, named || about && j.value(column).IsNull()
}

// checkMinimal checks that no tuple is in a span that leaves it in doubt without need: not if
// the values that are named decide against it, and without a residual if they decide for it.
func (c *check) checkMinimal() error {
	if c.set.Truncated || slices.Contains(c.key.Each, true) {
		return nil
	}
	for _, row := range c.w.rows {
		j := judge{row, c.w.params}
		entry := c.entries(row)[0]
		t, rest := c.left(c.norm, j, 0)
		fixed, tail := 0, entry
		for at := 0; t == unknown && at < len(c.key.Fields); at++ {
			about, named := c.names(rest, j, at)
			if !about {
				break
			}
			if t, rest = c.left(rest, j, at+1); !named || t == no {
				break
			}
			fixed++
			tail, _ = c.key.Fields[at].Skip(tail)
		}
		if err := c.checkTuple(entry, entry[:len(entry)-len(tail)], fixed, t); err != nil {
			return fmt.Errorf("row %v: %w", row, err)
		}
	}
	return nil
}

// checkTuple checks the span of one tuple whose first columns, fixed of them, are head.
func (c *check) checkTuple(entry, head []byte, fixed int, t truth) error {
	for i, s := range c.set.Spans {
		if !holds(s.Lo, s.Hi, entry) {
			continue
		}
		end, _ := keycodec.PrefixEnd(nil, head)
		inside := bytes.HasPrefix(s.Lo, head) && (bytes.HasPrefix(s.Hi, head) ||
			bytes.Equal(s.Hi, end))
		switch {
		case t == no:
			return fmt.Errorf("%d columns rule span %d out", fixed+1, i)
		case t == yes && s.Residual != nil:
			return fmt.Errorf("span %d needs no residual", i)
		case inside && s.Points < fixed:
			return fmt.Errorf("span %d has %d points, not %d", i, s.Points, fixed)
		}
		return nil
	}
	if t == yes {
		return fmt.Errorf("it is in no span")
	}
	return nil
}
