package table_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// hookedStore calls a function once, just before it is next read.
type hookedStore struct {
	store.Store
	hook   func()
	broken error // of all scans
}

func (s *hookedStore) call() {
	if f := s.hook; f != nil {
		s.hook = nil
		f()
	}
}

func (s *hookedStore) Snapshot(ctx context.Context) (store.Snapshot, error) {
	s.call()
	return s.Store.Snapshot(ctx)
}

func (s *hookedStore) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	s.call()
	return s.Store.Get(ctx, dst, key)
}

func (s *hookedStore) MultiGet(ctx context.Context, keys []store.Key,
	found func(int, store.Item)) error {
	s.call()
	return s.Store.MultiGet(ctx, keys, found)
}

func (s *hookedStore) Scan(ctx context.Context, rg store.Range) iter.Seq2[store.Item, error] {
	s.call()
	if s.broken != nil {
		return func(yield func(store.Item, error) bool) { yield(store.Item{}, s.broken) }
	}
	return s.Store.Scan(ctx, rg)
}

const pairText = `{"name":"pairs","columns":[{"name":"id","type":"int64"},
 {"name":"a","type":"int64","nullable":true},{"name":"b","type":"int64","nullable":true}],
 "primary_key":["id"]}`

type pair struct {
	ID int64  `kstone:"id,pk"`
	A  *int64 `kstone:"a"`
}

// openHooked opens a database with a table of one row, over a store with a hook.
func openHooked(t *testing.T) (*table.DB, *hookedStore, *table.Table) {
	t.Helper()
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	s := &hookedStore{Store: local.New(e)}
	db, err := table.OpenStore(ctx, s, nil)
	ok(t, err)
	tab := create(t, db, pairText)
	ok(t, tab.Insert(ctx, row(t, 1, 10, 20)))
	return db, s, tab
}

// newerRow adds a column and writes the row again, under the new definition.
func newerRow(t *testing.T, db *table.DB, tab *table.Table) func() {
	return func() {
		extra := schema.Column{Name: "extra", Type: keycodec.TypeInt64, Nullable: true}
		if err := errors.Join(db.AddColumn(ctx, "pairs", extra),
			tab.Put(ctx, row(t, 1, 11, 21, 31))); err != nil {
			t.Error(err)
		}
	}
}

// A definition that is stored is the one that writers go by, whatever fails after its commit.
func TestStoredDefinitionsAreKnown(t *testing.T) {
	db, s, tab := openHooked(t)
	s.broken = errors.New("no reads")
	newerRow(t, db, tab)()
	ok(t, db.CreateView(ctx, table.View{Name: "v", Query: "SELECT 1"}, false))
	ok(t, db.CreateView(ctx, table.View{Name: "v", Query: "SELECT 2"}, true))
	create(t, db, sharedText)
}

