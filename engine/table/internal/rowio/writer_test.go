package rowio_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Promise (tables): A commit of rows leaves the rows and exactly their entries, whatever the rows
// of one commit do to each other; two that want one unique key are an error that names both.
func TestCommitsLeaveRowsAndTheirEntries(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	w.insert(row(1, "a", "x"), row(2, "b", "x"), row(3, "", "y"), row(4, "", "y"))
	w.check(row(1, "a", "x"), row(2, "b", "x"), row(3, "", "y"), row(4, "", "y"))

	w.do(func() { w.replace(1, row(1, "a", "z")) })
	w.do(func() { w.replace(2, row(5, "b", "x")) }) // another key
	w.do(func() { w.remove(4) })
	w.check(row(1, "a", "z"), row(3, "", "y"), row(5, "b", "x"))

	// Unique keys change hands, whichever row comes first.
	w.do(func() { w.replace(1, row(1, "", "z")); w.replace(3, row(3, "a", "y")) })
	w.check(row(1, "", "z"), row(3, "a", "y"), row(5, "b", "x"))
	w.do(func() { w.replace(1, row(1, "a", "z")); w.replace(3, row(3, "", "y")) })
	w.do(func() { w.replace(1, row(1, "b", "z")); w.replace(5, row(5, "a", "x")) })
	w.check(row(1, "b", "z"), row(3, "", "y"), row(5, "a", "x"))
	w.do(func() { w.remove(5); w.must(w.w.Insert(row(5, "a", "q"))) })
	w.check(row(1, "b", "z"), row(3, "", "y"), row(5, "a", "q"))

	for _, c := range []struct {
		index   string
		a, b    []expr.Value
		id, own int64
	}{
		{"", row(8, "", ""), row(8, "k", ""), 8, 8},
		{"by_email", row(8, "k", ""), row(9, "k", ""), 9, 8},
	} {
		w.must(w.w.Insert(c.a))
		w.must(w.w.Insert(c.b))
		w.taken(w.w.Finish(ctx), c.index, c.id, c.own)
		w.begin()
	}
}

// TestConditionOfReplace: a commit holds only if what was read is there still, by the version or,
// without versions, by the value; a transaction sees to that itself.
func TestConditionOfReplace(t *testing.T) {
	s := accounts(t, schema.Ready)
	w := newWorld(t, s)
	w.insert(row(1, "a", "x"))
	it, old := w.find(1)
	for _, c := range []struct {
		tx, noVersions bool
		want           store.CondKind
	}{{want: store.CondVersion}, {noVersions: true, want: store.CondValue},
		{tx: true, want: store.CondNone}} {
		own := rowio.NewWriter(c.tx, c.noVersions)
		own.Reset(ctx, &w.rules, w.memory)
		w.must(own.Replace(it, old, row(1, "a", "y")))
		if got := own.Set().Ops[0].Cond; got.Kind != c.want || !got.Holds(*it, true) {
			t.Errorf("tx %t: the condition is %+v, want kind %d", c.tx, got, c.want)
		}
		own.Release()
	}
}

// TestManyRowsOfOneCommit fills the table of keys of a commit.
func TestManyRowsOfOneCommit(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	var rows [][]expr.Value
	for i := range int64(100) {
		rows = append(rows, row(i, fmt.Sprint("e", i), ""))
	}
	w.insert(rows...)
	w.do(func() { // each row takes the email of the one before it
		for i := range int64(100) {
			w.replace(i, row(i, fmt.Sprint("e", (i+99)%100), ""))
			rows[i][1] = expr.String(fmt.Sprint("e", (i+99)%100))
		}
	})
	w.check(rows...)
	var ids []store.Key
	for _, r := range rows {
		w.must(w.w.Insert(r))
	}
	for k := range w.w.Keys() {
		ids = append(ids, store.Key{PK: slices.Clone(k.PK)})
	}
	if len(ids) != 100 || !rowio.SameKey(ids[99], w.key(99)) {
		t.Errorf("the commit writes %d rows", len(ids))
	}
}

