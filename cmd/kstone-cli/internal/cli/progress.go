package cli

import (
	"io"
	"iter"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
)

// Busy runs fn with a spinner, or with a bar if done returns how much of the total is done.
func (a *App) Busy(doing string, total int64, done func() int64, fn func() error) error {
	if done == nil {
		total = -1
	}
	defer meter.New(a.Err, a.ErrTTY, total, doing).Spin(done)()
	return fn()
}

// Gauge returns a function that shows how many bytes are done, and one that takes the bar
// away. The total is that of the first call.
func (a *App) Gauge(doing string) (set func(done, total int64), stop func()) {
	var m *meter.Meter
	set = func(done, total int64) {
		if m == nil {
			m = meter.New(a.Err, a.ErrTTY, total, doing)
		}
		m.Bytes(done)
	}
	return set, func() {
		if m != nil {
			m.Done()
		}
	}
}

// Followed returns values while a bar shows how many of about total have come. Why not on a
// terminal that shows the values, too: the bar would stand among them.
func Followed[T any](a *App, doing string, total int64, values iter.Seq2[T, error],
) iter.Seq2[T, error] {
	if !a.ErrTTY {
		return values
	}
	return func(yield func(T, error) bool) {
		m := meter.New(a.Err, true, max(total, 1), doing)
		defer m.Done()
		n := int64(0)
		for v, err := range values {
			if n++; n%256 == 0 {
				m.Set(n)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// patience is how long a command may be silent on a terminal.
const patience = time.Second

// Patient returns the output, and a function for the end of what is written. As long as nothing
// is written, a spinner says what the program is doing.
func (a *App) Patient(doing string) (out io.Writer, done func()) {
	if !a.ErrTTY {
		return a.Out, func() {}
	}
	stop := make(chan func(), 1)
	start := time.AfterFunc(patience, func() {
		stop <- meter.New(a.Err, true, -1, doing).Spin(nil)
	})
	w := &firstWrite{w: a.Out, first: func() {
		if !start.Stop() {
			(<-stop)()
		}
	}}
	return w, w.end
}

// firstWrite calls a function before the first byte is written, or at the end.
type firstWrite struct {
	w     io.Writer
	first func()
}

func (w *firstWrite) end() {
	if w.first != nil {
		w.first()
		w.first = nil
	}
}

// Write implements io.Writer.
func (w *firstWrite) Write(b []byte) (int, error) {
	w.end()
	return w.w.Write(b)
}
