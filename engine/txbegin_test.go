package engine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// partitionsOf returns the partition keys that a reader sees.
func partitionsOf(t *testing.T, r engine.Reader) string {
	t.Helper()
	var keys []string
	for it, err := range r.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		keys = append(keys, string(it.Key.PK))
	}
	return strings.Join(keys, " ")
}

func begin(t *testing.T, db *engine.DB, o *engine.TxOptions) *engine.Tx {
	t.Helper()
	tx, err := db.Begin(ctx, o)
	ok(t, err)
	return tx
}

// TestBegunTransactions: Begin and Commit do what Update does; what has ended refuses all.
//
// Promise (reads and writes): A transaction that was begun commits all it has written or nothing,
// by Commit alone; after RollbackTo it is as it was at the savepoint. Also `TestSavepoints` in
// `engine`, `TestProgramsUnderAllOptions` in `engine/internal/suite`.
func TestBegunTransactions(t *testing.T) {
	db := openMemory(t, engine.Options{})
	tx := begin(t, db, nil)
	ok(t, tx.Put(pk("a"), nil))
	if got := partitionsOf(t, db); got != "" {
		t.Errorf("seen before Commit: %s", got)
	}
	ok(t, tx.Commit(ctx))
	gone := begin(t, db, nil)
	ok(t, gone.Put(pk("b"), nil))
	gone.Rollback()
	gone.Rollback()
	for i, err := range []error{
		tx.Commit(ctx), gone.Commit(ctx), tx.Put(pk("c"), nil), gone.Delete(pk("a")),
		second(tx.Get(pk("a"))), second(gone.Has(pk("a"))),
	} {
		if !errors.Is(err, engine.ErrClosed) {
			t.Errorf("call %d after the end: %v", i, err)
		}
	}
	lost := begin(t, db, nil)
	_, err := lost.Has(pk("a"))
	ok(t, errors.Join(err, lost.Put(pk("d"), nil), db.Put(pk("a"), nil)))
	wantIs(t, lost.Commit(ctx), engine.ErrConflict)
	wantIs(t, lost.Commit(ctx), engine.ErrClosed)
	bad := begin(t, db, nil)
	ok(t, bad.Put(pk("e"), nil))
	wantIs(t, bad.Commit(ctx, engine.MaxWait(-1)), engine.ErrInvalid)
	wantIs(t, bad.Commit(ctx), engine.ErrClosed)
	view := begin(t, db, &engine.TxOptions{ReadOnly: true})
	wantIs(t, view.Put(pk("f"), nil), engine.ErrReadOnly)
	ok(t, db.Put(pk("g"), nil))
	if got := partitionsOf(t, view); got != "a" {
		t.Errorf("a transaction that only reads sees %s", got)
	}
	ok(t, view.Commit(ctx))
	wantIs(t, db.Update(ctx, func(tx *engine.Tx) error {
		tx.Rollback() // ends it no more than Commit does
		return errors.Join(tx.Put(pk("h"), nil), tx.Commit(ctx))
	}), engine.ErrInvalid)
	if got := partitionsOf(t, db); got != "a g" {
		t.Errorf("left: %s", got)
	}
}

