package engine_test

import (
	"context"
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
// of several files and with range deletes, from memtables and files, in databases, snapshots and
// transactions, and after a reopen, whether or not they are expected to be there.
//
// Promise (reads and writes): Many keys at once are what they are one by one, all at one moment.
// Also `TestBatchesAreSeenWhole`.
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
		p := rnd.IntN(partitions)
		if rnd.IntN(4) == 0 {
			p = rnd.IntN(60)
		}
		return pksk(fmt.Sprintf("p%d\x00", p), fmt.Sprintf("%06d", rnd.IntN(sks)))
	}
	check := func() { t.Helper(); checkMany(t, rnd, db, key) }
	var snap *engine.Snapshot
	for round := range 6 {
		for i := range 3000 {
			switch {
			case i%700 == 0:
				at := rnd.IntN(sks)
				lo, hi := fmt.Appendf(nil, "%06d", at), fmt.Appendf(nil, "%06d", at+99)
				ok(t, db.DeleteRange([]byte("p1\x00"), engine.SKBetween(lo, hi)))
			case i%9 == 0:
				ok(t, db.Delete(key()))
			default:
				v := fmt.Appendf(nil, "%d-%d-%064d", round, i, i)
				ok(t, db.Put(key(), v))
			}
		}
		if round == 2 {
			snap = snapshotOf(t, db)
		}
		check()
		ok(t, db.Flush(ctx))
		check()
	}
	checkMany(t, rnd, snap, key)
	ok(t, snap.Close())
	ok(t, db.Update(ctx, func(tx *engine.Tx) error {
		for range 1000 {
			ok(t, tx.Put(key(), []byte("own")))
			ok(t, tx.Delete(key()))
		}
		checkMany(t, rnd, tx, key)
		return nil
	}))
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

// checkMany looks up groups of keys, small ones and large ones by turns, and compares them
// with Get. The stripes of few keys are not put in order.
func checkMany(t *testing.T, rnd *rand.Rand, from engine.Reader, key func() engine.Key) {
	t.Helper()
	var r engine.Results
	var has []bool
	for _, n := range []int{1, 2, 200, 10, 32, 33, 0, 2000, 5} {
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
