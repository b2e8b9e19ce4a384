package histogram_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/histogram"
	"github.com/kstonedb/kstone/internal/testutil"
)

// maxError is what the package promises for quantiles.
const maxError = 0.016

// TestQuantilesAgainstSortedValues records random durations over all magnitudes and
// compares every quantile with the sorted values.
func TestQuantilesAgainstSortedValues(t *testing.T) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, n := range []int{1, 2, 3, 10, 1000, 20000} {
		var h histogram.Histogram
		values := make([]time.Duration, n)
		sum := 0.0
		for i := range values {
			values[i] = time.Duration(math.Exp2(rng.Float64() * 62.9))
			sum += float64(values[i])
			h.Record(values[i])
		}
		slices.Sort(values)
		s := h.Snapshot()
		mean := time.Duration(sum / float64(n))
		if s.Count() != uint64(n) || relativeError(s.Mean(), mean) > maxError {
			t.Fatalf("count %d mean %v, want %d, %v", s.Count(), s.Mean(), n, mean)
		}
		if s.Max() != values[n-1] || s.Quantile(1) != values[n-1] {
			t.Fatalf("max %v, quantile(1) %v, want %v", s.Max(), s.Quantile(1), values[n-1])
		}
		for q := 0.0; q <= 1; q += 0.001 {
			want := values[max(1, int(math.Ceil(q*float64(n))))-1]
			if got := s.Quantile(q); relativeError(got, want) > maxError {
				t.Fatalf("n %d quantile(%g) = %v, want %v", n, q, got, want)
			}
		}
	}
}

func relativeError(got, want time.Duration) float64 {
	return math.Abs(float64(got-want)) / math.Max(1, float64(want))
}

// TestEveryMagnitude records one value, and the values around each power of two,
// below a large one: the median must be the value, nearly.
func TestEveryMagnitude(t *testing.T) {
	for e := range 62 {
		for _, d := range []time.Duration{-1, 0, 1} {
			v := time.Duration(1)<<e + d
			var h histogram.Histogram
			h.Record(v)
			h.Record(v)
			h.Record(math.MaxInt64)
			if got := h.Snapshot().Quantile(0.5); relativeError(got, v) > maxError {
				t.Errorf("median of %d = %d", v, got)
			}
		}
	}
}

func TestExtremes(t *testing.T) {
	var h histogram.Histogram
	empty := h.Snapshot()
	if empty.Count() != 0 || empty.Mean() != 0 || empty.Max() != 0 || empty.Quantile(0.5) != 0 {
		t.Errorf("the empty snapshot is not zero: %v", empty)
	}
	h.Record(-time.Second)
	if s := h.Snapshot(); s.Count() != 1 || s.Max() != 0 || s.Quantile(0.5) != 0 {
		t.Errorf("a negative duration is not zero: %v", s)
	}
	h.Record(math.MaxInt64)
	h.Record(math.MaxInt64)
	s := h.Snapshot()
	if s.Max() != math.MaxInt64 || relativeError(s.Quantile(0.5), math.MaxInt64) > maxError {
		t.Errorf("very long durations: max %d, median %d", s.Max(), s.Quantile(0.5))
	}
	if want := time.Duration(math.MaxInt64 / 3 * 2); relativeError(s.Mean(), want) > maxError {
		t.Errorf("mean of very long durations %v, want %v", s.Mean(), want)
	}
	for _, q := range []float64{math.NaN(), -1, 0} {
		if got := s.Quantile(q); got != 0 {
			t.Errorf("quantile(%g) = %v, want the minimum", q, got)
		}
	}
	if got := s.Quantile(7); got != s.Max() {
		t.Errorf("quantile(7) = %v, want the maximum", got)
	}
}

// TestMerge compares two merged snapshots with one of everything, and checks that
// merging leaves copies alone.
func TestMerge(t *testing.T) {
	var a, b, all histogram.Histogram
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		all.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}
	sa, sb, want := a.Snapshot(), b.Snapshot(), all.Snapshot()
	before := sa
	text := before.String()
	sa.Merge(sb)
	sb.Merge(before)
	if sa.String() != want.String() || sb.String() != want.String() {
		t.Errorf("merged %v and %v, want %v", sa, sb, want)
	}
	if before.String() != text {
		t.Errorf("merging changed a copy from %v to %v", text, before)
	}
}

func TestString(t *testing.T) {
	var h histogram.Histogram
	for range 99 {
		h.Record(1_234_567)
	}
	h.Record(98_765_432_100)
	got := h.Snapshot().String()
	const want = "count 100  mean 978ms  p50 1.23ms  p90 1.23ms  p99 1.23ms" +
		"  p99.9 1m38.8s  max 1m38.8s"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestConcurrentRecords lets goroutines record while others take snapshots: nothing
// is lost, and snapshots only grow.
func TestConcurrentRecords(t *testing.T) {
	const goroutines, each = 16, 2000
	var h histogram.Histogram
	var recorders, watcher sync.WaitGroup
	done := make(chan struct{})
	watcher.Go(func() {
		last := uint64(0)
		for {
			n := h.Snapshot().Count()
			if n < last {
				t.Errorf("the count fell from %d to %d", last, n)
			}
			last = n
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for g := range goroutines {
		recorders.Go(func() {
			for i := range each {
				h.Record(time.Duration(g*each + i))
			}
		})
	}
	recorders.Wait()
	close(done)
	watcher.Wait()
	const n = goroutines * each
	s := h.Snapshot()
	if s.Count() != n || s.Max() != n-1 {
		t.Errorf("count %d max %d", s.Count(), s.Max())
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h histogram.Histogram
	if n := testing.AllocsPerRun(1000, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var h histogram.Histogram
	b.ReportAllocs()
	d := time.Duration(0)
	for b.Loop() {
		h.Record(d)
		d = (d*5 + 1) & (1<<20 - 1)
	}
}
