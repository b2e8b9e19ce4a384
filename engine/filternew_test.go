package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// manyKeys returns n keys with numbers below limit, some of them repeated, and the number
// of each.
func manyKeys(rnd *rand.Rand, n int, limit uint64) ([]engine.Key, []uint64) {
	keys, numbers := make([]engine.Key, n), make([]uint64, n)
	for i := range keys {
		numbers[i] = rnd.Uint64N(limit)
		keys[i] = benchKey(nil, numbers[i])
	}
	return keys, numbers
}

// Goal: the answer is that of a map, however many goroutines work at it, with and without
// a cache, now and in a snapshot. Method: 30,000 keys in random order, a third of them
// repeated, against items that are stored, deleted, expired, in memtables and in files.
func TestFilterNewDivided(t *testing.T) {
	const limit, asked = 40_000, 30_000
	caches, divided := []int64{1, 200 << 10, 64 << 20}, []int{1, 2, 4, 0}
	if testutil.Effort(1, 3) < 3 {
		caches, divided = caches[1:2], divided[2:]
	}
	for _, cache := range caches {
		var clock hand
		clock.ms.Store(1_000)
		db := openMemory(t, engine.Options{Durability: engine.Process, CacheBytes: cache,
			Clock: clock.now, MaxRuns: 8})
		rnd := rand.New(rand.NewPCG(uint64(cache), 5))
		live := make([]bool, limit)
		write := func(n int) {
			b := engine.NewBatch()
			for range n {
				i := rnd.Uint64N(limit)
				k := benchKey(nil, i)
				switch rnd.IntN(6) {
				case 0:
					ok(t, b.Delete(k))
					live[i] = false
				case 1:
					ok(t, b.Put(k, []byte("expires"), engine.TTL(500*time.Millisecond)))
					live[i] = false
				default:
					ok(t, b.Put(k, []byte("stays")))
					live[i] = true
				}
			}
			ok(t, db.Apply(ctx, b))
		}
		for range 3 {
			write(3_000)
			ok(t, db.Flush(ctx))
		}
		write(1_000)
		clock.ms.Store(2_000)
		snap, err := db.Snapshot()
		ok(t, err)
		then := append([]bool(nil), live...)
		write(1_000)
		clock.ms.Store(3_000)
		keys, numbers := manyKeys(rnd, asked, limit)
		var isNew []bool
		for _, workers := range divided {
			o := &engine.FilterOptions{Workers: workers}
			var stats engine.DedupStats
			isNew, stats, err = db.FilterNew(ctx, keys, isNew, o)
			ok(t, err)
			checkNew(t, numbers, live, isNew, stats)
			isNew, stats, err = snap.FilterNew(ctx, keys, isNew, o)
			ok(t, err)
			checkNew(t, numbers, then, isNew, stats)
		}
		ok(t, snap.Close())
	}
}

// checkNew compares an answer with what a map says.
func checkNew(t *testing.T, numbers []uint64, live, isNew []bool, s engine.DedupStats) {
	t.Helper()
	seen := map[uint64]bool{}
	fresh, repeated := int64(0), int64(0)
	for i, n := range numbers {
		want := !seen[n] && !live[n]
		if isNew[i] != want {
			t.Fatalf("key %d, number %d: new is %v, seen before: %v, stored: %v", i, n, isNew[i],
				seen[n], live[n])
		}
		fresh += toInt(want)
		repeated += toInt(seen[n])
		seen[n] = true
	}
	if s.Keys != int64(len(numbers)) || s.New != fresh || s.Repeated != repeated {
		t.Fatalf("%+v, want %d new and %d repeated of %d", s, fresh, repeated, len(numbers))
	}
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// A read that fails in any goroutine, an invalid key and a context that has ended are
// errors, and then no key is called new.
func TestFilterNewDividedFails(t *testing.T) {
	b := &breaker{match: onFile(".sst", vfstest.OpReadAt), err: errDisk}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{CacheBytes: 1})
	defer mustClose(t, db)
	batch := engine.NewBatch()
	for i := range 5_000 {
		ok(t, batch.Put(benchKey(nil, uint64(i)), []byte("v")))
	}
	ok(t, db.Apply(ctx, batch))
	ok(t, db.Flush(ctx))
	rnd := rand.New(rand.NewPCG(3, 3))
	keys, numbers := manyKeys(rnd, 40_000, 20_000)
	live := make([]bool, 20_000)
	for i := range 5_000 {
		live[i] = true
	}
	failed := func(what string, isNew []bool, stats engine.DedupStats) {
		t.Helper()
		for i := range isNew {
			if isNew[i] {
				t.Fatalf("%s: key %d is called new", what, i)
			}
		}
		if stats != (engine.DedupStats{}) {
			t.Errorf("%s: %+v", what, stats)
		}
	}
	for _, workers := range []int{1, 4} {
		o := &engine.FilterOptions{Workers: workers}
		isNew, stats, err := db.FilterNew(ctx, keys, nil, o)
		ok(t, err)
		checkNew(t, numbers, live, isNew, stats)
		b.broken.Store(true)
		isNew, stats, err = db.FilterNew(ctx, keys, isNew, o)
		b.broken.Store(false)
		wantIs(t, err, errDisk)
		failed("broken disk", isNew, stats)

		cause := errors.New("enough")
		ended, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		isNew, stats, err = db.FilterNew(ended, keys, isNew, o)
		wantIs(t, err, cause)
		failed("ended context", isNew, stats)

		keys[30_000], keys[35_000] = engine.Key{}, engine.Key{SK: []byte("x")}
		_, _, err = db.FilterNew(ctx, keys, nil, o)
		wantIs(t, err, engine.ErrEmptyPK)
		keys[30_000], keys[35_000] = benchKey(nil, numbers[30_000]), benchKey(nil, numbers[35_000])
	}
	_, _, err := db.FilterNew(ctx, keys, nil, &engine.FilterOptions{Workers: -1})
	wantIs(t, err, engine.ErrInvalid)
}

// Buffers are reused: nothing is allocated for a key when blocks are cached.
func TestFilterNewAllocatesNothingPerKey(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db := openMemory(t, engine.Options{Durability: engine.Process})
	batch := engine.NewBatch()
	for i := range 20_000 {
		ok(t, batch.Put(benchKey(nil, uint64(i)), []byte("v")))
	}
	ok(t, db.Apply(ctx, batch))
	ok(t, db.Flush(ctx))
	keys, _ := manyKeys(rand.New(rand.NewPCG(9, 9)), 20_000, 100_000)
	isNew := make([]bool, len(keys))
	o := &engine.FilterOptions{Workers: 1}
	got := testutil.AllocsPerRun(20, func() {
		if _, _, err := db.FilterNew(ctx, keys, isNew, o); err != nil {
			t.Fatal(err)
		}
	})
	if got > 10 {
		t.Errorf("%v objects for %d keys", got, len(keys))
	}
}
