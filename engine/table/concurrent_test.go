package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Of many goroutines that want the same unique values, exactly one gets each.
//
// Promise (tables): Of many goroutines exactly one gets a unique value.
func TestUniqueIsExactAmongGoroutines(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	const writers, values = 8, 60
	var won [values]atomic.Int32
	var wg sync.WaitGroup
	for g := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for v := range values {
				id, email := g*values+v, fmt.Sprint("m", v)
				insert := func(in *table.Table) error {
					return in.Insert(ctx, row(t, id, email, "c", v))
				}
				var err error
				if g%2 == 0 {
					err = insert(people)
				} else {
					err = updating(db, func(in func(*table.Table) *table.Table) error {
						return insert(in(people))
					})
				}
				switch {
				case err == nil:
					won[v].Add(1)
				case !errors.Is(err, table.ErrUnique):
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	for v := range won {
		if won[v].Load() != 1 {
			t.Errorf("%d writers got the value %d", won[v].Load(), v)
		}
	}
	if r := verify(t, people); r.Rows != values || r.Entries["by_email"] != values {
		t.Fatalf("%+v", r)
	}
}

// writeOn writes random rows from several goroutines until stop is closed.
func writeOn(t *testing.T, tab *table.Table, stop chan struct{}, seed uint64) (wait func()) {
	var wg sync.WaitGroup
	for g := range uint64(2) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(seed, g))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := writeRandom(rng, tab); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	return wg.Wait
}

// writeRandom does one write; conflicts are what it is about.
func writeRandom(rng *rand.Rand, tab *table.Table) error {
	id := rng.Int64N(1500)
	r := []expr.Value{expr.Int(id), expr.String(fmt.Sprint(rng.IntN(1e8))),
		expr.String(fmt.Sprint(rng.IntN(20))), expr.Int(rng.Int64N(90))}
	var err error
	kind := rng.IntN(5)
	if rng.IntN(200) == 0 {
		kind = 5
	}
	switch kind {
	case 0:
		err = tab.Delete(ctx, r[:1])
	case 1:
		err = tab.Update(ctx, r[:1], func(old []expr.Value) error {
			old[3] = r[3] // the email stays, and so does its entry
			return nil
		})
	case 2:
		err = tab.Update(ctx, r[:1], func(old []expr.Value) error {
			old[0] = expr.Int(rng.Int64N(1500))
			return nil
		})
	case 3:
		err = tab.DB().Update(ctx, func(tx *table.Tx) error {
			if err := tab.In(tx).Put(ctx, r); err != nil {
				return err
			}
			other := append([]expr.Value{expr.Int(id + 1)}, expr.Null(), r[2], r[3])
			return tab.In(tx).Put(ctx, other)
		})
	case 5:
		_, err = tab.UpdateWhere(ctx, eq(col(tab, "age"), r[3]), []table.Assignment{{Column: 2,
			Value: expr.Const{Value: r[2]}}})
	default:
		err = tab.Put(ctx, r)
	}
	if errors.Is(err, table.ErrNotFound) || errors.Is(err, table.ErrUnique) {
		return nil
	}
	return err
}

// Indexes are built and dropped while writers write, and are complete when they are ready:
// no row from before that was changed meanwhile, and no row of a writer, is missed.
//
// Promise (tables): Indexes are built and dropped while writers write, and miss no row.
func TestIndexesAreBuiltWhileWritersWrite(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, `{"name":"people","columns":[
	 {"name":"id","type":"int64"},{"name":"email","type":"string","nullable":true},
	 {"name":"city","type":"string","nullable":true},{"name":"age","type":"int32"}],
	 "primary_key":["id"]}`)
	for i := range 1500 {
		r := row(t, i, fmt.Sprint("old", i), fmt.Sprint(i%20), i%90)
		ok(t, people.Insert(ctx, r))
	}
	stop := make(chan struct{})
	wait := writeOn(t, people, stop, 1)
	rounds := testutil.Effort(2, 4)
	built := 0
	for range rounds {
		built += buildAll(t, db, people)
		for _, x := range people.Schema().Indexes {
			ok(t, db.DropIndex(ctx, "people", x.Name, nil))
		}
	}
	close(stop)
	wait()
	verify(t, people)
	t.Logf("%d indexes were built", built)
}

func buildAll(t *testing.T, db *table.DB, people *table.Table) (built int) {
	t.Helper()
	on := func(ordinals ...int) (all []schema.IndexColumn) {
		for _, o := range ordinals {
			all = append(all, schema.IndexColumn{KeyColumn: schema.KeyColumn{Ordinal: o}})
		}
		return all
	}
	for _, x := range []schema.Index{
		{Name: "by_city", Columns: on(2, 3)},
		{Name: "by_email", Columns: on(1), Unique: true},
		{Name: "by_age", Columns: on(3), Placement: schema.Local, Include: []int{1}},
	} {
		err := db.CreateIndex(ctx, "people", x, nil)
		switch {
		case err == nil:
			built++
		case !x.Unique || !errors.Is(err, table.ErrUnique):
			t.Error(err)
		}
		if _, err := people.Verify(ctx, nil); err != nil {
			t.Errorf("after %s: %v", x.Name, err)
		}
	}
	return built
}
