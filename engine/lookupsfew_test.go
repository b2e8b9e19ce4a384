package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// checkFew looks up groups of keys, small ones and large ones by turns, and compares them
// with Get.
func checkFew(t *testing.T, rnd *rand.Rand, from engine.Reader, key func() engine.Key) {
	t.Helper()
	var r engine.Results
	var has []bool
	for _, n := range []int{1, 2, 200, 10, 32, 33, 0, 5} {
		var keys []engine.Key
		for range n {
			keys = append(keys, key())
		}
		if n > 1 {
			keys[n/2] = keys[0]
		}
		r.Expected = rnd.IntN(2) == 0
		ok(t, from.MultiGet(ctx, keys, &r))
		var err error
		has, err = from.MultiHas(ctx, keys, has)
		if ok(t, err); r.Len() != n || len(has) != n {
			t.Fatalf("%d and %d results of %d keys", r.Len(), len(has), n)
		}
		for i, k := range keys {
			v, err := from.Get(k)
			got, found := r.Value(i)
			if found != (err == nil) || string(got) != string(v) || has[i] != found {
				t.Fatalf("%d keys, %v: %q, %v, %v, want %q, %v", n, k, got, found, has[i], v, err)
			}
		}
	}
}

// Few keys at once, whose stripes are not put in order, find what Get finds one by one, in
// databases, snapshots and transactions, whether or not they are expected to be there.
func TestFewKeysFindWhatGetFinds(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{Durability: engine.Process, MaxRuns: 8})
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	key := func() engine.Key {
		return pksk(fmt.Sprintf("p%d\x00", rnd.IntN(60)), fmt.Sprintf("%03d", rnd.IntN(100)))
	}
	write := func(round int) {
		for i := range 2000 {
			switch {
			case i%100 == 0:
				ok(t, db.DeleteRange(key().PK, engine.SKRange([]byte("03"), []byte("05"))))
			case i%5 == 0:
				ok(t, db.Delete(key()))
			default:
				ok(t, db.Put(key(), fmt.Appendf(nil, "%d/%d", round, i)))
			}
		}
	}
	var snap *engine.Snapshot
	for round := range 4 {
		write(round)
		if round == 2 {
			snap = snapshotOf(t, db)
		}
		checkFew(t, rnd, db, key)
		ok(t, db.Flush(ctx))
		checkFew(t, rnd, db, key)
	}
	checkFew(t, rnd, snap, key)
	ok(t, snap.Close())
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		for range 1000 {
			ok(t, tx.Put(key(), []byte("own")))
			ok(t, tx.Delete(key()))
		}
		checkFew(t, rnd, tx, key)
		return nil
	}))
	ok(t, db.Compact(ctx))
	checkFew(t, rnd, db, key)
	var r engine.Results
	bad := []engine.Key{key(), {}}
	if err := db.MultiGet(ctx, bad, &r); !errors.Is(err, engine.ErrEmptyPK) || r.Len() != 0 {
		t.Errorf("a key without PK: %v, %d results", err, r.Len())
	}
}

// Keys that are expected to be there are looked up without filters of the oldest run, where
// others are not looked for in any block if the filter says no.
func TestExpectedKeysAskNoFilter(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	var absent []engine.Key
	for i := range 4000 {
		ok(t, db.Put(pksk("p", fmt.Sprintf("%05d", 2*i)), []byte("v")))
		if i%200 == 0 {
			absent = append(absent, pksk("p", fmt.Sprintf("%05d", 2*i+1)))
		}
	}
	ok(t, db.Compact(ctx))
	for _, r := range []engine.Results{{}, {Expected: true}} {
		asked := blocks(db, func() { ok(t, db.MultiGet(ctx, absent, &r)) })
		if few := asked < uint64(len(absent)/2); few == r.Expected {
			t.Errorf("expected %v: %d keys look into %d blocks", r.Expected, len(absent), asked)
		}
		for i := range absent {
			if r.Has(i) {
				t.Errorf("%v is found", absent[i])
			}
		}
	}
}
