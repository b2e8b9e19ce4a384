package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// itemText shows an item as a reader sees it.
func itemText(r engine.Reader, k engine.Key) string {
	it, err := r.GetItem(k)
	if err != nil {
		return strings.TrimPrefix(err.Error(), "engine: ")
	}
	return fmt.Sprintf("%s expires %d version %d", it.Value, it.Expiry, it.Version)
}

// TestTransactionsReadTheirWrites: every kind of write is read back as it will be, in the order of
// the writes; expired ones are gone.
func TestTransactionsReadTheirWrites(t *testing.T) {
	var now atomic.Int64 // in milliseconds
	now.Store(1_000_000)
	db := openMemory(t, engine.Options{
		Clock: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	a, b := pksk("p", "a"), pksk("p", "b")
	ok(t, db.Put(a, []byte("old")))
	ok(t, db.Put(b, []byte("old")))
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		check := func(what string, err error, wantA, wantB string) {
			t.Helper()
			ok(t, err)
			if gotA, gotB := itemText(tx, a), itemText(tx, b); gotA != wantA || gotB != wantB {
				t.Errorf("%s: %s and %s, want %s and %s", what, gotA, gotB, wantA, wantB)
			}
		}
		const old = "old expires 0 version "
		check("nothing", nil, old+"1", old+"2")
		check("put", tx.Put(a, []byte("1")), "1 expires 0 version 0", old+"2")
		check("put with a TTL", tx.Put(a, []byte("2"), engine.TTL(time.Second)),
			"2 expires 1001000 version 0", old+"2")
		check("put until", tx.Put(b, []byte("3"), engine.Expiry(1_000_001)),
			"2 expires 1001000 version 0", "3 expires 1000001 version 0")
		now.Add(1)
		check("a moment later", nil, "2 expires 1001000 version 0", "not found")
		check("put until never", tx.Put(b, []byte("4"), engine.Expiry(0)),
			"2 expires 1001000 version 0", "4 expires 0 version 0")
		check("put with the shortest TTL", tx.Put(a, []byte("5"), engine.TTL(1)),
			"5 expires 1000002 version 0", "4 expires 0 version 0")
		check("put what has expired", tx.Put(a, []byte("6"), engine.Expiry(1)), "not found",
			"4 expires 0 version 0")
		check("delete", tx.Delete(a), "not found", "4 expires 0 version 0")
		check("delete the rest", tx.DeleteRange([]byte("p"), engine.SKGreater([]byte("a"))),
			"not found", "not found")
		if n, err := tx.Count(ctx, engine.Query{PK: []byte("p")}); n != 0 || err != nil {
			t.Errorf("%d items are left, %v", n, err)
		}
		var res engine.Results
		ok(t, tx.MultiGet(ctx, []engine.Key{a, b}, &res))
		if res.Has(0) || res.Has(1) {
			t.Error("what was deleted is found")
		}
		check("put again", tx.PutIf(b, nil, engine.IfAbsent()), "not found", " expires 0 version 0")
		ok(t, tx.MultiGet(ctx, []engine.Key{a, b}, &res))
		if v, found := res.Value(1); !found || v == nil || len(v) > 0 {
			t.Errorf("an empty value is %v, %t", v, found)
		}
		return nil
	}))
	if got := itemText(db, a) + ", " + itemText(db, b); got != "not found,  expires 0 version 3" {
		t.Errorf("committed: %s", got)
	}
}

// TestFirstCommitConflicts: the first commit there is makes a transaction that began before it
// fail, if it has changed what was read.
func TestFirstCommitConflicts(t *testing.T) {
	for name, read := range map[string]func(*engine.Tx) error{
		"key": func(tx *engine.Tx) error { return second(tx.Has(pk("p"))) },
		"query": func(tx *engine.Tx) error {
			return second(tx.Count(ctx,
				engine.Query{PK: []byte("p")}))
		},
		"scan": func(tx *engine.Tx) error { return second(tx.CountScan(ctx, engine.Scan{})) },
		"keys": func(tx *engine.Tx) error {
			return tx.MultiGet(ctx, []engine.Key{pk("p")},
				&engine.Results{})
		},
		"gathering": func(tx *engine.Tx) error {
			return second(tx.CountGather(ctx, engine.Gather{PKs: [][]byte{[]byte("p")}}))
		},
	} {
		db := openMemory(t, engine.Options{})
		err := db.Update(ctx, func(tx *engine.Tx) error {
			return errors.Join(read(tx), db.Put(pk("p"), nil), tx.Put(pk("q"), nil))
		})
		var conflict *engine.ConflictError
		if !errors.As(err, &conflict) || string(conflict.Key.PK) != "p" || conflict.Version != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if n := db.Metrics().Conflicts; n != 1 {
			t.Errorf("%s: %d conflicts", name, n)
		}
		want := `engine: transaction conflict: "p" changed at version 1`
		if err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
}

// TestUpdateRetryEnds: a transaction that always conflicts is run until its context ends, with
// pauses; the error names both.
func TestUpdateRetryEnds(t *testing.T) {
	db := openMemory(t, engine.Options{})
	c, cancel := context.WithCancelCause(ctx)
	runs := 0
	err := db.UpdateRetry(c, func(tx *engine.Tx) error {
		if runs++; runs == 4 {
			cancel(errEnough)
			// Ends while the next run is waited for, or before its commit.
		}
		return errors.Join(second(tx.Has(pk("p"))), db.Put(pk("p"), nil), tx.Put(pk("q"), nil))
	})
	wantIs(t, err, errEnough)
	if runs < 4 || runs > 5 {
		t.Errorf("%d runs", runs)
	}
}

// TestCrossedConditions: of two batches that each require that what the other writes is not
// there, at most one is committed.
func TestCrossedConditions(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for name, more := range map[string]int{"few": 0, "many": 8} {
		for round := range 400 {
			x, y := pk(fmt.Sprint(name, round, "x")), pk(fmt.Sprint(name, round, "y"))
			var errs [2]error
			var wg sync.WaitGroup
			for i, k := range [][2]engine.Key{{x, y}, {y, x}} {
				b := engine.NewBatch()
				ok(t, b.Require(k[0], engine.IfAbsent()))
				for j := range more {
					ok(t, b.Require(pk(fmt.Sprint("none", j)), engine.IfAbsent()))
				}
				ok(t, b.Put(k[1], nil))
				wg.Go(func() { errs[i] = db.Apply(ctx, b) })
			}
			wg.Wait()
			failed := 0
			for _, err := range errs {
				if err != nil {
					wantIs(t, err, engine.ErrConditionFailed)
					failed++
				}
			}
			if failed != 1 {
				t.Fatalf("%s conditions, round %d: %d batches have failed, want 1", name, round,
					failed)
			}
		}
	}
}