// A row that an index cannot have is deleted and changed while the index is being built.
func TestUnfitRowsLeaveAnIndexBeingBuilt(t *testing.T) {
	db, s, _ := openHooked(t)
	tab := create(t, db, `{"name":"texts","columns":[{"name":"id","type":"int64"},
	 {"name":"v","type":"string"}],"primary_key":["id"]}`)
	long := strings.Repeat("x", 70_000)
	ok(t, tab.Insert(ctx, row(t, 1, long)))
	ok(t, tab.Insert(ctx, row(t, 2, long)))
	own, cancel := context.WithCancel(ctx)
	s.hook = cancel
	wantIs(t, db.CreateIndex(own, "texts", newIndex("by_v", 1, false), nil), context.Canceled)
	ok(t, tab.Delete(ctx, row(t, 1)))
	ok(t, tab.Put(ctx, row(t, 2, "short")))
	ok(t, db.CreateIndex(ctx, "texts", newIndex("by_v", 1, false), nil))
	if n := verify(t, tab).Entries["by_v"]; n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

func TestRowsOfANewerDefinitionAreRead(t *testing.T) {
	db, s, tab := openHooked(t)
	s.hook = newerRow(t, db, tab)
	got := ""
	err := tab.MultiGet(ctx, [][]expr.Value{row(t, 1)}, func(_ int, r []expr.Value) {
		got += text(r) + ";"
	})
	if err != nil || got != "1, 11, 21, 31;" {
		t.Errorf("MultiGet: %q %v", got, err)
	}

	db, s, tab = openHooked(t)
	pairs := typed.NewTable[pair]("pairs")
	id := typed.Col(pairs, func(p *pair) *int64 { return &p.ID })
	cache, err := typed.NewRowCache(db, pairs, nil)
	ok(t, err)
	defer cache.Close()
	s.hook = newerRow(t, db, tab)
	for range 2 {
		if p, err := cache.Get(ctx, id.Eq(1)); err != nil || *p.A != 11 {
			t.Errorf("a cache: %+v %v", p, err)
		}
	}
	s.hook = nil

	db, s, tab = openHooked(t)
	s.hook = newerRow(t, db, tab)
	if r, err := tab.Get(ctx, expr.Int(1)); err != nil || text(r) != "1, 11, 21, 31" {
		t.Errorf("Get: %s %v", text(r), err)
	}
}

// TestQueriesOfDroppedColumns checks that a query that was made for a former definition is no wrong
// one: made for the present definition it may be right, as SELECT * is.
func TestQueriesOfDroppedColumns(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, pairText)
	former := tab.Schema()
	sel := &plan.Select{From: []plan.Source{{Table: former}},
		Columns: []plan.Output{{Expr: former.Ref(0, 2)}}}
	ok(t, db.DropColumn(ctx, "pairs", "b"))
	_, err := db.Prepare(sel)
	wantIs(t, err, table.ErrChanged)
}

// TestStatementsOfDroppedColumns checks that a statement does not take a column that is
// dropped while it runs for one that is NULL.
func TestStatementsOfDroppedColumns(t *testing.T) {
	for _, what := range []string{"value", "target", "condition"} {
		db, s, tab := openHooked(t)
		a, b := tab.Schema().Ref(0, 1), tab.Schema().Ref(0, 2)
		set := []table.Assignment{{Column: 1,
			Value: expr.Arith{Op: expr.Add, L: b, R: constant(1)}}}
		var where expr.Expr
		switch what {
		case "target":
			set = []table.Assignment{{Column: 2, Value: a}, {Column: 1, Value: constant(5)}}
		case "condition":
			set[0].Value = constant(5)
			where = expr.Cmp{Op: expr.Gt, L: b, R: constant(3)}
		}
		s.hook = func() {
			if err := db.DropColumn(ctx, "pairs", "b"); err != nil {
				t.Error(err)
			}
		}
		n, err := tab.UpdateWhere(ctx, where, set)
		var unknown *plan.QueryError
		if n != 0 || !errors.Is(err, table.ErrChanged) && !errors.As(err, &unknown) {
			t.Errorf("%s: %d rows changed, %v", what, n, err)
		}
		r, err := tab.Get(ctx, expr.Int(1))
		if err != nil || !strings.HasPrefix(text(r), "1, 10,") {
			t.Errorf("%s: %s %v", what, text(r), err)
		}
	}
}

// TestStructsInATransactionWithAFormerDefinition checks that a transaction that has seen a former
// definition than the one that a struct is bound to runs again.
func TestStructsInATransactionWithAFormerDefinition(t *testing.T) {
	type wide struct {
		ID    int64  `kstone:"id,pk"`
		Extra *int64 `kstone:"extra"`
	}
	db := open(t, nil)
	tab := create(t, db, pairText)
	ok(t, tab.Insert(ctx, row(t, 1, 10, 20)))
	wides := typed.NewTable[wide]("pairs")
	id := typed.Col(wides, func(w *wide) *int64 { return &w.ID })
	runs := 0
	err := db.Update(ctx, func(tx *table.Tx) error {
		if _, err := tab.In(tx).Get(ctx, expr.Int(1)); err != nil {
			return err
		}
		if runs++; runs == 1 {
			extra := schema.Column{Name: "extra", Type: keycodec.TypeInt64, Nullable: true}
			if err := db.AddColumn(ctx, "pairs", extra); err != nil {
				return err
			}
		}
		err := wides.Update(ctx, tx, func(w *wide) error {
			w.Extra = new(int64(7))
			return nil
		}, id.Eq(1))
		if runs == 1 {
			if !errors.Is(err, table.ErrConflict) {
				t.Errorf("a column that the transaction does not know: %v", err)
			}
		}
		return err
	})
	if err != nil || runs != 2 {
		t.Fatal(runs, err)
	}
	if r, err := tab.Get(ctx, expr.Int(1)); err != nil || text(r) != "1, 10, 20, 7" {
		t.Error(text(r), err)
	}
}

