package store

import (
	"context"
	"fmt"
	"sync"
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

// BeginRequest counts a request that begins. The caller calls end when the answer is there.
func BeginRequest(ctx context.Context) (end func()) {
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
