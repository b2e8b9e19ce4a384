package table_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// process is the store of one process among several on the storage of an engine.
type process struct {
	*local.Store
	fences int
}

func (p *process) Limits() store.Limits {
	l := p.Store.Limits()
	l.Fences = p.fences
	return l
}

// storages are what the tests of several processes run on: each makes stores of one storage.
var storages = map[string]func(t testing.TB) func() store.Store{
	"engine": func(t testing.TB) func() store.Store {
		e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
		ok(t, err)
		t.Cleanup(func() { e.Close() })
		return func() store.Store { return &process{local.New(e), 3} }
	},
	"remote": func(testing.TB) func() store.Store { // without versions
		s := remotetest.New(true, 64)
		return func() store.Store { return s }
	},
}

func onStorages(t *testing.T, f func(t *testing.T, next func() store.Store)) {
	if otherStorage != nil {
		next := otherStorage(t, time.Now)
		f(t, func() store.Store {
			s := next()
			t.Cleanup(func() { s.Close() })
			return s
		})
		return
	}
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) { f(t, storage(t)) })
	}
}

// openShared opens the tables as another process does. With the lease of behind it learns of
// changes only when it is notified.
func openShared(t testing.TB, s store.Store, lease time.Duration) *table.DB {
	t.Helper()
	db, err := table.OpenStore(ctx, s, &table.Options{Lease: lease})
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

const (
	quick  = 20 * time.Millisecond
	behind = time.Hour
)

const sharedText = `{"name":"shared","columns":[{"name":"id","type":"int64"},
 {"name":"a","type":"int64","nullable":true},{"name":"b","type":"int64","nullable":true}],
 "primary_key":["id"],
 "indexes":[{"name":"by_b","columns":[{"column":"b"}]}]}`

func newIndex(name string, column int, unique bool) schema.Index {
	k := schema.KeyColumn{Ordinal: column}
	return schema.Index{Name: name, Unique: unique,
		Columns: []schema.IndexColumn{{KeyColumn: k}}}
}

// definitionChanges are those of another process.
var definitionChanges = map[string]func(db *table.DB) error{
	"create index": func(db *table.DB) error {
		return db.CreateIndex(ctx, "shared", newIndex("by_a", 1, false), nil)
	},
	"create unique index": func(db *table.DB) error {
		return db.CreateIndex(ctx, "shared", newIndex("by_a", 1, true), nil)
	},
	"drop index": func(db *table.DB) error { return db.DropIndex(ctx, "shared", "by_b", nil) },
	"rename column": func(db *table.DB) error {
		return db.RenameColumn(ctx, "shared", "a", "other")
	},
	"add column": func(db *table.DB) error {
		v := expr.Int(5)
		return errors.Join(
			db.AddColumn(ctx, "shared",
				schema.Column{Name: "c", Type: keycodec.TypeInt64, Default: &v}),
			setColumn(db, 3, 50))
	},
	"rename table": func(db *table.DB) error {
		return errors.Join(db.RenameTable(ctx, "shared", "was shared"),
			db.RenameTable(ctx, "was shared", "shared"))
	},
}

func setColumn(db *table.DB, column int, v int64) error {
	tab, err := db.Table("shared")
	if err != nil {
		return err
	}
	return tab.Update(ctx, row1(1), func(row []expr.Value) error {
		row[column] = expr.Int(v)
		return nil
	})
}

func row1(id int64) []expr.Value { return []expr.Value{expr.Int(id)} }

// statements are what a process does whose definition is not the present one.
var statements = map[string]func(db *table.DB, tab *table.Table) error{
	"update": func(db *table.DB, tab *table.Table) error {
		return tab.Update(ctx, row1(1), func(row []expr.Value) error {
			row[1] = expr.Int(77)
			return nil
		})
	},
	"update where": func(db *table.DB, tab *table.Table) error {
		_, err := tab.UpdateWhere(ctx, nil, []table.Assignment{{Column: 1,
			Value: expr.Arith{Op: expr.Add, L: tab.Schema().Ref(0, 1),
				R: expr.Const{Value: expr.Int(1000)}}}})
		return err
	},
	"delete": func(db *table.DB, tab *table.Table) error { return tab.Delete(ctx, row1(2)) },
	"insert": func(db *table.DB, tab *table.Table) error {
		for {
			def := tab.Schema()
			bound, err := db.Bound(def)
			if err != nil {
				return err
			}
			r := append(row1(9), expr.Int(90), expr.Int(90))
			for len(r) < len(def.Columns) {
				r = append(r, expr.Int(1))
			}
			if err = bound.Insert(ctx, r); !errors.Is(err, table.ErrChanged) {
				return err
			}
		}
	},
	"transaction": func(db *table.DB, tab *table.Table) error {
		if _, ok := db.Store().(store.Transactor); !ok {
			return nil
		}
		return db.Update(ctx, func(tx *table.Tx) error {
			return tab.In(tx).Update(ctx, row1(3), func(row []expr.Value) error {
				row[1] = expr.Int(33)
				return nil
			})
		})
	},
}

// Promise (tables): In storage that several processes share, a row is only written by the present
// definition of its table: a process that does not know of another one's change of columns or
// indexes yet writes all entries, and loses no column that it does not know.
func TestWritersBehindWriteByThePresentDefinition(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		for change, alter := range definitionChanges {
			for name, write := range statements {
				t.Run(change+"/"+name, func(t *testing.T) {
					a := openShared(t, next(), quick)
					tab := create(t, a, sharedText)
					defer a.DropTable(ctx, "shared", nil)
					for i := range 5 {
						ok(t, tab.Insert(ctx, row(t, i, 10+i, i)))
					}
					b := openShared(t, next(), behind)
					stale, err := b.Table("shared")
					ok(t, err)
					ok(t, errors.Join(alter(a), write(b, stale)))
					for _, db := range []*table.DB{a, b} {
						live, err := db.Table("shared")
						ok(t, err)
						verify(t, live)
					}
					got, err := tab.Get(ctx, expr.Int(1))
					ok(t, err)
					if change == "add column" && text(got[3:]) != "50" {
						t.Errorf("the new column is %s", text(got[3:]))
					}
					if name == "update" && text(got[1:2]) != "77" {
						t.Errorf("the row is %s", text(got))
					}
				})
			}
		}
	})
}

