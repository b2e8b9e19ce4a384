package table

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/statistics"
)

// Statistics without a call of Analyze. A query whose tables have none, or if a fifth of their
// rows has been written since, starts a refresh: a goroutine looks at Options.SampleRows rows and
// replaces what Analyze or an earlier refresh has found. Planning waits for it, for maxStatsWait
// at most, if there are no statistics, or if they are very old; otherwise a query goes on with
// what there is, and has another plan next time.
//
// Of the statistics of a table that is not larger than the sample, nothing is stored: to read it
// again costs no more than a commit. Those that were stored by another process are compared with
// a count by a small sample before they are replaced.

const (
	// maxStatsWait bounds how long planning waits for statistics.
	maxStatsWait = 100 * time.Millisecond
	// Statistics are old when freshRows and freshPart of the rows have been written since, and
	// planning waits for others when farRows times as many have.
	freshRows = 100
	freshPart = 0.2
	farRows   = 10
	// countParts is the size of the sample that counts the rows, and maxDrift up to which
	// factor what it counts is taken for what is known already.
	countParts = 100
	maxDrift   = 1.4
	// refreshPause is how many times as long as a refresh takes there is none of that table
	// after it.
	refreshPause = 20
)

// refresher owns the goroutines that refresh statistics. One of them reads at a time.
type refresher struct {
	ctx  context.Context //nolint:containedctx // of the goroutines
	stop context.CancelFunc
	turn chan struct{}

	mu     sync.Mutex
	closed bool           // Guarded by mu
	active sync.WaitGroup // Add is guarded by mu
}

func newRefresher() *refresher {
	r := &refresher{turn: make(chan struct{}, 1)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// start runs f in a goroutine, unless close has been called.
func (r *refresher) start(f func(context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.active.Go(func() {
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }()
			f(r.ctx)
		case <-r.ctx.Done():
		}
	})
	return true
}

// close ends the goroutines, and returns when they have ended.
func (r *refresher) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.active.Wait()
}

// freshness is what decides whether the statistics of a table are old.
type freshness struct {
	written atomic.Int64 // rows, by this process
	due     atomic.Int64 // from how many written rows on statistics are old
	far     atomic.Int64 // from how many on they are very old

	mu       sync.Mutex
	running  chan struct{} // closed when the refresh under way has ended. Guarded by mu
	earliest time.Time     // of the next refresh. Guarded by mu
	checked  bool          // what was stored is of this process, or was counted. Guarded by mu
}

// collected takes note of statistics of so many rows, which were read when so many had been
// written.
func (f *freshness) collected(rows float64, written int64) {
	wait := 1 + min(freshRows+freshPart*rows, math.MaxInt64/(4*farRows))
	if rows == 0 {
		wait = 1
	}
	f.due.Store(written + int64(wait))
	f.far.Store(written + int64(farRows*wait))
}

// analyzed is collected for statistics that are stored.
func (f *freshness) analyzed(rows float64, written int64) {
	f.collected(rows, written)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = true
}

// refresh sees to it that the statistics of tables are refreshed if they are old; first says
// that there is no plan yet that could be used meanwhile. It waits if there is something to wait
// for.
func (db *DB) refresh(cores []*tableCore, first bool) {
	if db.opt.SampleRows < 0 {
		return
	}
	var running []chan struct{}
	for _, c := range cores {
		n := c.fresh.written.Load()
		if n < c.fresh.due.Load() && (!first || c.complete()) {
			continue
		}
		far := n >= c.fresh.far.Load()
		wait := far || first && c.stats.Load() == nil
		if done := db.startRefresh(c, far); done != nil && wait && !slices.Contains(running, done) {
			running = append(running, done)
		}
	}
	if len(running) == 0 {
		return
	}
	timer := time.NewTimer(maxStatsWait)
	defer timer.Stop()
	for _, done := range running {
		select {
		case <-done:
		case <-timer.C:
			return
		}
	}
}

// complete reports whether the statistics, if there are any, speak of all indexes.
func (c *tableCore) complete() bool {
	s, t := c.stats.Load(), c.state.Load().Schema
	return s == nil || !slices.ContainsFunc(t.Indexes, func(x *schema.Index) bool {
		return x.State == schema.Ready && s.Key(x) == nil
	})
}

