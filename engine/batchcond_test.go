package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// wantCondition checks which operation of a batch has failed.
func wantCondition(t testing.TB, err error, op int, key engine.Key, exists bool) {
	t.Helper()
	wantIs(t, err, engine.ErrConditionFailed)
	var ce *engine.ConditionError
	if !errors.As(err, &ce) || ce.Op != op || id(ce.Key) != id(key) || ce.Exists != exists {
		t.Fatalf("%+v, want operation %d, %v, exists %v", ce, op, key, exists)
	}
}

// Conditions of a batch are about the state before it, the first that fails is named with
// its number, and then nothing is written.
//
// Promise (reads and writes): Conditions of a batch are about the state before it; one that
// fails is named, and nothing is written. Also `TestEngineBehavesLikeASortedMap`.
func TestBatchConditions(t *testing.T) {
	for _, padding := range []int{0, 20} { // few and many conditions take different ways
		db := openMemory(t, engine.Options{})
		ok(t, db.Put(pk("old"), []byte("1")))
		b := engine.NewBatch()
		for i := range padding {
			ok(t, b.Require(pk(fmt.Sprintf("none%d", i)), engine.IfAbsent()))
		}
		apply := func() error { return db.Apply(ctx, b) }

		ok(t, b.PutIf(pk("new"), []byte("a"), engine.IfAbsent()))
		ok(t, b.PutIf(pk("new"), []byte("b"), engine.IfAbsent())) // still absent before the batch
		ok(t, b.Require(pk("old"), engine.IfValue([]byte("1"))))
		ok(t, b.PutIf(pk("old"), []byte("2"), engine.IfPresent()))
		ok(t, b.DeleteIf(pk("gone"), engine.IfAbsent()))
		if b.Len() != 5+padding {
			t.Errorf("Len is %d", b.Len())
		}
		ok(t, apply())
		wantValue(t, db, pk("new"), []byte("b"))
		wantValue(t, db, pk("old"), []byte("2"))

		// Applied again, two conditions fail, and the first is named.
		version := db.Metrics().LastVersion
		wantCondition(t, apply(), padding, pk("new"), true)
		if got := db.Metrics().LastVersion; got != version {
			t.Errorf("a failed batch has taken version %d", got)
		}

		b.Reset()
		ok(t, b.Put(pk("x"), []byte("x")))
		ok(t, b.Require(pk("nobody"), engine.IfPresent()))
		ok(t, b.DeleteIf(pk("new"), engine.IfAbsent()))
		wantCondition(t, apply(), 1, pk("nobody"), false)
		wantValue(t, db, pk("x"), nil)

		b.Reset()
		ok(t, b.Require(pk("new"), engine.IfPresent())) // conditions alone
		ok(t, apply())
		ok(t, b.Require(pk("new"), engine.IfVersion(version+1)))
		wantCondition(t, apply(), 1, pk("new"), true)
		if got := db.Metrics().LastVersion; got != version {
			t.Errorf("conditions alone have taken version %d", got)
		}

		// A range delete of the batch does not make a key absent for its conditions.
		b.Reset()
		ok(t, b.DeleteRange([]byte("new"), engine.SKCondition{}))
		ok(t, b.PutIf(pk("new"), []byte("c"), engine.IfAbsent()))
		wantCondition(t, apply(), 1, pk("new"), true)
		// Nor does it take away the condition of a write that it covers.
		b.Reset()
		ok(t, b.PutIf(pk("new"), []byte("c"), engine.IfAbsent()))
		ok(t, b.DeleteRange([]byte("new"), engine.SKCondition{}))
		wantCondition(t, apply(), 0, pk("new"), true)
		wantValue(t, db, pk("new"), []byte("b"))
	}
}

// Writes that a range delete of the batch covers count as operations, as conditions do that
// require nothing, also when the batch has been applied and grows further.
func TestCoveredWritesCount(t *testing.T) {
	db := openMemory(t, engine.Options{})
	b := engine.NewBatch()
	ok(t, errors.Join(b.Put(pksk("p", "1"), nil), b.Put(pksk("p", "2"), nil)))
	ok(t, b.DeleteRange([]byte("p"), engine.SKCondition{}))
	ok(t, db.Apply(ctx, b))
	if b.Len() != 3 {
		t.Errorf("%d operations, want 3", b.Len())
	}
	ok(t, b.Require(pk("q"), engine.Condition{}))
	ok(t, b.PutIf(pk("q"), nil, engine.IfPresent()))
	wantCondition(t, db.Apply(ctx, b), 4, pk("q"), false)
	if b.Reset(); b.Len() != 0 {
		t.Errorf("%d operations after Reset", b.Len())
	}
}

