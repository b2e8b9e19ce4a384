package upkeep

import (
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/manifest"
)

var emptyState = &manifest.State{}

// A write that gives up says what was in its way: what makes most of the pressure.
func TestWaitedFor(t *testing.T) {
	u := New(Env{}, Options{}, emptyState)
	m := &u.throttle
	m.budget, m.logBudget, m.runsSoft, m.runsHard = 100, 100, 10, 20
	for _, c := range []struct {
		used, log, runs int64
		full            bool
		want            string
	}{
		{100, 50, 5, false, "other writers"},
		{170, 90, 5, false, "write buffers hold 170 bytes, MemtableBytes is 100"},
		{120, 100, 19, false, "it has 100 bytes, LogBytes is 100"},
		{120, 90, 30, false, "a stripe has 30 runs, writers are slowed down from 10 on"},
		{170, 50, 5, true, "full disk"},
	} {
		m.used.Store(c.used)
		m.logUsed.Store(c.log)
		m.deepest.Store(c.runs)
		u.reserve.full.Store(c.full)
		if got := m.waitedFor(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Writers pause for longer the more runs there are, without an end that runs could outgrow.
func TestPauseForRuns(t *testing.T) {
	u := New(Env{}, Options{}, emptyState)
	m := &u.throttle
	m.budget, m.logBudget, m.runsSoft, m.runsHard = 100, 100, 10, 20
	last := time.Duration(0)
	for _, c := range []struct {
		runs int64
		want time.Duration
	}{
		{15, time.Millisecond}, {20, longestPause}, {30, 4 * longestPause},
		{60, 25 * longestPause}, {200, maxPause},
	} {
		m.deepest.Store(c.runs)
		p := m.pressure()
		if got := m.pause(p); got != c.want || got <= last || p >= 1 {
			t.Errorf("%d runs: %v at a pressure of %v, want %v", c.runs, got, p, c.want)
		}
		last = m.pause(p)
	}
}
