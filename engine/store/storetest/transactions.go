package storetest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/kstonedb/kstone/engine/store"
)

// txChecks are about stores that have transactions. Others pass them.
func txChecks(seed uint64) []Check {
	of := func(f func(T, txStore)) func(T, store.Store) {
		return func(t T, s store.Store) {
			if tx, ok := s.(store.Transactor); ok {
				f(t, txStore{s, tx})
			}
		}
	}
	return []Check{
		{"TxReads", of(func(t T, s txStore) { checkTxReads(t, s, seed) })},
		{"TxEnds", of(checkTxEnds)},
		{"TxConditions", of(checkTxConditions)},
		{"TxSavepoints", of(checkTxSavepoints)},
		{"TxOptions", of(checkTxOptions)},
		{"TxConflicts", of(checkTxConflicts)},
		{"TxLargeReads", of(checkTxLarge)},
		{"TxNoWriteSkew", of(checkTxSkew)},
		{"TxUpdate", of(checkTxUpdate)},
		{"TxHistory", of(func(t T, s txStore) { TxHistory(t, s.Store, seed, false) })},
	}
}

// txStore is a store with transactions.
type txStore struct {
	store.Store
	store.Transactor
}

func begin(t T, s store.Transactor) store.Tx {
	t.Helper()
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	return tx
}

// checkTxReads: a transaction reads one moment with its own writes on top, whatever way it reads,
// and whatever it takes back.
func checkTxReads(t T, s txStore, seed uint64) {
	c := newContent(s, seed)
	c.change(t, 30)
	tx := begin(t, s)
	defer tx.Rollback()
	wantValue(t, tx, key("none", "n"), absent) // fixes the moment
	for _, pk := range somePKs {
		put(t, s, key(pk, "later"), "9")
	}
	c.s = tx
	type state struct {
		at    store.Savepoint
		items map[string]store.Item
	}
	var marks []state
	for range 6 { // at most 120 items: see etcd's limits
		switch i := len(marks) - 1; {
		case i >= 0 && c.rnd.IntN(3) == 0:
			i = c.rnd.IntN(i + 1)
			ok(t, tx.RollbackTo(marks[i].at))
			c.items, marks = maps.Clone(marks[i].items), marks[:i+1]
		case i >= 0 && c.rnd.IntN(4) == 0:
			i = c.rnd.IntN(i + 1)
			ok(t, tx.Release(marks[i].at))
			marks = marks[:i]
		default:
			marks = append(marks, state{tx.Savepoint(), maps.Clone(c.items)})
		}
		c.change(t, 1)
		for range 4 {
			c.checkRange(t, tx, c.items)
		}
		k, want := c.key(), absent
		if it, there := c.items[ordered(k)]; there {
			want = string(it.Value)
		}
		wantValue(t, tx, k, want)
	}
}

// checkTxEnds: nothing is stored before End, all of it then, and nothing after Rollback. A
// transaction that has ended is closed.
func checkTxEnds(t T, s txStore) {
	a, b := key("p", "a"), key("q", "b")
	put(t, s, b, "old")
	tx := begin(t, s)
	put(t, tx, a, "1")
	var w store.WriteSet
	w.Delete(b)
	ok(t, tx.Commit(ctx, &w))
	wantValue(t, tx, b, absent)
	wantValue(t, s, a, absent)
	wantValue(t, s, b, "old")
	ok(t, tx.End(ctx))
	wantValue(t, s, a, "1")
	wantValue(t, s, b, absent)
	tx.Rollback()
	wantValue(t, s, a, "1")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for _, end := range []func(store.Tx){
		func(tx store.Tx) { tx.Rollback() }, func(tx store.Tx) { ok(t, tx.End(ctx)) },
		func(tx store.Tx) {
			put(t, tx, b, "1")
			wantIs(t, tx.End(gone), context.Canceled)
			wantValue(t, s, b, absent)
		},
	} {
		tx = begin(t, s)
		defer tx.Rollback()
		wantValue(t, tx, a, "1")
		end(tx)
		_, err := tx.Get(ctx, nil, a)
		wantIs(t, err, store.ErrClosed)
		for _, err := range tx.Scan(ctx, store.Partition([]byte("p"))) {
			wantIs(t, err, store.ErrClosed)
		}
		if tx.End(ctx) == nil {
			t.Fatalf("it ended twice")
		}
	}
	tx = begin(t, s)
	put(t, tx, a, "2")
	tx.Rollback()
	wantValue(t, s, a, "1")
	ok(t, begin(t, s).End(ctx))
}

