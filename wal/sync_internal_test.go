package wal

import (
	"runtime"
	"testing"
	"time"
)

// A batch waits for callers that come back, and after it has waited in vain not for a while.
func TestBatchesAwaitCallers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // yields let the others go on
	var y syncer
	y.init()
	y.expected, y.took = 3, time.Hour
	_, lead := y.join()
	if !lead {
		t.Fatal("the first caller does not lead")
	}
	go func() {
		for range 50 {
			runtime.Gosched()
		}
		y.join()
		y.join()
	}()
	if y.await(); y.waiting() != 3 || y.hasty != 0 {
		t.Fatalf("%d callers wait, hasty %d, want 3 and 0", y.waiting(), y.hasty)
	}
	y.expected = 5
	for i := range hastyBatches + 1 {
		if y.await(); y.hasty != hastyBatches-i {
			t.Fatalf("hasty %d after %d batches", y.hasty, i)
		}
	}
	if y.await(); y.hasty != hastyBatches {
		t.Errorf("hasty %d, want %d", y.hasty, hastyBatches)
	}
}
