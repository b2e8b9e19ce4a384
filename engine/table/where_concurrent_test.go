package table_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// busyText is a table with an index of every kind.
const busyText = `{"name":"busy","columns":[{"name":"id","type":"int64"},
 {"name":"n","type":"int64"},{"name":"u","type":"int64"},
 {"name":"tags","type":"string","list":true,"collate":"ascii"},
 {"name":"until","type":"time","unit":"ms","nullable":true}],"primary_key":["id"],
 "ttl":{"column":"until","after":"0s"},
 "indexes":[{"name":"by_u","columns":["u"],"unique":true},
  {"name":"by_n","columns":["n"],"local":true},
  {"name":"by_tag","columns":[{"column":"tags","each":true},"n"]},
  {"name":"one_tag","columns":[{"column":"tags","each":true}],"unique":true,
   "where":{"op":"<","args":[{"op":"column","name":"id"},{"op":"const","value":{"int":"0"}}]}},
  {"name":"some","columns":["u"],"include":["n"],
   "where":{"op":">","args":[{"op":"column","name":"n"},{"op":"const","value":{"int":"3"}}]}}]}`

// together runs some functions at a time, again and again, until one fails or each has run
// so often.
func together(t *testing.T, rounds int, work ...func(rng *rand.Rand) error) {
	t.Helper()
	var group sync.WaitGroup
	for i, f := range work {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(11, uint64(i)))
			for range rounds {
				if t.Failed() {
					return
				}
				if err := f(rng); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
}

func busyRow(t testing.TB, id, u int64) []expr.Value {
	tags := []string{fmt.Sprint("t", id%7), fmt.Sprint("T", id%7), "all"}
	return row(t, id, 0, u, tags, nil)
}

func plus(c expr.Column, n int64) table.Assignment {
	return table.Assignment{Column: c.Ordinal, Value: expr.Arith{Op: expr.Add, L: c,
		R: constant(n)}}
}

// TestStatementsByPredicateCountWhatTheyChange checks that statements that run at the same
// time lose no change: the sum of a column is that of the counts that they return, no row is
// deleted twice, and rows that come and go meanwhile are counted or not.
func TestStatementsByPredicateCountWhatTheyChange(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, busyText)
	const rows = 60
	for i := range int64(rows) {
		ok(t, tab.Insert(ctx, busyRow(t, i, i)))
	}
	id, n := tab.Schema().Ref(0, 0), tab.Schema().Ref(0, 1)
	var added, taken, inserted, deleted atomic.Int64
	some := func(rng *rand.Rand) expr.Expr {
		from := rng.Int64N(rows)
		return expr.Between{X: id, Lo: constant(from), Hi: constant(from + rng.Int64N(20))}
	}
	add := func(rng *rand.Rand) error {
		k, err := tab.UpdateWhere(ctx, some(rng), []table.Assignment{plus(n, 1)})
		added.Add(int64(k))
		return err
	}
	remove := func(rng *rand.Rand) error {
		// What a row had is taken out of the sum by the same statement.
		k, err := tab.DeleteWhere(ctx, expr.And{Terms: []expr.Expr{some(rng),
			expr.Cmp{Op: expr.Eq, L: n, R: constant(0)}}})
		deleted.Add(int64(k))
		return err
	}
	together(t, 60, add, add,
		func(rng *rand.Rand) error { // by an index over what the others change
			least := constant(rng.IntN(9) + 1)
			k, err := tab.UpdateWhere(ctx, expr.Cmp{Op: expr.Ge, L: n, R: least},
				[]table.Assignment{plus(n, -1)})
			taken.Add(int64(k))
			return err
		},
		remove, remove,
		func(rng *rand.Rand) error {
			i := rng.Int64N(rows)
			err := tab.Insert(ctx, busyRow(t, i, i))
			if err == nil {
				inserted.Add(1)
			} else if errors.Is(err, table.ErrUnique) {
				return nil
			}
			return err
		},
		func(rng *rand.Rand) error { // in transactions
			k := 0
			err := updating(db, func(in func(*table.Table) *table.Table) (err error) {
				k, err = in(tab).UpdateWhere(ctx, some(rng), []table.Assignment{plus(n, 1)})
				return err
			})
			added.Add(int64(k))
			return err
		})
	sum, count := int64(0), int64(0)
	for _, r := range rowsOf(t, tab) {
		v, _ := r[1].AsInt()
		sum, count = sum+v, count+1
	}
	t.Logf("%d added, %d taken, %d inserted, %d deleted", added.Load(), taken.Load(),
		inserted.Load(), deleted.Load())
	if sum != added.Load()-taken.Load() || count != rows+inserted.Load()-deleted.Load() {
		t.Errorf("%d rows with the sum %d", count, sum)
	}
	verify(t, tab)
}

