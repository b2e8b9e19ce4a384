package table_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// skewedText is a table of partitions of very different sizes, with columns of all sorts of
// distributions.
const skewedText = `{"name":"events","columns":[
 {"name":"user","type":"int64"},{"name":"seq","type":"int64"},
 {"name":"kind","type":"string"},{"name":"some","type":"int64"},
 {"name":"own","type":"int64"},{"name":"maybe","type":"int64","nullable":true},
 {"name":"tags","type":"string","list":true},{"name":"pad","type":"bytes"}],
 "primary_key":["user"],"sort_key":["seq"],
 "indexes":[{"name":"by_kind","columns":["kind","some"]},
  {"name":"by_some","columns":["some"],"local":true,"include":["own"]},
  {"name":"by_own","columns":["own"],"unique":true},
  {"name":"by_maybe","columns":["maybe"],"shard":"mix64:16"},
  {"name":"by_tag","columns":[{"column":"tags","each":true}]},
  {"name":"rare","columns":["own"],
   "where":{"op":"=","args":[{"op":"column","name":"kind"},
     {"op":"const","value":{"string":"b"}}]}}]}`

// skewed writes n rows: 40 % have one user, the others about ten rows each.
func skewed(t *testing.T, tab *table.Table, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	_, err := tab.InsertMany(ctx, func(yield func([]expr.Value) bool) {
		for i := range int64(n) {
			user, kind := rng.Int64N(int64(n)*6/100), "a"
			if rng.IntN(10) < 4 {
				user = 7
			}
			if r := rng.IntN(10); r >= 8 {
				kind = fmt.Sprint("rare", rng.IntN(500))
			} else if r >= 6 {
				kind = "b"
			}
			maybe := expr.Null()
			if rng.IntN(10) > 2 {
				maybe = expr.Int(i)
			}
			tags := make([]expr.Value, rng.IntN(4))
			for j := range tags {
				tags[j] = expr.String(fmt.Sprint("t", rng.IntN(1+rng.IntN(40))))
			}
			if !yield([]expr.Value{expr.Int(user), expr.Int(i), expr.String(kind),
				expr.Int(rng.Int64N(int64(n) / 20)), expr.Int(i * 7919 % 1_000_003), maybe,
				expr.List(tags), expr.Bytes(make([]byte, rng.IntN(90)))}) {
				return
			}
		}
	})
	ok(t, err)
}

// countingStore counts what its snapshots read.
type countingStore struct {
	store.Store
	sampled int
}

func (s *countingStore) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	return &countingSnapshot{snap, s}, err
}

type countingSnapshot struct {
	store.Snapshot
	s *countingStore
}

func (s *countingSnapshot) Sample(ctx context.Context,
	q engine.Sample) iter.Seq2[engine.Sampled, error] {
	return func(yield func(engine.Sampled, error) bool) {
		for it, err := range store.SampleOf(ctx, s.Snapshot, q) {
			s.s.sampled++
			if !yield(it, err) {
				return
			}
		}
	}
}

// Scan implements store.Reader. A sample reads in no other way than by Sample.
func (s *countingSnapshot) Scan(context.Context, store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		yield(store.Item{}, fmt.Errorf("the table was scanned"))
	}
}

// TestAnalyzeOfASampleIsNearTheTruth compares statistics of samples with those of everything,
// on skewed data, and checks that the samples read little.
//
// Promise (tables): Statistics of a sample are near those of everything, on skewed data too, and
// a sample reads little; samples of the engine have no bias; the pieces they are of make up a
// range. Also `TestSampleHasNoBias`, `TestPiecesMakeUpTheRange`.
func TestAnalyzeOfASampleIsNearTheTruth(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rows, samples := testutil.Effort(10_000, 20_000), testutil.Effort(2, 6)
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true, BlockBytes: 1 << 10})
	ok(t, err)
	defer e.Close()
	counting := &countingStore{Store: local.New(e)}
	db, err := table.OpenStore(ctx, counting, nil)
	ok(t, err)
	skewed(t, create(t, db, skewedText), rows)
	ok(t, e.Compact(ctx))
	all, err := table.OpenStore(ctx, local.New(e), nil)
	ok(t, err)
	truth, err := all.Analyze(ctx, "events", nil)
	ok(t, err)
	for seed := range uint64(samples) {
		counting.sampled = 0
		got, err := db.Analyze(ctx, "events", &table.AnalyzeOptions{SampleRows: rows / 20,
			Seed: seed + 1})
		ok(t, err)
		if counting.sampled > rows/2 {
			t.Errorf("seed %d: %d of %d rows were read for %d", seed, counting.sampled, rows,
				rows/20)
		}
		ok(t, got.Validate())
		compareStats(t, fmt.Sprint("seed ", seed), got, truth)
	}
}