// TestSavepoints: of several, the later ones go with an earlier one; all kinds of writes are
// taken back, and those before stay.
func TestSavepoints(t *testing.T) {
	db := openMemory(t, engine.Options{})
	for _, k := range []string{"a", "b", "c"} {
		ok(t, db.Put(pk(k), nil))
	}
	tx := begin(t, db, nil)
	check := func(want string) {
		t.Helper()
		if got := partitionsOf(t, tx); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	ok(t, errors.Join(tx.Put(pk("d"), nil), tx.DeleteScan(pk("b"), pk("c"))))
	first := tx.Savepoint()
	ok(t, errors.Join(tx.DeleteScan(engine.Key{}, engine.Key{}), tx.Put(pk("b"), nil)))
	next := tx.Savepoint()
	ok(t, errors.Join(tx.DeleteRange([]byte("b"), engine.SKCondition{}), tx.Delete(pk("b")),
		tx.Put(pk("e"), nil)))
	check("e")
	ok(t, tx.RollbackTo(next))
	check("b")
	ok(t, tx.RollbackTo(next))
	ok(t, tx.RollbackTo(first))
	check("a c d")
	wantIs(t, tx.RollbackTo(next), engine.ErrInvalid)
	wantIs(t, tx.Release(next), engine.ErrInvalid)
	ok(t, errors.Join(tx.Put(pk("f"), nil), tx.Release(first)))
	wantIs(t, tx.RollbackTo(first), engine.ErrInvalid)
	last := tx.Savepoint()
	ok(t, errors.Join(tx.Put(pk("x"), nil), tx.RollbackTo(last), tx.Commit(ctx)))
	if got := partitionsOf(t, db); got != "a c d f" {
		t.Errorf("committed: %s", got)
	}
	wantIs(t, tx.RollbackTo(last), engine.ErrClosed)
}

// TestWhatWasTakenBackWasRead: a transaction conflicts over what it has read after a savepoint,
// however often, and in whatever order.
func TestWhatWasTakenBackWasRead(t *testing.T) {
	for name, read := range map[string]func(tx *engine.Tx, i int) error{
		"keys": func(tx *engine.Tx, i int) error {
			return second(tx.Has(pk(fmt.Sprint("k", i))))
		},
		"ranges": func(tx *engine.Tx, i int) error {
			return second(tx.Count(ctx, engine.Query{PK: []byte(fmt.Sprint("k", i))}))
		},
	} {
		for _, at := range []int{0, 13, 99} {
			db := openMemory(t, engine.Options{})
			tx := begin(t, db, nil)
			s := tx.Savepoint()
			for i := range 10_000 {
				ok(t, read(tx, i*7%100))
			}
			ok(t, errors.Join(tx.RollbackTo(s), tx.Put(pk("q"), nil)))
			ok(t, db.Put(pk(fmt.Sprint("k", at)), nil))
			var conflict *engine.ConflictError
			err := tx.Commit(ctx)
			if !errors.As(err, &conflict) || string(conflict.Key.PK) != fmt.Sprint("k", at) {
				t.Errorf("%s, %d: %v", name, at, err)
			}
		}
	}
}

// TestCloseWithOpenTransactions: they end, and leave nothing.
func TestCloseWithOpenTransactions(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, nil)
	ok(t, err)
	tx := begin(t, db, nil)
	ok(t, tx.Put(pk("a"), nil))
	wantIs(t, db.Close(), engine.ErrLeaked)
	wantIs(t, tx.Commit(ctx), engine.ErrClosed)
	tx.Rollback()
	db = openDir(t, dir, &engine.Options{ReadOnly: true})
	defer db.Close()
	wantIs(t, second(db.Begin(ctx, nil)), engine.ErrReadOnly)
	ok(t, begin(t, db, &engine.TxOptions{ReadOnly: true}).Commit(ctx))
	if got := partitionsOf(t, db); got != "" {
		t.Errorf("left: %s", got)
	}
}

// TestTransactionAge: a transaction that is older than it may be is rolled back, and says so.
//
// Promise (reads and writes): A transaction that is forgotten keeps nothing after the age that it
// is given. Also `TestOldTransaction` in `engine/sql`, `TestTransactionAge` in
// `engine/sql/driver`.
func TestTransactionAge(t *testing.T) {
	db := openMemory(t, engine.Options{})
	old := begin(t, db, &engine.TxOptions{MaxAge: time.Millisecond})
	if err := old.Put(pk("a"), nil); err != nil && !old.Expired() { // it may have expired already
		t.Fatal(err)
	}
	for !old.Expired() {
		runtime.Gosched()
	}
	wantIs(t, old.Put(pk("b"), nil), engine.ErrTxAge)
	wantIs(t, second(old.Get(pk("b"))), engine.ErrTxAge)
	wantIs(t, second(first(old.Scan(ctx, engine.Scan{}))), engine.ErrTxAge)
	wantIs(t, old.MultiGet(ctx, []engine.Key{pk("b")}, new(engine.Results)), engine.ErrTxAge)
	wantIs(t, old.Commit(ctx), engine.ErrTxAge)
	old.Rollback()
	ended := begin(t, db, &engine.TxOptions{MaxAge: time.Hour})
	ok(t, ended.Put(pk("c"), nil))
	ok(t, ended.Commit(ctx))
	if got := partitionsOf(t, db); got != "c" || ended.Expired() {
		t.Errorf("the database has %q", got)
	}
	_, err := db.Begin(ctx, &engine.TxOptions{MaxAge: -1})
	wantIs(t, err, engine.ErrInvalid)
}
