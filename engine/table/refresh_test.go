package table_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

const (
	fewText = `{"name":"few","columns":[{"name":"id","type":"int64"},
 {"name":"at","type":"int64"}],"primary_key":["id"]}`
	manyText = `{"name":"many","columns":[{"name":"id","type":"int64"},
 {"name":"at","type":"int64"},{"name":"kind","type":"string"}],"primary_key":["id"],
 "indexes":[{"name":"by_at","columns":["at"]},{"name":"by_kind","columns":["kind"]}]}`
)

// addFew writes rows of fewText.
func addFew(t testing.TB, tab *table.Table, n int) {
	t.Helper()
	for i := range n {
		ok(t, tab.Insert(ctx, row(t, i, i)))
	}
}

// addMany writes the rows [from, to) of manyText, all of one kind.
func addMany(t testing.TB, tab *table.Table, from, to int, kind string) {
	t.Helper()
	_, err := tab.InsertMany(ctx, func(yield func([]expr.Value) bool) {
		for i := from; i < to; i++ {
			if !yield([]expr.Value{expr.Int(int64(i)), expr.Int(int64(i)),
				expr.String(kind)}) {
				return
			}
		}
	})
	ok(t, err)
}

// joinOf is SELECT * FROM few JOIN many ON few.at = many.at.
func joinOf(few, many *table.Table) *plan.Select {
	on := expr.Cmp{Op: expr.Eq, L: few.Schema().Ref(0, 1), R: many.Schema().Ref(1, 1)}
	return &plan.Select{From: []plan.Source{{Table: few.Schema()}, {Table: many.Schema()}},
		Joins: []plan.Join{{Kind: plan.Inner, On: on}}}
}

func explain(t testing.TB, r table.Reader, sel *plan.Select) string {
	t.Helper()
	rows, err := r.Query(ctx, sel)
	ok(t, err)
	e, err := rows.Explain()
	ok(t, err)
	return e.String()
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: ", what)
		}
	}
}

// TestStatisticsByThemselves joins a few rows with many that were never analyzed,
// lets the table grow, and changes its values.
//
// Promise (tables): A query of tables that were never analyzed is planned with statistics of a
// sample, and planned again after the rows have grown in number or changed, in the database and
// in one that is opened later or read-only; an option turns it off, and Close ends it. Also
// `TestStatisticsOfAnotherProcess`, `TestStatisticsOff`, `TestCloseWhileSampling`,
// `TestCloseOfTheEngineWhileSampling`, `TestStatisticsWhileWriting`.
func TestStatisticsByThemselves(t *testing.T) {
	db := open(t, nil)
	few, many := create(t, db, fewText), create(t, db, manyText)
	if e := explain(t, db, joinOf(few, many)); !strings.Contains(e, "of many: none") {
		t.Error(e)
	}
	addFew(t, few, 3)
	addMany(t, many, 0, 5000, "a")
	eventually(t, "statistics of both", func() bool { // at once if the machine is not loaded
		explain(t, db, joinOf(few, many))
		return few.Stats() != nil && many.Stats() != nil
	})
	e := explain(t, db, joinOf(few, many))
	if !strings.Contains(e, "lookup join") || !strings.Contains(e, "of many: sampled at ") ||
		!strings.Contains(e, "of few: analyzed at ") {
		t.Error(e)
	}
	if s := few.Stats(); s == nil || s.Rows != 3 {
		t.Errorf("%+v", s)
	}
	between := func(least, most float64) func() bool {
		return func() bool {
			explain(t, db, from(many, eq(col(many, "kind"), "a")))
			s := many.Stats()
			return s != nil && s.Rows >= least && s.Rows <= most
		}
	}
	if !between(4000, 6000)() {
		t.Errorf("%+v", many.Stats())
	}
	addMany(t, many, 5000, 12_000, "a")
	eventually(t, "12,000 rows", between(9600, 14_400))

	_, err := many.UpdateWhere(ctx, nil, []table.Assignment{{Column: 2,
		Value: expr.Const{Value: expr.String("b")}}})
	ok(t, err)
	eventually(t, "other values", func() bool {
		explain(t, db, from(many, eq(col(many, "kind"), "a")))
		k := many.Stats().Key(many.Schema().Index("by_kind"))
		return len(k.Heavy) == 1 && strings.Contains(string(k.Heavy[0].Key), "b")
	})
}