// rowsOf returns all rows of a table.
func rowsOf(t testing.TB, tab *table.Table) (all [][]expr.Value) {
	t.Helper()
	rows, err := tab.DB().Query(ctx, from(tab, nil))
	ok(t, err)
	for r, err := range rows.All() {
		ok(t, err)
		own := append([]expr.Value(nil), r...)
		for i := range own {
			own[i] = own[i].Clone()
		}
		all = append(all, own)
	}
	return all
}

// swapValues exchanges the unique values of two rows in a transaction, where the store has them.
func swapValues(tab *table.Table, a, b expr.Value) error {
	if !transacts(tab.DB()) {
		return nil
	}
	return tab.DB().Update(ctx, func(tx *table.Tx) error {
		in := tab.In(tx)
		one, err := in.Get(ctx, a)
		if err != nil {
			return err
		}
		other, err := in.Get(ctx, b)
		if err != nil {
			return err
		}
		set := func(key, v expr.Value) error {
			return in.Set(ctx, []expr.Value{key}, []table.Assignment{{Column: 2,
				Value: expr.Const{Value: v}}}, nil)
		}
		return errors.Join(set(a, expr.Int(-1)), set(b, one[2]), set(a, other[2]))
	})
}

// TestUniqueValuesMoveBetweenRows exchanges unique values of many rows, in single commits,
// in transactions and by changing keys: none is lost or there twice, also for readers.
func TestUniqueValuesMoveBetweenRows(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, busyText)
	rows := int64(24)
	if most := db.Store().Limits().CommitOps; most > 0 { // all rows are one commit
		rows = int64(most / 16)
	}
	for i := range rows {
		ok(t, tab.Insert(ctx, busyRow(t, i, i)))
	}
	id, u := tab.Schema().Ref(0, 0), tab.Schema().Ref(0, 2)
	mirror := []table.Assignment{{Column: 2, Value: expr.Arith{Op: expr.Sub,
		L: constant(rows - 1), R: u}}}
	turn := []table.Assignment{{Column: 2, Value: expr.Arith{Op: expr.Mod,
		L: expr.Arith{Op: expr.Add, L: u, R: constant(1)}, R: constant(rows)}}}
	all := func(set []table.Assignment) func(*rand.Rand) error {
		return func(*rand.Rand) error {
			n, err := tab.UpdateWhere(ctx, nil, set)
			if err == nil && int64(n) != rows {
				err = fmt.Errorf("%d rows were changed", n)
			}
			return err
		}
	}
	swap := func(rng *rand.Rand) error {
		return swapValues(tab, expr.Int(rng.Int64N(rows)), expr.Int(rng.Int64N(rows)))
	}
	read := func(rng *rand.Rand) error { // every value is there once, by the index
		sel := from(tab, expr.Cmp{Op: expr.Ge, L: u, R: constant(0)})
		sel.Hints.Index = map[int]string{0: "by_u"}
		rows2, err := db.Query(ctx, sel)
		if err != nil {
			return err
		}
		seen := map[int64]bool{}
		for r, err := range rows2.All() {
			if err != nil {
				return err
			}
			v, _ := r[2].AsInt()
			seen[v] = true
		}
		if int64(len(seen)) != rows {
			return fmt.Errorf("%d of %d values", len(seen), rows)
		}
		return nil
	}
	taken := func(rng *rand.Rand) error { // never free
		v := rng.Int64N(rows)
		err := tab.Insert(ctx, busyRow(t, 1000+v, v))
		if !errors.Is(err, table.ErrUnique) {
			return fmt.Errorf("inserting a value that a row has: %w", err)
		}
		return nil
	}
	keys := func(*rand.Rand) error { // all rows change their keys, and back
		n, err := tab.UpdateWhere(ctx, nil, []table.Assignment{{Column: 0, Value: expr.Arith{
			Op: expr.Sub, L: constant(rows - 1), R: id}}})
		if err == nil && int64(n) != rows {
			err = fmt.Errorf("%d keys were changed", n)
		}
		return err
	}
	together(t, 25, all(mirror), all(turn), swap, swap, read, taken, keys)
	if r := verify(t, tab); r.Rows != rows || r.Entries["by_u"] != rows {
		t.Errorf("%+v", r)
	}
}

