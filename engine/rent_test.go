package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A query searches each run of its stripe. When queries have paid as much for that as a merge
// takes, it is made at once; not before, and not again and again for a small run.
//
// Promise (reads and writes): A stripe that is queried often has few runs, whatever is written.
func TestQueriesPayForMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openOn(t, vfs.NewMem(), engine.Options{Durability: engine.Process})
		defer mustClose(t, db)
		put := func(n int, sk string) {
			for i := range n {
				key := engine.K("partition", fmt.Sprintf("%05d%s", i, sk))
				ok(t, db.Put(key, make([]byte, 100)))
			}
			ok(t, db.Flush(ctx))
			synctest.Wait()
		}
		queries := func(n int) {
			for range n {
				for _, err := range db.Query(ctx, engine.Query{PK: []byte("partition"), Limit: 5}) {
					ok(t, err)
				}
			}
			synctest.Wait()
		}
		runs := func(want, merges int, what string) {
			t.Helper()
			if m := db.Metrics(); m.Total.Runs != want || int(m.Compactions) != merges {
				t.Fatalf("%s: %d runs after %d merges", what, m.Total.Runs, m.Compactions)
			}
		}
		put(300, "a")
		queries(5000)
		runs(1, 0, "one run costs no more than itself")
		put(300, "b")
		queries(200)
		runs(2, 0, "not paid for yet")
		queries(2000)
		runs(1, 1, "paid for")
		put(300, "c")
		runs(2, 1, "what was paid is spent")
		queries(2000)
		runs(1, 2, "paid for again")
		put(1, "d")
		queries(5000)
		runs(2, 2, "a merge for one item writes too much")
	})
}
