// Package meter shows how far a long command has come, on terminals.
package meter

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
)

// Meter is a progress bar with a rate and the time left. One that is not shown costs
// nothing. Its methods are for one goroutine, except that the reader that Reader
// returns may be read by another.
type Meter struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil if not shown
	what  string
	start time.Time
	bytes atomic.Int64
	drawn time.Time
}

// redrawEvery keeps drawing from taking time from the work.
const redrawEvery = 100 * time.Millisecond

// New returns a meter that writes to w if shown. The total is in whatever Set counts,
// or in bytes with Reader; -1 if it is not known.
func New(w io.Writer, shown bool, total int64, what string) *Meter {
	m := &Meter{w: w, what: what, start: time.Now()}
	if shown {
		m.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30),
			progressbar.OptionSetPredictTime(true), progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSpinnerType(14), progressbar.OptionThrottle(redrawEvery),
			progressbar.OptionUseANSICodes(true),
		)
	}
	return m
}

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

// Rows says how many rows have been handled; the bar shows the bytes read for them.
func (m *Meter) Rows(n int64) {
	if m.bar == nil || time.Since(m.drawn) < redrawEvery {
		return
	}
	m.drawn = time.Now()
	m.bar.Describe(fmt.Sprintf("%s %s (%s)", m.what, present.Rows(n),
		present.PerSecond(n, time.Since(m.start))))
	_ = m.bar.Set64(m.bytes.Load())
}

// Set says how much of the total is done.
func (m *Meter) Set(done int64) {
	if m.bar != nil {
		_ = m.bar.Set64(done)
	}
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

// Spin draws a spinner until the function it returns is called.
func (m *Meter) Spin() (stop func()) {
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
				_ = m.bar.Add(1)
			}
		}
	}()
	return func() {
		close(quit)
		<-gone
		m.Done()
	}
}
