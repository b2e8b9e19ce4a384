// Package meter shows how far a long command has come, on terminals.
package meter

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/kstonedb/kstone/internal/figure"
)

// Meter is a progress bar with a rate and the time left. One that is not shown costs
// nothing. Its methods are for one goroutine, except that the reader that Reader
// returns may be read by another.
type Meter struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil if not shown
	what  string
	total int64
	start time.Time
	bytes atomic.Int64
	drawn time.Time
}

// redrawEvery keeps drawing from taking time from the work.
const redrawEvery = 100 * time.Millisecond

// New returns a meter that writes to w if shown. The total is in whatever Set counts,
// or in bytes with Reader; -1 if it is not known.
func New(w io.Writer, shown bool, total int64, what string) *Meter {
	m := &Meter{w: w, what: what, total: total, start: time.Now()}
	if shown {
		m.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSpinnerType(14), progressbar.OptionUseANSICodes(true),
		)
	}
	return m
}

// Since says that the work has begun earlier than the meter.
func (m *Meter) Since(start time.Time) { m.start = start }

// Reader returns r with its bytes counted.
func (m *Meter) Reader(r io.Reader) io.Reader { return &counter{r, m} }

type counter struct {
	r io.Reader
	m *Meter
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.m.bytes.Add(int64(n))
	return n, err
}

// due reports whether the bar is to be drawn again.
func (m *Meter) due() bool {
	if m.bar == nil || time.Since(m.drawn) < redrawEvery {
		return false
	}
	m.drawn = time.Now()
	return true
}

// Rows says how many rows have been handled; the bar shows the bytes read for them.
func (m *Meter) Rows(n int64) {
	if m.due() {
		m.draw(fmt.Sprintf("%s %s (%s)", m.what, figure.Rows(n),
			figure.PerSecond(n, time.Since(m.start))), m.bytes.Load())
	}
}

// Set says how many of the total are done.
func (m *Meter) Set(done int64) {
	if m.due() {
		m.draw(m.counted(done), done)
	}
}

// Bytes is Set for a total of bytes.
func (m *Meter) Bytes(done int64) {
	if m.due() {
		m.draw(m.sized(done), done)
	}
}

func (m *Meter) counted(done int64) string {
	return fmt.Sprintf("%s %s (%s)", m.what, figure.Count(done),
		figure.PerSecond(done, time.Since(m.start)))
}

func (m *Meter) sized(done int64) string {
	rate := int64(float64(done) / max(time.Since(m.start).Seconds(), 0.001))
	return fmt.Sprintf("%s %s (%s/s)", m.what, figure.Bytes(done), figure.Bytes(rate))
}

// draw draws the bar, with the time left. Why a full one is not shown: totals may be estimates, and
// it would be gone.
func (m *Meter) draw(text string, done int64) {
	if m.total > 0 && done > 0 {
		left := time.Duration(float64(time.Since(m.start)) * float64(max(m.total-done, 0)) /
			float64(done))
		text += ", " + figure.Duration(left.Round(time.Second)) + " left"
		done = min(done, m.total-1)
	}
	_ = m.bar.Set64(done)
	m.bar.Describe(text)
}

// Note prints a line above the bar.
func (m *Meter) Note(line string) {
	if m.bar != nil {
		_ = m.bar.Clear()
	}
	fmt.Fprintln(m.w, line)
}

// Done takes the bar away.
func (m *Meter) Done() {
	if m.bar != nil {
		_ = m.bar.Finish()
		_ = m.bar.Clear()
	}
}

// Spin draws a spinner with the time so far until the function it returns is called, perhaps
// several times. It calls done, if that is not nil, for how much is done of the total, in bytes if
// sized is set.
func (m *Meter) Spin(done func() int64, sized bool) (stop func()) {
	if m.bar == nil {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			if done != nil {
				n := done()
				text := m.counted(n)
				if sized {
					text = m.sized(n)
				}
				m.draw(text, n)
				continue
			}
			m.bar.Describe(fmt.Sprintf("%s (%s)", m.what,
				figure.Duration(time.Since(m.start).Round(time.Second))))
			_ = m.bar.Add(1)
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-gone
		m.Done()
	})
}
