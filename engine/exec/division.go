package exec

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// A division lets several goroutines run the same steps of a plan, each on its share of what the
// access at the bottom reads: stripes of a table, or streams of an index.
//
//	group, sort     every worker keeps groups or rows of its own; when all have ended, they are
//	                brought together
//	gather          the workers' rows are handed on as they come, for all other steps
//
// Below them are accesses, filters, projections, and joins whose left side is divided; the right
// side of a hash join is read once.
//
// The naive way: start the workers and give each a fixed part. Why it fails: most queries are
// small, and starting goroutines costs more than they take; and parts are of different sizes. The
// way taken: the caller's goroutine is the first worker and begins at once. Only when what is left
// is expected to take long, or it has taken as long, does it start the others; and
// all take the next stripe or stream when they are done with one. So the results are right
// whichever of them are started, down to the caller alone.
//
// Rows have numbers: that of the stripe or stream, then that of the row in it, as its worker
// counts. Equal keys are sorted by it, and groups come out by that of their first rows, so that
// sorts and groups do not depend on which worker has read what.
//
// Only what is read from one snapshot is divided: see store.Sharer.
type division struct {
	*runner
	node    plan.Node
	leaf    *plan.Access
	workers int // at most

	caller  *worker
	work    func(*worker) error // of each worker, while run runs
	unbuilt int                 // joins of the caller's whose right sides are still to be read

	stripes *store.Share // of an interval
	streams atomic.Int64 // the next one of an index

	began    time.Time // of the caller's reading
	read     int       // items since then
	look     int       // items until the others may help
	started  bool
	helpers  sync.WaitGroup
	stop     context.CancelCauseFunc
	building sync.Mutex
	builds   map[*plan.JoinNode]*build // the right sides of joins; guarded by building
	mu       sync.Mutex                // guards what follows
	others   []*worker
	failed   error       // the first of the helpers'
	broken   atomic.Bool // there is one
}

// worker is one goroutine of a division, with operators and counters of its own.
type worker struct {
	*runner
	division *division
	index    int // 0: the caller's
	op       operator
	part     int64 // the stripe or stream that is read
	rows     int64 // that have a number
	// onBlock, if not nil, is called before rows of a block are handed on. It returns false if no
	// more are wanted.
	onBlock func() bool
	// ends hand on, at the end of a part, rows that operators have kept back, the last of them
	// first. They return false if no more are wanted.
	ends []func() bool
}

// build is the right side of a join. The right side may have joins in turn, so each has a mutex of
// its own, held while it is read.
type build struct {
	mu     sync.Mutex
	done   bool
	hashed *hashed // nil if it has no room in memory
}

// partBits is the place of the part in the number of a row.
const partBits = 40

// errStopped ends helpers whose rows are not wanted any more.
var errStopped = errors.New("exec: no more rows are wanted")

// divide returns a division of a step by the items of an access below it, nil if the plan has none
// or the execution divides nothing.
func (r *runner) divide(n plan.Node, leaf *plan.Access) (*division, error) {
	workers := min(r.opt.Workers, runtime.GOMAXPROCS(0))
	if leaf == nil || workers < 2 || r.worker != nil {
		return nil, nil
	}
	if _, ok := r.reader.(store.Sharer); !ok {
		return nil, nil
	}
	d := &division{runner: r, node: n, leaf: leaf, workers: workers,
		builds: map[*plan.JoinNode]*build{}}
	var err error
	d.caller, err = d.newWorker(r.ctx, 0)
	return d, err
}

// newWorker compiles the steps of one worker.
func (d *division) newWorker(ctx context.Context, index int) (*worker, error) {
	r := *d.runner
	w := &worker{runner: &r, division: d, index: index}
	r.counters = nil // workers compile at the same time
	if r.ctx, r.worker = ctx, w; index > 0 {
		r.actuals = map[plan.Node]*plan.Actual{}
	}
	var err error
	w.op, err = r.compile(d.node)
	return w, err
}

