package ship_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine/ship"
)

// A base that was made while the clock was ahead keeps neither those after it from being made, nor
// what is before it: one after it that is old enough takes its place.
func TestRetentionAfterAClockAhead(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Millisecond})
	h.ships(s, 1)
	ok(t, s.Round(ctx))
	h.now.Add(time.Hour.Milliseconds())
	h.ships(s, 1)
	ok(t, s.Round(ctx))
	ok(t, s.Close(ctx))
	h.now.Add(-time.Hour.Milliseconds())
	h.reopen()
	s = h.start(ship.Options{Keep: time.Second, BaseEvery: time.Millisecond})
	for range 3 {
		h.now.Add(2000)
		h.ships(s, 1)
		ok(t, s.Round(ctx))
	}
	ok(t, s.Close(ctx))
	c := h.contents()
	if n := len(c.Bases); n > 2 || c.Bases[n-1].Version != h.last {
		t.Errorf("%d bases: %+v", n, c)
	}
	h.restores(ship.Target{}, h.last)
}

// Objects are merged also while the clock is not yet where it was.
func TestMergesAfterAClockAhead(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.now.Add(time.Hour.Milliseconds())
	h.ships(s, 1)
	h.now.Add(-time.Hour.Milliseconds())
	h.ships(s, 9)
	ok(t, s.Round(ctx))
	ok(t, s.Close(ctx))
	if s.Metrics().Merges == 0 {
		t.Errorf("%+v", h.contents())
	}
	h.restores(ship.Target{}, h.last)
}

// Moments are known again when a clock that was ahead has been believed for long enough.
func TestMomentsAfterAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarbor(t)
		s := h.start(ship.Options{Interval: time.Second})
		const day = 24 * time.Hour
		for _, step := range []time.Duration{0, day, -day, 2 * time.Hour, 0} {
			h.now.Add(step.Milliseconds())
			h.ships(s, 1)
			<-time.After(3 * time.Second) // the time index is written
		}
		at, want := h.now.Load(), h.last
		h.now.Add(1000)
		h.ships(s, 1)
		ok(t, s.Close(ctx))
		h.restores(ship.Target{Time: time.UnixMilli(at)}, want)
		ok(t, h.db.Close())
	})
}
