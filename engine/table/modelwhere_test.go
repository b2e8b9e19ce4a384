package table_test

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// where returns a predicate and the rows for which it is true.
func (r *modelRun) where() (expr.Expr, map[string]bool) {
	ops := []expr.Op{expr.Eq, expr.Lt, expr.Ge}
	var e expr.Expr = expr.Cmp{Op: ops[r.rng.IntN(3)], L: col(r.tab, "a"),
		R: expr.Const{Value: expr.Int(r.rng.Int64N(12))}}
	if r.rng.IntN(2) == 0 {
		e = expr.And{Terms: []expr.Expr{e, expr.Cmp{Op: ops[r.rng.IntN(3)],
			L: col(r.tab, "id"), R: expr.Const{Value: expr.Int(r.rng.Int64N(60))}}}}
	}
	found := map[string]bool{}
	for k, row := range r.m.rows {
		truth, err := expr.Test(e, func(_, o int) expr.Value { return row.row[o] }, nil)
		r.must(err)
		if truth == expr.True {
			found[k] = true
		}
	}
	return e, found
}

// find runs a query by the plan that is chosen, and by an index.
func (r *modelRun) find(*table.Table) error {
	where, found := r.where()
	sel := from(r.tab, where)
	want := r.m.clone()
	maps.DeleteFunc(want.rows, func(k string, _ modelRow) bool { return !found[k] })
	r.same("a query", all(r, r.in, sel), want, r.now())
	for _, x := range r.tab.Schema().Indexes {
		by := from(r.tab, where)
		by.Hints.Index = map[int]string{0: x.Name}
		if _, err := r.db.Prepare(by); err == nil { // else it cannot answer this one
			r.same("index "+x.Name, all(r, r.in, by), want, r.now())
		}
	}
	sel.Aggregates = []plan.Aggregate{{Func: plan.Count}}
	if got := all(r, r.in, sel); got[0] != fmt.Sprint(len(found)) {
		return fmt.Errorf("%s rows are counted, %d are there", got[0], len(found))
	}
	r.prepared()
	return r.pages()
}

// prepared runs a query that was prepared by the first definition of the table.
func (r *modelRun) prepared() {
	if r.kept == nil {
		var err error
		r.kept, err = r.db.Prepare(from(r.tab, expr.Cmp{Op: expr.Ge, L: col(r.tab, "a"),
			R: expr.Param{Index: 0}}))
		r.must(err)
	}
	least := r.rng.Int64N(12)
	want := r.m.clone()
	maps.DeleteFunc(want.rows, func(_ string, row modelRow) bool {
		a, ok := row.row[3].AsInt()
		return !ok || a < least
	})
	rows, err := r.kept.Query(ctx, r.in, expr.Int(least))
	r.must(err)
	r.same("a prepared query", texts(r, rows), want, r.now())
}

// orderly reports whether a statement that changes a column may be several commits.
func (r *modelRun) orderly(column int) bool {
	return column > 0 && !slices.ContainsFunc(r.tab.Schema().Indexes, func(x *schema.Index) bool {
		return x.Unique
	}) && len(r.tab.Schema().Checks) == 0
}

func (r *modelRun) updateWhere(t *table.Table) error {
	where, found := r.where()
	id := col(r.tab, "id")
	set := []table.Assignment{{Column: 3, Value: expr.Const{Value: expr.Int(r.rng.Int64N(12))}}}
	if r.rng.IntN(2) == 0 {
		set = []table.Assignment{{Column: 0, Value: expr.Arith{Op: expr.Add, L: id,
			R: expr.Const{Value: expr.Int(1)}}}}
	}
	orderly := r.orderly(set[0].Column)
	if most := r.db.Store().Limits().CommitOps; r.fs == nil && most > 0 && len(found) > most/16 &&
		!orderly {
		return nil // several commits: those before a conflict stay
	}
	var changed [][]expr.Value
	for k := range found {
		row := slices.Clone(r.m.rows[k].row)
		v, err := expr.Eval(set[0].Value, func(_, o int) expr.Value { return row[o] }, nil)
		r.must(err)
		row[set[0].Column] = v
		changed = append(changed, row)
	}
	n, err := 0, error(nil)
	r.store.smaller(orderly, func() { n, err = t.UpdateWhere(ctx, where, set) })
	if err == nil && n != len(found) {
		return fmt.Errorf("%d rows were changed, want %d", n, len(found))
	}
	return r.expect(err, r.m.with(found, changed...))
}

func (r *modelRun) deleteWhere(t *table.Table) error {
	if r.rng.IntN(3) > 0 {
		return nil
	}
	where, found := r.where()
	n, err := 0, error(nil)
	r.store.smaller(true, func() { n, err = t.DeleteWhere(ctx, where) })
	if err == nil && n != len(found) {
		return fmt.Errorf("%d rows were deleted, want %d", n, len(found))
	}
	return r.expect(err, r.m.with(found))
}
