package storetest

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/engine/store"
)

// observe reads two items in a transaction: a change, and what is not there yet. So whatever writes
// the second and has not seen the first is in no order with others.
func observe(t T, s txStore, changed, missing store.Key) {
	t.Helper()
	tx, err := s.Begin(ctx, &store.TxOptions{ReadOnly: true})
	ok(t, err)
	defer tx.Rollback()
	wantValue(t, tx, missing, absent)
	_, err = tx.Get(ctx, nil, changed)
	if !errors.Is(err, store.ErrNotFound) {
		ok(t, err)
	}
	ok(t, tx.End(ctx))
}

// checkTxConflicts: a transaction fails, and writes nothing, if what it has read was changed, and
// that was seen without what it writes: items, items that were absent, and ranges by puts, new
// items and deletions.
func checkTxConflicts(t T, s txStore) {
	in := func(i int) store.Key { return key("range", fmt.Sprint(i)) }
	scan := func(r store.Range) func(store.Tx) {
		return func(tx store.Tx) { read(t, tx, r) }
	}
	get := func(k store.Key) func(store.Tx) {
		return func(tx store.Tx) { _, _ = tx.Get(ctx, nil, k) }
	}
	reverse := store.Partition([]byte("range"))
	reverse.Reverse = true
	span := store.Span{Start: []byte("2"), End: []byte("5")}
	all := store.Interval([]byte("range"), nil)
	all.Unordered = true
	for i, c := range []struct {
		name      string
		read      func(store.Tx)
		change    store.Key
		remove    bool
		unrelated bool // the change is of what was not read
	}{
		{name: "item", read: get(in(2)), change: in(2)},
		{name: "deleted item", read: get(in(2)), change: in(2), remove: true},
		{name: "absent item", read: get(in(3)), change: in(3)},
		{name: "other item", read: get(in(2)), change: in(4), unrelated: true},
		{name: "put into a range", read: scan(store.Partition([]byte("range"), span)),
			change: in(4)},
		{name: "new in a range", read: scan(reverse), change: in(3)},
		{name: "deleted from a range", read: scan(store.Partition([]byte("range"), span)),
			change: in(4), remove: true},
		{name: "new in an empty range", read: scan(store.Partition([]byte("empty"))),
			change: key("empty", "x")},
		{name: "new partition", read: scan(all), change: key("range2", "x")},
		{name: "beside a range", read: scan(store.Partition([]byte("range"), span)),
			change: in(6), remove: true, unrelated: true},
	} {
		var w store.WriteSet
		for _, n := range []int{2, 4, 6} {
			w.Put(in(n), []byte("old"))
		}
		w.Delete(in(3))
		ok(t, s.Commit(ctx, &w))
		tx := begin(t, s)
		c.read(tx)
		w.Reset()
		if w.Put(c.change, []byte("new")); c.remove {
			w.Delete(c.change)
		}
		mark := key("mark", fmt.Sprint(i))
		ok(t, s.Commit(ctx, &w))
		if !c.unrelated {
			observe(t, s, c.change, mark)
		}
		w.Reset()
		w.Put(mark, nil)
		err := tx.Commit(ctx, &w)
		if err == nil {
			err = tx.End(ctx)
		}
		tx.Rollback()
		if c.unrelated {
			ok(t, err)
			wantValue(t, s, mark, "")
			continue
		}
		if !errors.Is(err, store.ErrConflict) {
			t.Fatalf("%s: the error is %v, want a conflict", c.name, err)
		}
		wantValue(t, s, mark, absent)
	}
}

// checkTxLarge: what a transaction has read is proven however much it is.
func checkTxLarge(t T, s txStore) {
	const n = 300
	at := func(pk string, i int) store.Key { return key(pk, fmt.Sprintf("%03d", i)) }
	var keys []store.Key
	for from := 0; from < n; from += 50 {
		var w store.WriteSet
		for i := from; i < from+50; i++ {
			w.Put(at("range", i), []byte("old"))
			w.Put(at(fmt.Sprint("p", i), i), []byte("old"))
			keys = append(keys, at(fmt.Sprint("p", i), i), at(fmt.Sprint("p", i), i+1))
		}
		ok(t, s.Commit(ctx, &w))
	}
	for i, c := range []struct {
		change store.Key
		remove bool
	}{
		{change: key("unrelated", "x")},
		{change: at("range", 200)},
		{change: at("range", 201), remove: true},
		{change: key("range", "2015")},
		{change: at("p202", 202)},
		{change: at("p203", 203), remove: true},
		{change: at("p204", 205)},
	} {
		tx := begin(t, s)
		found := len(read(t, tx, store.Partition([]byte("range"))))
		ok(t, tx.MultiGet(ctx, keys, func(int, store.Item) { found++ }))
		if found < 2*n-10 {
			t.Fatalf("%d items were read", found)
		}
		mark := key("mark", fmt.Sprint(i))
		var w store.WriteSet
		if w.Put(c.change, []byte("new")); c.remove {
			w.Delete(c.change)
		}
		ok(t, s.Commit(ctx, &w))
		if i > 0 {
			observe(t, s, c.change, mark)
		}
		w.Reset()
		w.Put(mark, nil)
		err := tx.Commit(ctx, &w)
		if err == nil {
			err = tx.End(ctx)
		}
		tx.Rollback()
		if i == 0 {
			ok(t, err)
			continue
		}
		if !errors.Is(err, store.ErrConflict) {
			t.Fatalf("change %d: the error is %v, want a conflict", i, err)
		}
		wantValue(t, s, mark, absent)
	}
}

// checkTxSkew: of two transactions that each read what the other writes one fails: items, ranges in
// which there is something, and ranges in which there is nothing.
func checkTxSkew(t T, s txStore) {
	skew := func(pk string, i int, look func(store.Tx, []byte) error,
		run func(n int, f func(int))) {
		pks := [2][]byte{[]byte(pk + "a"), []byte(pk + "b")}
		var txs [2]store.Tx
		for j := range txs {
			txs[j] = begin(t, s)
			ok(t, look(txs[j], pks[1-j]))
			put(t, txs[j], store.Key{PK: pks[j], SK: fmt.Appendf(nil, "%d", i)}, "")
		}
		var errs [2]error
		run(2, func(j int) { errs[j] = txs[j].End(ctx) })
		for _, err := range errs {
			if err != nil {
				wantIs(t, err, store.ErrConflict)
			}
		}
		if errs[0] == nil && errs[1] == nil {
			t.Fatalf("%s, round %d: both transactions have committed", pk, i)
		}
	}
	oneByOne := func(n int, f func(int)) {
		for i := range n {
			f(i)
		}
	}
	for i := range 12 {
		item := func(tx store.Tx, pk []byte) error {
			_, err := tx.Get(ctx, nil, store.Key{PK: pk, SK: fmt.Appendf(nil, "%d", i)})
			if errors.Is(err, store.ErrNotFound) {
				err = nil
			}
			return err
		}
		whole := func(tx store.Tx, pk []byte) error {
			_, err := store.Count(ctx, tx, store.Partition(pk))
			return err
		}
		run := race
		if i%3 == 0 {
			run = oneByOne
		}
		skew("item", i, item, run)
		skew("range", i, whole, run)
		skew(fmt.Sprint("empty", i), i, whole, run)
	}
}
