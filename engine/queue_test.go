package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Several consumers take the items out of a queue, at both ends, while producers add some and
// consumers put some back: each item is taken out once.
//
// Promise (reads and writes): A queue, read from its first item on or from its last, shows each
// item, however many were taken out before it.
func TestQueue(t *testing.T) {
	for _, parts := range []int{1, 5} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) { checkQueue(t, parts) })
	}
}

// checkQueue is TestQueue of a queue in so many partitions, which are merged.
func checkQueue(t *testing.T, parts int) {
	db := openMemory(t, engine.Options{Durability: engine.Process, MemtableBytes: 1 << 20})
	const producers = 2
	items := testutil.Effort(1500, 20000)
	taken := make([]atomic.Int32, producers*items+1)
	left := atomic.Int64{}
	left.Store(int64(len(taken) - 1))
	key := func(n int) engine.Key {
		return pksk(fmt.Sprint("q", n%parts), fmt.Sprintf("%08d", n))
	}
	var pks [][]byte
	for p := range parts {
		pks = append(pks, fmt.Append(nil, "q", p))
	}
	add := func(p, from, to int) {
		for i := from; i < to; i++ {
			n := 1 + i*producers + p
			ok(t, db.Put(key(n), fmt.Append(nil, n)))
		}
	}
	var g sync.WaitGroup
	for p := range producers {
		add(p, 0, items/2)
		g.Go(func() { add(p, items/2, items) })
	}
	for c := range 3 {
		g.Go(func() {
			q := engine.Gather{PKs: pks, Limit: 1, Reverse: c == 2}
			var back []int // taken out, and not counted
			for i := 0; left.Load() > 0 && i < 100*items; i++ {
				n, again := takeOne(t, db, q)
				switch {
				case n >= 0 && !again && n%7 == 0:
					back = append(back, n)
				case n >= 0:
					taken[n].Add(1)
					left.Add(-1)
				}
				if len(back) > 50 || n < 0 {
					for _, n := range back {
						ok(t, db.Put(key(n), fmt.Append(nil, -n)))
					}
					back = back[:0]
				}
				if i%(items/2) == items/4 {
					ok(t, db.Flush(ctx))
				}
			}
		})
	}
	g.Wait()
	for n := 1; n < len(taken); n++ {
		if got := taken[n].Load(); got != 1 {
			t.Errorf("item %d is taken out %d times", n, got)
		}
	}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		t.Errorf("%s is left", it.Key.SK)
	}
}

// takeOne takes an item out of a queue; negative for none now. Again says that it was put back.
func takeOne(t *testing.T, db *engine.DB, q engine.Gather) (n int, again bool) {
	t.Helper()
	err := db.Update(ctx, func(tx *engine.Tx) error {
		n = -1
		rows := tx.Gather(ctx, q)
		if len(q.PKs) == 1 {
			rows = tx.Query(ctx, engine.Query{PK: q.PKs[0], Limit: q.Limit, Reverse: q.Reverse})
		}
		for it, err := range rows {
			if err != nil {
				return err
			}
			if _, err = fmt.Sscan(string(it.Value), &n); err != nil {
				return err
			}
			again = n < 0
			n = max(n, -n)
			return tx.Delete(it.Key)
		}
		return nil
	})
	if conflict := new(engine.ConflictError); errors.As(err, &conflict) {
		return -1, false
	}
	ok(t, err)
	return n, again
}

// Promise (reads and writes): A queue of several priorities that is polled while it is empty does
// not become slower and slower: what was taken out, and is passed over often, is flushed.
func TestQueueOfPriorities(t *testing.T) {
	var flushes atomic.Int32
	db := openMemory(t, engine.Options{
		Durability: engine.Process,
		Events:     &engine.Events{Flushed: func(engine.FlushEvent) { flushes.Add(1) }},
	})
	const priorities, most = 4, 2000
	take := func() (sk string) {
		for it, err := range db.Query(ctx, engine.Query{PK: []byte("q"), Limit: 1}) {
			ok(t, err)
			sk = string(it.Key.SK)
			ok(t, db.Delete(it.Key))
		}
		return sk
	}
	for n := 0; flushes.Load() < 3; n++ {
		if n == most {
			t.Fatalf("%d flushes while %d items are taken out", flushes.Load(), priorities*most)
		}
		sk := func(priority int) string { return fmt.Sprintf("%d %06d", priority, n) }
		for priority := range priorities {
			ok(t, db.Put(pksk("q", sk(priority)), nil))
		}
		for priority := range priorities {
			if got := take(); got != sk(priority) {
				t.Fatalf("got %q, want %q", got, sk(priority))
			}
		}
		if got := take(); got != "" {
			t.Fatalf("%q is left", got)
		}
	}
}

// What a condition on zones leaves out stays in a queue.
func TestQueueBesideZones(t *testing.T) {
	db := openMemory(t, engine.Options{BlockBytes: 1 << 10})
	db.Describe(func(items *engine.ZoneItems, b *engine.ZoneBuilder) {
		for i := range items.Len() {
			b.Rows(0, 1)
			b.Values(1, 1, items.Value(i), items.Value(i))
		}
	})
	const rows, deleted = 1000, 400
	key := func(p, i int) engine.Key { return pksk(fmt.Sprint("q", p), fmt.Sprintf("%08d", i)) }
	for p := range 2 {
		for i := range rows {
			ok(t, db.Put(key(p, i), []byte("value")))
		}
	}
	ok(t, db.Flush(ctx))
	for p := range 2 {
		for i := range deleted {
			ok(t, db.Delete(key(p, i)))
		}
	}
	pks := [][]byte{[]byte("q0"), []byte("q1")}
	g := engine.Gather{
		PKs: pks, Limit: 1, Filter: func(engine.Item) bool { return false },
		MayHold: func(z engine.Zone) bool {
			_, known := z.Column(1, 0)
			return !known
		},
	}
	for range 3 {
		n, err := db.CountGather(ctx, g)
		if ok(t, err); n > 0 {
			t.Fatalf("%d rows", n)
		}
		for range db.Gather(ctx, g) {
			t.Fatal("a row is shown")
		}
		first := 0
		for it, err := range db.Gather(ctx, engine.Gather{PKs: pks, Limit: 2}) {
			ok(t, err)
			if want := key(first, deleted); string(it.Key.PK) != string(want.PK) ||
				string(it.Key.SK) != string(want.SK) {
				t.Fatalf("got %s %s", it.Key.PK, it.Key.SK)
			}
			first++
		}
		if first != 2 {
			t.Fatalf("%d first rows", first)
		}
	}
}