// TestUniqueIndexBeingBuilt: rows from before may lack their entry, or have one that is that of
// another row, which stays.
func TestUniqueIndexBeingBuilt(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Building))
	w.insert(row(1, "a", "x"), row(2, "b", "x"))
	lose := func(r []expr.Value) {
		e := w.entry("by_email", r)
		delete(w.items, name(store.Key{PK: e.PK, SK: e.SK}))
	}
	lose(row(1, "a", "x"))
	w.do(func() { w.remove(1) })
	w.check(row(2, "b", "x"))
	lose(row(2, "b", "x"))
	w.do(func() { w.replace(2, row(2, "b", "y")) }) // gives it the entry
	w.check(row(2, "b", "y"))

	// Rows 3 and 4 have the same email; the entry is that of 4.
	w.insert(row(3, "d", ""))
	lose(row(3, "d", ""))
	w.insert(row(4, "d", ""))
	it, old := w.find(3)
	w.must(w.w.Replace(it, old, row(3, "d", "z")))
	w.taken(w.w.Finish(ctx), "by_email", 3, 4)
	w.begin()
	w.do(func() { w.remove(3) })
	w.check(row(2, "b", "y"), row(4, "d", ""))

	e := w.entry("by_email", row(4, "d", ""))
	at := name(store.Key{PK: e.PK, SK: e.SK})
	w.items[at] = store.Item{Key: store.Key{PK: e.PK, SK: e.SK}, Value: []byte{200}}
	it, old = w.find(4)
	w.must(w.w.Remove(it, old))
	if err := w.w.Finish(ctx); !damaged(err, "index entry", 0) {
		t.Errorf("a damaged entry: %v", err)
	}
}

// damaged reports whether an error is about damage of a structure, and says where it is.
func damaged(err error, what string, offset int64) bool {
	var at *corrupt.Error
	return errors.As(err, &at) && at.What == what && at.Offset == offset
}

// TestLostCommits: what a failed condition means.
func TestLostCommits(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	w.insert(row(1, "a", "x"))
	lost := func(f func()) (bool, error) {
		t.Helper()
		f()
		w.must(w.w.Finish(ctx))
		var failed *store.ConditionError
		if err := w.commit(w.w.Set()); !errors.As(err, &failed) {
			t.Fatalf("the commit: %v", err)
		}
		again, err := w.w.Lost(ctx, failed)
		w.begin()
		return again, err
	}
	again, err := lost(func() { w.must(w.w.Insert(row(1, "", ""))) })
	if w.taken(err, "", 1, 1); again {
		t.Error("the row is there, and the commit is to be repeated")
	}
	again, err = lost(func() { w.must(w.w.Insert(row(2, "a", ""))) })
	if w.taken(err, "by_email", 2, 1); again {
		t.Error("the unique key is taken, and the commit is to be repeated")
	}
	if again, err := lost(func() {
		w.remove(1)
		w.items[name(w.key(1))] = store.Item{Key: w.key(1), Version: 99}
	}); !again || err == nil {
		t.Errorf("a row that has changed: %t %v", again, err)
	}
	delete(w.items, name(w.key(1)))
	if again, err := lost(func() {
		w.must(w.w.Upsert(ctx, row(1, "n", "")))
		w.items[name(w.key(1))] = store.Item{Key: w.key(1), Version: 99}
	}); !again || err == nil {
		t.Errorf("a row that came in the way of an upsert: %t %v", again, err)
	}
	w.must(w.w.Insert(row(9, "", "")))
	end := &store.ConditionError{Op: w.w.Set().Len()}
	if again, err := w.w.Lost(ctx, end); again || !errors.Is(err, store.ErrConditionFailed) {
		t.Errorf("a condition that is not of the writer: %t %v", again, err)
	}
}

