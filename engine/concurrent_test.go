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
	"github.com/kstonedb/kstone/keycodec"
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

// Goal: a batch over many stripes is seen whole or not at all, and snapshots are prefixes of the
// commit order. Method: writers put the same counter into all keys by batch, while their stripes
// are flushed and merged; whatever reads many keys at a moment finds one value everywhere.
//
// Promise (reads and writes): Snapshots and scans see whole batches, a prefix of the commits,
// and every acknowledged one. Also `TestVisibleNeverPassesAnUnfinishedCommit`.
// Promise (reads and writes): Gatherings beside writers, flushes and merges see whole commits,
// in order.
func TestBatchesAreSeenWhole(t *testing.T) {
	db := openMemory(t, engine.Options{
		FlushRecords: 64, MaxRuns: 2, BlockBytes: 1 << 10, Durability: engine.Process,
	})
	var keys []engine.Key // in order
	for _, p := range buckets(40) {
		for i := range 4 {
			keys = append(keys, engine.Key{PK: p, SK: fmt.Appendf(nil, "%04d", i)})
		}
	}
	write := func(n uint64) {
		b := engine.NewBatch()
		for _, k := range keys {
			if err := b.Put(k, bytesOf(n)); err != nil {
				t.Error(err)
			}
		}
		if err := db.Apply(ctx, b); err != nil {
			t.Error(err)
		}
	}
	write(0)
	stop := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	var counter atomic.Uint64
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				write(counter.Add(1))
			}
		})
	}
	for reader := range 3 {
		wg.Go(func() {
			for i := reader; time.Now().Before(stop) && !t.Failed(); i++ {
				readWhole(t, db, keys, i)
			}
		})
	}
	wg.Wait()
}

// readWhole reads all keys in one of the ways that do so at one moment.
func readWhole(t *testing.T, db *engine.DB, keys []engine.Key, way int) {
	s, err := db.Snapshot()
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close()
	first, n := uint64(0), 0
	show := func(what string, k engine.Key, v []byte, err error) bool {
		if err != nil || n > 0 && number(v) != first {
			t.Errorf("%s shows %v as %v, %v; the first as %d", what, k, v, err, first)
			return false
		}
		first = number(v)
		n++
		return true
	}
	want := len(keys)
	switch what := way % 5; what {
	case 0:
		for i := range keys {
			k := keys[i*7%len(keys)]
			v, err := s.Get(k)
			if !show("Get", k, v, err) {
				return
			}
		}
	case 1:
		for it, err := range s.Scan(ctx, engine.Scan{}) {
			if !show("Scan", it.Key, it.Value, err) {
				return
			}
		}
	case 2:
		var r engine.Results
		if err := db.MultiGet(ctx, keys, &r); err != nil {
			t.Error(err)
			return
		}
		for i, it := range r.All() {
			if !show("MultiGet", keys[i], it.Value, nil) {
				return
			}
		}
	default:
		g := engine.Gather{
			PKs: buckets(40), Reverse: way%2 == 0, ByPartition: what == 3,
			Spans: []keycodec.Span{{End: []byte("0001")}, {Start: []byte("0003")}},
		}
		want -= 40 * 2
		var last engine.Key
		for it, err := range db.Gather(ctx, g) {
			if !show("Gather", it.Key, it.Value, err) {
				return
			}
			if n > 1 && gatherOrder(&g, last, it.Key) >= 0 {
				t.Errorf("%v comes after %v", it.Key, last)
			}
			last = it.Clone().Key
		}
	}
	if n != want {
		t.Errorf("way %d shows %d keys, want %d", way, n, want)
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
