package table_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// TestTablesAreTheModel does random things to tables with random keys and indexes and compares with
// a map. Definitions change between writes, writes come between the steps of a change, and a change
// may be interrupted. Rows expire, and the database is opened again. After each phase Verify must
// find every entry that should be there and no other, snapshots and versions of the past have the
// rows of their time, and a copy that is made of a change stream, read a few changes at a time, has
// the rows.
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
	rng   *rand.Rand
	fs    vfs.FS // of the engine, nil on other storage
	e     *engine.DB
	store *modelStore
	clock clock
	db    *table.DB
	tab   *table.Table
	in    table.ReadWriter // of the present step
	m     *model
	max   int   // of ids
	top   int64 // the greatest id so far
	// clash: rows have been in conflict in an index that is being built.
	clash bool
	calm  bool // definitions stay as they are
	kept  *table.Prepared
	past
	buffered
}

func runModel(t *testing.T, rng *rand.Rand) {
	r := &modelRun{T: t, rng: rng, max: 60}
	r.clock.ms.Store(2_000_000)
	r.open()
	r.create()
	for phase := range 6 {
		for range 60 {
			r.step()
		}
		r.check()
		r.change(phase)
		r.check()
	}
	r.resume()
	r.check()
	r.close()
}

// create makes a table and its model.
func (r *modelRun) create() {
	r.tab = create(r, r.db, randomTable(r.rng, "t"))
	r.m = &model{r.tab.Schema(), map[string]modelRow{}}
	r.top, r.clash, r.kept = -1, false, nil
}

// check compares the table with the model.
func (r *modelRun) check() {
	r.Helper()
	verify(r, r.tab)
	r.same("the table", all(r, r.db, from(r.tab, nil)), r.m, r.now())
	r.checkPast()
}

func (r *modelRun) now() int64 { return r.clock.ms.Load() }

// same compares rows with those of a model at some time since.
func (r *modelRun) same(what string, got []string, m *model, since int64) {
	r.Helper()
	var must, may []string
	for _, row := range m.rows {
		if !row.gone(since) {
			may = append(may, m.text(row.row))
		}
		if !row.gone(r.now()) {
			must = append(must, m.text(row.row))
		}
	}
	slices.Sort(got)
	slices.Sort(must)
	slices.Sort(may)
	for _, row := range must {
		if _, there := slices.BinarySearch(got, row); !there {
			r.Fatalf("%s lacks %s of\n%q: it has\n%q", what, row, must, got)
		}
	}
	for _, row := range got {
		if _, there := slices.BinarySearch(may, row); !there {
			r.Fatalf("%s has %s: the model has\n%q", what, row, may)
		}
	}
	if len(got) != len(slices.Compact(slices.Clone(got))) {
		r.Fatalf("%s has a row twice: %q", what, got)
	}
}