// TestStatisticsOfAnotherProcess opens a database whose statistics were stored before.
func TestStatisticsOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	use := func(o *engine.Options, f func(*table.DB, *table.Table)) {
		t.Helper()
		e, err := engine.Open(dir, o)
		ok(t, err)
		db, err := local.Open(ctx, e, nil)
		ok(t, err)
		many, err := db.Table("many")
		if err != nil {
			many = create(t, db, manyText)
		}
		f(db, many)
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	plan := func(db *table.DB, many *table.Table) {
		explain(t, db, from(many, eq(col(many, "kind"), "a")))
	}
	use(nil, func(db *table.DB, many *table.Table) {
		addMany(t, many, 0, 4000, "a")
		eventually(t, "statistics", func() bool { plan(db, many); return many.Stats() != nil })
	})
	use(nil, func(db *table.DB, many *table.Table) {
		before := many.Stats()
		if before == nil || before.Sampled == 0 {
			t.Fatalf("stored: %+v", before)
		}
		plan(db, many)
		if many.Stats() != before {
			t.Errorf("%+v was replaced by %+v", before, many.Stats())
		}
		addMany(t, many, 4000, 20_000, "a") // and no query
	})
	for _, readOnly := range []bool{true, false} {
		use(&engine.Options{ReadOnly: readOnly}, func(db *table.DB, many *table.Table) {
			if s := many.Stats(); s.Rows > 5000 {
				t.Fatalf("stored: %+v", s)
			}
			eventually(t, "20,000 rows", func() bool {
				plan(db, many)
				return many.Stats().Rows > 15_000
			})
		})
	}
}

// TestStatisticsOff plans with the option off, and with a store that cannot sample.
func TestStatisticsOff(t *testing.T) {
	off := open(t, &table.Options{SampleRows: -1})
	other, err := table.OpenStore(ctx, unsampled{off.Store()}, nil)
	ok(t, err)
	defer other.Close()
	addMany(t, create(t, off, manyText), 0, 500, "a")
	for _, db := range []*table.DB{off, other} {
		if db == other {
			if db, err = table.OpenStore(ctx, unsampled{off.Store()}, nil); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
		}
		many, err := db.Table("many")
		ok(t, err)
		if e := explain(t, db, from(many, eq(col(many, "kind"), "a"))); many.Stats() != nil ||
			!strings.Contains(e, "of many: none") {
			t.Error(e)
		}
	}
}

// unsampled is a store whose snapshots are no store.Sampler.
type unsampled struct{ store.Store }

func (s unsampled) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	return struct{ store.Snapshot }{snap}, err
}

// stuckStore is a store whose samples wait for the end of their context.
type stuckStore struct {
	store.Store
	began chan struct{}
	ended atomic.Bool
}

func (s *stuckStore) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	return stuckSnapshot{snap, s}, err
}

type stuckSnapshot struct {
	store.Snapshot
	s *stuckStore
}

func (s stuckSnapshot) Sample(ctx context.Context,
	_ engine.Sample) iter.Seq2[engine.Sampled, error] {
	return func(yield func(engine.Sampled, error) bool) {
		close(s.s.began)
		<-ctx.Done()
		s.s.ended.Store(true)
		yield(engine.Sampled{}, context.Cause(ctx))
	}
}