// startRefresh starts a refresh of a table, unless there is one under way, and returns what is
// closed when it has ended; nil if it is too early for one that is not urgent.
func (db *DB) startRefresh(c *tableCore, urgent bool) chan struct{} {
	f := &c.fresh
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running != nil {
		return f.running
	}
	start := db.Now()
	if !urgent && start.Before(f.earliest) {
		return nil
	}
	done := make(chan struct{})
	if !db.refresher.start(func(ctx context.Context) {
		published := sync.OnceFunc(func() { close(done) })
		err := db.refreshTable(ctx, c, published)
		f.mu.Lock()
		now := db.Now()
		f.earliest, f.running = now.Add(refreshPause*now.Sub(start)), nil
		f.mu.Unlock()
		published()
		if err != nil && ctx.Err() == nil {
			db.opt.Logger.Debug("statistics were not refreshed",
				slog.String("table", c.state.Load().Schema.Name), slog.Any("error", err))
		}
	}) {
		return nil
	}
	f.running = done
	return done
}

// refreshTable collects the statistics of a table, and calls published as soon as queries are
// planned with them.
func (db *DB) refreshTable(ctx context.Context, c *tableCore, published func()) error {
	if b, ok := db.store.(store.Backgrounder); ok { // it may be closed first
		both, end, err := b.Background(ctx)
		if err != nil {
			return err
		}
		defer end()
		ctx = both
	}
	f := &c.fresh
	written, old := f.written.Load(), c.stats.Load()
	snap, err := db.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	if _, ok := snap.snap.(store.Sampler); !ok { // all of it would be read
		f.due.Store(math.MaxInt64)
		f.far.Store(math.MaxInt64)
		return nil
	}
	st, err := snap.stateOf(ctx, c)
	if err != nil {
		return err
	}
	if same, err := db.known(ctx, c, snap, st); same || err != nil {
		if err == nil {
			f.collected(old.Rows, written)
		}
		return err
	}
	s, err := statistics.Collect(ctx, st.Schema, snap.snap,
		statistics.Options{SampleRows: db.opt.SampleRows, Counter: db.counter()})
	if err != nil {
		return err
	}
	s.At = db.Now()
	f.collected(s.Rows, written)
	if s.Rows == 0 && old == nil { // what is assumed of an unknown table is nearer to its future
		return nil
	}
	return db.publish(ctx, c, old, s, published)
}

// known reports whether the statistics are those that another process has stored, and are as
// good as a sample.
func (db *DB) known(ctx context.Context, c *tableCore, snap *Snapshot, st *tableState) (bool,
	error) {
	f, old := &c.fresh, c.stats.Load()
	f.mu.Lock()
	checked := f.checked
	f.checked = true
	f.mu.Unlock()
	if old == nil || checked || !c.complete() {
		return false, nil
	}
	rows, err := statistics.Count(ctx, st.Schema, snap.snap, countParts)
	return rows <= maxDrift*old.Rows && old.Rows <= maxDrift*rows, err
}

// publish replaces old statistics, unless another process has done so, and stores the new ones.
func (db *DB) publish(ctx context.Context, c *tableCore, old, s *plan.TableStats,
	published func()) error {
	if err := db.schemaMu.lock(ctx); err != nil {
		return err
	}
	defer db.schemaMu.unlock()
	st, err := c.present()
	if err != nil || c.stats.Load() != old {
		return err
	}
	set, err := c.nextStats(st.Schema, s)
	if err != nil {
		return err
	}
	c.stats.Store(s)
	published()
	if s.Sampled == 0 && (old == nil || old.Sampled == 0) {
		return nil
	}
	return db.store.Commit(context.WithoutCancel(ctx), set)
}

// nextStats gives statistics the next epoch, and returns the commit that stores them. The caller
// holds schemaMu.
func (c *tableCore) nextStats(t *schema.Table, s *plan.TableStats) (*store.WriteSet, error) {
	s.Epoch = 1
	if old := c.stats.Load(); old != nil {
		s.Epoch = old.Epoch + 1
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	set := new(store.WriteSet)
	set.Put(catalogueKey(markStats, t.ID), data)
	return set, nil
}
