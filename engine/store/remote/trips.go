package remote

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Trips counts the requests to a store that are sent with its context, and the round trips: times
// that the caller had to wait. Requests that are under way at the same time are one round trip.
type Trips struct {
	mu              sync.Mutex
	requests, waves int
	underWay        int
}

type tripsKey struct{}

// CountTrips returns a context whose requests t counts.
func CountTrips(ctx context.Context) (_ context.Context, t *Trips) {
	t = new(Trips)
	return context.WithValue(ctx, tripsKey{}, t), t
}

// Request counts a request that begins. The caller calls end when the answer is there.
func Request(ctx context.Context) (end func()) {
	t, ok := ctx.Value(tripsKey{}).(*Trips)
	if !ok {
		return func() {}
	}
	t.add(1)
	return func() { t.add(-1) }
}

func (t *Trips) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > 0 {
		t.requests++
		if t.underWay == 0 {
			t.waves++
		}
	}
	t.underWay += n
}

// Requests returns the number of requests.
func (t *Trips) Requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.requests
}

// Waves returns the number of round trips.
func (t *Trips) Waves() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waves
}

// String returns both.
func (t *Trips) String() string {
	return fmt.Sprintf("%d round trips, %d requests", t.Waves(), t.Requests())
}

// Within returns a context that ends after d, or DefaultTimeout if that is 0, at the latest if ctx
// has no deadline. Its cause then says so.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	d = cmp.Or(d, DefaultTimeout)
	return context.WithTimeoutCause(ctx, d, &timeoutError{d})
}

// timeoutError is that of a call whose context had no deadline.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no answer within %v, the store's own timeout", e.after)
}

func (e *timeoutError) Is(target error) bool {
	return target == context.DeadlineExceeded
}