// TestCloseWhileSampling closes a DB whose sample does not end. The query has a plan before.
func TestCloseWhileSampling(t *testing.T) {
	stuck := &stuckStore{Store: open(t, nil).Store(), began: make(chan struct{})}
	db, err := table.OpenStore(ctx, stuck, nil)
	ok(t, err)
	many := create(t, db, manyText)
	explain(t, db, from(many, eq(col(many, "kind"), "a")))
	<-stuck.began
	if err := db.Close(); err != nil || !stuck.ended.Load() {
		t.Error(err, "or the sample goes on")
	}
	explain(t, db, from(many, eq(col(many, "at"), 1)))
	if many.Stats() != nil {
		t.Errorf("%+v", many.Stats())
	}
}

// TestCloseOfTheEngineWhileSampling closes the engine under tables that begin to read
// statistics: after a query that has waited for them, or while it does.
func TestCloseOfTheEngineWhileSampling(t *testing.T) {
	dir, rnd := t.TempDir(), testutil.Rand(t)
	for i := range testutil.Effort(30, 1000) {
		e, err := engine.Open(dir, nil)
		ok(t, err)
		db, err := local.Open(ctx, e, &table.Options{SampleRows: 200})
		ok(t, err)
		var many *table.Table
		if i == 0 {
			many = create(t, db, manyText)
			addMany(t, many, 0, 2000, "a")
		} else if many, err = db.Table("many"); err != nil {
			t.Fatal(err)
		}
		addMany(t, many, 2000+i, 2001+i, "b")
		var asked sync.WaitGroup
		asked.Go(func() {
			rows, err := db.Query(ctx, from(many, eq(col(many, "kind"), "b")))
			if err != nil && !errors.Is(err, engine.ErrClosed) {
				t.Errorf("%v, %v", rows, err)
			}
		})
		if pauses := rnd.IntN(100); i%2 == 0 {
			asked.Wait()
		} else {
			for range pauses {
				runtime.Gosched()
			}
		}
		ok(t, e.Close())
		asked.Wait()
		ok(t, db.Close())
	}
}

// TestStatisticsWhileWriting plans, writes, analyzes and changes the definition at once.
func TestStatisticsWhileWriting(t *testing.T) {
	db := open(t, &table.Options{SampleRows: 50})
	many := create(t, db, manyText)
	rounds := testutil.Effort(10, 100)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range rounds {
				addMany(t, many, (w*rounds+i)*100, (w*rounds+i+1)*100, fmt.Sprint(w))
				explain(t, db, from(many, eq(col(many, "kind"), fmt.Sprint(i))))
			}
		})
	}
	for range 3 {
		if _, err := db.Analyze(ctx, "many", nil); err != nil {
			t.Error(err)
		}
		ok(t, db.RenameTable(ctx, "many", "other"))
		ok(t, db.RenameTable(ctx, "other", "many"))
	}
	all.Wait()
	epoch := many.Stats().Epoch
	if epoch < 3 {
		t.Error(epoch)
	}
	verify(t, many)
}

// TestRisingColumnsOfOneCommit collects statistics of rows that were written at once: columns
// that rise with the key are found, and a key alone is no sign.
func TestRisingColumnsOfOneCommit(t *testing.T) {
	db := open(t, nil)
	many, few := create(t, db, manyText), create(t, db, fewText)
	addMany(t, many, 0, 1000, "a")
	_, err := few.InsertMany(ctx, func(yield func([]expr.Value) bool) {
		for i := range int64(1000) {
			if !yield([]expr.Value{expr.Int(i), expr.Int(i * 7919 % 1000)}) {
				return
			}
		}
	})
	ok(t, err)
	for name, want := range map[string]string{"many": "[0 1]", "few": "[]"} {
		s, err := db.Analyze(ctx, name, nil)
		if err != nil || fmt.Sprint(s.Monotonic) != want {
			t.Errorf("%s: %v, not %s: %v", name, s.Monotonic, want, err)
		}
	}
}
