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
	db := openMemory(t, engine.Options{Durability: engine.Process, MemtableBytes: 1 << 20})
	const producers = 2
	items := testutil.Effort(1500, 20000)
	taken := make([]atomic.Int32, producers*items+1)
	left := atomic.Int64{}
	left.Store(int64(len(taken) - 1))
	add := func(p, from, to int) {
		for i := from; i < to; i++ {
			n := 1 + i*producers + p
			ok(t, db.Put(pksk("q", fmt.Sprintf("%08d", n)), fmt.Append(nil, n)))
		}
	}
	var g sync.WaitGroup
	for p := range producers {
		add(p, 0, items/2)
		g.Go(func() { add(p, items/2, items) })
	}
	for c := range 3 {
		g.Go(func() {
			q := engine.Query{PK: []byte("q"), Limit: 1, Reverse: c == 2}
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
						ok(t, db.Put(pksk("q", fmt.Sprintf("%08d", n)), fmt.Append(nil, -n)))
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
func takeOne(t *testing.T, db *engine.DB, q engine.Query) (n int, again bool) {
	t.Helper()
	err := db.Update(ctx, func(tx *engine.Tx) error {
		n = -1
		for it, err := range tx.Query(ctx, q) {
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