// What a condition refuses to take, it does not take half.
func TestBatchConditionsRefuse(t *testing.T) {
	b, noSK := engine.NewBatch(), engine.Key{PK: []byte("k"), SK: []byte{}}
	for name, err := range map[string]error{
		"put":       b.PutIf(engine.Key{}, nil, engine.IfAbsent()),
		"ttl":       b.PutIf(pk("k"), nil, engine.IfPresent(), engine.TTL(-time.Second)),
		"until":     b.Put(pk("k"), nil, engine.Expiry(-1)),
		"until if":  b.PutIf(noSK, nil, engine.IfAbsent(), engine.Expiry(1)),
		"delete":    b.DeleteIf(engine.Key{}, engine.IfPresent()),
		"require":   b.Require(engine.Key{}, engine.IfPresent()),
		"too large": b.Require(pk("k"), engine.IfValue(make([]byte, engine.MaxBatchBytes))),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if b.Len() != 0 {
		t.Errorf("%d operations are left", b.Len())
	}
	db := openMemory(t, engine.Options{})
	ok(t, db.Apply(ctx, b))
	if db.Metrics().Commits != 0 {
		t.Error("an empty batch was committed")
	}
}

// Several items of a batch expire at the very millisecond that was given, before and
// after a reopen, and an item that has expired counts as absent.
func TestPutUntil(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	fsys := vfs.NewMem()
	db := openOn(t, fsys, engine.Options{Clock: clock.now})
	b := engine.NewBatch()
	ok(t, b.Put(pk("a"), []byte("1"), engine.Expiry(1_500)))
	ok(t, b.PutIf(pk("b"), []byte("2"), engine.IfAbsent(), engine.Expiry(1_500)))
	ok(t, b.Put(pk("stays"), []byte("3"), engine.Expiry(0)))
	ok(t, b.Put(pk("past"), []byte("4"), engine.Expiry(999)))
	ok(t, b.Put(pk("ttl"), []byte("5"), engine.TTL(500*time.Millisecond)))
	clock.pass(100 * time.Millisecond) // TTLs run from Apply on, moments do not move
	ok(t, db.Apply(ctx, b))
	check := func(there map[string]bool) {
		t.Helper()
		for k, want := range there {
			if got, err := db.Has(pk(k)); err != nil || got != want {
				t.Errorf("at %d: %s is there: %v, %v", clock.ms.Load(), k, got, err)
			}
		}
	}
	it, err := db.GetItem(pk("a"))
	if err != nil || it.Expiry != 1_500 {
		t.Fatalf("expiry %d, %v", it.Expiry, err)
	}
	clock.ms.Store(1_499)
	check(map[string]bool{"a": true, "b": true, "stays": true, "past": false, "ttl": true})
	mustClose(t, db)
	db = openOn(t, fsys, engine.Options{Clock: clock.now})
	defer mustClose(t, db)
	check(map[string]bool{"a": true, "b": true, "stays": true, "past": false, "ttl": true})
	clock.ms.Store(1_500)
	check(map[string]bool{"a": false, "b": false, "stays": true, "past": false, "ttl": true})
	b.Reset()
	ok(t, b.PutIf(pk("a"), []byte("6"), engine.IfAbsent()))
	ok(t, db.Apply(ctx, b))
	clock.ms.Store(1_600)
	check(map[string]bool{"a": true, "ttl": false})
}

// Goal: of writers that want the same keys, each by one batch, exactly one gets them, all
// of them. Method: each round, writers race for overlapping groups of keys in all stripes;
// the winner has written all its keys, a loser none.
//
// Promise (reads and writes): Of batches that want the same keys one gets them, all of them;
// conditional increments lose nothing. Also `TestBatchConditionsLoseNoIncrement`.
func TestBatchConditionsHaveOneWinner(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 5, Durability: engine.Process})
	const writers, keys = 4, 9
	rnd := testutil.Rand(t)
	for round := range 150 {
		var wins [writers]bool
		var wg sync.WaitGroup
		for w := range writers {
			order := rnd.Perm(keys)
			wg.Go(func() {
				b := engine.NewBatch()
				for _, k := range order {
					key := pksk(fmt.Sprintf("k%d", k), fmt.Sprint(round))
					if err := b.PutIf(key, bytesOf(uint64(w)), engine.IfAbsent()); err != nil {
						t.Error(err)
					}
				}
				err := db.Apply(ctx, b)
				wins[w] = err == nil
				if err != nil && !errors.Is(err, engine.ErrConditionFailed) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		winner := -1
		for w := range writers {
			if wins[w] && winner >= 0 {
				t.Fatalf("round %d: %d and %d have won", round, winner, w)
			}
			if wins[w] {
				winner = w
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody has won", round)
		}
		for k := range keys {
			key := pksk(fmt.Sprintf("k%d", k), fmt.Sprint(round))
			wantValue(t, db, key, bytesOf(uint64(winner)))
		}
	}
}

// Increments under a condition on the value lose nothing.
func TestBatchConditionsLoseNoIncrement(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 7, Durability: engine.Process})
	ok(t, db.Put(pk("n"), bytesOf(0)))
	const workers, each = 4, 100
	var lost atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			b := engine.NewBatch()
			for i := 0; i < each; {
				old, err := db.Get(pk("n"))
				if err != nil {
					t.Error(err)
					return
				}
				b.Reset()
				mine := pksk("log", fmt.Sprintf("%d-%d", w, i))
				err = errors.Join(
					b.PutIf(pk("n"), bytesOf(number(old)+1), engine.IfValue(old)),
					b.Put(mine, nil))
				if err == nil {
					err = db.Apply(ctx, b)
				}
				switch {
				case err == nil:
					i++
				case errors.Is(err, engine.ErrConditionFailed):
					lost.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantValue(t, db, pk("n"), bytesOf(workers*each))
	n, err := db.Count(ctx, engine.Query{PK: []byte("log")})
	if err != nil || n != workers*each {
		t.Errorf("%d entries, %v", n, err)
	}
	t.Logf("%d batches came too late", lost.Load())
}

// Conditions in a transaction see its own writes.
func TestTransactionConditions(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		ok(t, tx.PutIf(pk("k"), []byte("1"), engine.IfAbsent()))
		wantCondition(t, tx.PutIf(pk("k"), []byte("2"), engine.IfAbsent()), 0, pk("k"), true)
		ok(t, tx.PutIf(pk("k"), []byte("2"), engine.IfValue([]byte("1"))))
		wantCondition(t, tx.DeleteIf(pk("k"), engine.IfValue([]byte("1"))), 0, pk("k"), true)
		ok(t, tx.DeleteIf(pk("k"), engine.IfVersion(0)))
		wantCondition(t, tx.DeleteIf(pk("k"), engine.IfPresent()), 0, pk("k"), false)
		return tx.Put(pk("k"), []byte("3"), engine.Expiry(1<<60))
	}))
	it, err := db.GetItem(pk("k"))
	if err != nil || string(it.Value) != "3" || it.Expiry != 1<<60 {
		t.Fatalf("%v, %v", it, err)
	}
}

