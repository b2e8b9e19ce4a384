package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// blockReader is a reader of the engine that hands out blocks.
type blockReader interface {
	engine.Reader
	ScanBlocks(ctx context.Context, s engine.Scan, yield func(*engine.Block) bool) error
	GatherBlocks(ctx context.Context, g engine.Gather, yield func(*engine.Block) bool) error
}

// TestBlocks: blocks show the items that a scan shows, in the same order, whatever lies in files
// and memtables: mostly one run of values alone, which are read where they are, and then what
// forbids that.
//
// Promise (reads and writes): Blocks of a reading have the items of its moment, as single items do.
func TestBlocks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rng := testutil.Rand(t)
	for range testutil.Effort(30, 600) {
		var clock hand
		clock.ms.Store(1_000)
		db, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, Clock: clock.now,
			BlockBytes: 1 << (10 + rng.IntN(5)), MaxRuns: 2 + rng.IntN(6)})
		ok(t, err)
		var before *engine.Snapshot
		at := uint64(0)
		for step := range 1 + rng.IntN(5) {
			writeForBlocks(t, rng, db, step)
			if rng.IntN(8) > 0 {
				ok(t, db.Flush(ctx))
			}
			switch rng.IntN(6) {
			case 0:
				ok(t, db.DeleteRange([]byte("few\x004"),
					engine.SKBetween([]byte("0"), []byte("1"))))
			case 1, 2:
				ok(t, db.Compact(ctx))
			}
			clock.ms.Add(int64(700 * rng.IntN(3)))
			if before == nil && rng.IntN(3) == 0 {
				before = snapshotOf(t, db)
				at = before.Version()
			}
			compareBlocks(t, rng, db, at)
			if before != nil {
				compareBlocks(t, rng, before, at)
			}
			ok(t, db.Update(ctx, func(tx *engine.Tx) error {
				if rng.IntN(2) == 0 {
					ok(t, tx.Put(blockKey(rng, rng.IntN(300)), []byte("own")))
				}
				compareBlocks(t, rng, tx, 0)
				return nil
			}))
		}
		if before != nil {
			ok(t, before.Close())
		}
		mustClose(t, db)
	}
}

// blockKey returns a key of few partitions or of many.
func blockKey(rng *rand.Rand, i int) engine.Key {
	if i%2 == 0 {
		return pksk(fmt.Sprintf("few\x00%d", i%6), fmt.Sprintf("%04d", i))
	}
	return pk(fmt.Sprintf("many%04d", i))
}

// writeForBlocks writes new keys, as far as nothing else is drawn.
func writeForBlocks(t *testing.T, rng *rand.Rand, db *engine.DB, step int) {
	t.Helper()
	way := rng.IntN(7)
	b := engine.NewBatch()
	for i := range 100 + rng.IntN(300) {
		k := blockKey(rng, 400*step+i)
		switch {
		case way == 0 && rng.IntN(50) == 0:
			ok(t, b.Put(k, []byte("short"), engine.TTL(time.Second)))
		case way == 1 && rng.IntN(50) == 0:
			ok(t, b.Delete(k))
		case way == 2 && rng.IntN(10) == 0:
			ok(t, b.Put(blockKey(rng, i), []byte("again")))
		default:
			ok(t, b.Put(k, make([]byte, rng.IntN(80))))
		}
	}
	ok(t, db.Apply(ctx, b))
}

// compareBlocks reads random ranges both ways.
func compareBlocks(t *testing.T, rng *rand.Rand, r blockReader, since uint64) {
	t.Helper()
	bound := func() engine.Key {
		return []engine.Key{{}, pk("few\x002"), pk("many"), blockKey(rng, rng.IntN(1000)),
			{PK: []byte("zz")}}[rng.IntN(5)]
	}
	for range 5 {
		s := engine.Scan{From: bound(), To: bound(), Unordered: rng.IntN(4) > 0}
		if s.To.PK != nil && bytes.Compare(s.To.PK, s.From.PK) < 0 {
			s.To = engine.Key{}
		}
		if rng.IntN(4) == 0 {
			s.Limit = 1 + rng.IntN(300)
		}
		if rng.IntN(4) == 0 {
			s.Since = since
		}
		want := listing(r.Scan(ctx, s))
		check(t, fmt.Sprintf("%+v", s), want, func(yield func(*engine.Block) bool) error {
			return r.ScanBlocks(ctx, s, yield)
		})
		g := engine.Gather{PKs: [][]byte{[]byte("few\x000"), []byte("few\x002"),
			[]byte("few\x004")}, ByPartition: rng.IntN(3) > 0, Reverse: rng.IntN(4) == 0}
		want = listing(r.Gather(ctx, g))
		check(t, fmt.Sprintf("%+v", g), want, func(yield func(*engine.Block) bool) error {
			return r.GatherBlocks(ctx, g, yield)
		})
	}
}

// check compares what blocks have with a listing.
func check(t *testing.T, what, want string, read func(func(*engine.Block) bool) error) {
	t.Helper()
	got := listing(func(yield func(engine.Item, error) bool) {
		more := true
		err := read(func(b *engine.Block) bool {
			bytesOf := 0
			values := b.Values()
			for i := range values.Len() {
				v := values.At(i)
				if bytesOf += b.KeyBytes(i) + len(v); !bytes.Equal(v, b.Value(i)) {
					t.Fatalf("%s: value %d is %x, or %x", what, i, v, b.Value(i))
				}
			}
			if n := b.Bytes(); n != bytesOf {
				t.Fatalf("%s: a block of %d bytes has %d", what, bytesOf, n)
			}
			for i := 0; i < b.Len() && more; i++ {
				it, err := b.Item(i)
				if key, _ := b.Key(i); err == nil && id(key) != id(it.Key) ||
					!bytes.Equal(b.Value(i), it.Value) ||
					b.KeyBytes(i) != len(id(it.Key)) {
					t.Fatalf("%s: item %d is %v, of key %v", what, i, it, key)
				}
				more = yield(it, err)
			}
			return more
		})
		if err != nil {
			yield(engine.Item{}, err)
		}
	})
	if got != want {
		t.Fatalf("%s: blocks have\n%s\nwant\n%s", what, got, want)
	}
}