// run does the work of all workers: of the caller's in this goroutine. It returns when all are
// done.
func (d *division) run(work func(*worker) error) error {
	d.work, d.started, d.read, d.look, d.unbuilt, d.failed = work, false, 0, helpFrom, 0, nil
	d.stripes = new(store.Share)
	d.streams.Store(0)
	d.broken.Store(false)
	d.caller.part, d.caller.rows, d.caller.ends = 0, 0, nil
	defer func() { // after a panic
		if d.started {
			d.stop(errStopped) // they may wait for this goroutine to take their rows
			d.wait()
		}
	}()
	err := work(d.caller)
	if err != nil && d.started {
		d.stop(errStopped)
	}
	d.wait()
	for _, b := range d.builds {
		if b.hashed != nil {
			b.hashed.kept.release()
		}
	}
	clear(d.builds)
	return first(err, d.failed)
}

// build returns the right side of a join: read by the worker that is first to ask for it. It is nil
// if read is, or has returned nil.
func (d *division) build(n *plan.JoinNode, read func() (*hashed, error)) (*hashed, error) {
	d.building.Lock()
	b := d.builds[n]
	if b == nil {
		b = new(build)
		d.builds[n] = b
	}
	d.building.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done || read == nil {
		return b.hashed, nil
	}
	h, err := read()
	if err == nil {
		b.done, b.hashed = true, h
	}
	return h, err
}

// wait waits for the helpers.
func (d *division) wait() {
	if d.started {
		d.helpers.Wait()
		d.stop(nil)
		d.started = false
		for _, w := range d.others {
			w.ctx = d.ctx // for files that are still to be read
			for n, a := range w.actuals {
				n.Actual().Add(a)
			}
		}
		d.others = nil
	}
}

// left reports whether a stripe or stream is still to be read.
func (d *division) left() bool {
	if d.leaf.Index == nil {
		return d.stripes.Left()
	}
	return d.streams.Load() < int64(len(d.leaf.Streams))
}

// nextStream returns the position of the next stream to read.
func (d *division) nextStream() int { return int(d.streams.Add(1)) - 1 }

// reads takes note of a block that is going to be read. It returns false if no more are wanted.
func (w *worker) reads(b *store.Block) bool {
	d := w.division
	if d.leaf.Index == nil && !w.enter(int64(b.Stripe())) {
		return false
	}
	switch {
	case w.index > 0:
	case d.started:
		if d.broken.Load() {
			return false
		}
	case d.unbuilt == 0:
		if d.pays() && d.left() {
			d.start()
		}
		d.read += b.Len()
	}
	return w.onBlock == nil || w.onBlock()
}

// pays reports whether the others should help from here on. It looks at the time when the number of
// items has doubled.
func (d *division) pays() bool {
	if d.read == 0 {
		d.began = d.opt.Clock()
	}
	if d.read < d.look {
		return false
	}
	d.look = 2 * d.read
	done := d.opt.Clock().Sub(d.began)
	left := float64(done) * (d.leaf.Reads/float64(d.read) - 1)
	return max(float64(done), left) >= float64(helpWorth)
}

// enter ends a part if another one begins. It returns false if no more rows are wanted.
func (w *worker) enter(part int64) bool {
	if part != w.part {
		for i := len(w.ends) - 1; i >= 0; i-- {
			if !w.ends[i]() {
				return false
			}
		}
	}
	w.part = part
	return true
}

// number returns the number of the next row.
func (w *worker) number() int64 {
	w.rows++
	return w.part<<partBits | w.rows
}

// numbered returns the rows of the worker.
func (w *worker) numbered(yield func(seq int64, row []expr.Value) bool) error {
	return w.op.run(func(row []expr.Value) bool { return yield(w.number(), row) })
}

// helperCount returns how many helpers there may be.
func (d *division) helperCount() int { return d.workers - 1 }

// start starts the helpers.
func (d *division) start() {
	var ctx context.Context
	ctx, d.stop = context.WithCancelCause(d.ctx)
	d.started = true
	n := d.helperCount()
	d.leaf.Actual().Workers = 1 + n
	for i := 1; i <= n; i++ {
		d.helpers.Go(func() { d.help(ctx, i) })
	}
}

// help does the work of a helper.
func (d *division) help(ctx context.Context, index int) {
	w, err := d.newWorker(ctx, index)
	if err == nil {
		err = d.work(w)
	}
	if err != nil && !errors.Is(err, errStopped) {
		d.broken.Store(true)
		d.stop(errStopped)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, errStopped) {
		d.failed = first(d.failed, err)
	}
	d.others = append(d.others, w)
}
