package table_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// modelTable is the table as structs, if their columns are there.
var modelTable = newModelTable()

type typedRow struct {
	ID   int32      `kstone:"id,pk,auto"`
	S    string     `kstone:"s"`
	Name string     `kstone:"name,ascii"`
	A    *int64     `kstone:"a"`
	B    *string    `kstone:"b,was(bb)"`
	F    *float64   `kstone:"f,was(ff)"`
	Flag bool       `kstone:"flag"`
	Tags []string   `kstone:"tags,null"`
	At   *time.Time `kstone:"at,ms"`
}

func newModelTable() *typed.Table[typedRow] {
	t := typed.NewTable[typedRow]("t")
	a := typed.Ptr(t, func(r *typedRow) **int64 { return &r.A })
	f := typed.Ptr(t, func(r *typedRow) **float64 { return &r.F })
	s := typed.Col(t, func(r *typedRow) *string { return &r.S })
	t.Index("m0", a.Asc()).Include(s)
	t.Unique("m1", f.Desc(), s.Asc()).Where(a.Gt(3))
	return t
}

// buffered are structs that wait to be written.
type buffered struct {
	buffer  *typed.Buffer[typedRow]
	pending []typedRow
}

// attached reports whether the table is one of structs at present.
func (r *modelRun) attached() bool {
	return slices.Equal(r.tab.Schema().KeyOrdinals(), []int{0}) && r.tab.Name() == "t" &&
		typed.Attach(ctx, r.db, modelTable) == nil
}

// typed writes a struct, or has it wait. Its number is made if it would be a new one.
func (r *modelRun) typed(*table.Table) error {
	if !r.attached() {
		return nil
	}
	row := r.structOf(r.row())
	if identity := r.tab.Schema().IdentityColumn() == 0; identity && int64(row.ID) > r.top {
		row.ID = 0
	} else if row.ID == 0 && !identity {
		row.ID = 1
	}
	if r.rng.IntN(2) == 0 {
		want := []typedRow{row}
		r.number(want)
		err := modelTable.Put(ctx, r.in, &row)
		if err == nil && row.ID != want[0].ID {
			return fmt.Errorf("the number %d is made, want %d", row.ID, want[0].ID)
		}
		values := r.valuesOf(&want[0])
		return r.expect(err, r.m.with(r.keys(values), values))
	}
	if r.pending == nil {
		var err error
		r.buffer, err = typed.NewBuffer(r.db, modelTable, &typed.BufferOptions{Rows: 1000})
		r.must(err)
	}
	r.pending = append(r.pending, row)
	return r.buffer.Put(ctx, &row)
}

// number gives rows the numbers that are made next.
func (r *modelRun) number(rows []typedRow) {
	next := r.tab.NextNumber()
	if next <= r.top && r.tab.Schema().IdentityColumn() == 0 {
		r.Fatalf("the next number is %d after %d", next, r.top)
	}
	for i := range rows {
		if rows[i].ID == 0 {
			rows[i].ID = int32(next)
			next++
		}
	}
}

// flush writes the structs that wait.
func (r *modelRun) flush() {
	r.Helper()
	rows := r.pending
	if r.pending = nil; rows == nil || !r.attached() {
		return
	}
	r.number(rows)
	last := map[string][]expr.Value{}
	for i := range rows {
		values := r.valuesOf(&rows[i])
		last[r.m.key(values)] = values
	}
	all := slices.Collect(maps.Values(last))
	r.must(r.expect(r.buffer.Flush(ctx), r.m.with(r.keys(all...), all...)))
}

// pages compares the pages of a query with its rows.
func (r *modelRun) pages() error {
	if !r.attached() {
		return nil
	}
	id := typed.Col(modelTable, func(row *typedRow) *int32 { return &row.ID })
	q, offset := modelTable.Where().OrderBy(id.Desc()), r.rng.IntN(10)
	var want, got []int32
	for row, err := range q.All(ctx, r.in) {
		r.must(err)
		want = append(want, row.ID)
	}
	q = q.Offset(offset).Limit(1 + r.rng.IntN(20))
	for next := []byte(nil); ; {
		rows, after, err := q.After(next).Page(ctx, r.in)
		r.must(err)
		for i := range rows {
			got = append(got, rows[i].ID)
		}
		if next = after; next == nil {
			break
		}
	}
	if want = want[min(offset, len(want)):]; !slices.Equal(got, want) {
		return fmt.Errorf("pages after %d have %d, want %d", offset, got, want)
	}
	return nil
}

// structOf returns a row as a struct.
func (r *modelRun) structOf(row []expr.Value) (out typedRow) {
	s := r.tab.Schema()
	v := func(name string) expr.Value { return row[s.Column(name)] }
	id, _ := v("id").AsInt()
	out.ID = int32(id)
	out.S, _ = v("s").AsString()
	out.Name, _ = v("name").AsString()
	if a, ok := v("a").AsInt(); ok {
		out.A = &a
	}
	if b, ok := v("b").AsString(); ok {
		out.B = &b
	}
	if f, ok := v("f").AsFloat(); ok {
		out.F = &f
	}
	out.Flag, _ = v("flag").AsBool()
	if tags := v("tags"); !tags.IsNull() {
		out.Tags = []string{}
		for e := range tags.Elements() {
			tag, _ := e.AsString()
			out.Tags = append(out.Tags, tag)
		}
	}
	if at, ok := v("at").AsTime(); ok {
		out.At = &at
	}
	return out
}

// valuesOf returns a struct as a row: columns that it lacks have their defaults.
func (r *modelRun) valuesOf(o *typedRow) []expr.Value {
	s := r.tab.Schema()
	out := s.Row()
	for i := range s.Columns {
		if d := s.Columns[i].Default; d != nil && !s.Columns[i].Dropped {
			out[i] = *d
		}
	}
	set := func(name string, v any) {
		var err error
		out[s.Column(name)], err = expr.From(v)
		r.must(err)
	}
	set("id", o.ID)
	set("s", o.S)
	set("name", o.Name)
	set("a", o.A)
	set("b", o.B)
	set("f", o.F)
	set("flag", o.Flag)
	set("tags", o.Tags)
	if o.Tags == nil {
		set("tags", nil)
	}
	set("at", o.At)
	return out
}
