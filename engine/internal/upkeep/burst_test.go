package upkeep

import (
	"testing"
	"time"
)

// TestBurst: flushes in quick succession make a burst, which ends by itself; slow ones do
// not, and neither does a single one.
func TestBurst(t *testing.T) {
	now := time.Unix(1000, 0)
	var b burstDetector
	b.flushed(now, 64<<20)
	if b.left(now) != 0 {
		t.Error("one flush after a long pause is a burst")
	}
	for range 10 {
		now = now.Add(time.Second)
		b.flushed(now, burstRate)
	}
	if b.left(now) != 0 {
		t.Error("flushes at the rate itself are a burst")
	}
	now = now.Add(100 * time.Millisecond)
	b.flushed(now, burstRate/5)
	if got := b.left(now); got != burstPause {
		t.Errorf("%v left of a burst, want %v", got, burstPause)
	}
	if b.left(now.Add(burstPause)) != 0 {
		t.Error("a burst without flushes goes on")
	}
	o := burstOptions((&Upkeep{opts: Options{MaxRuns: 4}}).pickerOptions(), true)
	if o.Trigger != 8 || o.MaxRuns < 8 || o.GarbagePercent <= 20 {
		t.Errorf("options in a burst: %+v", o)
	}
}
