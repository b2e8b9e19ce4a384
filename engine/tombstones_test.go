package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// tombstoneKey spreads the items over so many partitions, in order.
func tombstoneKey(i, partitions, n int) engine.Key {
	return pksk(fmt.Sprintf("p%06d", i*partitions/n), fmt.Sprintf("%08d", i))
}

// Goal: whatever was deleted, one by one or by ranges, in one partition or in very many, does
// not slow down what comes later, and its space returns without anybody asking. Method: all
// items but a few are deleted; range deletes must be cheap to pass at once, single ones once
// the background has had a moment, measured in blocks that are looked at; after two idle
// minutes of the test's clock nearly nothing is left on the disk.
//
// Promise (reads and writes): A deleted range is fast to skip, and many range deletes do not
// slow reads; the same for a million items over many partitions, and their space returns. Also
// `TestManyRangeDeletes`; `TestCursorSkipsWhatATombstoneHides` in `stripe`.
func TestDeletedItemsAreReclaimed(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	n := testutil.Effort(20_000, 1_000_000)
	for _, partitions := range []int{1, n / 100} {
		for _, ranges := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d partitions, by ranges %v", partitions, ranges),
				func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { deleteMost(t, n, partitions, ranges) })
				})
		}
	}
}

func deleteMost(t *testing.T, n, partitions int, ranges bool) {
	db := openMemory(t, engine.Options{
		Durability: engine.Process, MemtableBytes: 8 << 20, CacheBytes: 1,
	})
	b := engine.NewBatch()
	apply := func(least int) {
		if b.Len() >= least {
			ok(t, db.Apply(ctx, b))
			b.Reset()
		}
	}
	for i := range n {
		ok(t, b.Put(tombstoneKey(i, partitions, n), []byte("value of some length")))
		apply(1000)
	}
	apply(1)
	first, last := pksk("a", "first"), pksk("z", "last")
	ok(t, db.Put(first, nil))
	ok(t, db.Put(last, nil))
	ok(t, db.Flush(ctx))
	full := db.Metrics().Total.DiskBytes
	if ranges {
		for p := range partitions {
			k := tombstoneKey(p*n/partitions, partitions, n)
			ok(t, b.DeleteRange(k.PK, engine.SKCondition{}))
			apply(1000)
		}
	} else {
		for i := range n {
			ok(t, b.Delete(tombstoneKey(i, partitions, n)))
			apply(1000)
		}
	}
	apply(1)
	if ranges { // two blocks for each range, whatever it hides
		wantCheapReads(t, db, n, partitions, 2560+uint64(2*partitions))
	}
	time.Sleep(2 * time.Minute)
	wantCheapReads(t, db, n, partitions, 2560)
	m := db.Metrics().Total
	if m.DiskBytes > full/20 || m.Records > 2 || m.Tombstones > 0 {
		t.Errorf("%d of %d bytes, %d records, %d tombstones are left", m.DiskBytes, full,
			m.Records, m.Tombstones)
	}
}

// wantCheapReads crosses what is deleted in all ways and counts the blocks it takes; a scan
// may take so many.
func wantCheapReads(t *testing.T, db *engine.DB, n, partitions int, most uint64) {
	t.Helper()
	first := func(seq func(func(engine.Item, error) bool)) (key string) {
		seq(func(it engine.Item, err error) bool {
			ok(t, err)
			key = string(it.Key.SK)
			return false
		})
		return key
	}
	middle := tombstoneKey(n/2, partitions, n)
	for name, c := range map[string]struct {
		read func() string
		want string
		most uint64
	}{
		"query": {func() string {
			return first(db.Query(ctx, engine.Query{PK: middle.PK}))
		}, "", 20},
		"query backward from the middle": {func() string {
			q := engine.Query{PK: middle.PK, SK: engine.SKLess(middle.SK), Reverse: true}
			return first(db.Query(ctx, q))
		}, "", 20},
		"scan across": {func() string {
			return first(db.Scan(ctx, engine.Scan{StartAfter: pksk("a", "first")}))
		}, "last", most},
		"scan back across": {func() string {
			s := engine.Scan{StartAfter: pksk("z", "last"), Reverse: true}
			return first(db.Scan(ctx, s))
		}, "first", most},
	} {
		before := db.Metrics()
		got := c.read()
		after := db.Metrics()
		blocks := after.BlockHits + after.BlockMisses - before.BlockHits - before.BlockMisses
		if got != c.want || blocks > c.most {
			t.Errorf("%s: found %q with %d blocks, want %q with %d at most", name, got, blocks,
				c.want, c.most)
		}
	}
}

// endingContext is a context that ends as soon as a call waits for its end.
type endingContext struct {
	context.Context
	done chan struct{}
}

var errEnough = errors.New("enough")

func (c *endingContext) Done() <-chan struct{} {
	select {
	case <-c.done:
	default:
		close(c.done)
	}
	return c.done
}

func (c *endingContext) Err() error {
	select {
	case <-c.done:
		return errEnough
	default:
		return nil
	}
}

// A reader that gets nothing, because everything that it passes is deleted, can be
// stopped, wherever the deletes are.
//
// Promise (manners): Readers that are shown nothing, because all they pass is deleted, heed
// their context.
func TestReadingNothingHeedsItsContext(t *testing.T) {
	for _, where := range []string{"memtable", "file", "both"} {
		db := openMemory(t, engine.Options{Durability: engine.Process, MaxRuns: 64})
		key := func(i int) engine.Key { return pksk("p", fmt.Sprintf("%04d", i)) }
		for i := range 1000 {
			ok(t, db.Put(key(i), nil))
		}
		snap, err := db.Snapshot() // so that the tombstones stay
		ok(t, err)
		defer snap.Close()
		for i := range 1000 {
			if where == "both" && i == 500 {
				ok(t, db.Flush(ctx))
			}
			ok(t, db.Delete(key(i)))
		}
		if where == "file" {
			ok(t, db.Flush(ctx))
		}
		first := func(seq func(func(engine.Item, error) bool)) (err error) {
			seq(func(_ engine.Item, e error) bool { err = e; return false })
			return err
		}
		q := engine.Query{PK: []byte("p")}
		back := engine.Query{PK: []byte("p"), Reverse: true}
		for name, read := range map[string]func(context.Context) error{
			"query":   func(c context.Context) error { return first(db.Query(c, q)) },
			"reverse": func(c context.Context) error { return first(db.Query(c, back)) },
			"count":   func(c context.Context) error { return second(db.Count(c, q)) },
			"scan":    func(c context.Context) error { return first(db.Scan(c, engine.Scan{})) },
			"unordered": func(c context.Context) error {
				return first(db.Scan(c, engine.Scan{Unordered: true}))
			},
			"transaction": func(c context.Context) error {
				return db.View(ctx, func(tx *engine.Tx) error { return first(tx.Query(c, q)) })
			},
		} {
			ending := &endingContext{ctx, make(chan struct{})}
			if err := read(ending); !errors.Is(err, errEnough) {
				t.Errorf("%s of nothing in the %s: %v", name, where, err)
			}
		}
	}
}
