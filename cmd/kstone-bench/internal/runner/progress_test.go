package runner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// clock is a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

func testProgress(terminal bool, turns ...turn) (*progress, *clock, *strings.Builder) {
	var out strings.Builder
	c := &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	p := newProgress(&out, turns)
	p.terminal, p.now, p.started = terminal, func() time.Time { return c.t }, c.t
	return p, c, &out
}

func TestProgressEstimatesTheTimeLeft(t *testing.T) {
	a, b := turn{"kstone", "seq"}, turn{"bbolt", "seq"}
	other := turn{"kstone", "point"}
	p, c, _ := testProgress(false, a, b, other, a)
	if _, ok := p.remaining(); ok {
		t.Error("a time left before anything has run")
	}
	p.begin(0)
	c.pass(10 * time.Second)
	p.finish()
	p.begin(0)
	// Everything is expected to take 10 s; 4 s of the second turn are over.
	c.pass(4 * time.Second)
	if d, _ := p.remaining(); d != 26*time.Second {
		t.Errorf("%v left, want 26 s", d)
	}
	if s := p.state(); !strings.HasPrefix(s, "35 % [2/4] 26s left: bbolt seq, round 1") {
		t.Errorf("state %q", s)
	}
	c.pass(26 * time.Second)
	p.finish() // took 30 s; the average is 20 s; the last turn is known to take 10 s
	p.begin(0)
	if d, _ := p.remaining(); d != 30*time.Second {
		t.Errorf("%v left, want 30 s", d)
	}
}

func TestProgressOnATerminalIsOneLine(t *testing.T) {
	p, _, out := testProgress(true, turn{"kstone", "seq"})
	p.begin(0)
	p.workload("fillseq ×1")
	p.result(result.Record{Engine: "kstone", Table: "seq",
		Figures: result.Figures{result.PerSecond: 5}})
	if s := out.String(); strings.Contains(s, "\n") || !strings.HasSuffix(s, "fillseq ×1") ||
		strings.Count(s, "\r") != 2 {
		t.Errorf("written %q", s)
	}
	p.result(result.Record{Engine: "kstone", Table: "seq", Error: errors.ErrUnsupported.Error()})
	p.finish()
	p.end()
	if s := out.String(); strings.Count(s, "\n") != 2 ||
		!strings.Contains(s, "failed: unsupported") ||
		!strings.HasSuffix(s, "1 of 1 chains in 0s\n") {
		t.Errorf("written %q", s)
	}
}

func TestProgressElsewhereIsPlainLines(t *testing.T) {
	p, _, out := testProgress(false, turn{"kstone", "seq"})
	p.begin(0)
	p.workload("fillseq ×1")
	p.result(result.Record{Engine: "kstone", Table: "seq",
		Figures: result.Figures{result.PerSecond: 5}})
	p.finish()
	p.end()
	if s := out.String(); strings.ContainsAny(s, "\r\x1b") || strings.Count(s, "\n") != 3 ||
		!strings.Contains(s, "fillseq ×1 5/s\n") {
		t.Errorf("written %q", s)
	}
}
