package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Goal: most new keys cost no read of data, and what the figures say is what happened.
// Method: many absent keys against stripes with several runs; accesses to data blocks are
// counted by the files themselves.
func TestNewKeysReadNoData(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openMemory(t, engine.Options{Durability: engine.Process, MaxRuns: 8})
	const stored, runs = 40_000, 3
	var key [32]byte
	for r := range runs {
		b := engine.NewBatch()
		for i := r; i < stored; i += runs {
			ok(t, b.Put(benchKey(key[:0], uint64(i)), nil))
		}
		ok(t, db.Apply(ctx, b))
		ok(t, db.Flush(ctx))
	}
	bufs := make([][32]byte, stored)
	keys := make([]engine.Key, stored)
	for i := range keys {
		keys[i] = benchKey(bufs[i][:0], uint64(stored+i))
	}
	before := db.Metrics()
	isNew, stats, err := db.FilterNew(ctx, keys, nil, nil)
	ok(t, err)
	for i := range isNew {
		if !isNew[i] {
			t.Fatalf("%v is called stored", keys[i])
		}
	}
	m := db.Metrics()
	blocks := int64(m.BlockHits + m.BlockMisses - before.BlockHits - before.BlockMisses)
	if stats.New != stored || blocks != stats.FalsePositives ||
		stats.FilterPositives != stats.FalsePositives || stats.DataReads > blocks {
		t.Errorf("%d blocks were looked into: %+v", blocks, stats)
	}
	if most := stats.FilterProbes / 150; blocks > most { // 1 in 256 is expected
		t.Errorf("%d blocks were looked into, want at most %d", blocks, most)
	}
	if got := int64(m.FilterChecks - before.FilterChecks); got != stats.FilterProbes {
		t.Errorf("%d questions to filters, the figures say %d", got, stats.FilterProbes)
	}

	// Approximately, no block is looked into, and few new keys are not called so.
	before = db.Metrics()
	_, stats, err = db.FilterNew(ctx, keys, isNew, &engine.FilterOptions{Approximate: true})
	ok(t, err)
	m = db.Metrics()
	if m.BlockHits+m.BlockMisses != before.BlockHits+before.BlockMisses || stats.DataReads != 0 {
		t.Errorf("data was read for an approximate answer: %+v", stats)
	}
	if stats.New < stored*97/100 {
		t.Errorf("only %d of %d keys are called new", stats.New, stored)
	}
}

// A failed read is an error, never "new", and nothing is inserted then.
func TestFailedReadIsNeverNew(t *testing.T) {
	b := &breaker{match: onFile(".sst", vfstest.OpReadAt), err: errDisk}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{CacheBytes: 1})
	defer mustClose(t, db)
	ok(t, db.Put(pk("stored"), []byte("v")))
	ok(t, db.Flush(ctx))
	keys := []engine.Key{pk("stored")}
	items := []engine.Item{{Key: pk("stored")}, {Key: pk("new")}}
	b.broken.Store(true)
	isNew, stats, err := db.FilterNew(ctx, keys, nil, nil)
	wantIs(t, err, errDisk)
	if stats != (engine.DedupStats{}) || isNew[0] {
		t.Errorf("%v, %+v after a failed read", isNew, stats)
	}
	_, _, err = db.FilterNew(ctx, keys, nil, &engine.FilterOptions{Approximate: true})
	wantIs(t, err, errDisk) // the filter cannot be read either
	_, _, err = db.InsertNew(ctx, items, nil)
	wantIs(t, err, errDisk)
	b.broken.Store(false)
	wantValue(t, db, pk("new"), nil)
	isNew, _, err = db.FilterNew(ctx, append(keys, pk("new"), pk("new")), nil, nil)
	ok(t, err)
	if isNew[0] || !isNew[1] || isNew[2] {
		t.Errorf("new are %v", isNew)
	}
}

