package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

func openMemory(t testing.TB, o engine.Options) *engine.DB {
	t.Helper()
	o.InMemory = true
	db := openDir(t, "test", &o)
	t.Cleanup(func() { ok(t, db.Close()) })
	return db
}

func number(v []byte) uint64 { return binary.BigEndian.Uint64(v) }

func bytesOf(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Goal: no write skew. Method: two kinds of transactions read a whole partition by query
// and put one item only if it was empty; in a serializable history at most one item is
// ever there.
func TestQueriesOfTransactionsConflictWithPhantoms(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	for round := range 100 {
		pk := fmt.Appendf(nil, "round#%d", round)
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				err := db.Update(ctx, func(tx *engine.Tx) error {
					for _, err := range tx.Query(ctx, engine.Query{PK: pk}) {
						return err // somebody is there, or an error
					}
					return tx.Put(engine.Key{PK: pk, SK: []byte{'a' + byte(w)}}, nil)
				})
				if err != nil && !errors.Is(err, engine.ErrConflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n, err := db.Count(ctx, engine.Query{PK: pk}); err != nil || n != 1 {
			t.Fatalf("round %d: %d items, %v; want 1", round, n, err)
		}
	}
}

// Goal: of concurrent PutIfAbsent calls for a key exactly one wins, also over flushed
// and deleted state.
//
// Promise (reads and writes): Of concurrent calls of `PutIf` with `IfAbsent` one wins.
func TestPutIfAbsentHasOneWinner(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 3, Durability: engine.Process})
	for round := range 200 {
		key := engine.Key{PK: fmt.Appendf(nil, "k%d", round%7)}
		ok(t, db.Delete(key))
		var wins atomic.Int32
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				switch err := db.PutIf(key, bytesOf(uint64(w)), engine.IfAbsent()); {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, engine.ErrConditionFailed):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if wins.Load() != 1 {
			t.Fatalf("round %d: %d winners", round, wins.Load())
		}
	}
}

// Goal: a batch over many stripes is seen whole or not at all, and snapshots are
// prefixes of the commit order. Method: writers put the same counter into all keys by
// batch; readers check that a snapshot shows one value everywhere and that values never
// go back.
//
// Promise (reads and writes): Snapshots and scans see whole batches, a prefix of the commits,
// and every acknowledged one. Also `TestVisibleNeverPassesAnUnfinishedCommit`.
func TestBatchesAreSeenWhole(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 64, MaxRuns: 2, Durability: engine.Process})
	const keys = 40
	key := func(i int) engine.Key { return engine.Key{PK: fmt.Appendf(nil, "part#%d", i)} }
	write := func(n uint64) {
		b := engine.NewBatch()
		for i := range keys {
			if err := b.Put(key(i), bytesOf(n)); err != nil {
				t.Error(err)
			}
		}
		if err := db.Apply(ctx, b); err != nil {
			t.Error(err)
		}
	}
	write(0)
	stop := time.Now().Add(700 * time.Millisecond)
	var wg sync.WaitGroup
	var counter atomic.Uint64
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				write(counter.Add(1))
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				readWhole(t, db, keys, key)
			}
		})
	}
	wg.Wait()
}

func readWhole(t *testing.T, db *engine.DB, keys int, key func(int) engine.Key) {
	s, err := db.Snapshot()
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	first, err := s.Get(key(0))
	if err != nil {
		t.Error(err)
		return
	}
	for i := range keys {
		v, err := s.Get(key(i * 7 % keys))
		if err != nil || number(v) != number(first) {
			t.Errorf("key %d shows %v, %v; key 0 shows %d", i, v, err, number(first))
			return
		}
	}
	n := 0
	for it, err := range s.Scan(ctx, engine.Scan{}) {
		if err != nil || number(it.Value) != number(first) {
			t.Errorf("scan shows %v, %v; want %d", it.Value, err, number(first))
			return
		}
		n++
	}
	if n != keys {
		t.Errorf("scan shows %d keys, want %d", n, keys)
	}
}

// Goal: single keys are linearizable for a reader that does not use snapshots: a value
// that a Get has returned never gives way to an older one.
//
// Promise (reads and writes): A value once read never gives way to an older one.
func TestReadsNeverGoBack(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 50, MaxRuns: 2, Durability: engine.Process})
	key := engine.Key{PK: []byte("k")}
	ok(t, db.Put(key, bytesOf(0)))
	stop := time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); time.Now().Before(stop); n++ {
			if err := db.Put(key, bytesOf(n)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		wg.Go(func() {
			var buf []byte
			var last uint64
			for time.Now().Before(stop) {
				var err error
				if buf, err = db.AppendGet(buf[:0], key); err != nil {
					t.Error(err)
					return
				}
				if n := number(buf); n < last {
					t.Errorf("read %d after %d", n, last)
					return
				} else {
					last = n
				}
			}
		})
	}
	wg.Wait()
}

// Goal: also single Gets see batches whole: after one key of a batch has been seen, no Get
// shows another key as it was before. Method: batches over many stripes put one counter
// into all keys, over a first value that the same batch replaces; readers look at two keys
// one after the other.
//
// Promise (reads and writes): A Get sees commits whole as well, and never a moment within one.
// Also `TestGetsSeeNoMomentWithinACommit`.
func TestGetsSeeBatchesWhole(t *testing.T) {
	db := openMemory(t, engine.Options{FlushRecords: 500, Durability: engine.Process})
	const keys = 400
	key := func(i int) engine.Key { return engine.Key{PK: fmt.Appendf(nil, "part#%d", i)} }
	stop := time.Now().Add(500 * time.Millisecond)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := uint64(1); time.Now().Before(stop); n++ {
			b := engine.NewBatch()
			for i := range keys {
				// The first value of each key is never to be seen.
				err := errors.Join(b.Put(key(i), bytesOf(0)), b.Put(key(i), bytesOf(n)))
				if err != nil {
					t.Error(err)
				}
			}
			if err := db.Apply(ctx, b); err != nil {
				t.Error(err)
			}
		}
	})
	read := func(i int) uint64 {
		v, err := db.Get(key(i))
		if errors.Is(err, engine.ErrNotFound) {
			return 0
		}
		if err != nil || number(v) == 0 {
			t.Errorf("key %d shows %v, %v", i, v, err)
			return 0
		}
		return number(v)
	}
	seed := testutil.Seed(t)
	for n := range 2 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			for time.Now().Before(stop) && !t.Failed() {
				first, last := rnd.IntN(keys), rnd.IntN(keys)
				if a, b := read(first), read(last); b < a {
					t.Errorf("key %d shows commit %d, then key %d shows %d", first, a, last, b)
				}
			}
		})
	}
	wg.Wait()
}

// A commit that deletes a key and puts it again never shows that the key was away, not even
// to a Get during whose search it becomes complete.
func TestGetsSeeNoMomentWithinACommit(t *testing.T) {
	db := openMemory(t, engine.Options{Durability: engine.Process})
	key := engine.Key{PK: []byte("moves")}
	ok(t, db.Put(key, bytesOf(1)))
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var value []byte
			var err error
			for !done.Load() {
				if value, err = db.AppendGet(value[:0], key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	b := engine.NewBatch()
	commits := uint64(testutil.Effort(50_000, 500_000))
	for n := uint64(2); n < commits && !t.Failed(); n++ {
		b.Reset()
		ok(t, errors.Join(b.Delete(key), b.Put(key, bytesOf(n))))
		ok(t, db.Apply(ctx, b))
	}
	done.Store(true)
	readers.Wait()
}
