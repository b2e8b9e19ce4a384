package sql

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
)

// JOIN … USING and NATURAL JOIN are joins ON equal columns. Without a table before it, the name of
// such a column stands for that of the left side, and * has it once and first. A RIGHT JOIN is a
// LEFT JOIN with its tables exchanged, so that the left side is what is always there. Of a FULL
// JOIN neither is, and the name stands for the first of the columns that is not NULL.

// merged are the columns that USING has joined.
type merged struct {
	columns []found        // of the left sides
	hidden  map[found]bool // of the right sides
	// either has what the columns stand for after a FULL JOIN.
	either map[found]expr.Expr
	// right says that the first two sources are exchanged.
	right bool
}

// exchanged returns the sources with a RIGHT JOIN as a LEFT JOIN.
func (sc *scope) exchanged(from []syntax.Source) []syntax.Source {
	if len(from) < 2 || from[1].Join != syntax.JoinRight {
		return from
	}
	sc.merged.right = true
	from = slices.Clone(from)
	from[0], from[1] = from[1], from[0]
	kept, other := &from[0], &from[1]
	other.Join, other.On, other.Using = syntax.JoinLeft, kept.On, kept.Using
	other.Natural = kept.Natural
	kept.Join, kept.On, kept.Using, kept.Natural = syntax.JoinFirst, nil, nil, false
	return from
}

// expr returns what the name of a column stands for.
func (m *merged) expr(sc *scope, f found) expr.Expr {
	if e := m.either[f]; e != nil {
		return e
	}
	return sc.columnExpr(f.source, f.ordinal)
}

// using returns the condition that columns of a source are equal to those of the sources before.
func (sc *scope) using(source int, names []syntax.Name) expr.Expr {
	var terms []expr.Expr
	right := sc.table(source)
	for _, n := range names {
		ref := &syntax.Ref{Pos: n.Pos, Column: n.Text}
		left, many := found{}, 0
		for i := range source {
			j := columnNamed(sc.table(i), n.Text)
			if f := (found{i, j}); j >= 0 && !sc.merged.hidden[f] {
				left, many = f, many+1
			}
		}
		j := sc.b.column(right, n)
		switch {
		case many == 0:
			sc.b.fail(n.Pos, "the tables before %s have no column %s", syntax.QuoteName(
				sc.sel.From[source].Name()), syntax.QuoteName(n.Text))
		case many > 1:
			sc.b.fail(n.Pos, "column %s is in more than one table before %s; write ON",
				syntax.QuoteName(n.Text), syntax.QuoteName(sc.sel.From[source].Name()))
		case sc.merged.hidden[found{source, j}]:
			sc.b.fail(n.Pos, "column %s stands here twice", syntax.QuoteName(n.Text))
		}
		l, r := sc.merged.expr(sc, left), expr.Expr(sc.columnExpr(source, j))
		terms = append(terms, sc.mark(expr.Cmp{Op: expr.Eq, L: sc.coerceTo(r, l, ref),
			R: sc.coerceTo(l, r, ref)}, n.Pos))
		if sc.merged.hidden == nil {
			sc.merged.hidden = map[found]bool{}
		}
		sc.merged.hidden[found{source, j}] = true
		if sc.sel.Joins[source-1].Kind == plan.Full {
			if sc.merged.either == nil {
				sc.merged.either = map[found]expr.Expr{}
			}
			sc.merged.either[left] = expr.Func{Name: "coalesce", Args: []expr.Expr{l, r},
				Pos: sc.b.place(n.Pos)}
		}
		if !slices.Contains(sc.merged.columns, left) {
			sc.merged.columns = append(sc.merged.columns, left)
		}
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return expr.And{Terms: terms}
}

// common returns the columns of a source that the sources before have, too.
func (sc *scope) common(source, pos int) (names []syntax.Name) {
	for i := range source {
		for _, name := range columnNames(sc.table(i)) {
			if sc.merged.hidden[found{i, columnNamed(sc.table(i), name)}] {
				continue
			}
			if columnNamed(sc.table(source), name) >= 0 {
				names = append(names, syntax.Name{Pos: pos, Text: name})
			}
		}
	}
	if names == nil {
		sc.b.fail(pos, "the tables have no column in common; CROSS JOIN makes all pairs")
	}
	if sc.merged.right && source == 1 { // in the order of the table that is written first
		slices.SortFunc(names, func(a, b syntax.Name) int {
			return columnNamed(sc.table(source), a.Text) - columnNamed(sc.table(source), b.Text)
		})
	}
	return names
}

// starColumns returns the columns of *, or of table.*.
func (sc *scope) starColumns(table string) (out []found) {
	if table == "" {
		out = slices.Clone(sc.merged.columns)
	}
	order := make([]int, len(sc.sel.From))
	for i := range order {
		order[i] = i
	}
	if sc.merged.right {
		order[0], order[1] = 1, 0
	}
	for _, i := range order {
		if table != "" && !sameName(table, sc.sel.From[i].Name()) {
			continue
		}
		for j := range sc.table(i).Columns {
			f := found{i, j}
			again := sc.merged.hidden[f] || slices.Contains(sc.merged.columns, f)
			if !sc.table(i).Columns[j].Dropped && (table != "" || !again) {
				out = append(out, f)
			}
		}
	}
	return out
}
