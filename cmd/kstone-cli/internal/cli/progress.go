package cli

import (
	"io"
	"iter"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/meter"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
)

// Work is what a command does that takes a while. Done, if not nil, returns how much is done of the
// total, which is -1 if it is not known; in bytes if Sized is set.
type Work struct {
	Doing string
	Total int64
	Done  func() int64
	Sized bool
	since time.Time // when it has begun; zero: when it is shown
}

// Busy runs fn while a bar shows how far it is, at which rate, and how long it will take.
func (a *App) Busy(w Work, fn func() error) error {
	defer a.Follow(w)()
	return fn()
}

// Follow shows how far some work is, until the function that it returns is called.
func (a *App) Follow(w Work) (stop func()) {
	if w.Done == nil {
		w.Total = -1
	}
	m := meter.New(a.Err, a.ErrTTY, w.Total, w.Doing)
	if !w.since.IsZero() {
		m.Since(w.since)
	}
	return m.Spin(w.Done, w.Sized)
}

// bars returns a function that shows how much of a total is done of what it names, in bytes if
// sized is set, and one that takes the bar away.
func (a *App) bars(sized bool) (show func(doing string, done, total int64), stop func()) {
	var m *meter.Meter
	now := ""
	stop = func() {
		if m != nil {
			m.Done()
		}
	}
	return func(doing string, done, total int64) {
		if m == nil || doing != now {
			stop()
			m, now = meter.New(a.Err, a.ErrTTY, total, doing), doing
		}
		if sized {
			m.Bytes(done)
		} else {
			m.Set(done)
		}
	}, stop
}

// Gauge returns a function that shows how many bytes are done, and one that takes the bar
// away. The total is that of the first call.
func (a *App) Gauge(doing string) (set func(done, total int64), stop func()) {
	show, stop := a.bars(true)
	return func(done, total int64) { show(doing, done, total) }, stop
}

// Followed returns values while a bar shows how many of about total have come. Why not on a
// terminal that shows the values, too: the bar would appear among them.
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

// FollowedRows is Followed for the rows of a table, unless they go to a terminal.
func (a *App) FollowedRows(doing string, of *table.Table, rows iter.Seq2[[]expr.Value, error],
) iter.Seq2[[]expr.Value, error] {
	stats := of.Stats()
	if stats == nil || a.OutTTY {
		return rows
	}
	return Followed(a, doing, int64(stats.Rows), rows)
}

// patience is how long a command may be silent on a terminal.
const patience = time.Second

// Patient returns the output, and a function for the end of what is written. As long as nothing is
// written to a terminal, a bar says what the program is doing; if the output is not a terminal, to
// the end.
func (a *App) Patient(work Work) (out io.Writer, done func()) {
	if !a.ErrTTY {
		return a.Out, func() {}
	}
	work.since = time.Now()
	stop := make(chan func(), 1)
	start := time.AfterFunc(patience, func() { stop <- a.Follow(work) })
	w := &firstWrite{w: a.Out, first: func() {
		if !start.Stop() {
			(<-stop)()
		}
	}}
	if !a.OutTTY {
		return a.Out, w.end
	}
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