// Of many conditions in many stripes, more than are looked up together, the first that fails
// is named; and checking them allocates nothing for each.
func TestManyConditions(t *testing.T) {
	const n = 6000
	db := openMemory(t, engine.Options{Durability: engine.Process})
	name := func(i int) engine.Key { return pk(fmt.Sprintf("key\x00%d", i)) }
	b := engine.NewBatch()
	fill := func(cond engine.Condition) {
		b.Reset()
		for i := range n {
			ok(t, b.PutIf(name(i), []byte("new"), cond))
		}
	}
	failing := []int{4711, 17, n - 1, 2500}
	for _, i := range failing {
		ok(t, db.Put(name(i), []byte("old")))
	}
	for _, i := range []int{17, 2500, 4711, n - 1} {
		fill(engine.IfAbsent())
		wantCondition(t, db.Apply(ctx, b), i, name(i), true)
		ok(t, db.Delete(name(i)))
	}
	ok(t, db.Apply(ctx, b))
	for _, i := range []int{0, 17, 4711, n - 1} {
		wantValue(t, db, name(i), []byte("new"))
	}
	fill(engine.IfValue([]byte("new")))
	ok(t, db.Apply(ctx, b))
	testutil.SkipUnderRace(t, "it allocates")
	b.Reset()
	for i := range n {
		ok(t, b.Require(name(i), engine.IfPresent()))
	}
	if got := testutil.AllocsPerRun(10, func() { ok(t, db.Apply(ctx, b)) }); got > 5 {
		t.Errorf("checking %d conditions allocates %v objects", n, got)
	}
}
