package plan_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// filler gives each field of a Select that can have expressions or queries one that it numbers:
// by the id of its table.
type filler struct{ tables, exprs int }

func (f *filler) query() *plan.Select {
	f.tables++
	return &plan.Select{From: []plan.Source{{Table: &schema.Table{ID: uint32(f.tables)}}}}
}

func (f *filler) fill(v reflect.Value) {
	switch v.Interface().(type) {
	case *plan.Select:
		v.Set(reflect.ValueOf(f.query()))
		return
	case *schema.Table:
		f.tables++
		v.Set(reflect.ValueOf(&schema.Table{ID: uint32(f.tables)}))
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		f.exprs++
		v.Set(reflect.ValueOf(expr.Not{X: expr.Subquery{Query: f.query()}}))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	}
}

// TestWalksVisitEveryField: every field of Select that has expressions, tables or queries is
// visited, belongs to the key in the cache, and is replaced in a copy only.
func TestWalksVisitEveryField(t *testing.T) {
	var f filler
	sel := new(plan.Select)
	f.fill(reflect.ValueOf(sel).Elem())
	want := make([]uint32, f.tables)
	for i := range want {
		want[i] = uint32(i + 1)
	}
	ids := func(sel *plan.Select) (all []uint32) {
		sel.Tables(func(t *schema.Table) { all = append(all, t.ID) })
		slices.Sort(all)
		return all
	}
	if got := ids(sel); f.exprs < 9 || !slices.Equal(got, want) {
		t.Errorf("of %d expressions and %d tables these are visited: %d", f.exprs, f.tables, got)
	}
	moved := sel.WithTables(func(t *schema.Table) *schema.Table {
		return &schema.Table{ID: t.ID + 1000}
	})
	for i, id := range ids(moved) {
		if id != want[i]+1000 {
			t.Errorf("table %d is not replaced", id)
		}
	}
	for i := range want {
		other := sel.WithTables(func(t *schema.Table) *schema.Table {
			if t.ID == want[i] {
				return &schema.Table{ID: t.ID, Version: 1}
			}
			return t
		})
		if plan.KeyOf(other) == plan.KeyOf(sel) {
			t.Errorf("the key does not contain the version of table %d", want[i])
		}
	}
	calls := 0
	constant := sel.MapExprs(func(expr.Expr) expr.Expr {
		calls++
		return expr.Const{Value: expr.Int(int64(calls))}
	})
	if calls != f.exprs || len(ids(constant)) != 2 {
		t.Errorf("%d of %d expressions are replaced; left are the tables %d", calls, f.exprs,
			ids(constant))
	}
	if got := ids(sel); !slices.Equal(got, want) {
		t.Errorf("the query itself has changed: it has the tables %d", got)
	}
	empty := new(plan.Select).MapExprs(func(expr.Expr) expr.Expr { panic("no expression") })
	if !reflect.DeepEqual(empty, new(plan.Select)) {
		t.Errorf("a copy of no query is %+v", empty)
	}
}
