package sql

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// The planner joins from left to right, and LEFT and FULL JOIN have one source on their right.
// Joined tables in parentheses there are a query of FROM that has all their columns, and so are
// those to the left of a RIGHT JOIN. Names do not show that: a part of a source is a table as the
// query names it.

// part is what a name of FROM stands for: columns of a source, all of them or, of a join in
// parentheses, those of one table.
type part struct {
	name   string
	source int
	base   int           // the ordinal of its first column
	table  *schema.Table // its columns
}

// column finds a column by its name.
func (p *part) column(name string) (f found, ok bool) {
	j := columnNamed(p.table, name)
	return found{p.source, p.base + j}, j >= 0
}

// addPart adds a table of FROM.
func (sc *scope) addPart(p part, pos int) {
	for _, other := range sc.parts {
		if other.name == p.name {
			sc.b.fail(pos, "%s stands for two tables; give one of them another name with AS",
				syntax.QuoteName(p.name))
		}
	}
	sc.parts = append(sc.parts, p)
}

// partOf returns the part that a column belongs to.
func (sc *scope) partOf(f found) *part {
	var out *part
	for i := range sc.parts {
		if p := &sc.parts[i]; p.source == f.source && p.base <= f.ordinal &&
			(out == nil || p.base > out.base) {
			out = p
		}
	}
	if out == nil { // a query without names, such as that of a set operation
		name := sc.sel.From[f.source].Name()
		return &part{name: name, source: f.source, table: sc.table(f.source)}
	}
	return out
}

// columnOf returns the definition of a column of FROM.
func (sc *scope) columnOf(f found) *schema.Column {
	p := sc.partOf(f)
	return &p.table.Columns[f.ordinal-p.base]
}

// nest binds joined tables in parentheses as one source.
func (sc *scope) nest(s *syntax.Source) {
	b, i := sc.b, len(sc.sel.From)
	in := &scope{b: b, outer: sc.outer, depth: sc.depth, ast: sc.ast, sel: &plan.Select{}}
	in.begin()
	in.sources(s.Nested)
	before := sc.starColumns("")
	to := map[found]found{} // from the columns there to those here
	var outputs []boundOutput
	var names []string
	for _, p := range in.parts {
		at := part{name: p.name, source: i, base: len(outputs), table: &schema.Table{Name: p.name}}
		names = append(names, p.name)
		for j, c := range p.table.Columns {
			if c.Dropped {
				continue
			}
			f := found{p.source, p.base + j}
			to[f] = found{i, len(outputs)}
			at.table.Columns = append(at.table.Columns, c)
			e := in.columnExpr(f.source, f.ordinal)
			out := boundOutput{name: p.name + "." + c.Name, expr: e, typ: typeOfColumn(&c)}
			outputs = append(outputs, out)
			in.sel.Columns = append(in.sel.Columns, plan.Output{Expr: e, Name: out.name})
		}
		sc.addPart(at, s.Table.Pos)
	}
	name := strings.Join(names, "+")
	b.describe(in.sel, name, outputs, s.Table.Pos)
	sc.sel.From = append(sc.sel.From, plan.Source{Queries: []*plan.Select{in.sel}, Alias: name})
	for _, f := range in.starColumns("") {
		before = append(before, to[f])
	}
	sc.merged.columns, sc.merged.known = before, i+1
	sc.merged.include(&in.merged, to, sc)
}

// include adds what USING has merged in a source; to has the columns of that here.
func (m *merged) include(in *merged, to map[found]found, sc *scope) {
	for f := range in.hidden {
		m.hide(to[f])
	}
	for f, e := range in.either {
		m.stand(to[f], expr.MapColumns(e, func(c expr.Column) expr.Expr {
			if c.Source < 0 {
				return c
			}
			at := to[found{c.Source, c.Ordinal}]
			return sc.columnExpr(at.source, at.ordinal)
		}))
	}
}

// hide notes a column of a right side.
func (m *merged) hide(f found) {
	if m.hidden == nil {
		m.hidden = map[found]bool{}
	}
	m.hidden[f] = true
}

// stand notes what a column stands for after a FULL JOIN.
func (m *merged) stand(f found, e expr.Expr) {
	if m.either == nil {
		m.either = map[found]expr.Expr{}
	}
	m.either[f] = e
}

// exchanged returns the sources with the last RIGHT JOIN as a LEFT JOIN of what is before it.
func (sc *scope) exchanged(from []syntax.Source) []syntax.Source {
	last := len(from) - 1
	for last > 0 && from[last].Join != syntax.JoinRight {
		last--
	}
	if last < 1 {
		return from
	}
	sc.merged.right = true
	kept, other := from[last], syntax.Source{Table: from[0].Table, Nested: from[:last]}
	if last == 1 {
		other = from[0]
	}
	other.Join, other.On, other.Using = syntax.JoinLeft, kept.On, kept.Using
	other.Natural = kept.Natural
	kept.Join, kept.On, kept.Using, kept.Natural = syntax.JoinFirst, nil, nil, false
	return append([]syntax.Source{kept, other}, from[last+1:]...)
}

// inOrder puts the parts of the first two sources and their columns in the order in which they are
// written.
func (sc *scope) inOrder(source int) {
	if source != 1 || !sc.merged.right {
		return
	}
	slices.SortStableFunc(sc.parts, func(a, b part) int { return b.source - a.source })
	if sc.merged.known > 0 {
		all := sc.starColumns("")
		slices.SortStableFunc(all, func(a, b found) int { return b.source - a.source })
		sc.merged.columns, sc.merged.known = all, 2
	}
}