// openBusyClock opens a database with a busy table and a clock that is moved by hand.
func openBusyClock(t *testing.T) (*table.Table, *clock) {
	t.Helper()
	c := new(clock)
	c.ms.Store(1_000_000)
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: c.now})
	ok(t, err)
	db, err := local.Open(ctx, e, &table.Options{Clock: c.now})
	ok(t, err)
	t.Cleanup(func() { ok(t, errors.Join(db.Close(), e.Close())) })
	return create(t, db, busyText), c
}

// TestRowsExpireBesideWriters moves the clock while rows are written with an expiry, written
// again without one, moved and deleted: at no time an index has an entry more or less than
// the rows say, and unique values of rows that have expired are free.
func TestRowsExpireBesideWriters(t *testing.T) {
	tab, c := openBusyClock(t)
	n, until := tab.Schema().Ref(0, 1), tab.Schema().Ref(0, 4)
	ignore := func(err error) error {
		if errors.Is(err, table.ErrNotFound) || errors.Is(err, table.ErrUnique) {
			return nil
		}
		return err
	}
	put := func(rng *rand.Rand) error {
		r := busyRow(t, rng.Int64N(40), rng.Int64N(40))
		if rng.IntN(3) > 0 {
			r[4] = expr.Time(c.now().Add(time.Duration(rng.IntN(40)) * time.Millisecond))
		}
		return ignore(tab.Put(ctx, r))
	}
	together(t, 250, put, put,
		func(rng *rand.Rand) error {
			return ignore(tab.Update(ctx, row(t, rng.IntN(40)), func(r []expr.Value) error {
				if r[4] = expr.Null(); rng.IntN(2) == 0 {
					r[4] = expr.Time(c.now().Add(time.Duration(rng.IntN(90)) * time.Millisecond))
				}
				if rng.IntN(4) == 0 {
					r[0] = expr.Int(rng.Int64N(40))
				}
				return nil
			}))
		},
		func(rng *rand.Rand) error {
			_, err := tab.UpdateWhere(ctx, expr.IsNull{X: until, Not: rng.IntN(2) == 0},
				[]table.Assignment{plus(n, 1)})
			return ignore(err)
		},
		func(rng *rand.Rand) error { return ignore(tab.Delete(ctx, row(t, rng.IntN(40)))) },
		func(rng *rand.Rand) error {
			c.ms.Add(rng.Int64N(12))
			if rng.IntN(10) > 0 {
				return nil
			}
			_, err := tab.Verify(ctx, nil)
			return err
		})
	c.ms.Add(1000)
	verify(t, tab)
	for _, r := range rowsOf(t, tab) {
		if !r[4].IsNull() {
			t.Errorf("a row that has expired: %s", text(r))
		}
	}
	ok(t, tab.DB().SetTTL(ctx, "busy", nil))
	ok(t, second(tab.DeleteWhere(ctx, nil)))
	for i := range int64(40) { // no value is still taken
		ok(t, tab.Insert(ctx, busyRow(t, i, i)))
	}
	verify(t, tab)
}

// An UPDATE or DELETE whose context ends looks at no more than a few hundred rows, and writes none
// of its commit.
func TestWhereEnds(t *testing.T) {
	db := open(t, nil)
	busy := create(t, db, busyText)
	const n = 3000
	var rows [][]expr.Value
	for i := range int64(n) {
		rows = append(rows, busyRow(t, i, i))
	}
	ok(t, second(busy.InsertMany(ctx, slices.Values(rows))))
	type look = func(row []expr.Value) error
	for name, change := range map[string]func(context.Context, look) (int, error){
		"update": func(ctx context.Context, each look) (int, error) {
			set := []table.Assignment{plus(busy.Schema().Ref(0, 1), 1)}
			return busy.UpdateWhereReturning(ctx, nil, set, each)
		},
		"delete": func(ctx context.Context, each look) (int, error) {
			return busy.DeleteWhereReturning(ctx, nil, each)
		},
	} {
		ended, cancel := context.WithCancel(ctx)
		looked := 0
		done, err := change(ended, func([]expr.Value) error {
			if looked++; looked == 1000 {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || done != 0 || looked > 1000+300 {
			t.Errorf("%s: %d rows are changed, %d were looked at, %v", name, done, looked, err)
		}
	}
}