// TestUpsertAll: of rows with one key the last one counts, and rows are read in bounded batches.
func TestUpsertAll(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	w.insert(row(1, "a", "x"))
	w.do(func() {
		fresh, replaced, err := w.w.UpsertAll(ctx, [][]expr.Value{row(1, "b", "x"),
			row(2, "c", ""), row(2, "a", "")})
		if err != nil || fresh != 1 || replaced != 2 {
			t.Errorf("%d new, %d replaced, %v", fresh, replaced, err)
		}
	})
	w.check(row(1, "b", "x"), row(2, "a", ""))
	w.do(func() { w.must(w.w.Upsert(ctx, row(2, "d", "y"))) })
	w.do(func() { w.must(w.w.Upsert(ctx, row(3, "a", ""))) })
	w.check(row(1, "b", "x"), row(2, "d", "y"), row(3, "a", ""))

	keys := make([]store.Key, 513)
	for i := range keys {
		keys[i] = w.key(int64(i))
	}
	w.asked = nil
	var kept []store.Item
	w.must(w.w.Each(ctx, keys, func(i int, it *store.Item) error {
		kept = append(kept, *it)
		return nil
	}))
	if !slices.Equal(w.asked, []int{256, 256, 1}) || len(kept) != 3 {
		t.Errorf("reads of %d keys found %d rows", w.asked, len(kept))
	}
	if err := w.schema.Decode(w.schema.Row(), kept[0].Key, kept[0].Value, nil); err != nil {
		t.Errorf("an item does not outlive the call: %v", err)
	}
	stop, calls := errors.New("stop"), 0
	err := w.w.Each(ctx, keys, func(int, *store.Item) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	w.fail = errors.New("unreadable")
	for _, err := range []error{w.w.Upsert(ctx, row(4, "", "")),
		w.w.Each(ctx, keys, func(int, *store.Item) error { return nil })} {
		if !errors.Is(err, w.fail) {
			t.Errorf("%v, want the error of the store", err)
		}
	}
}

// TestDamagedRows: a row that cannot be read is an error that says where, and nothing is written.
func TestDamagedRows(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	w.insert(row(1, "a", "x"))
	for _, c := range []struct {
		value  []byte
		offset int64
	}{{[]byte{0}, 0}, {[]byte{0, 0x80, 0}, 1}} {
		it := w.items[name(w.key(1))]
		it.Value = c.value
		w.items[name(w.key(1))] = it
		_, _, find := w.w.Find(ctx, []expr.Value{expr.Int(1)})
		_, _, all := w.w.UpsertAll(ctx, [][]expr.Value{row(1, "b", "x")})
		for _, err := range []error{find, all, w.w.Upsert(ctx, row(1, "b", "x"))} {
			if !damaged(err, "row", c.offset) {
				t.Errorf("%x: %v", c.value, err)
			}
		}
	}
	if n := w.w.Set().Len(); n != 0 {
		t.Errorf("%d operations after errors", n)
	}
}

// TestRangesOfTables: the ranges of a table and of an index have all of its items, and no other's.
func TestRangesOfTables(t *testing.T) {
	s := accounts(t, schema.Ready)
	w := newWorld(t, s)
	w.must(w.w.Insert(row(-1<<63, "a", "x")))
	w.must(w.w.Insert(row(1<<63-1, "", "")))
	next := *s
	next.ID++
	neighbour, err := schema.New(next)
	w.must(err)
	other, _, err := neighbour.AppendRowKey(nil, nil, row(-1<<63, "", ""))
	w.must(err)
	in := func(rg store.Range, pk []byte) bool {
		return string(pk) >= string(rg.From) && string(pk) < string(rg.To)
	}
	ranges := []store.Range{rowio.Rows(s), rowio.Entries(s.Index("by_email")),
		rowio.Entries(s.Index("by_city"))}
	found := make([]int, len(ranges))
	for _, op := range w.w.Set().Ops {
		for i, rg := range ranges {
			if in(rg, op.Key.PK) {
				found[i]++
			}
		}
	}
	if !slices.Equal(found, []int{2, 2, 2}) || in(ranges[0], other) {
		t.Errorf("the ranges have %d items", found)
	}
	if err := rowio.SetKey(s, s.Row(), nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a key without values: %v", err)
	}
	for _, c := range []struct {
		rows, bytes int
		want        bool
	}{{9_999, 16<<20 - 1, false}, {10_000, 0, true}, {0, 16 << 20, true}} {
		if got := rowio.Full(c.rows, c.bytes); got != c.want {
			t.Errorf("%d rows of %d bytes: %t", c.rows, c.bytes, got)
		}
	}
}

// A writer whose context ends takes no more than a few hundred rows.
func TestWriterEnds(t *testing.T) {
	w := newWorld(t, accounts(t, schema.Ready))
	ended, cancel := context.WithCancel(ctx)
	w.w.Reset(ended, &w.rules, w.memory)
	cancel()
	n := 0
	for err := error(nil); err == nil; n++ {
		err = w.w.Insert(row(int64(n), "", ""))
		if err != nil && !errors.Is(err, context.Canceled) || n > 300 {
			t.Fatalf("after %d rows: %v", n, err)
		}
	}
}
