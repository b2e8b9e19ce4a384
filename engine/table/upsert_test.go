package table_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

const plainText = `{"name":"plain","columns":[{"name":"id","type":"int64"},
 {"name":"x","type":"int64"}],"primary_key":["id"]}`

// TestUpsertTellsNewFromReplaced: counts are exact, and of rows with one key the last stays.
func TestUpsertTellsNewFromReplaced(t *testing.T) {
	for _, def := range []string{plainText, `{"name":"indexed","columns":[
	 {"name":"id","type":"int64"},{"name":"x","type":"int64"}],"primary_key":["id"],
	 "indexes":[{"name":"by_x","columns":["x"]}]}`} {
		db := open(t, nil)
		tab := create(t, db, def)
		upsert := func(in *table.Table, ids ...int) table.Upserted {
			t.Helper()
			var rows [][]expr.Value
			for i, id := range ids {
				rows = append(rows, row(t, id, i))
			}
			done, err := in.Upsert(ctx, slices.Values(rows))
			ok(t, err)
			return done
		}
		if got := upsert(tab, 1, 2, 3, 2, 2); got != (table.Upserted{New: 3, Replaced: 2}) {
			t.Errorf("%s: %+v", tab.Name(), got)
		}
		if got := upsert(tab, 4, 3, 2); got != (table.Upserted{New: 1, Replaced: 2}) {
			t.Errorf("%s: %+v", tab.Name(), got)
		}
		err := updating(db, func(in func(*table.Table) *table.Table) error {
			if got := upsert(in(tab), 5, 4, 5); got != (table.Upserted{New: 1, Replaced: 2}) {
				t.Errorf("%s: %+v", tab.Name(), got)
			}
			return nil
		})
		ok(t, err)
		want := []string{"1, 0", "2, 2", "3, 1", "4, 1", "5, 2"}
		got := all(t, db, from(tab, nil))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", tab.Name(), got)
		}
		verify(t, tab)
	}
}

// TestUpsertAmongGoroutines: every key is new to exactly one of them, and none reports that
// a row is in its way.
func TestUpsertAmongGoroutines(t *testing.T) {
	const workers, keys = 4, 300
	db := open(t, nil)
	tab := create(t, db, peopleText)
	var wg sync.WaitGroup
	done := make([]table.Upserted, workers)
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < keys; i += 10 {
				var rows [][]expr.Value
				for id := i; id < i+10; id++ {
					rows = append(rows, row(t, id, fmt.Sprint(w, "@", id), "Rom", w))
				}
				got, err := tab.Upsert(ctx, slices.Values(rows))
				if err != nil {
					t.Error(err)
				}
				done[w].New += got.New
				done[w].Replaced += got.Replaced
			}
		}()
	}
	wg.Wait()
	var sum table.Upserted
	for _, d := range done {
		sum.New += d.New
		sum.Replaced += d.Replaced
	}
	if sum.New != keys || sum.Replaced != keys*(workers-1) {
		t.Errorf("%+v", sum)
	}
	verify(t, tab)
}

// TestPutAmongGoroutines: whoever puts a row first, the other one replaces it.
//
// Promise (tables): Of goroutines that put one row every one succeeds; new and replaced rows are
// counted exactly. Also `TestUpsertAmongGoroutines`, `TestUpsertTellsNewFromReplaced`.
func TestPutAmongGoroutines(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, peopleText)
	for i := range 1000 {
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				var err error
				if w == 2 {
					_, err = tab.PutMany(ctx, slices.Values([][]expr.Value{row(t, i, nil, "x", w)}))
				} else {
					err = tab.Put(ctx, row(t, i, nil, "x", w))
				}
				if err != nil {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
	}
	if r := verify(t, tab); r.Rows != 1000 {
		t.Errorf("%+v", r)
	}
}

// TestBoundTablesRefuseOtherDefinitions: what was made for a definition is written by it or
// not at all, also where another table has taken the name.
//
// Promise (tables): What was made for one definition of a table is not written by another, nor
// to another table of that name.
func TestBoundTablesRefuseOtherDefinitions(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, plainText)
	bound, err := db.Bound(tab.Schema())
	ok(t, err)
	ok(t, bound.Insert(ctx, row(t, 1, 1)))
	note := schema.Column{Name: "note", Type: keycodec.TypeString, Nullable: true}
	ok(t, db.AddColumn(ctx, "plain", note))
	inTx := func() error {
		return db.Update(ctx, func(tx *table.Tx) error {
			return bound.In(tx).Put(ctx, row(t, 2, 2))
		})
	}
	_, whereErr := bound.DeleteWhere(ctx, nil)
	for _, err := range []error{bound.Insert(ctx, row(t, 2, 2)), inTx(), whereErr} {
		wantIs(t, err, table.ErrChanged)
	}
	ok(t, errors.Join(db.DropTable(ctx, "plain", nil)))
	other := create(t, db, plainText)
	wantIs(t, bound.Insert(ctx, row(t, 2, 2)), table.ErrNoTable)
	if _, err := db.Bound(tab.Schema()); !errors.Is(err, table.ErrNoTable) {
		t.Errorf("bound to a table that was dropped: %v", err)
	}
	x := schema.Index{Name: "by_x", Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{
		Ordinal: 1}}}}
	wantIs(t, bound.CreateIndex(ctx, x, nil), table.ErrNoTable)
	if r := verify(t, other); r.Rows != 0 || len(other.Schema().Indexes) != 0 {
		t.Errorf("the other table has %+v", r)
	}
}
