package engine

import (
	"strings"
	"testing"
)

// A write that gives up says what was in its way: what makes most of the pressure.
func TestWaitedFor(t *testing.T) {
	db := &DB{}
	m := &memory{budget: 100, logBudget: 100, runsSoft: 10, runsHard: 20}
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
		db.reserve.full.Store(c.full)
		if got := m.waitedFor(db); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
