package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// scheduler runs flushes and compactions of all stripes: one goroutine flushes, so
// that flushes form groups with one sync and one manifest edit, and a few compact.
// They end with stop.
type scheduler struct {
	db     *DB
	ctx    context.Context //nolint:containedctx // the life of the goroutines
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	flushKick   chan struct{} // capacity 1
	compactKick chan struct{} // capacity: the workers
	// flushMu is held while a group is flushed, by the flusher or a caller of Flush.
	flushMu sync.Mutex
	builder stripe.Builder // guarded by flushMu

	lastFailure atomic.Pointer[error] // of the newest flush, nil if it succeeded

	burst burst
	// again wakes the flusher on a full disk; the flusher's.
	again *time.Timer

	mu      sync.Mutex
	busy    [base.NumStripes]bool    // being compacted; guarded by mu
	backoff [base.NumStripes]backoff // guarded by mu
	limiter limiter
}

// backoff keeps a stripe from being merged in vain again and again.
type backoff struct {
	failures int
	until    time.Time
}

var errStopped = errors.New("engine: background work stopped")

func newScheduler(db *DB) *scheduler {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &scheduler{
		db: db, ctx: ctx, cancel: cancel,
		flushKick:   make(chan struct{}, 1),
		compactKick: make(chan struct{}, db.opts.CompactionWorkers),
		limiter:     limiter{perSecond: db.opts.CompactionBytesPerSecond},
	}
}

func (s *scheduler) start() {
	s.wg.Go(s.flushLoop)
	for range s.db.opts.CompactionWorkers {
		s.wg.Go(s.compactLoop)
	}
	s.kickFlush()
	s.kickCompact()
}

// stop ends the goroutines; a merge under way is abandoned, a flush finished.
func (s *scheduler) stop() {
	s.cancel(errStopped)
	s.wg.Wait()
}

func (s *scheduler) kickFlush() {
	select {
	case s.flushKick <- struct{}{}:
	default:
	}
}

func (s *scheduler) kickCompact() { fillUp(s.compactKick) }

// compactLater has merges looked for after a pause. Why the timer has the channel alone: it
// may fire long after Close, and must not keep the database in memory until then.
func (s *scheduler) compactLater(pause time.Duration) {
	kicks := s.compactKick
	time.AfterFunc(pause, func() { fillUp(kicks) })
}

func fillUp(kicks chan struct{}) {
	for range cap(kicks) {
		select {
		case kicks <- struct{}{}:
		default:
			return
		}
	}
}

// flushFailure returns the error of the newest flush if it failed.
func (s *scheduler) flushFailure() error {
	if p := s.lastFailure.Load(); p != nil {
		return *p
	}
	return nil
}

// retryAfter is the pause after a failed flush or merge (a full disk, mostly); that
// before the next merge of the same stripe doubles up to retryMost.
const (
	retryAfter = 100 * time.Millisecond
	retryMost  = time.Minute
)

func (s *scheduler) flushLoop() {
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	seen := s.db.metrics.commits.Load()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.flushKick:
		case <-idle.C:
			n := s.db.metrics.commits.Load()
			if n == seen && s.db.failure.Load() == nil {
				s.flushDeletes()
			}
			seen = n
		}
		if s.db.reserve.full.Load() {
			s.relieve()
		}
		for s.ctx.Err() == nil && s.db.failure.Load() == nil {
			group := s.db.pickFlush()
			if len(group) == 0 {
				s.db.releaseRest()
				break
			}
			before := s.db.metrics.flushBytes.Load()
			if err := s.flushGroup(group); err != nil {
				_ = sleep(s.ctx, retryAfter)
				if s.db.reserve.full.Load() {
					s.relieve()
				}
			}
			s.burst.flushed(time.Now(), int64(s.db.metrics.flushBytes.Load()-before))
		}
	}
}

// flushDeletes flushes, in an idle database, the memtables with deletions that make a
// merge worth while, so that the space returns although nothing is written any more.
func (s *scheduler) flushDeletes() {
	for group := range slices.Chunk(s.db.pickDeletes(), s.db.flushGroup) {
		if s.ctx.Err() != nil || s.flushGroup(group) != nil {
			return // the next time
		}
	}
}