// compareStats compares estimated statistics with exact ones.
func compareStats(t *testing.T, what string, got, want *plan.TableStats) {
	t.Helper()
	near := func(name string, a, b, factor float64) {
		t.Helper()
		if a > b*factor+1 || b > a*factor+1 {
			t.Errorf("%s: %s is %g, exactly %g", what, name, a, b)
		}
	}
	near("rows", got.Rows, want.Rows, 1.15)
	near("row bytes", got.RowBytes, want.RowBytes, 1.1)
	if fmt.Sprint(got.Monotonic) != fmt.Sprint(want.Monotonic) {
		t.Errorf("%s: the columns %v grow, not %v", what, want.Monotonic, got.Monotonic)
	}
	for i := range want.Distinct {
		near(fmt.Sprint("distinct of column ", i), got.Distinct[i], want.Distinct[i], 3)
	}
	for i, k := range want.Keys {
		g, name := got.Keys[i], fmt.Sprint("key ", k.Index, " ")
		if g.Index != k.Index || g.Monotonic != k.Monotonic {
			t.Fatalf("%s: %+v instead of %+v", what, g, k)
		}
		near(name+"entries", g.Entries, k.Entries, 1.3)
		near(name+"entry bytes", g.EntryBytes, k.EntryBytes, 1.1)
		for j := range k.Distinct {
			near(fmt.Sprint(name, "distinct ", j), g.Distinct[j], k.Distinct[j], 3)
		}
		if math.Abs(g.Nulls-k.Nulls) > 0.06 {
			t.Errorf("%s: %snulls are %g, exactly %g", what, name, g.Nulls, k.Nulls)
		}
		// Three and a half standard deviations of a share of a sample.
		sample := float64(want.Rows) / 20 * k.Entries / want.Rows
		compareHistograms(t, what+": "+name, &g, &k, 0.02+1.75/math.Sqrt(sample))
	}
}

func compareHistograms(t *testing.T, what string, got, want *plan.KeyStats, off float64) {
	t.Helper()
	n := len(want.Histogram.Bounds)
	for i, bound := range want.Histogram.Bounds {
		// Of many equal keys the bounds are equal: their share lies in between.
		low, high := i, i
		for low > 0 && bytes.Equal(want.Histogram.Bounds[low-1], bound) {
			low--
		}
		for high < n-1 && bytes.Equal(want.Histogram.Bounds[high+1], bound) {
			high++
		}
		f, _ := got.Histogram.Fraction(nil, bound)
		least, most := float64(low-1)/float64(n-1)-off, float64(high+1)/float64(n-1)+off
		if f < least || f > most {
			t.Errorf("%sa share of %.3f lies below bound %d, by the exact ones %.3f to %.3f",
				what, f, i, least, most)
		}
	}
	for _, h := range want.Heavy {
		if h.Fraction < 0.1 {
			continue
		}
		found := 0.0
		for _, g := range got.Heavy {
			if bytes.Equal(g.Key, h.Key) {
				found = g.Fraction
			}
		}
		if math.Abs(found-h.Fraction) > off {
			t.Errorf("%sthe share of the value %x is %.3f, exactly %.3f", what, h.Key, found,
				h.Fraction)
		}
	}
	for _, g := range got.Heavy {
		if g.Fraction > 0.1 && heavyShare(want, g.Key) < g.Fraction/3 {
			t.Errorf("%s%x is said to be frequent: %.3f", what, g.Key, g.Fraction)
		}
	}
}

func heavyShare(k *plan.KeyStats, key []byte) float64 {
	for _, h := range k.Heavy {
		if bytes.Equal(h.Key, key) {
			return h.Fraction
		}
	}
	return 0
}

// TestAnalyzeOfAllByASample checks that a sample that is as large as the table gives the
// exact statistics.
func TestAnalyzeOfAllByASample(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := open(t, nil)
	skewed(t, create(t, db, skewedText), 3000)
	want, err := db.Analyze(ctx, "events", nil)
	ok(t, err)
	got, err := db.Analyze(ctx, "events", &table.AnalyzeOptions{SampleRows: 3000, Seed: 1})
	ok(t, err)
	if got.Rows != want.Rows || math.Abs(got.RowBytes-want.RowBytes) > 1e-6*want.RowBytes {
		t.Errorf("%g rows of %g bytes, want %g of %g", got.Rows, got.RowBytes, want.Rows,
			want.RowBytes)
	}
	for i, k := range want.Keys {
		g := got.Keys[i]
		if g.Entries != k.Entries || math.Abs(g.EntryBytes-k.EntryBytes) > 1e-6*k.EntryBytes ||
			math.Abs(g.Nulls-k.Nulls) > 1e-9 {
			t.Errorf("%+v\n%+v", g, k)
		}
		for j, d := range k.Distinct { // the sketches are exact within 1.6 %
			if math.Abs(g.Distinct[j]-d) > 0.07*d+1 {
				t.Errorf("key %d: %g different values, want about %g", k.Index, g.Distinct[j], d)
			}
		}
	}
	compareStats(t, "all", got, want)
}

// TestAnalyzeOfNothing analyses an empty table.
func TestAnalyzeOfNothing(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, skewedText)
	for _, o := range []*table.AnalyzeOptions{nil, {SampleRows: 10}} {
		s, err := db.Analyze(ctx, "events", o)
		if err != nil || s.Rows != 0 || len(s.Keys) != 7 || s.Validate() != nil {
			t.Errorf("%+v %v", s, err)
		}
	}
	if s := tab.Stats(); s.Epoch != 2 {
		t.Error(s.Epoch)
	}
}
