package engine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Large calls are looked up by several goroutines and without values, and store the same
// items as small ones: those that are new, the first of equal ones, with tombstones, expired
// items and runs on disk that the cache has no room for.
func TestInsertNewDivided(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var clock hand
	clock.ms.Store(1_000_000)
	db := openMemory(t, engine.Options{
		Durability: engine.Process, BlockBytes: 1 << 10, CacheBytes: 64 << 10, MaxRuns: 16,
		Clock: clock.now,
	})
	rnd := rand.New(rand.NewPCG(5, 5))
	key := func(i int) engine.Key { return pk(fmt.Sprintf("key %06d", i)) }
	want := map[int]string{}
	const calls, items, space = 3, 20_000, 30_000
	for call := range calls {
		list, numbers := make([]engine.Item, items), make([]int, items)
		for i := range list {
			numbers[i] = rnd.IntN(space)
			list[i] = engine.Item{Key: key(numbers[i]), Value: fmt.Appendf(nil, "%d/%d", call, i)}
		}
		inserted, stats, err := db.InsertNew(ctx, list, nil)
		ok(t, err)
		n, repeated, seen := 0, 0, map[int]bool{}
		for i, number := range numbers {
			_, stored := want[number]
			isNew := !stored && !seen[number]
			if seen[number] {
				repeated++
			}
			if seen[number] = true; isNew {
				n++
			}
			if inserted[i] != isNew {
				t.Fatalf("call %d: item %d, number %d: inserted %v", call, i, number, inserted[i])
			}
		}
		for i, number := range numbers {
			if inserted[i] {
				want[number] = string(list[i].Value)
			}
		}
		if stats.Keys != items || stats.New != int64(n) || stats.Repeated != int64(repeated) {
			t.Errorf("call %d: %+v, %d are new, %d repeated", call, stats, n, repeated)
		}
		for range 2000 { // some go again
			i := rnd.IntN(space)
			ok(t, db.Delete(key(i)))
			delete(want, i)
			if i = rnd.IntN(space); call%2 == 0 {
				ok(t, db.Put(key(i), nil, engine.TTL(time.Millisecond)))
				delete(want, i)
			}
		}
		clock.ms.Add(10)
		ok(t, db.Flush(ctx))
	}
	got := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		got[string(it.Key.PK)] = string(it.Value)
	}
	if len(got) != len(want) {
		t.Fatalf("%d items are stored, want %d", len(got), len(want))
	}
	for i, v := range want {
		if got[string(key(i).PK)] != v {
			t.Fatalf("number %d has %q, want %q", i, got[string(key(i).PK)], v)
		}
	}
}

// Goal: InsertNew inserts what is new at the moment of its commit, also if nothing in the
// stripe shows any more that there has been a delete. Method: the clock, which is asked
// between the search and the commit, deletes an item and flushes, which drops all of it.
func TestInsertNewAfterAForgottenDelete(t *testing.T) {
	var db *engine.DB
	var armed atomic.Bool
	asked := 0
	now := func() time.Time {
		if armed.Load() {
			if asked++; asked == 2 {
				armed.Store(false)
				ok(t, db.Delete(pk("deleted")))
				ok(t, db.Flush(ctx))
			}
		}
		return time.UnixMilli(1_000_000)
	}
	db = openOn(t, vfs.NewMem(), engine.Options{Clock: now})
	defer mustClose(t, db)
	ok(t, db.Put(pk("deleted"), []byte("before")))
	armed.Store(true)
	items := []engine.Item{{Key: pk("deleted"), Value: []byte("v")}, {Key: pk("other")}}
	inserted, _, err := db.InsertNew(ctx, items, nil, engine.TTL(time.Hour))
	ok(t, err)
	if armed.Load() {
		t.Fatal("the clock was not asked between search and commit")
	}
	if !inserted[0] || !inserted[1] {
		t.Errorf("inserted %v, want both", inserted)
	}
	wantValue(t, db, pk("deleted"), []byte("v"))
}