// flushGroup flushes the stripes together and remembers the outcome.
func (s *scheduler) flushGroup(group []uint8) error {
	s.flushMu.Lock()
	event, err := s.db.flush(&s.builder, group)
	if errors.Is(err, vfs.ErrNoSpace) {
		event, err = s.flushFromReserve(group)
	}
	if err != nil {
		s.lastFailure.Store(&err)
	} else {
		s.lastFailure.Store(nil)
	}
	s.flushMu.Unlock()
	if err != nil {
		s.db.opts.Logger.Warn("flush", "err", err)
	}
	if cb := s.db.opts.Events.Flushed; cb != nil && event != nil {
		cb(*event)
	}
	return err
}

// idleEvery is how often an idle database looks for expired or deleted data.
const idleEvery = 30 * time.Second

func (s *scheduler) compactLoop() {
	b := &stripe.Builder{Pace: s.limiter.wait}
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		o := s.db.compactionOptions()
		select {
		case <-s.ctx.Done():
			return
		case <-s.compactKick:
		case <-idle.C:
			o = o.Idle() // a little garbage is worth a merge now
		}
		if s.db.reserve.full.Load() {
			o = o.Idle()
		}
		for s.ctx.Err() == nil && s.db.failure.Load() == nil {
			left := s.burst.left(time.Now())
			job, ok := s.pickCompaction(burstOptions(o, left > 0))
			if !ok {
				if left > 0 {
					s.compactLater(left) // look again when it is over
				}
				break
			}
			err := s.db.compact(s.ctx, b, job)
			if s.ctx.Err() != nil {
				return
			}
			s.retryLater(job.stripe, err)
			if err != nil {
				s.db.opts.Logger.Warn("compaction", "stripe", job.stripe, "err", err)
				_ = sleep(s.ctx, retryAfter)
			}
		}
	}
}

// retryLater notes the outcome of a merge. After a failure the stripe gets a pause.
func (s *scheduler) retryLater(stripe uint8, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.backoff[stripe]
	if err == nil {
		*b = backoff{}
		return
	}
	pause := min(retryAfter<<min(b.failures, 20), retryMost)
	b.failures++
	b.until = time.Now().Add(pause)
	s.compactLater(pause)
}

// compactionJob is a plan for one stripe, with the view it was made for.
type compactionJob struct {
	stripe uint8
	view   *stripe.View // referenced
	plan   compaction.Plan
}

// pickCompaction chooses the most urgent merge of all stripes and marks its stripe as
// busy. It also measures how deep the stripes are, for the back-pressure.
func (s *scheduler) pickCompaction(o compaction.Options) (best compactionJob, ok bool) {
	db := s.db
	nowMs, now := db.nowMs(), time.Now()
	_, horizon := db.snaps.collect()
	s.mu.Lock()
	defer s.mu.Unlock()
	deepest, full := 0, db.reserve.full.Load()
	for i := range db.stripes {
		v := db.stripes[i].View()
		if v == nil {
			return best, false
		}
		deepest = max(deepest, v.Readable())
		if s.busy[i] || len(v.Runs) == 0 || now.Before(s.backoff[i].until) {
			continue
		}
		plan, found := pickMerge(v, o, nowMs, horizon)
		if found && full {
			plan.Score = spaceScore(v, plan)
		}
		if found && (!ok || plan.Score > best.plan.Score) {
			best, ok = compactionJob{stripe: uint8(i), plan: plan}, true
		}
	}
	db.memory.deepest.Store(int64(deepest))
	if !ok {
		return best, false
	}
	return s.reserve(best, o)
}

// reserve takes a reference on the stripe's view for the job. Requires: mu held.
func (s *scheduler) reserve(
	job compactionJob, o compaction.Options,
) (compactionJob, bool) {
	st := &s.db.stripes[job.stripe]
	if job.view = st.Acquire(); job.view == nil {
		return job, false
	}
	// A flush may have added a run since the pick; plan again on what is now pinned.
	_, horizon := s.db.snaps.collect()
	plan, ok := pickMerge(job.view, o, s.db.nowMs(), horizon)
	if !ok {
		job.view.Release()
		return job, false
	}
	job.plan = plan
	s.busy[job.stripe] = true
	return job, true
}

func (s *scheduler) release(stripe uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[stripe] = false
}
