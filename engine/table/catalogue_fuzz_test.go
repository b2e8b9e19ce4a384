package table_test

import (
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// catalogueItems are the items of the catalogue of a database with one table, some rows,
// statistics and an index that is being built.
func catalogueItems(t testing.TB, e *engine.DB) (items []engine.Item) {
	t.Helper()
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	people := create(t, db, peopleText)
	for i := range 5 {
		ok(t, people.Insert(ctx, row(t, i, nil, "Rom", 10*i)))
	}
	ok(t, second(db.Analyze(ctx, "people", nil)))
	ok(t, db.Close())
	for it, err := range local.New(e).Scan(ctx, store.Partition([]byte("\x00kstone tables"))) {
		ok(t, err)
		items = append(items, it.Clone())
	}
	return items
}

// FuzzCatalogue opens tables whose catalogue has any bytes in one of its items: they are
// refused, or what they say can be used without a panic.
//
// Promise (tables): Any bytes in the catalogue are refused or can be used. Also of a definition
// `FuzzParse` in `engine/schema`.
func FuzzCatalogue(f *testing.F) {
	e, err := engine.Open(f.TempDir(), &engine.Options{InMemory: true})
	ok(f, err)
	items := catalogueItems(f, e)
	ok(f, e.Close())
	for _, it := range items {
		f.Add(it.Key.SK, it.Value)
	}
	job := []byte("\x03\x00\x00\x00\x01\x00\x00\x00\x03")
	f.Add([]byte("\x04\x00\x00\x00\x01"), []byte(`{"end":1001}`))
	f.Add(job, []byte(`{"pk":"AAE=","sk":"","done":3}`))
	f.Fuzz(func(t *testing.T, sk, value []byte) {
		defer testutil.Watch(sk, value)()
		e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
		ok(t, err)
		defer e.Close()
		catalogueItems(t, e)
		var set store.WriteSet
		set.Put(store.Key{PK: []byte("\x00kstone tables"), SK: sk}, value)
		if local.New(e).Commit(ctx, &set) != nil {
			return // no possible key
		}
		db, err := local.Open(ctx, e, &table.Options{Clock: time.Now})
		if err != nil {
			return
		}
		defer db.Close()
		use(db)
	})
}

// use does with the tables what depends on their definitions and statistics.
func use(db *table.DB) {
	_ = db.Resume(ctx, nil)
	for _, tab := range db.Tables() {
		_, _ = tab.Verify(ctx, nil)
		last := tab.Schema().KeyOrdinals()
		sel := &plan.Select{From: []plan.Source{{Table: tab.Schema()}},
			Where:   eq(tab.Schema().Ref(0, last[len(last)-1]), 3),
			OrderBy: []plan.Order{{Expr: tab.Schema().Ref(0, last[0]), Desc: true}}}
		if rows, err := db.Query(ctx, sel); err == nil {
			for range rows.All() {
			}
		}
	}
	_, _ = db.Advise()
}
