package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// sampleDB makes a database with dense and sparse places, partitions of all sizes, several
// runs, deleted items and memtables that are not flushed, and returns how many items each
// kind of partition has.
func sampleDB(t *testing.T) (*engine.DB, map[byte]int) {
	db := openDir(t, t.TempDir(), &engine.Options{InMemory: true, BlockBytes: 1 << 10,
		MaxRuns: 8, Durability: engine.Process})
	t.Cleanup(func() { mustClose(t, db) })
	rng := rand.New(rand.NewPCG(3, 3))
	for phase := range 5 {
		for range 60 {
			fillSome(t, db, rng, phase)
		}
		switch {
		case phase == 1:
			ok(t, db.Compact(ctx))
		case phase < 4:
			ok(t, db.Flush(ctx))
		}
	}
	ok(t, db.DeleteRange([]byte("big"), engine.SKBetween([]byte("002"), []byte("003"))))
	counts := map[byte]int{}
	for it, err := range db.Scan(ctx, engine.Scan{Unordered: true, From: engine.K("b"),
		To: engine.K("t")}) {
		ok(t, err)
		counts[it.Key.PK[0]]++
	}
	return db, counts
}

// fillSome writes a hundred items and deletes some.
func fillSome(t *testing.T, db *engine.DB, rng *rand.Rand, phase int) {
	b := engine.NewBatch()
	for range 40 {
		one := fmt.Sprintf("one%08d", rng.IntN(1e7)) // partitions of one item
		ok(t, b.Put(pk(one), make([]byte, rng.IntN(120))))
		user := fmt.Sprint("part", rng.IntN(50)) // of some hundred
		ok(t, b.Put(pksk(user, fmt.Sprint(rng.IntN(1e6))), make([]byte, 10)))
		sk := fmt.Sprintf("%03d-%06d", phase, rng.IntN(1e6)) // of thousands, which grows
		ok(t, b.Put(pksk("big", sk), make([]byte, rng.IntN(40))))
		ok(t, b.Put(pk(fmt.Sprint("aside", rng.IntN(1e7))), nil)) // outside of the range
		if rng.IntN(4) == 0 {
			ok(t, b.Delete(pksk("big", fmt.Sprintf("%03d-%06d", phase, rng.IntN(1e6)))))
			ok(t, b.Delete(pksk(user, fmt.Sprint(rng.IntN(1e6)))))
		}
	}
	ok(t, db.Apply(ctx, b))
}

// take takes a sample of "b" to before "t" and returns the sums of the weights by kind of
// partition, and how many items came.
func take(t *testing.T, snap *engine.Snapshot, parts int, seed uint64) (map[byte]float64, int) {
	t.Helper()
	sums, n := map[byte]float64{}, 0
	q := engine.Sample{From: engine.K("b"), To: engine.K("t"), Parts: parts,
		Rand: rand.New(rand.NewPCG(seed, 0))}
	for it, err := range snap.Sample(ctx, q) {
		ok(t, err)
		sums[it.Key.PK[0]] += it.Weight
		n++
	}
	return sums, n
}

// TestSampleHasNoBias checks that the estimates of many samples agree on average with what
// there is, of every kind of partition, that single ones are not far off, and that samples
// read little.
func TestSampleHasNoBias(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db, counts := sampleDB(t)
	snap := snapshotOf(t, db)
	defer snap.Close()
	const parts = 150
	samples := testutil.Effort(40, 200)
	sums, squares := map[byte]float64{}, map[byte]float64{}
	most := 0
	for seed := range uint64(samples) {
		got, n := take(t, snap, parts, seed)
		most = max(most, n)
		for kind := range counts {
			d := got[kind]/float64(counts[kind]) - 1
			sums[kind] += d
			squares[kind] += d * d
		}
	}
	total := 0
	for kind, n := range counts {
		total += n
		mean, deviation := sums[kind]/float64(samples), math.Sqrt(squares[kind]/float64(samples))
		t.Logf("%c: %d items, samples of at most %d; bias %+.2f %%, deviation %.1f %%", kind, n,
			most, 100*mean, 100*deviation)
		if math.Abs(mean) > 5*deviation/math.Sqrt(float64(samples)) || deviation > 0.35 {
			t.Errorf("%c: bias %+.3f, deviation %.3f", kind, mean, deviation)
		}
	}
	if most > total/3 {
		t.Errorf("a sample of %d parts had %d of %d items", parts, most, total)
	}
}

// TestSampleOfEverything checks that a range that is small for the number of parts is read
// completely.
func TestSampleOfEverything(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db, counts := sampleDB(t)
	snap := snapshotOf(t, db)
	defer snap.Close()
	got, _ := take(t, snap, 1e6, 1)
	for kind, n := range counts {
		if got[kind] != float64(n) {
			t.Errorf("%c: %g of %d items", kind, got[kind], n)
		}
	}
}

// TestSampleReadsItsSnapshot checks that what is written later is not in a sample, and what
// is deleted later is.
func TestSampleReadsItsSnapshot(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db, counts := sampleDB(t)
	snap := snapshotOf(t, db)
	defer snap.Close()
	ok(t, db.DeleteRange([]byte("big"), engine.SKCondition{}))
	for i := range 20 {
		ok(t, db.Put(pksk("fresh", fmt.Sprint("a", i)), nil))
	}
	ok(t, db.Compact(ctx))
	got, _ := take(t, snap, 1e6, 1)
	if got['b'] != float64(counts['b']) || got['f'] != 0 {
		t.Errorf("%g of %d items, %g new ones", got['b'], counts['b'], got['f'])
	}
	if got, _ := take(t, snap, 100, 1); got['b'] == 0 || got['f'] != 0 {
		t.Error(got)
	}
}

func TestSampleErrors(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db, _ := sampleDB(t)
	snap := snapshotOf(t, db)
	first := func(ctx context.Context, q engine.Sample) error {
		for _, err := range snap.Sample(ctx, q) {
			return err
		}
		return nil
	}
	wantIs(t, first(ctx, engine.Sample{}), engine.ErrInvalid)
	for _, parts := range []int{10, 1e6} {
		ended, cancel := context.WithCancel(ctx)
		n := 0
		for _, err := range snap.Sample(ended, engine.Sample{Parts: parts}) {
			if cancel(); err != nil {
				wantIs(t, err, context.Canceled)
				n = -1
			}
		}
		cancel()
		if n != -1 {
			t.Errorf("a sample of %d parts went on after its context", parts)
		}
	}
	empty := engine.Sample{Parts: 5, From: engine.K("x"), To: engine.K("y")}
	ok(t, first(ctx, empty))
	for range snap.Sample(ctx, engine.Sample{Parts: 5}) {
		break
	}
	ok(t, snap.Close())
	wantIs(t, first(ctx, engine.Sample{Parts: 5}), engine.ErrClosed)
}
