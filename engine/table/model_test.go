package table_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// TestTablesAreTheModel does random things to tables with random keys and indexes and
// compares with a map. Indexes come and go, and so do columns; after each phase Verify
// must find every entry that should be there and no other.
//
// Promise (keys): A row is found under all its keys or none, whoever writes at the same time;
// shards are merged in order. Also `TestRowsExpireBesideWriters`,
// `TestStatementsByPredicateCountWhatTheyChange`, `TestQueriesAgreeWithEveryOtherWay` in
// `engine/table`; `TestOrderWithoutSort` in `engine/plan`.
// Promise (tables): Every row has its entries and every entry its row, whatever is written, in
// transactions or not, while indexes and columns come and go; unique conflicts are those of
// comparing all rows.
func TestTablesAreTheModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	n := testutil.Effort(8, 25)
	seed := testutil.Seed(t)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("program ", i), func(t *testing.T) {
			runModel(t, rand.New(rand.NewPCG(seed, i)))
		})
	}
}

// modelRun is a table beside its model.
type modelRun struct {
	*testing.T
	rng *rand.Rand
	db  *table.DB
	tab *table.Table
	m   *model
	max int // of ids
}

func runModel(t *testing.T, rng *rand.Rand) {
	db := open(t, nil)
	tab := create(t, db, randomTable(rng, "t"))
	r := &modelRun{t, rng, db, tab, &model{tab.Schema(), map[string][]expr.Value{}}, 60}
	for phase := range 6 {
		for range 60 {
			r.step()
		}
		r.check()
		r.change(phase)
		r.check()
	}
}

// check compares the table with the model.
func (r *modelRun) check() {
	r.Helper()
	verify(r, r.tab)
	got := all(r, r.db, from(r.tab, nil))
	var want []string
	for _, row := range r.m.rows {
		var live []expr.Value
		for i, v := range row {
			if !r.tab.Schema().Columns[i].Dropped {
				live = append(live, v)
			}
		}
		want = append(want, text(live))
	}
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		r.Fatalf("the table has\n%q, the model\n%q", got, want)
	}
}

// change adds or drops an index or a column.
func (r *modelRun) change(phase int) {
	name := fmt.Sprint("x", phase)
	switch n := r.rng.IntN(8); {
	case n < 5:
		def := randomIndex(r.rng, r.tab.Schema(), name)
		err := r.db.CreateIndex(ctx, "t", def, nil)
		var u *table.UniqueError
		if errors.As(err, &u) {
			next, failed := r.m.t.AddIndex(def)
			if failed != nil {
				r.Fatal(failed)
			}
			if (&model{t: next}).valid(r.m.with(nil)) {
				r.Fatalf("%v, but there is no such conflict", err)
			}
		} else if err != nil {
			r.Fatal(err)
		}
	case n == 5 && len(r.tab.Schema().Indexes) > 0:
		x := r.tab.Schema().Indexes[0].Name
		if err := r.db.DropIndex(ctx, "t", x, nil); err != nil {
			r.Fatal(err)
		}
	default:
		c := schema.Column{Name: name, Type: keycodec.TypeInt64, Nullable: r.rng.IntN(2) == 0}
		v := expr.Int(4)
		c.Default = &v
		if err := r.db.AddColumn(ctx, "t", c); err != nil {
			r.Fatal(err)
		}
		for k, row := range r.m.rows {
			r.m.rows[k] = append(slices.Clone(row), v)
		}
	}
	r.m.t = r.tab.Schema()
	if !r.m.valid(r.m.with(nil)) {
		r.Fatal("an index was built over rows in conflict")
	}
}

// step does one random thing, some of them in a transaction.
func (r *modelRun) step() {
	do := []func(*table.Table) error{r.insert, r.insert, r.insertMany, r.put, r.putMany,
		r.update, r.update, r.remove, r.get, r.updateWhere, r.deleteWhere}[r.rng.IntN(11)]
	if r.rng.IntN(3) > 0 || !transacts(r.db) {
		r.must(do(r.tab))
		return
	}
	before := maps.Clone(r.m.rows)
	undo := errors.New("undo")
	abort := r.rng.IntN(3) == 0
	err := r.db.Update(ctx, func(tx *table.Tx) error {
		r.must(do(r.tab.In(tx)))
		r.must(r.get(r.tab.In(tx)))
		if abort {
			return undo
		}
		return nil
	})
	if abort {
		r.m.rows = before
	} else {
		r.must(err)
	}
}

func (r *modelRun) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// expect compares the outcome of a write with what it does to the model: the new rows if
// they may be together, and otherwise a *UniqueError and nothing.
func (r *modelRun) expect(err error, rows [][]expr.Value) error {
	var u *table.UniqueError
	switch {
	case r.m.valid(rows) && err == nil:
		r.m.set(rows)
		return nil
	case !r.m.valid(rows) && errors.As(err, &u):
		return nil
	}
	return fmt.Errorf("%w, valid: %v", err, r.m.valid(rows))
}

