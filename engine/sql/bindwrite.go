package sql

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// single is a query of a table, or of none if that is nil, to bind single expressions in; where
// names the place that they stand in.
func (b *binder) single(where string, t *schema.Table) *scope {
	sc := &scope{b: b, sel: &plan.Select{}, where: where}
	if t != nil {
		sc.sel.From = []plan.Source{{Table: t}}
		sc.parts = []part{{name: t.Name, table: t}}
	}
	return sc
}

// called gives the table of a single query another name, if there is one.
func (sc *scope) called(alias string) *scope {
	if alias != "" {
		sc.sel.From[0].Alias, sc.parts[0].name = alias, alias
	}
	return sc
}

// inside gives a query one around it, or none.
func (sc *scope) inside(outer *scope) *scope {
	if outer != nil {
		sc.outer, sc.depth = outer, outer.depth+1
	}
	return sc
}

// unqualified returns an expression whose columns do not show their table.
func unqualified(e expr.Expr) expr.Expr {
	return expr.MapColumns(e, func(c expr.Column) expr.Expr {
		c.Table = ""
		return c
	})
}

// boundInsert is an INSERT whose names are resolved.
type boundInsert struct {
	table    *schema.Table
	columns  []int // that have values, by ordinal
	given    schema.ColumnSet
	rows     [][]boundValue
	query    *plan.Select // its rows are inserted, not those of rows
	places   []int        // of the columns of query
	conflict syntax.OnConflict
	upsert   *boundUpsert
	pos      int
}

// boundValue is an expression for a column, and where it stands.
type boundValue struct {
	expr expr.Expr // nil of a list with parameters
	list []boundValue
	pos  int
}

func (b *binder) insert(s *syntax.Insert) *boundInsert {
	t := b.table(s.Table)
	out := &boundInsert{table: t, conflict: s.Conflict, pos: s.Pos}
	if s.Columns == nil {
		for i := range t.Columns {
			if !t.Columns[i].Dropped {
				out.columns = append(out.columns, i)
			}
		}
	}
	for _, n := range s.Columns {
		i := b.column(t, n)
		if out.given.Has(i) {
			b.fail(n.Pos, "column %s stands here twice", syntax.QuoteName(n.Text))
		}
		out.given.Add(i)
		out.columns = append(out.columns, i)
	}
	columns := len(out.columns)
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Generated == schema.CurrentTime && !c.Dropped && !slices.Contains(out.columns, i) {
			out.columns = append(out.columns, i)
		}
	}
	out.given = schema.Columns(out.columns...)
	size := func(pos, n int) {
		if n != columns {
			b.fail(pos, "%d values for the %d columns of table %s", n, columns,
				syntax.QuoteName(t.Name))
		}
	}
	if s.Query != nil {
		out.query, out.pos = b.insertQuery(s.Query, out, size), s.Query.Pos
	}
	if s.Upsert != nil {
		out.upsert = b.upsert(t, s)
	}
	for _, row := range s.Rows {
		pos := s.Pos
		if len(row) > 0 {
			pos = row[0].Position()
		}
		size(pos, len(row))
		values := make([]boundValue, len(out.columns))
		for i := range out.columns[columns:] {
			values[columns+i] = boundValue{expr: b.params.now(), pos: pos}
		}
		for i, e := range row {
			c := &t.Columns[out.columns[i]]
			if d, ok := e.(*syntax.Default); ok {
				values[i] = b.defaultOf(c, d.Pos)
				continue
			}
			values[i] = b.assigned(b.value(e, c), c)
		}
		out.rows = append(out.rows, values)
	}
	return out
}

// insertQuery binds the query of an INSERT; size checks how many columns it has.
func (b *binder) insertQuery(s *syntax.Select, in *boundInsert,
	size func(pos, n int)) *plan.Select {
	now := b.catalog
	b.catalog = b.then
	sc := b.selectQuery(s, nil)
	b.catalog = now
	size(s.Pos, len(sc.outputs))
	for range in.columns[len(sc.outputs):] {
		sc.sel.Columns = append(sc.sel.Columns, plan.Output{Expr: b.params.now(), Name: "now"})
	}
	in.places = make([]int, len(in.columns))
	for i := range in.places {
		in.places[i] = s.Pos
	}
	for i, o := range sc.outputs {
		c := &in.table.Columns[in.columns[i]]
		if p, ok := o.expr.(expr.Param); ok {
			sc.sel.Columns[i].Expr = b.params.compare(p, typeOfColumn(c))
		}
		if len(s.Outputs) == len(sc.outputs) && !s.Outputs[i].Star {
			in.places[i] = s.Outputs[i].Expr.Position()
		}
		sc.assignable(o.expr, c, in.places[i])
	}
	return sc.sel
}