func TestWritersBehindDoNotWriteToADroppedTable(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		a, b := openShared(t, next(), quick), openShared(t, next(), behind)
		tab := create(t, a, sharedText)
		stale, err := b.Table("shared")
		ok(t, err)
		ok(t, a.DropTable(ctx, "shared", nil))
		if err := stale.Insert(ctx, row(t, 1, 1, 1)); !errors.Is(err, table.ErrNoTable) {
			t.Errorf("insert: %v", err)
		}
		prefix := tab.Schema().AppendRowPrefix(nil)
		n, err := store.Count(ctx, a.Store(), store.Interval(prefix, append(prefix, 0xff)))
		if n != 0 || err != nil {
			t.Errorf("%d rows of the dropped table: %v", n, err)
		}
	})
}

// Promise (tables): In storage that several processes share, a process that is one definition
// behind reads what the others do, while they add, rename and drop columns and indexes.
func TestReadersBehindReadTheSame(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		for change, alter := range definitionChanges {
			t.Run(change, func(t *testing.T) {
				a := openShared(t, next(), quick)
				tab := create(t, a, sharedText)
				defer a.DropTable(ctx, "shared", nil)
				insertRows(t, tab, row(t, 1, 10, 1), row(t, 2, 20, 2))
				b := openShared(t, next(), behind)
				if change == "drop index" {
					readWhileRetiring(t, openShared(t, next(), behind), b)
					return
				}
				stale, err := b.Table("shared")
				ok(t, err)
				by := from(stale, eq(col(stale, "b"), 2))
				by.Columns = []plan.Output{{Expr: col(stale, "id")}}
				ok(t, alter(a))
				if got := all(t, b, by); !slices.Equal(got, []string{"2"}) {
					t.Errorf("by index: %q", got)
				}
				everything := from(stale, nil)
				if got := all(t, b, everything); len(got) != 2 {
					t.Errorf("all: %q", got)
				}
				if got, err := stale.Get(ctx, expr.Int(2)); err != nil ||
					text(got[:3]) != "2, 20, 2" {
					t.Errorf("get: %s %v", text(got), err)
				}
			})
		}
	})
}

func insertRows(t testing.TB, tab *table.Table, rows ...[]expr.Value) {
	t.Helper()
	for _, r := range rows {
		ok(t, tab.Insert(ctx, r))
	}
}

// readWhileRetiring reads by an index, in a process that does not know that it is being dropped, as
// long as it may.
func readWhileRetiring(t *testing.T, a, b *table.DB) {
	tab, err := a.Table("shared")
	ok(t, err)
	stale, err := b.Table("shared")
	ok(t, err)
	until, stop := context.WithCancel(ctx)
	dropped := make(chan error, 1)
	go func() { dropped <- a.DropIndex(until, "shared", "by_b", nil) }()
	for tab.Schema().Index("by_b").State == schema.Ready {
		runtime.Gosched()
	}
	insertRows(t, tab, row(t, 3, 30, 2))
	by := from(stale, eq(col(stale, "b"), 2))
	by.Columns = []plan.Output{{Expr: col(stale, "id")}}
	got := all(t, b, by)
	if slices.Sort(got); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("while the index retires: %q", got)
	}
	stop()
	wantIs(t, <-dropped, context.Canceled)
}