// checkTxConditions: conditions see the transaction's writes; one that fails takes back its own
// write set and no more.
func checkTxConditions(t T, s txStore) {
	a, b := key("p", "a"), key("q", "b")
	put(t, s, a, "1")
	tx := begin(t, s)
	defer tx.Rollback()
	do := func(f func(w *store.WriteSet)) error {
		var w store.WriteSet
		f(&w)
		return tx.Commit(ctx, &w)
	}
	ok(t, do(func(w *store.WriteSet) { w.PutIf(a, []byte("2"), store.ValueIs([]byte("1"))) }))
	ok(t, do(func(w *store.WriteSet) { w.PutIf(b, []byte("3"), store.Absent()) }))
	failed(t, do(func(w *store.WriteSet) {
		w.Delete(a)
		w.PutIf(b, []byte("4"), store.Absent())
	}), 1, b, true)
	wantValue(t, tx, a, "2")
	ok(t, do(func(w *store.WriteSet) { w.DeleteIf(b, store.ValueIs([]byte("3"))) }))
	failed(t, do(func(w *store.WriteSet) { w.Require(b, store.Present()) }), 0, b, false)
	wantIs(t, do(func(w *store.WriteSet) { w.Require(a, store.Condition{}) }), store.ErrInvalid)
	ok(t, tx.End(ctx))
	wantValue(t, s, a, "2")
	wantValue(t, s, b, absent)
}

// checkTxSavepoints: what is taken back is not stored, and savepoints that are gone are refused.
func checkTxSavepoints(t T, s txStore) {
	a, b := key("p", "a"), key("p", "b")
	put(t, s, a, "0")
	tx := begin(t, s)
	defer tx.Rollback()
	first := tx.Savepoint()
	put(t, tx, a, "1")
	second := tx.Savepoint()
	put(t, tx, a, "2")
	put(t, tx, b, "2")
	ok(t, tx.RollbackTo(second))
	ok(t, tx.RollbackTo(second))
	wantValue(t, tx, a, "1")
	wantValue(t, tx, b, absent)
	put(t, tx, b, "3")
	ok(t, tx.Release(second))
	wantIs(t, tx.RollbackTo(second), store.ErrInvalid)
	wantIs(t, tx.Release(second), store.ErrInvalid)
	third := tx.Savepoint()
	ok(t, tx.RollbackTo(first))
	wantIs(t, tx.RollbackTo(third), store.ErrInvalid)
	put(t, tx, b, "4")
	mark := tx.Savepoint()
	put(t, tx, a, "5")
	ok(t, tx.RollbackTo(mark)) // nothing is sent after it
	ok(t, tx.End(ctx))
	wantValue(t, s, a, "0")
	wantValue(t, s, b, "4")
}

// checkTxOptions: read-only transactions write nothing and are never in conflict; others end by
// their age.
func checkTxOptions(t T, s txStore) {
	a := key("p", "a")
	put(t, s, a, "1")
	tx, err := s.Begin(ctx, &store.TxOptions{ReadOnly: true})
	ok(t, err)
	defer tx.Rollback()
	wantValue(t, tx, a, "1")
	var w store.WriteSet
	w.Require(a, store.Present())
	ok(t, tx.Commit(ctx, &w))
	w.Put(a, nil)
	wantIs(t, tx.Commit(ctx, &w), store.ErrReadOnly)
	put(t, s, a, "2")
	wantValue(t, tx, a, "1")
	ok(t, tx.End(ctx))

	tx, err = s.Begin(ctx, &store.TxOptions{MaxAge: time.Millisecond})
	ok(t, err)
	w.Reset()
	w.Put(key("q", "b"), nil)
	if err := tx.Commit(ctx, &w); err != nil {
		wantIs(t, err, store.ErrTxAge)
	}
	for !tx.Expired() {
		<-time.After(time.Millisecond)
	}
	wantIs(t, tx.End(ctx), store.ErrTxAge)
	wantValue(t, s, key("q", "b"), absent)
	_, err = s.Begin(ctx, &store.TxOptions{MaxAge: -1})
	wantIs(t, err, store.ErrInvalid)
	tx, err = s.Begin(ctx, &store.TxOptions{MaxAge: time.Hour})
	ok(t, err)
	put(t, tx, a, "3")
	ok(t, tx.End(ctx))
	if tx.Expired() {
		t.Fatalf("it has expired")
	}
}

// checkTxUpdate: Update runs again after conflicts, so that nothing is lost; an error of its
// function is returned as it is, and nothing stored.
func checkTxUpdate(t T, s txStore) {
	counter := key("p", "counter")
	put(t, s, counter, "")
	var errs [6]error
	race(len(errs), func(i int) {
		errs[i] = s.Update(ctx, func(tx store.Tx) error {
			v, err := tx.Get(ctx, nil, counter)
			if err != nil {
				return err
			}
			var w store.WriteSet
			w.Put(counter, append(v, 'x'))
			return tx.Commit(ctx, &w)
		})
	})
	ok(t, errors.Join(errs[:]...))
	wantValue(t, s, counter, "xxxxxx")
	own := errors.New("own")
	err := s.Update(ctx, func(tx store.Tx) error {
		put(t, tx, counter, "lost")
		return own
	})
	if err != own { //nolint:errorlint // as it is
		t.Fatalf("the error is %v", err)
	}
	wantValue(t, s, counter, "xxxxxx")
}
