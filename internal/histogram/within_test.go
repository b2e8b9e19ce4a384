package histogram_test

import (
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/histogram"
)

// TestCountWithin counts durations that lie well between the bounds.
func TestCountWithin(t *testing.T) {
	var h histogram.Histogram
	for i := range 100 {
		h.Record(time.Duration(i) * 10 * time.Microsecond)
	}
	h.Record(time.Hour)
	bounds := []time.Duration{0, 95 * time.Microsecond, 495 * time.Microsecond, time.Second}
	within := make([]uint64, len(bounds))
	h.Snapshot().CountWithin(bounds, within)
	for i, want := range []uint64{1, 10, 50, 100} {
		if within[i] != want {
			t.Errorf("%d within %v, want %d", within[i], bounds[i], want)
		}
	}
}