// A process whose lease has run out reads by the present definitions, also if it does not poll.
func TestLeaseEnds(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		a, b := openShared(t, next(), quick), openShared(t, next(), quick)
		tab := create(t, a, sharedText)
		insertRows(t, tab, row(t, 1, 10, 1))
		stale, err := b.Table("shared")
		ok(t, err)
		p, err := b.Prepare(from(stale, eq(col(stale, "b"), 7)))
		ok(t, err)
		ok(t, a.DropIndex(ctx, "shared", "by_b", nil))
		insertRows(t, tab, row(t, 2, 20, 7))
		rows, err := p.Query(ctx, b)
		ok(t, err)
		if got := texts(t, rows); !slices.Equal(got, []string{"2, 20, 7"}) {
			t.Errorf("%q", got)
		}
	})
}

// A process that drops an index, or goes on with that, does not mind that another one was faster.
func TestDropsOfSeveralProcesses(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		a, b, c := openShared(t, next(), quick), openShared(t, next(), behind), (*table.DB)(nil)
		tab := create(t, a, sharedText)
		_, err := b.Table("shared")
		ok(t, err)
		early, cancel := context.WithCancel(ctx)
		stopped := func(table.Progress) { cancel() }
		wantIs(t, a.DropIndex(early, "shared", "by_b", stopped), context.Canceled)
		c = openShared(t, next(), behind) // which knows that it is being dropped
		ok(t, a.Resume(ctx, nil))
		ok(t, errors.Join(c.Resume(ctx, nil), b.DropIndex(ctx, "shared", "by_b", nil)))
		if tab.Schema().Index("by_b") != nil || c.Unfinished() {
			t.Error("the index is there")
		}
	})
}

// Of several processes that give a name at one time, one has it.
func TestNamesOfSeveralProcesses(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		var dbs []*table.DB
		for range 3 {
			dbs = append(dbs, openShared(t, next(), quick))
		}
		for round := range 10 {
			name := fmt.Sprint("t", round)
			var group sync.WaitGroup
			errs := make([]error, len(dbs)+1)
			for i, db := range dbs {
				group.Go(func() {
					def := *define(t, sharedText)
					def.Name = name
					_, errs[i] = db.CreateTable(ctx, &def)
				})
			}
			group.Go(func() {
				errs[len(dbs)] = dbs[0].CreateView(ctx, table.View{Name: name, Query: "q"}, false)
			})
			group.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				} else if !errors.Is(err, table.ErrExists) {
					t.Error(err)
				}
			}
			if won != 1 {
				t.Errorf("%d processes have made %s: %v", won, name, errs)
			}
		}
	})
}

// Promise (tables): Processes that share storage never give out one number of an identity column
// twice.
func TestNumbersOfSeveralProcesses(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		create(t, openShared(t, next(), quick), `{"name":"n","columns":[{"name":"id","type":"int64",
 "generated":"identity"},{"name":"a","type":"int64","nullable":true}],"primary_key":["id"]}`)
		var mu sync.Mutex
		seen := map[string]bool{}
		var group sync.WaitGroup
		for range 3 {
			db := openShared(t, next(), quick)
			tab, err := db.Table("n")
			ok(t, err)
			group.Go(func() {
				for range 100 {
					v, err := tab.NextValue(ctx, 0)
					mu.Lock()
					if err != nil || seen[v.String()] {
						t.Errorf("%s, again: %v %v", v, seen[v.String()], err)
					}
					seen[v.String()] = true
					mu.Unlock()
				}
			})
		}
		group.Wait()
	})
}

// strict is a store that refuses more conditions than its limits say, as etcd does.
type strict struct{ store.Store }

const (
	strictConditions = 40
	strictBytes      = 4 << 10
)

// Commit implements store.Writer.
func (s strict) Commit(ctx context.Context, w *store.WriteSet) error {
	n := 0
	for i := range w.Ops {
		if w.Ops[i].Cond.Kind != store.CondNone {
			n++
		}
	}
	if n > strictConditions {
		return fmt.Errorf("%w: %d conditions", store.ErrTooLarge, n)
	}
	if n := w.Bytes(); n > strictBytes {
		return fmt.Errorf("%w: %d bytes", store.ErrTooLarge, n)
	}
	return s.Store.Commit(ctx, w)
}

// An index is built, and removed, in smaller commits where the store refuses larger ones.
func TestBuildWithinTheStore(t *testing.T) {
	db := openShared(t, strict{storages["remote"](t)()}, quick)
	tab := create(t, db, sharedText)
	const rows = 500
	for i := range int64(rows) {
		ok(t, tab.Insert(ctx, []expr.Value{expr.Int(i), expr.Int(i), expr.Int(0)}))
	}
	ok(t, db.CreateIndex(ctx, "shared", newIndex("by_a", 1, true), nil))
	report, err := tab.Verify(ctx, nil)
	if err != nil || report.Damaged > 0 || report.Entries["by_a"] != rows {
		t.Errorf("%+v, %v", report, err)
	}
	ok(t, db.DropIndex(ctx, "shared", "by_a", nil))
}