func (r *modelRun) row() []expr.Value { return randomRow(r.rng, r.tab.Schema(), r.max) }

func (r *modelRun) insert(t *table.Table) error {
	row := r.row()
	return r.expect(t.Insert(ctx, row), r.m.with(nil, row))
}

func (r *modelRun) several() (rows [][]expr.Value) {
	for range 1 + r.rng.IntN(4) {
		rows = append(rows, r.row())
	}
	return rows
}

func (r *modelRun) insertMany(t *table.Table) error {
	rows := r.several()
	_, err := t.InsertMany(ctx, slices.Values(rows))
	return r.expect(err, r.m.with(nil, rows...))
}

func (r *modelRun) put(t *table.Table) error {
	row := r.row()
	return r.expect(t.Put(ctx, row), r.m.with(map[string]bool{r.m.key(row): true}, row))
}

func (r *modelRun) putMany(t *table.Table) error {
	rows, gone := r.several(), map[string]bool{}
	for _, row := range rows {
		gone[r.m.key(row)] = true
	}
	_, err := t.PutMany(ctx, slices.Values(rows))
	return r.expect(err, r.m.with(gone, rows...))
}

// any returns a random row of the model, or a new one, and its key.
func (r *modelRun) any() (row, key []expr.Value) {
	row = r.row()
	if keys := slices.Sorted(maps.Keys(r.m.rows)); len(keys) > 0 && r.rng.IntN(8) > 0 {
		row = r.m.rows[keys[r.rng.IntN(len(keys))]]
	}
	for _, o := range r.tab.Schema().KeyOrdinals() {
		key = append(key, row[o])
	}
	return row, key
}

func (r *modelRun) update(t *table.Table) error {
	old, key := r.any()
	row := r.row()
	if r.rng.IntN(3) > 0 { // not the key
		for _, o := range r.tab.Schema().KeyOrdinals() {
			row[o] = old[o]
		}
	}
	for i := range row {
		if r.rng.IntN(2) == 0 {
			row[i] = old[i]
		}
	}
	err := t.Update(ctx, key, func(got []expr.Value) error {
		copy(got, row)
		return nil
	})
	if r.m.rows[r.m.key(old)] == nil {
		if !errors.Is(err, table.ErrNotFound) {
			return fmt.Errorf("update of a row that is not there: %w", err)
		}
		return nil
	}
	return r.expect(err, r.m.with(map[string]bool{r.m.key(old): true}, row))
}

func (r *modelRun) remove(t *table.Table) error {
	old, key := r.any()
	err := t.Delete(ctx, key)
	if r.m.rows[r.m.key(old)] == nil {
		if !errors.Is(err, table.ErrNotFound) {
			return fmt.Errorf("delete of a row that is not there: %w", err)
		}
		return nil
	}
	delete(r.m.rows, r.m.key(old))
	return err
}

func (r *modelRun) get(t *table.Table) error {
	old, key := r.any()
	want := r.m.rows[r.m.key(old)]
	row, err := t.Get(ctx, key...)
	if want == nil && errors.Is(err, table.ErrNotFound) {
		return nil
	}
	if err != nil || want == nil || text(row) != text(want) {
		return fmt.Errorf("%s, want %s: %w", text(row), text(want), err)
	}
	found := 0
	err = t.MultiGet(ctx, [][]expr.Value{key, key}, func(_ int, row []expr.Value) {
		if text(row) == text(want) {
			found++
		}
	})
	if found != 2 {
		return fmt.Errorf("MultiGet found %d: %w", found, err)
	}
	return err
}

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
		truth, err := expr.Test(e, func(_, o int) expr.Value { return row[o] }, nil)
		r.must(err)
		if truth == expr.True {
			found[k] = true
		}
	}
	return e, found
}

func (r *modelRun) updateWhere(t *table.Table) error {
	where, found := r.where()
	if most := r.db.Store().Limits().CommitOps; most > 0 && len(found) > most/16 {
		return nil // several commits: those before a conflict stay
	}
	id := col(r.tab, "id")
	set := []table.Assignment{{Column: 3, Value: expr.Const{Value: expr.Int(r.rng.Int64N(12))}}}
	if r.rng.IntN(2) == 0 {
		set = []table.Assignment{{Column: 0, Value: expr.Arith{Op: expr.Add, L: id,
			R: expr.Const{Value: expr.Int(1)}}}}
	}
	var changed [][]expr.Value
	for k := range found {
		row := slices.Clone(r.m.rows[k])
		v, err := expr.Eval(set[0].Value, func(_, o int) expr.Value { return row[o] }, nil)
		r.must(err)
		row[set[0].Column] = v
		changed = append(changed, row)
	}
	n, err := t.UpdateWhere(ctx, where, set)
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
	n, err := t.DeleteWhere(ctx, where)
	if err == nil && n != len(found) {
		return fmt.Errorf("%d rows were deleted, want %d", n, len(found))
	}
	return r.expect(err, r.m.with(found))
}