// defaultOf is the value of DEFAULT for a column.
func (b *binder) defaultOf(c *schema.Column, pos int) boundValue {
	v := boundValue{pos: pos, expr: expr.Const{}}
	if c.Generated == schema.CurrentTime {
		v.expr = b.params.now()
	} else if c.Default != nil {
		v.expr = expr.Const{Value: *c.Default}
	} else if !c.Nullable && c.Generated == schema.NotGenerated {
		b.fail(pos, "column %s has no default", syntax.QuoteName(c.Name))
	}
	return v
}

// value binds an expression that has no columns, for a column or, if that is nil, an element of
// a list.
func (b *binder) value(e syntax.Expr, c *schema.Column) boundValue {
	v := boundValue{pos: e.Position()}
	if l, ok := e.(*syntax.List); ok {
		v.list = make([]boundValue, len(l.Items))
		for i, item := range l.Items {
			v.list[i] = b.value(item, nil)
		}
		return v
	}
	sc := b.single("VALUES", nil)
	if v.expr = sc.checked(sc.expr(e), v.pos); c != nil {
		sc.assignable(v.expr, c, v.pos)
	}
	return v
}

// assigned notes the type of a parameter that is written to a column.
func (b *binder) assigned(v boundValue, c *schema.Column) boundValue {
	if p, ok := v.expr.(expr.Param); ok {
		v.expr = b.params.compare(p, typeOfColumn(c))
	}
	return v
}

// boundUpdate is an UPDATE or, without assignments, a DELETE.
type boundUpdate struct {
	table *schema.Table
	set   []boundAssignment
	// query finds the rows: the keys, and all columns.
	query *plan.Select
}

type boundAssignment struct {
	column int
	value  boundValue
}

func (b *binder) update(s *syntax.Update) *boundUpdate {
	t := b.table(s.Table)
	out := &boundUpdate{table: t, query: b.rowQuery(s.Table, s.Alias, s.Where)}
	out.set = b.assignments(t, s.Alias, s.Set, nil)
	return out
}

// assignments binds SET; outer has names that are no columns of the table.
func (b *binder) assignments(t *schema.Table, alias string, set []syntax.Assignment,
	outer *scope) (out []boundAssignment) {
	for _, a := range set {
		i := b.column(t, a.Column)
		for _, other := range out {
			if other.column == i {
				b.fail(a.Column.Pos, "column %s is set twice", syntax.QuoteName(a.Column.Text))
			}
		}
		v := boundValue{pos: a.Value.Position()}
		switch e := a.Value.(type) {
		case *syntax.List:
			v = b.value(e, nil)
		case *syntax.Default:
			c := &t.Columns[i]
			if c.Generated == schema.Identity || c.Generated == schema.RandomUUID {
				b.fail(e.Pos, "DEFAULT of column %s is made for new rows only",
					syntax.QuoteName(c.Name))
			}
			v = b.defaultOf(c, e.Pos)
		default:
			sc := b.single("SET", t).called(alias).inside(outer)
			v.expr = sc.checked(sc.expr(e), v.pos)
			sc.assignable(v.expr, &t.Columns[i], v.pos)
		}
		if c, ok := v.expr.(expr.Const); ok { // an error without a row, too
			if _, err := t.Columns[i].Convert(c.Value); err != nil {
				b.refuse(v.pos, err)
			}
		}
		out = append(out, boundAssignment{i, b.assigned(v, &t.Columns[i])})
	}
	return out
}

// rowQuery is the query for the rows that UPDATE and DELETE change.
func (b *binder) rowQuery(table syntax.Name, alias string, where syntax.Expr) *plan.Select {
	sc := b.selectQuery(&syntax.Select{Pos: table.Pos,
		From:    []syntax.Source{{Table: table, Alias: alias}},
		Outputs: []syntax.Output{{Pos: table.Pos, Star: true}}, Where: where}, nil)
	return sc.sel
}
