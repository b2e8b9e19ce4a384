package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
)

// aheadStore is a store whose first read is answered. The others are handed to later, and wait for
// what it sends, nil for an answer, or for the end of their context.
func aheadStore(t *testing.T) (s *remotetest.Store, later chan chan error, underWay *atomic.Int64) {
	t.Helper()
	s, later, underWay = remotetest.New(true, 1<<20), make(chan chan error), new(atomic.Int64)
	fill(t, s, "p", 2000)
	var requests atomic.Int64
	s.SetFault(func(ctx context.Context) error {
		underWay.Add(1)
		defer underWay.Add(-1)
		if requests.Add(1) == 1 {
			return nil
		}
		answer := make(chan error)
		select {
		case later <- answer:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return s, later, underWay
}

// within returns what a channel has, or fails after a long time.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing happens")
		panic("unreachable")
	}
}

// A scan asks for its next pages while its caller works on those at hand, for one wave at a time.
func TestScanReadsAhead(t *testing.T) {
	s, later, _ := aheadStore(t)
	n := 0
	var answer chan error
	for _, err := range s.Scan(ctx, store.Partition([]byte("p"))) {
		ok(t, err)
		switch n++; n {
		case 200: // of a first page of 256
			answer = within(t, later)
		case 250:
			select {
			case <-later:
				t.Fatal("two waves are under way")
			default:
			}
			answer <- nil
			go func() { // the rest is answered at once
				for answer := range later {
					answer <- nil
				}
			}()
		}
	}
	close(later)
	if n != 2000 {
		t.Errorf("%d items", n)
	}
}

// The end of an iteration cancels the wave under way, and nothing of it is left.
func TestEndOfScanCancels(t *testing.T) {
	s, later, underWay := aheadStore(t)
	n := 0
	for _, err := range s.Scan(ctx, store.Partition([]byte("p"))) {
		ok(t, err)
		if n++; n == 200 {
			within(t, later)
			break
		}
	}
	if underWay.Load() != 0 {
		t.Error("a request is under way after the iteration")
	}
}

// Where canceling would break the view, the end of an iteration waits for the answer.
func TestEndOfScanWaits(t *testing.T) {
	s, later, underWay := aheadStore(t)
	s.Ahead = remote.AheadAwaited
	answered := make(chan error)
	n := 0
	for _, err := range s.Scan(ctx, store.Partition([]byte("p"))) {
		ok(t, err)
		if n++; n == 200 {
			answer := within(t, later)
			go func() {
				select {
				case answer <- nil:
					answered <- nil
				case <-time.After(20 * time.Second):
					answered <- errors.New("it was canceled")
				}
			}()
			break
		}
	}
	ok(t, within(t, answered))
	if underWay.Load() != 0 {
		t.Error("a request is under way after the iteration")
	}
}

// An error of a wave that was asked for ahead comes after all items that were there, once.
func TestErrorOfReadAhead(t *testing.T) {
	s, later, _ := aheadStore(t)
	n, errs := 0, 0
	for it, err := range s.Scan(ctx, store.Partition([]byte("p"))) {
		if err != nil {
			if errs++; !errors.Is(err, store.ErrStale) || n != 256 {
				t.Errorf("after %d items: %v", n, err)
			}
			continue
		}
		if want := fmt.Sprintf("%06d", n); string(it.Key.SK) != want {
			t.Fatalf("item %s, want %s", it.Key.SK, want)
		}
		if n++; n == 200 {
			within(t, later) <- store.ErrStale
		}
	}
	if errs != 1 {
		t.Errorf("%d errors", errs)
	}
}

// A view whose reads see writes in between is read when it must be, and what a limit does not need
// is never read.
func TestNothingIsReadAhead(t *testing.T) {
	for name, limit := range map[string]int{"none ahead": 0, "limit": 256} {
		s, later, _ := aheadStore(t)
		if limit == 0 {
			s.Ahead = remote.NoAhead
		}
		r := store.Partition([]byte("p"))
		r.Limit = limit
		n := 0
		for _, err := range s.Scan(ctx, r) {
			ok(t, err)
			select {
			case <-later:
				t.Fatalf("%s: a read ahead after %d items", name, n)
			default:
			}
			if n++; n == 256 {
				break
			}
		}
	}
}