// What InsertNew refuses leaves no trace, and its TTLs and expiries are kept.
func TestInsertNew(t *testing.T) {
	var clock hand
	clock.ms.Store(1_000)
	db := openMemory(t, engine.Options{Clock: clock.now})
	one := func(it engine.Item, o engine.WriteOption) error {
		_, _, err := db.InsertNew(ctx, []engine.Item{{Key: pk("first")}, it}, nil, o)
		return err
	}
	wantIs(t, one(engine.Item{}, nil), engine.ErrEmptyPK)
	wantIs(t, one(engine.Item{Key: pk("k"), Expiry: -1}, nil), engine.ErrInvalid)
	wantIs(t, one(engine.Item{Key: pk("k")}, engine.TTL(-1)), engine.ErrInvalid)
	wantValue(t, db, pk("first"), nil)

	items := []engine.Item{
		{Key: pk("ttl"), Value: []byte("1")}, {Key: pk("until"), Value: []byte("2"), Expiry: 5_000},
		{Key: pk("ttl"), Value: []byte("3")},
	}
	inserted, stats, err := db.InsertNew(ctx, items, nil, engine.TTL(time.Second))
	ok(t, err)
	if !inserted[0] || !inserted[1] || inserted[2] || stats.New != 2 || stats.Repeated != 1 {
		t.Errorf("%v, %+v", inserted, stats)
	}
	wantValue(t, db, pk("ttl"), []byte("1"))
	clock.ms.Store(2_000)
	version := db.Metrics().LastVersion
	inserted, _, err = db.InsertNew(ctx, items[1:], inserted)
	ok(t, err)
	if inserted[0] || !inserted[1] {
		t.Errorf("%v after one has expired", inserted)
	}
	_, stats, err = db.InsertNew(ctx, items, nil)
	ok(t, err)
	if got := db.Metrics().LastVersion; got != version+1 || stats.New != 0 {
		t.Errorf("version %d after %d, %+v: nothing new is not a commit", got, version, stats)
	}
	wantValue(t, db, pk("ttl"), []byte("3"))
	wantValue(t, db, pk("until"), []byte("2"))
}

// Goal: between looking and inserting nothing can happen. Method: goroutines insert and
// delete the same few keys, in overlapping groups, while stripes flush; for each key the
// insertions minus the deletions are what is there at the end.
//
// Promise (reads and writes): `InsertNew` looks and inserts in one step; the first of equal keys
// counts. Also `TestInsertNew`, `TestInsertNewDivided`.
func TestInsertNewIsAtomic(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 6, Durability: engine.Process, MaxRuns: 2})
	const keys, workers, rounds = 30, 4, 250
	all := make([]engine.Key, keys)
	for i := range all {
		all[i] = pksk(fmt.Sprintf("p%d", i%7), fmt.Sprint(i))
	}
	var balance [keys]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 7))
			var inserted []bool
			for round := range rounds {
				numbers := rnd.Perm(keys)[:12]
				var items []engine.Item
				for _, n := range numbers {
					v := fmt.Appendf(nil, "%d-%d", w, round)
					items = append(items, engine.Item{Key: all[n], Value: v})
				}
				var err error
				if inserted, _, err = db.InsertNew(ctx, items, inserted); err != nil {
					t.Error(err)
					return
				}
				for i, n := range numbers {
					if inserted[i] {
						balance[n].Add(1)
					}
				}
				for range 6 {
					n := rnd.IntN(keys)
					switch err := db.DeleteIf(all[n], engine.IfPresent()); {
					case err == nil:
						balance[n].Add(-1)
					case !errors.Is(err, engine.ErrConditionFailed):
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	has, err := db.MultiHas(ctx, all, nil)
	ok(t, err)
	for i := range all {
		if n := balance[i].Load(); n != 0 && n != 1 || has[i] != (n == 1) {
			t.Errorf("%v: %d more insertions than deletions, it is there: %v", all[i], n, has[i])
		}
	}
}
