package remotetest

import (
	"context"
	"math"
	"testing"
	"time"
)

// Operation is one of docs/stores.md as a program does it with the client of a store alone, with
// the same guarantees. Do is called with numbers that rise.
type Operation struct {
	Name  string
	Trips int
	Do    func(ctx context.Context, n int) error
}

// Op returns an Operation.
func Op(name string, trips int, do func(ctx context.Context, n int) error) Operation {
	return Operation{name, trips, do}
}

// Latencies of requests: trips are counted by the time that an operation takes.
const (
	reportedLatency = time.Millisecond
	countedLatency  = 100 * time.Millisecond
	attempts        = 5
)

// RunOperations runs operations over a client whose requests take as long as slow says, and checks
// how many trips each waits for.
func RunOperations(t *testing.T, slow func(time.Duration), operations []Operation) {
	t.Helper()
	defer slow(0)
	n := 0
	least := func(
		o *Operation, latency time.Duration, enough func(time.Duration) bool,
	) time.Duration {
		slow(latency)
		best := time.Duration(math.MaxInt64)
		for range attempts {
			n++
			begun := time.Now()
			if err := o.Do(context.Background(), n); err != nil {
				t.Fatalf("%s: %v", o.Name, err)
			}
			if best = min(best, time.Since(begun)); enough(best) {
				break
			}
		}
		return best
	}
	for i := range operations {
		o := &operations[i]
		never := func(time.Duration) bool { return false }
		took := least(o, reportedLatency, never)
		trips := func(d time.Duration) int { return int(d / countedLatency) }
		counted := trips(least(o, countedLatency, func(d time.Duration) bool {
			return trips(d) <= o.Trips
		}))
		t.Logf("| %s | %d | %.1f ms |", o.Name, counted, took.Seconds()*1000)
		if counted != o.Trips {
			t.Errorf("%s: %d round trips, want %d", o.Name, counted, o.Trips)
		}
	}
}
