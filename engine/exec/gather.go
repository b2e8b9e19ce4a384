package exec

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/expr"
)

// gather hands on the rows of all workers of a division, in the order of the parts that they come
// from, so that the order does not depend on which worker has read what.
//
// Each worker takes parts in ascending order. The caller's rows are yielded as they are while no
// helper can have rows of an earlier part; otherwise they are copied, and wait, as do those of the
// helpers, in outboxes of a bounded number of batches.
type gather struct{ *division }

const (
	// gatherRows and gatherBytes are how many rows are handed over together.
	gatherRows  = 128
	gatherBytes = 64 << 10
	// outboxBatches is how many batches a helper is ahead, and the caller.
	outboxBatches = 16
)

// rowBatch has copies of rows of one part.
type rowBatch struct {
	part int64
	rows rowTable
	size int64
}

// full reports whether the batch has to be handed over.
func (b *rowBatch) full() bool { return b.rows.count == gatherRows || b.size >= gatherBytes }

func (b *rowBatch) add(row []expr.Value) {
	b.size += rowBytes(row)
	b.rows.add(row)
}

// outbox is what a helper sends.
type outbox struct {
	batches chan *rowBatch // closed at the end
	// at is a part before which nothing will be sent any more. It stays where it is if the helper
	// ends early: what is to be yielded ends there, with err.
	at   atomic.Int64
	err  error     // set before batches is closed
	head *rowBatch // the next one, for the caller; nil: not received yet
}

// gathering is one run of a gather, in the caller's goroutine.
type gathering struct {
	*division
	yield   func([]expr.Value) bool
	boxes   []*outbox // of the helpers
	mine    []*rowBatch
	free    chan *rowBatch
	turn    bool // no helper has rows of an earlier part than the caller's
	stopped bool
	err     error // of the helper whose rows would be next
}

func (g *gather) run(yield func([]expr.Value) bool) error {
	run := &gathering{division: g.division, yield: yield,
		free: make(chan *rowBatch, outboxBatches)}
	for range g.helperCount() {
		b := &outbox{batches: make(chan *rowBatch, outboxBatches)}
		run.boxes = append(run.boxes, b)
	}
	return g.division.run(func(w *worker) error {
		if w.index > 0 {
			return w.send(run.boxes[w.index-1], run.free)
		}
		return run.caller(w)
	})
}

// caller does the work of the caller's worker.
func (g *gathering) caller(w *worker) error {
	begun := false
	w.onBlock = func() bool {
		if g.started && !begun { // all parts up to here are the caller's
			begun = true
			for _, b := range g.boxes {
				b.at.CompareAndSwap(0, w.part+1)
			}
		}
		g.turn = !g.started || g.settle(w.part, false)
		return !g.stopped
	}
	err := w.op.run(func(row []expr.Value) bool {
		if g.turn || !g.started {
			g.stopped = !g.yield(row)
			return !g.stopped
		}
		g.keep(w.part, row)
		if len(g.mine) > outboxBatches {
			g.turn = g.settle(w.part, true)
		}
		return !g.stopped
	})
	w.onBlock = nil
	if !g.started {
		return err
	}
	if err == nil && !g.stopped {
		g.settle(math.MaxInt64, true)
	}
	if g.stopped {
		g.stop(errStopped)
	}
	return first(err, g.err)
}

// keep copies a row that has to wait.
func (g *gathering) keep(part int64, row []expr.Value) {
	n := len(g.mine)
	if n == 0 || g.mine[n-1].part != part || g.mine[n-1].full() {
		g.mine = append(g.mine, newBatch(g.free, part))
		n++
	}
	g.mine[n-1].add(row)
}

// newBatch returns an empty batch, in the memory of one that has been used if there is one.
func newBatch(free chan *rowBatch, part int64) *rowBatch {
	select {
	case b := <-free:
		b.part = part
		return b
	default:
		return &rowBatch{part: part}
	}
}

// settle yields the rows that are next, whoever has read them, and reports whether those of the
// part that the caller reads are. If it waits, it returns when they are, or when all is stopped.
func (g *gathering) settle(part int64, wait bool) (turn bool) {
	for !g.stopped {
		least, from := part, (*outbox)(nil)
		mine := len(g.mine) > 0
		if mine {
			least = g.mine[0].part
		}
		for _, b := range g.boxes {
			at := b.at.Load() // before it is looked for a batch
			if b.head == nil {
				select {
				case b.head = <-b.batches:
				default:
				}
			}
			if b.head != nil {
				at = b.head.part
			}
			if at < least {
				least, from = at, b
			}
		}
		switch {
		case from == nil && !mine:
			return true
		case from == nil:
			g.emit(g.mine[0])
			g.mine = g.mine[1:]
		case from.head != nil:
			g.emit(from.head)
			from.head = nil
		case !wait:
			return false
		default:
			var more bool
			if from.head, more = <-from.batches; !more && from.err != nil {
				g.stopped, g.err = true, from.err
			}
		}
	}
	return false
}

// emit yields the rows of a batch.
func (g *gathering) emit(b *rowBatch) {
	for i := 0; i < b.rows.count && !g.stopped; i++ {
		g.stopped = !g.yield(b.rows.row(i))
	}
	b.rows.clear()
	b.size = 0
	select {
	case g.free <- b:
	default:
	}
}

// send does the work of a helper. What ends it early is of its outbox.
func (w *worker) send(out *outbox, free chan *rowBatch) error {
	var batch *rowBatch
	done := w.ctx.Done()
	flush := func() bool {
		if batch == nil {
			return true
		}
		select {
		case out.batches <- batch:
			batch = nil
		case <-done:
			out.err = context.Cause(w.ctx)
		}
		return out.err == nil
	}
	w.onBlock = func() bool {
		if out.at.Load() == w.part {
			return true
		}
		if !flush() {
			return false
		}
		out.at.Store(w.part)
		return true
	}
	defer close(out.batches)
	err := w.op.run(func(row []expr.Value) bool {
		if batch == nil {
			batch = newBatch(free, w.part)
		}
		batch.add(row)
		return !batch.full() || flush()
	})
	if out.err = first(out.err, err); out.err == nil && flush() {
		out.at.Store(math.MaxInt64)
	}
	return nil
}
