package sql

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
)

// JOIN … USING and NATURAL JOIN are joins ON equal columns. Without a table before it, the name of
// such a column stands for that of the left side, and * has it once, before those that an earlier
// join has made first. A RIGHT JOIN is a LEFT JOIN with its sides exchanged, so that the left side
// is what is always there. Of a FULL JOIN neither is, and the name stands for the first of the
// columns that is not NULL.

// merged are the columns that USING has joined.
type merged struct {
	hidden map[found]bool // the columns of the right sides
	// columns are those of * of the first sources, whose number is known.
	columns []found
	known   int
	// either has what the columns stand for after a FULL JOIN.
	either map[found]expr.Expr
	// right says that the first two sources are exchanged.
	right bool
}

// expr returns what the name of a column stands for.
func (m *merged) expr(sc *scope, f found) expr.Expr {
	if e := m.either[f]; e != nil {
		return e
	}
	return sc.refTo(f)
}

// using returns the condition that columns of a source are equal to those of the sources before.
func (sc *scope) using(source int, names []syntax.Name) expr.Expr {
	var terms []expr.Expr
	var first []found
	for _, n := range names {
		ref := &syntax.Ref{At: syntax.At{Pos: n.Pos}, Column: n.Text}
		left, right := sc.sides(source, n)
		l := sc.merged.expr(sc, left)
		r := sc.merged.expr(sc, right)
		terms = append(terms, sc.mark(expr.Cmp{Op: expr.Eq, L: sc.coerceTo(r, l, ref),
			R: sc.coerceTo(l, r, ref)}, n.Pos))
		sc.merged.hide(right)
		if sc.sel.Joins[source-1].Kind == plan.Full {
			sc.merged.stand(left, expr.Func{Name: "coalesce", Args: []expr.Expr{l, r},
				Pos: sc.b.place(n.Pos)})
		}
		first = append(first, left)
	}
	for _, f := range sc.starColumns("") {
		if !sc.merged.hidden[f] && !slices.Contains(first, f) {
			first = append(first, f)
		}
	}
	sc.merged.columns, sc.merged.known = first, source+1
	return expr.AllOf(terms)
}

// sides returns the columns that a name of USING stands for: that of the sources before one, and
// its own.
func (sc *scope) sides(source int, n syntax.Name) (left, right found) {
	lefts, rights := 0, 0
	for i := range sc.parts {
		p := &sc.parts[i]
		f, ok := p.column(n.Text)
		switch {
		case !ok || sc.merged.hidden[f]:
		case p.source == source:
			right, rights = f, rights+1
		default:
			left, lefts = f, lefts+1
		}
	}
	name := syntax.QuoteName(sc.sel.From[source].Name())
	if sc.sel.From[source].Table == nil && strings.Contains(sc.sel.From[source].Alias, "+") {
		name = "the tables in parentheses"
	}
	column := syntax.QuoteName(n.Text)
	switch {
	case rights == 0 && sc.sel.From[source].Table != nil:
		if _, stands := sc.b.column(sc.table(source), n), true; stands {
			sc.b.fail(n.Pos, "column %s stands here twice", column)
		}
	case rights == 0:
		sc.b.fail(n.Pos, "in %s there is no column %s", name, column)
	case rights > 1:
		sc.b.fail(n.Pos, "column %s is in more than one of %s; write ON", column, name)
	case lefts == 0:
		sc.b.fail(n.Pos, "the tables before %s have no column %s", name, column)
	case lefts > 1:
		sc.b.fail(n.Pos, "column %s is in more than one table before %s; write ON", column, name)
	}
	return left, right
}

// common returns the columns of a source that the sources before have, too, in the order of what
// is written first.
func (sc *scope) common(source, pos int) (names []syntax.Name) {
	visible := func(own bool) (out []string) {
		for _, f := range sc.starColumns("") {
			if (f.source == source) == own {
				out = append(out, sc.columnOf(f).Name)
			}
		}
		return out
	}
	left, right := visible(false), visible(true)
	if sc.merged.right && source == 1 {
		left, right = right, left
	}
	for _, name := range left {
		same := func(other string) bool { return sameName(name, other) }
		if slices.ContainsFunc(right, same) {
			names = append(names, syntax.Name{Pos: pos, Text: name})
		}
	}
	if names == nil {
		sc.b.fail(pos, "the tables have no column in common; CROSS JOIN makes all pairs")
	}
	return names
}

// starColumns returns the columns of *, or of table.*.
func (sc *scope) starColumns(table string) (out []found) {
	known := 0
	if table == "" {
		out, known = slices.Clone(sc.merged.columns), sc.merged.known
	}
	for _, p := range sc.parts {
		if p.source < known || table != "" && !sameName(table, p.name) {
			continue
		}
		for j := range p.table.Columns {
			if !p.table.Columns[j].Dropped {
				out = append(out, found{p.source, p.base + j})
			}
		}
	}
	return out
}
