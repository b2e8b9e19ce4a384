package engine

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
)

const (
	// keysPerLane is how many keys make it worth while to start one more goroutine.
	keysPerLane = 8192
	maxLanes    = 8
)

// divide makes a lane for each of so many goroutines, the caller's included; 0 means as
// many as are useful for n keys.
func (l *lookups) divide(workers, n int) {
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), maxLanes)
	}
	workers = min(workers, n/keysPerLane, base.NumStripes)
	for range workers - 1 {
		l.more = append(l.more, lanesPool.Get().(*lane))
	}
}

func (l *lookups) eachLane(f func(*lane)) {
	f(&l.lane)
	for _, w := range l.more {
		f(w)
	}
}

// readDivided is read in all lanes. It calls each, perhaps at the same time for several
// lanes, when the keys in a lane's list are done.
func (l *lookups) readDivided(
	ctx context.Context, r *reader, each func(*lane),
) error {
	if err := l.begin(ctx, r); err != nil {
		return err
	}
	defer r.db.snaps.release(&l.node)
	return l.runLanes(ctx, r.db, each)
}

// runLanes is readDivided at the snapshot that l.node holds.
func (l *lookups) runLanes(ctx context.Context, db *DB, each func(*lane)) error {
	if len(l.more) == 0 {
		return l.run(ctx, db, l.node.seq, func([]base.Lookup) { each(&l.lane) })
	}
	return l.runDivided(ctx, db, each)
}

// runDivided is run in all lanes.
func (l *lookups) runDivided(ctx context.Context, db *DB, each func(*lane)) error {
	d := division{l: l, db: db, each: each, failedAt: math.MaxInt}
	var wg sync.WaitGroup
	for _, w := range l.more {
		wg.Go(func() { d.work(ctx, w) })
	}
	d.work(ctx, &l.lane)
	wg.Wait()
	return d.err
}

// division is a search that several lanes share: each takes the next stripes.
type division struct {
	l    *lookups
	db   *DB
	each func(*lane)

	mu       sync.Mutex
	next     int // stripe
	failedAt int // the first stripes that could not be read
	err      error
}

func (d *division) work(ctx context.Context, w *lane) {
	for {
		lo, hi := d.take()
		if lo == base.NumStripes {
			return
		}
		err := ctx.Err()
		if err != nil {
			err = context.Cause(ctx)
		} else if err = w.ask(d.l, d.db, lo, hi, d.l.node.seq); err != nil {
			err = d.db.readError(err)
		}
		if err != nil {
			d.fail(lo, err)
			return
		}
		d.each(w)
	}
}

// take returns the next stripes to look at, none after a failure.
func (d *division) take() (lo, hi int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lo = d.next; d.err != nil || lo == base.NumStripes {
		return base.NumStripes, base.NumStripes
	}
	d.next = d.l.groupEnd(lo)
	return lo, d.next
}

// fail notes an error. Of several the one about the first stripes counts: it is the same
// however the work was divided.
func (d *division) fail(lo int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if lo < d.failedAt {
		d.failedAt, d.err = lo, err
	}
}
