package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// Goal: many keys at once find what Get finds one by one, in stripes with several runs
// of several files and with range deletes, from memtables and files, and after a reopen.
//
// Promise (reads and writes): Many keys at once are what they are one by one, all at one moment.
// Also `TestFewKeysFindWhatGetFinds`, `TestMultiGetSeesBatchesWhole`.
func TestMultiGetFindsWhatGetFinds(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fsys := vfs.NewMem()
	o := engine.Options{
		FileBytes: 64 << 10, MaxRuns: 8, CacheBytes: 1 << 20, Durability: engine.Process,
		Compression: engine.NoCompression,
	}
	db := openOn(t, fsys, o)
	const partitions, sks = 3, 3000
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	key := func() engine.Key {
		return pksk(fmt.Sprintf("p%d", rnd.IntN(partitions)), fmt.Sprintf("%06d", rnd.IntN(sks)))
	}
	check := func() {
		t.Helper()
		var keys []engine.Key
		for range 2000 {
			keys = append(keys, key())
		}
		var r engine.Results
		ok(t, db.MultiGet(ctx, keys, &r))
		for i, k := range keys {
			v, err := db.Get(k)
			got, found := r.Value(i)
			if found != (err == nil) || string(got) != string(v) {
				t.Fatalf("seed %d, %v: %.20q %v, want %.20q, %v", seed, k, got, found, v, err)
			}
		}
	}
	for round := range 6 {
		for i := range 3000 {
			switch {
			case i%700 == 0:
				at := rnd.IntN(sks)
				lo, hi := fmt.Appendf(nil, "%06d", at), fmt.Appendf(nil, "%06d", at+99)
				ok(t, db.DeleteRange([]byte("p1"), engine.SKBetween(lo, hi)))
			case i%9 == 0:
				ok(t, db.Delete(key()))
			default:
				v := fmt.Appendf(nil, "%d-%d-%064d", round, i, i)
				ok(t, db.Put(key(), v))
			}
		}
		check()
		ok(t, db.Flush(ctx))
		check()
	}
	ok(t, db.Compact(ctx))
	if m := db.Metrics().Total; m.Files <= m.Runs {
		t.Errorf("%d files in %d runs: no run has several", m.Files, m.Runs)
	}
	check()
	mustClose(t, db)
	db = openOn(t, fsys, o)
	check()
	mustClose(t, db)
	wantIs(t, db.MultiGet(ctx, []engine.Key{pk("p")}, new(engine.Results)), engine.ErrClosed)
}

// Goal: all keys are read at one moment. Method: writers put the same number into all
// keys by batch, readers never find two numbers.
func TestMultiGetSeesBatchesWhole(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 9, Durability: engine.Process})
	const keys, rounds = 40, 400
	var all []engine.Key
	for i := range keys {
		all = append(all, pk(fmt.Sprintf("k%d", i)))
	}
	put := func(n uint64) error {
		b := engine.NewBatch()
		for _, k := range all {
			if err := b.Put(k, bytesOf(n)); err != nil {
				return err
			}
		}
		return db.Apply(ctx, b)
	}
	ok(t, put(0))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var r engine.Results
			last := uint64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := db.MultiGet(ctx, all, &r); err != nil {
					t.Error(err)
					return
				}
				first, _ := r.Value(0)
				for i := range all {
					v, found := r.Value(i)
					if !found || number(v) != number(first) || number(v) < last {
						t.Errorf("key %d has %v, the first %v, before it was %d",
							i, v, first, last)
						return
					}
				}
				last = number(first)
			}
		})
	}
	for n := range uint64(rounds) {
		ok(t, put(n))
	}
	close(stop)
	wg.Wait()
}

// Each block is loaded once for all keys in it, a key that is absent loads none, and with
// buffers to reuse nothing is allocated.
//
// Promise (reads and writes): A batch of reads loads each block once, none for absent keys, and
// allocates nothing.
func TestMultiGetReadsEachBlockOnce(t *testing.T) {
	db := openMemory(t, engine.Options{FilterBits: 16, Compression: engine.NoCompression})
	const n = 2000
	keys := make([]engine.Key, n)
	absent := make([]engine.Key, n)
	for i := range keys {
		keys[i] = pksk("p", fmt.Sprintf("%06d", i))
		absent[i] = pksk("p", fmt.Sprintf("%06d-", i))
		ok(t, db.Put(keys[i], make([]byte, 100), engine.Process))
	}
	ok(t, db.Flush(ctx))
	var r engine.Results
	ok(t, db.MultiGet(ctx, absent, &r))
	if got := db.Metrics().BlockMisses; got > 1 { // 1 in 65,536 keys passes the filter
		t.Errorf("%d blocks were read for absent keys", got)
	}
	ok(t, db.MultiGet(ctx, keys, &r))
	blocks := db.Metrics().Total.DiskBytes / (4 << 10)
	if got := int64(db.Metrics().BlockMisses); got > blocks+2 {
		t.Errorf("%d blocks were read, the file has about %d", got, blocks)
	}
	testutil.SkipUnderRace(t, "it allocates")
	has := make([]bool, n)
	for name, f := range map[string]func(){
		"get": func() { ok(t, db.MultiGet(ctx, keys, &r)) },
		"has": func() { has, _ = db.MultiHas(ctx, keys, has) },
	} {
		if got := testutil.AllocsPerRun(20, f); got > 0.5 {
			t.Errorf("%s allocates %v objects", name, got)
		}
	}
}

