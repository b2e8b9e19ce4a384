package runner

import (
	"fmt"
	"os"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// progress writes one line: what runs, what came last, and the time left. The time
// left of a chain that has run before is what it took then; others are assumed to
// take as long as the average so far.
type progress struct {
	s       Settings
	started time.Time
	turn    time.Time
	key     [2]string // engine, chain
	took    map[[2]string]time.Duration
	left    []([2]string)
	total   int
}

func newProgress(s Settings) *progress {
	p := &progress{s: s, started: time.Now(), took: map[[2]string]time.Duration{}}
	for range s.Repeats {
		for _, c := range s.Chains {
			for _, e := range s.Engines {
				p.left = append(p.left, [2]string{e, c})
			}
		}
	}
	p.total = len(p.left)
	return p
}

func (p *progress) begin(engine, chain string, repeat int) {
	p.key, p.turn = [2]string{engine, chain}, time.Now()
	p.line(fmt.Sprintf("%s %s, round %d", engine, chain, repeat+1))
}

func (p *progress) finish() {
	p.took[p.key] = time.Since(p.turn)
	for i, k := range p.left {
		if k == p.key {
			p.left = append(p.left[:i], p.left[i+1:]...)
			break
		}
	}
}

func (p *progress) result(r workload.Result) {
	if r.Error != "" {
		p.write(fmt.Sprintf("%s %s: %s\n", r.Engine, r.Chain, r.Error))
		return
	}
	p.line(fmt.Sprintf("%s %s: %s %.0f/s", r.Engine, r.Chain, r.Workload, r.PerSecond))
}

func (p *progress) line(what string) {
	p.write(fmt.Sprintf("[%d/%d, %s left] %s", p.total-len(p.left)+1, p.total,
		p.remaining(), what))
}

// write shows a line in place of the last one, or below it if this is no terminal.
func (p *progress) write(text string) {
	if f, ok := p.s.Progress.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			text = "\r\x1b[K" + text
		} else {
			text += "\n"
		}
	}
	fmt.Fprint(p.s.Progress, text)
}

func (p *progress) remaining() string {
	var known, sum time.Duration
	for _, d := range p.took {
		known += d
	}
	if len(p.took) == 0 {
		return "?"
	}
	mean := known / time.Duration(len(p.took))
	for _, k := range p.left {
		if d, ok := p.took[k]; ok {
			sum += d
		} else {
			sum += mean
		}
	}
	return max(sum-time.Since(p.turn), time.Second).Round(time.Second).String()
}

func (p *progress) end() {
	p.write(fmt.Sprintf("%d chains in %s\n", p.total-len(p.left),
		time.Since(p.started).Round(time.Second)))
}