// TestCursorsAreOfTablesNotOfNames checks that a page follows the one before it although the
// table and the column of its order are called something else by then.
func TestCursorsAreOfTablesNotOfNames(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, pairText)
	for i := range 6 {
		ok(t, tab.Insert(ctx, row(t, i, 10-i, i)))
	}
	sel := from(tab, nil)
	sel.OrderBy = []plan.Order{{Expr: col(tab, "a")}}
	sel.Limit, sel.Page = constant(2), true
	q, err := db.Prepare(sel)
	ok(t, err)
	var after []byte
	got := ""
	for page := range 3 {
		rows, err := q.QueryAfter(ctx, db, after)
		ok(t, err)
		for r, err := range rows.All() {
			ok(t, err)
			got += r[1].String() + " "
			after = rows.Cursor()
		}
		ok(t, errors.Join(db.RenameTable(ctx, tab.Name(), fmt.Sprint("t", page)),
			db.RenameColumn(ctx, tab.Name(), tab.Schema().Columns[1].Name,
				fmt.Sprint("c", page))))
	}
	if got != "5 6 7 8 9 10 " {
		t.Error(got)
	}
}

// Between the reads of an entry of a partial index and of its row, the key goes to another row:
// that one is the answer.
func TestPartialUniqueKeyThatMovesBetweenReads(t *testing.T) {
	db, s, _ := openHooked(t)
	tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"a","type":"int64"},{"name":"b","type":"int64"}],"primary_key":["id"],
	 "indexes":[{"name":"x","columns":["a"],"unique":true,
	 "where":{"op":"=","args":[{"op":"column","name":"b"},{"op":"const","value":{"int":"20"}}]}}]}`)
	ok(t, tab.Insert(ctx, row(t, 1, 10, 20)))
	point := from(tab, expr.AllOf([]expr.Expr{eq(col(tab, "a"), 10), eq(col(tab, "b"), 20)}))
	all(t, db, point) // reads statistics
	s.hook = func() { // before the entry is read
		s.hook = func() { // before its row is
			_, err := tab.PutMany(ctx, slices.Values(
				[][]expr.Value{row(t, 1, 10, 21), row(t, 2, 10, 20)}))
			ok(t, err)
		}
	}
	if got := all(t, db, point); fmt.Sprint(got) != "[2, 10, 20]" {
		t.Error(got)
	}
}

// Entries whose rows are lost, as they may be after a repair, are not in the way of the rows.
func TestInsertOverEntriesOfLostRows(t *testing.T) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db := open(t, nil)
	people := create(t, db, peopleText)
	rows := [][]expr.Value{row(t, 1, "a@x", "Bern", 30), row(t, 2, "b@x", "Bern", 30)}
	insert := func(p *table.Table) error { return second(p.InsertMany(ctx, slices.Values(rows))) }
	for _, insertLost := range []func() error{
		func() error { return insert(people) },
		func() error {
			return errors.Join(people.InsertUnless(ctx, rows[0], "by_email"),
				people.InsertUnless(ctx, rows[1], "by_email"))
		},
		func() error {
			conflicts := 0
			return updating(db, func(in func(*table.Table) *table.Table) error {
				if conflicts++; conflicts > 3 {
					return table.ErrTxAge
				}
				return insert(in(people))
			})
		},
	} {
		var lost store.WriteSet
		for _, r := range rows {
			ok(t, people.Put(ctx, r))
			pk, sk, err := people.Schema().AppendRowKey(nil, nil, r)
			ok(t, err)
			lost.Delete(store.Key{PK: pk, SK: sk})
		}
		ok(t, db.Store().Commit(ctx, &lost))
		ok(t, insertLost())
		verify(t, people)
	}
}
