package runner

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// turn is one engine's chain.
type turn struct{ engine, chain string }

// progress reports what runs, how much is done and how long the rest will take: on a
// terminal in one line that is written over and over, elsewhere a line for every
// result. A chain that has run before is expected to take what it took then; others
// what the chain took other engines, or else the average.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time
	started  time.Time
	total    int
	ticker   *time.Ticker
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	left  []turn     // the first is running
	took  map[turn]time.Duration
	begun time.Time // of the running turn
	round int
	what  string // the running workload
}

const refresh = time.Second

func newProgress(w io.Writer, turns []turn) *progress {
	p := &progress{
		w: w, terminal: isTerminal(w), now: time.Now, left: turns, total: len(turns),
		took: map[turn]time.Duration{}, stop: make(chan struct{}),
	}
	p.started = p.now()
	if p.terminal {
		p.ticker = time.NewTicker(refresh)
		p.stopped.Go(p.tick)
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) tick() {
	for {
		select {
		case <-p.stop:
			return
		case <-p.ticker.C:
			p.mu.Lock()
			p.show("")
			p.mu.Unlock()
		}
	}
}

// begin says that the next turn starts.
func (p *progress) begin(repeat int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.round, p.what = p.now(), repeat+1, ""
	p.show("")
}

// workload says what is measured now.
func (p *progress) workload(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what = name; p.terminal {
		p.show("")
	}
}

// result says what came out.
func (p *progress) result(r result.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Error != "":
		p.permanent(fmt.Sprintf("%s %s failed: %s", r.Engine, r.Table, r.Error))
	case !p.terminal:
		p.show(fmt.Sprintf("%.0f/s", r.Figures[result.PerSecond]))
	}
}

// finish says that the turn is over.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[p.left[0]] = p.now().Sub(p.begun)
	p.left = p.left[1:]
}

// end says that nothing more comes.
func (p *progress) end() {
	close(p.stop)
	p.stopped.Wait()
	if p.ticker != nil {
		p.ticker.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.permanent(fmt.Sprintf("%d of %d chains in %s", p.total-len(p.left), p.total,
		p.now().Sub(p.started).Round(time.Second)))
}

// show writes the state, with a remark after it.
func (p *progress) show(remark string) {
	if len(p.left) == 0 {
		return
	}
	text := p.state()
	if remark != "" {
		text += " " + remark
	}
	if p.terminal {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K"+text)
		return
	}
	_, _ = fmt.Fprintln(p.w, text)
}

// permanent writes a line that stays.
func (p *progress) permanent(text string) {
	if p.terminal {
		text = "\r\x1b[K" + text
	}
	_, _ = fmt.Fprintln(p.w, text)
}

// state is the line: share of the time, turns, time left, what runs.
func (p *progress) state() string {
	share, left := "", "time left unknown"
	if d, ok := p.remaining(); ok {
		spent := p.now().Sub(p.started)
		share = fmt.Sprintf("%2.0f %% ", 100*float64(spent)/float64(spent+d))
		left = d.Round(time.Second).String() + " left"
	}
	t := p.left[0]
	text := fmt.Sprintf("%s[%d/%d] %s: %s %s, round %d", share, p.total-len(p.left)+1, p.total,
		left, t.engine, t.chain, p.round)
	if p.what != "" {
		text += ", " + p.what
	}
	return text
}

// remaining is the time that is left; ok is false as long as there is nothing to go by.
func (p *progress) remaining() (d time.Duration, ok bool) {
	if len(p.took) == 0 {
		return 0, false
	}
	for i, t := range p.left {
		expected := p.expect(t)
		if i == 0 {
			expected = max(expected-p.now().Sub(p.begun), 0)
		}
		d += expected
	}
	return max(d, time.Second), true
}

// expect is how long a turn will take.
func (p *progress) expect(t turn) time.Duration {
	if d, ok := p.took[t]; ok {
		return d
	}
	var same, all mean
	for other, d := range p.took {
		all.add(d)
		if other.chain == t.chain {
			same.add(d)
		}
	}
	if same.n > 0 {
		return same.value()
	}
	return all.value()
}

type mean struct {
	sum time.Duration
	n   int
}

func (m *mean) add(d time.Duration) { m.sum, m.n = m.sum+d, m.n+1 }
func (m mean) value() time.Duration { return m.sum / time.Duration(m.n) }
