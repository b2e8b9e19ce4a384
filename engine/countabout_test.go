package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// countDB makes a database with a partition of many items, in runs, the newer ones
// within the older ones, and in memtables, and small partitions beside it.
func countDB(t *testing.T, rng *rand.Rand) *engine.DB {
	t.Helper()
	db := openDir(t, t.TempDir(), &engine.Options{InMemory: true, BlockBytes: 1 << 10,
		MaxRuns: 8, Durability: engine.Process})
	t.Cleanup(func() { mustClose(t, db) })
	for phase := range 4 {
		for range 30 {
			b := engine.NewBatch()
			for range 100 {
				sk := fmt.Sprintf("%06d", int(math.Pow(rng.Float64(), 3)*1e6)) // denser below
				ok(t, b.Put(pksk("big", sk), make([]byte, rng.IntN(60))))
				ok(t, b.Put(pk(fmt.Sprintf("p%06d", rng.IntN(1e6))), nil))
			}
			ok(t, db.Apply(ctx, b))
		}
		if phase < rng.IntN(5) {
			ok(t, db.Flush(ctx))
		}
	}
	ok(t, db.DeleteRange([]byte("big"), engine.SKBetween([]byte("20"), []byte("21"))))
	return db
}

// TestCountAbout counts random ranges, and what a scan with zones comes across.
//
// Promise (plans): The number of items of a range is estimated without reading it: exactly if they
// are few, and within a third if they are thousands.
func TestCountAbout(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rng := testutil.Rand(t)
	for range testutil.Effort(2, 40) {
		db := countDB(t, rng)
		for range 100 {
			lo := rng.IntN(1e6)
			width := 1 + int(1e6)>>rng.IntN(20)
			q := engine.Query{PK: []byte("big"), SK: engine.SKRange(
				fmt.Appendf(nil, "%06d", lo), fmt.Appendf(nil, "%06d", min(999_999, lo+width)))}
			want, err := db.Count(ctx, q)
			ok(t, err)
			got, err := db.CountAbout(q)
			ok(t, err)
			checkAbout(t, fmt.Sprintf("from %06d, %d wide", lo, width), got, float64(want))
		}
		s := engine.Scan{From: engine.K("p1"), To: engine.K("p6")}
		want, err := db.CountScan(ctx, s)
		ok(t, err)
		got, err := db.CountScanAbout(s, 1e9, 256)
		ok(t, err)
		checkAbout(t, "all stripes", got, float64(want))
		got, err = db.CountScanAbout(s, 200, 256)
		ok(t, err)
		checkAbout(t, "some stripes", got, float64(want))
	}
}

// checkAbout reports an estimate that is too far off. Between few and many it may be off by more:
// samples of memtables have some hundred keys.
func checkAbout(t *testing.T, what string, got, want float64) {
	t.Helper()
	exact := want <= 100
	if exact && got != want || !exact && math.Abs(got-want) > want/3+250 {
		t.Errorf("%s: estimated %.0f of %.0f items", what, got, want)
	}
}

// TestCountAboutLeft counts what zones leave: all of memtables, and of files the blocks that may
// hold what is looked for, be it in one block with the end of the range.
func TestCountAboutLeft(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := zonedDB(t)
	for _, wanted := range []int{10, 1000, 20_000} {
		n, err := db.CountScanAbout(engine.Scan{MayHold: func(z engine.Zone) bool {
			c, known := z.Column(1, 1)
			return !known || c.Between(nil, fmt.Appendf(nil, "%08d", wanted))
		}}, math.Inf(1), 256)
		ok(t, err)
		// A block of each stripe, of at most 40 items, may be wanted in part.
		if n < float64(wanted) || n > float64(wanted+40*256) {
			t.Errorf("%.0f items are left of %d that are wanted", n, wanted)
		}
	}
	few := openMemory(t, engine.Options{})
	for i := range 2560 {
		ok(t, few.Put(pk(fmt.Sprintf("%c%08d", "az"[i%2], i)), nil))
	}
	ok(t, few.Flush(ctx))
	n, err := few.CountScanAbout(engine.Scan{To: engine.K("b"),
		MayHold: func(engine.Zone) bool { return true }}, math.Inf(1), 256)
	if ok(t, err); n < 1280/2 || n > 2560 {
		t.Errorf("%.0f of 1280 items are left", n)
	}
}

// zonedDB makes a database of 40,000 items with a column that rises with the key.
func zonedDB(t *testing.T) *engine.DB {
	t.Helper()
	db := openDir(t, t.TempDir(), &engine.Options{InMemory: true, BlockBytes: 1 << 10,
		Durability: engine.Process})
	t.Cleanup(func() { mustClose(t, db) })
	db.Describe(func(items *engine.ZoneItems, b *engine.ZoneBuilder) {
		b.Rows(1, items.Len())
		for i := range items.Len() {
			b.Values(1, 1, items.Value(i), items.Value(i))
		}
	})
	for i := 0; i < 40_000; {
		b := engine.NewBatch()
		for range 1000 {
			text := fmt.Sprintf("%08d", i)
			ok(t, b.Put(pk("row"+text), []byte(text)))
			i++
		}
		ok(t, db.Apply(ctx, b))
	}
	ok(t, db.Flush(ctx))
	return db
}

// TestCountAboutWhileWriting counts while a goroutine writes.
func TestCountAboutWhileWriting(t *testing.T) {
	db := openDir(t, t.TempDir(), &engine.Options{InMemory: true,
		Durability: engine.Process})
	defer mustClose(t, db)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 5000 {
			if err := db.Put(pksk("big", fmt.Sprintf("%06d", i*7%5000)), nil); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2000 {
		n, err := db.CountAbout(engine.Query{PK: []byte("big")})
		ok(t, err)
		if n > 6000 {
			t.Fatalf("%.0f of at most 5000 items", n)
		}
	}
	wg.Wait()
}
