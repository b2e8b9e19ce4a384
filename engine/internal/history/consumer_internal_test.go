package history

import (
	"errors"
	"maps"
	"sync"
	"testing"
)

// Callers that make and drop a consumer at the same time agree with what is stored, as soon as
// their calls return.
func TestConsumersAreStoredInOrder(t *testing.T) {
	env, at := timesEnv(t, 1), Position{Version: 1}
	var mu sync.Mutex
	stored := map[string]string{}
	var h *History
	env.Store = func(change map[string]string) error {
		if change["c"] == "" && h.mu.TryLock() { // a caller comes between
			h.mu.Unlock()
			_, err := h.Join("c", at)
			ok(t, err)
		}
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(stored, change)
		return nil
	}
	h, err := New(*env, Limits{}, nil)
	ok(t, err)
	for range 20_000 {
		var joins sync.WaitGroup
		for range 3 {
			joins.Go(func() {
				_, err := h.Join("c", at)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || stored["c"] == "" {
					t.Error("a consumer is not stored", err)
				}
			})
		}
		joins.Wait()
		ok(t, h.Drop("c"))
		if known := len(h.Consumers()); known != 0 || stored["c"] != "" || t.Failed() {
			t.Fatalf("known: %d, stored: %q", known, stored["c"])
		}
	}
}

// A consumer that cannot be removed durably is still there.
func TestConsumerIsNotDropped(t *testing.T) {
	env, full := timesEnv(t, 1), errors.New("full")
	env.Store = func(change map[string]string) error {
		if change["c"] == "" {
			return full
		}
		return nil
	}
	h, err := New(*env, Limits{}, nil)
	ok(t, err)
	_, err = h.Join("c", Position{Version: 1})
	ok(t, err)
	for range 2 {
		if err := h.Drop("c"); err != full {
			t.Errorf("dropped: %v", err)
		}
	}
}