// step does one random thing, some of them in a transaction.
func (r *modelRun) step() {
	r.in = r.db
	if r.rng.IntN(10) == 0 {
		r.aside()
		return
	}
	if r.rng.IntN(3) > 0 || !transacts(r.db) {
		r.must(r.write(r.tab))
		return
	}
	before := maps.Clone(r.m.rows)
	undo := errors.New("undo")
	abort := r.rng.IntN(3) == 0
	err := r.db.Update(ctx, func(tx *table.Tx) error {
		r.in = tx
		for range 1 + r.rng.IntN(3) {
			at, rows := tx.Savepoint(), maps.Clone(r.m.rows)
			r.must(r.write(r.tab.In(tx)))
			r.must(r.get(r.tab.In(tx)))
			if r.rng.IntN(5) == 0 {
				r.must(tx.RollbackTo(at))
				r.m.rows = rows
			}
		}
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

// write does one random thing to the table.
func (r *modelRun) write(t *table.Table) error {
	all := []func(*table.Table) error{r.insert, r.insert, r.insertMany, r.put, r.putMany, r.upsert,
		r.update, r.update, r.remove, r.get, r.updateWhere, r.deleteWhere, r.generate, r.find,
		r.typed}
	i := r.rng.IntN(len(all))
	if err := all[i](t); err != nil {
		return fmt.Errorf("step %d: %w", i, err)
	}
	return nil
}

func (r *modelRun) must(err error) {
	r.Helper()
	ok(r, err)
}

// expect compares the outcome of a write with what it does to the model: the new rows if
// they may be together and satisfy the checks, and otherwise an error and nothing. While a unique
// index is being built, rows may be together that are in conflict there.
func (r *modelRun) expect(err error, o outcome) error {
	unique, valid := errors.Is(err, table.ErrUnique), r.m.valid(o, true)
	wanted, checked := r.m.valid(o, false), r.m.checked(o)
	switch {
	case err == nil && wanted && checked:
		for _, row := range o.rows[len(o.rows)-o.fresh:] {
			id, _ := row.row[0].AsInt()
			r.top = max(r.top, id)
		}
		r.clash = r.clash || !valid
		r.m.set(o, r.now())
		return nil
	case unique && !valid, errors.Is(err, table.ErrCheck) && !checked:
		return nil
	}
	return fmt.Errorf("%w, valid: %v, %v, checked: %v", err, valid, wanted, checked)
}

func (r *modelRun) row() []expr.Value { return randomRow(r.rng, r.tab.Schema(), r.max) }

func (r *modelRun) insert(t *table.Table) error {
	row := r.row()
	return r.expect(t.Insert(ctx, row), r.m.with(nil, row))
}

// generate inserts a row whose id is made by the table.
func (r *modelRun) generate(t *table.Table) error {
	row := r.row()
	row[0] = expr.Null()
	if err := t.Generate(ctx, row); err != nil || row[0].IsNull() {
		return err
	}
	if id, _ := row[0].AsInt(); id <= r.top {
		return fmt.Errorf("the number %d is made after %d", id, r.top)
	}
	return r.expect(t.Insert(ctx, row), r.m.with(nil, row))
}

func (r *modelRun) several() (rows [][]expr.Value) {
	for range 1 + r.rng.IntN(4) {
		rows = append(rows, r.row())
	}
	return rows
}

// keys returns those of rows.
func (r *modelRun) keys(rows ...[]expr.Value) map[string]bool {
	keys := map[string]bool{}
	for _, row := range rows {
		keys[r.m.key(row)] = true
	}
	return keys
}

func (r *modelRun) insertMany(t *table.Table) error {
	rows := r.several()
	_, err := t.InsertMany(ctx, slices.Values(rows))
	return r.expect(err, r.m.with(nil, rows...))
}

func (r *modelRun) put(t *table.Table) error {
	row := r.row()
	return r.expect(t.Put(ctx, row), r.m.with(r.keys(row), row))
}

func (r *modelRun) putMany(t *table.Table) error {
	rows := r.several()
	_, err := t.PutMany(ctx, slices.Values(rows))
	return r.expect(err, r.m.with(r.keys(rows...), rows...))
}

// upsert writes rows, of those with one key the last one.
func (r *modelRun) upsert(t *table.Table) error {
	rows := r.several()
	last := map[string][]expr.Value{}
	for _, row := range rows {
		last[r.m.key(row)] = row
	}
	want := table.Upserted{Replaced: len(rows)}
	for key := range last {
		if _, there := r.m.rows[key]; !there {
			want.New++
			want.Replaced--
		}
	}
	got, err := t.Upsert(ctx, slices.Values(rows))
	if err == nil && got != want {
		return fmt.Errorf("%+v, want %+v", got, want)
	}
	return r.expect(err, r.m.with(r.keys(rows...), slices.Collect(maps.Values(last))...))
}

// any returns a random row of the model, or a new one, and its key.
func (r *modelRun) any() (row, key []expr.Value) {
	row = r.row()
	if keys := slices.Sorted(maps.Keys(r.m.rows)); len(keys) > 0 && r.rng.IntN(8) > 0 {
		row = r.m.rows[keys[r.rng.IntN(len(keys))]].row
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
	if r.m.rows[r.m.key(old)].row == nil {
		if !errors.Is(err, table.ErrNotFound) {
			return fmt.Errorf("update of a row that is not there: %w", err)
		}
		return nil
	}
	return r.expect(err, r.m.with(r.keys(old), row))
}

func (r *modelRun) remove(t *table.Table) error {
	old, key := r.any()
	err := t.Delete(ctx, key)
	if r.m.rows[r.m.key(old)].row == nil {
		if !errors.Is(err, table.ErrNotFound) {
			return fmt.Errorf("delete of a row that is not there: %w", err)
		}
		return nil
	}
	return r.expect(err, r.m.with(r.keys(old)))
}

func (r *modelRun) get(t *table.Table) error {
	old, key := r.any()
	want := r.m.rows[r.m.key(old)].row
	row, err := t.Get(ctx, key...)
	if want == nil && errors.Is(err, table.ErrNotFound) {
		return nil
	}
	if err != nil || want == nil || r.m.text(row) != r.m.text(want) {
		return fmt.Errorf("%s, want %s: %w", text(row), text(want), err)
	}
	found := 0
	err = t.MultiGet(ctx, [][]expr.Value{key, key}, func(_ int, row []expr.Value) {
		if r.m.text(row) == r.m.text(want) {
			found++
		}
	})
	if found != 2 {
		return fmt.Errorf("MultiGet found %d: %w", found, err)
	}
	return err
}