// A read that fails is an error, and so are an invalid key and a context that has ended:
// none of them looks like absent keys.
//
// Promise (reads and writes): A failed read of many keys is an error, never "absent" nor "new".
// Also `TestFailedReadIsNeverNew`.
func TestMultiGetFails(t *testing.T) {
	b := &breaker{match: onFile(".sst", vfstest.OpReadAt), err: errDisk}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{CacheBytes: 1})
	defer mustClose(t, db)
	keys := []engine.Key{pk("a"), pk("b"), pk("c")}
	for _, k := range keys[:2] {
		ok(t, db.Put(k, []byte("v")))
	}
	ok(t, db.Flush(ctx))
	var r engine.Results
	ok(t, db.MultiGet(ctx, keys, &r))
	b.broken.Store(true)
	wantIs(t, db.MultiGet(ctx, keys, &r), errDisk)
	if r.Len() != 0 {
		t.Errorf("%d results after an error", r.Len())
	}
	wantIs(t, second(db.MultiHas(ctx, keys, nil)), errDisk)
	b.broken.Store(false)
	ok(t, db.MultiGet(ctx, keys, &r))
	if !r.Has(0) || !r.Has(1) || r.Has(2) {
		t.Error("after the disk has recovered not everything is there")
	}
	wantIs(t, db.MultiGet(ctx, []engine.Key{pk("a"), {}}, &r), engine.ErrEmptyPK)
	done, cancel := context.WithCancel(ctx)
	cancel()
	wantIs(t, db.MultiGet(done, keys, &r), context.Canceled)
	snap := snapshotOf(t, db)
	ok(t, snap.Close())
	wantIs(t, snap.MultiGet(ctx, keys, &r), engine.ErrClosed)
	wantIs(t, second(snap.MultiHas(ctx, keys, nil)), engine.ErrClosed)
}

// A transaction depends on all keys it has read at once.
func TestMultiGetConflicts(t *testing.T) {
	db := openMemory(t, engine.Options{})
	ok(t, db.Put(pk("a"), []byte("1")))
	for name, change := range map[string]struct {
		key      engine.Key
		conflict bool
	}{
		"present": {pk("a"), true}, "absent": {pk("b"), true}, "own": {pk("own"), false},
		"other": {pk("other"), false},
	} {
		err := db.Update(ctx, func(tx *engine.Tx) error {
			ok(t, tx.Put(pk("own"), []byte("mine")))
			var r engine.Results
			ok(t, tx.MultiGet(ctx, []engine.Key{pk("a"), pk("b"), pk("own")}, &r))
			if it, _ := r.Item(2); string(it.Value) != "mine" || it.Version != 0 {
				t.Errorf("own write is read as %v", it)
			}
			return db.Put(change.key, []byte("2"))
		})
		if errors.Is(err, engine.ErrConflict) != change.conflict {
			t.Errorf("%s: %v", name, err)
		}
		ok(t, db.Delete(pk("b")))
	}
}

// Goal: a search for many keys that fails in the middle leaves nothing behind that the
// next one, with the same buffers, would answer. Method: range tombstones of one stripe
// cannot be loaded, after questions to the file of another one have been noted.
func TestFailedMultiGetLeavesNoQuestions(t *testing.T) {
	b := &breaker{match: onFile(".sst", vfstest.OpReadAt), err: errDisk}
	db := openOn(t, vfstest.NewFault(vfs.NewMem(), b.hook), engine.Options{})
	defer mustClose(t, db)
	names := []string{"a", "b"}
	slices.SortFunc(names, func(a, b string) int {
		return int(keycodec.Stripe([]byte(a))) - int(keycodec.Stripe([]byte(b)))
	})
	low, high := names[0], names[1]
	var keys []engine.Key
	for i := range 20 {
		keys = append(keys, pksk(low, fmt.Sprint(i)))
		ok(t, db.Put(keys[i], []byte("old")))
	}
	keys = append(keys, pksk(high, "1"))
	ok(t, db.Put(keys[20], []byte("old")))
	ok(t, db.Flush(ctx))
	ok(t, db.DeleteRange([]byte(high), engine.SKEqual([]byte("2"))))
	ok(t, db.Flush(ctx))

	var r engine.Results
	b.broken.Store(true)
	wantIs(t, db.MultiGet(ctx, keys, &r), errDisk)
	b.broken.Store(false)
	ok(t, db.MultiGet(ctx, keys[20:], &r))
	if v, there := r.Value(0); !there || string(v) != "old" {
		t.Errorf("found %q, %v", v, there)
	}
}

// doOnce is a context that calls a function when it is looked at for the first time.
type doOnce struct {
	context.Context
	once sync.Once
	do   func()
}

func (c *doOnce) Err() error {
	c.once.Do(c.do)
	return nil
}

// A search in a snapshot that is closed meanwhile keeps what it needs, as iterations do.
func TestMultiGetOutlivesItsSnapshot(t *testing.T) {
	db := openMemory(t, engine.Options{})
	keys := []engine.Key{pk("a"), pk("b"), pk("c")}
	put := func(value string) {
		for _, k := range keys {
			ok(t, db.Put(k, []byte(value)))
		}
	}
	put("old")
	s := snapshotOf(t, db)
	var r engine.Results
	ok(t, s.MultiGet(&doOnce{Context: ctx, do: func() {
		ok(t, s.Close())
		put("new")
		ok(t, db.Flush(ctx))
	}}, keys, &r))
	for i := range keys {
		if v, there := r.Value(i); !there || string(v) != "old" {
			t.Errorf("found %q, %v", v, there)
		}
	}
	wantIs(t, s.MultiGet(ctx, keys, &r), engine.ErrClosed)
}
