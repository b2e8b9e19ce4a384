package upkeep

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
	u      *Upkeep
	ctx    context.Context //nolint:containedctx // the life of the goroutines
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	flushKick chan struct{} // capacity 1
	mergeKick chan struct{} // capacity: the workers
	// flushMu is held while a group is flushed, by the flush loop or a caller of Flush.
	flushMu sync.Mutex
	builder stripe.Builder // guarded by flushMu

	lastFailure atomic.Pointer[error] // of the newest flush, nil if it succeeded

	burst burstDetector
	// restsAt is the visible seq at which the database came to rest, 0 if it never did.
	restsAt atomic.Uint64
	// again wakes the flush loop on a full disk, and is its own.
	again *time.Timer

	mu      sync.Mutex
	busy    [base.NumStripes]bool    // being merged; guarded by mu
	backoff [base.NumStripes]backoff // guarded by mu
	limiter Limiter
}

// backoff delays retries of a failing merge of a stripe.
type backoff struct {
	failures int
	until    time.Time
}

var errStopped = errors.New("engine: background work stopped")

func (s *scheduler) init(u *Upkeep) {
	s.u = u
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.flushKick = make(chan struct{}, 1)
	s.mergeKick = make(chan struct{}, u.opts.Workers)
	s.limiter.BytesPerSecond = u.opts.MergeBytesPerSecond
}

func (s *scheduler) start() {
	s.wg.Go(s.flushLoop)
	for range s.u.opts.Workers {
		s.wg.Go(s.mergeLoop)
	}
	s.kickFlush()
	s.kickMerge()
}

// stop ends the goroutines; merges and a flush under way are given up.
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

// KickFlush has memtables looked for that are to be flushed.
func (u *Upkeep) KickFlush() { u.scheduler.kickFlush() }

func (s *scheduler) kickMerge() { fillUp(s.mergeKick) }

// KickMerge has stripes looked for that are to be merged.
func (u *Upkeep) KickMerge() { u.scheduler.kickMerge() }

// mergeLater has merges looked for after a pause. Why the timer has the channel alone: it
// may fire long after Close, and must not keep the database in memory until then.
func (s *scheduler) mergeLater(pause time.Duration) {
	kicks := s.mergeKick
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
	u := s.u
	seen := u.env.Visible()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.flushKick:
		case <-idle.C:
			now := u.env.Visible()
			if now == seen && u.env.Writable() == nil {
				s.rest(now)
			}
			seen = now
		}
		if u.reserve.full.Load() {
			s.relieve()
		}
		for s.ctx.Err() == nil && u.env.Writable() == nil {
			group := u.pickFlush()
			if len(group) == 0 {
				u.releaseRest()
				break
			}
			before := u.counters.flushBytes.Load()
			if err := s.flushGroup(s.ctx, group); err != nil {
				_ = base.Sleep(s.ctx, retryAfter)
				if u.reserve.full.Load() {
					s.relieve()
				}
			}
			s.burst.flushed(time.Now(), int64(u.counters.flushBytes.Load()-before))
		}
	}
}

// rest has a database that nothing was written to for idleEvery take little space, and be fast
// to read and to close: memtables are flushed as Close flushes them, runs are merged as
// compaction.Options.Resting says, and files that wait for reuse are removed, as is log that was
// kept for readers. The next commit ends the rest; what merges write at rest is bounded by what was
// written before.
func (s *scheduler) rest(visible base.SeqNum) {
	if s.u.throttle.bytes() > KeptBytes {
		if err := s.u.Flush(s.ctx); err != nil {
			return // the next time
		}
	} else {
		s.flushDeletes()
	}
	if err := s.u.forgetLog(); err != nil {
		s.u.env.Logger.Warn("release log segments", "err", err)
	}
	s.u.log.DropSpares(0)
	s.u.reserve.rest()
	s.restsAt.Store(uint64(visible))
	s.kickMerge()
}

// resting reports whether the database is at rest.
func (s *scheduler) resting() bool {
	at := s.restsAt.Load()
	return at != 0 && base.SeqNum(at) == s.u.env.Visible()
}

// KeptBytes is the size of memtables up to which Close, and a database at rest, leave them to the
// log; Close flushes as much of larger ones. Why 2 MiB: replaying it takes about 10 ms, and a
// program that opens, writes a little and closes, like a command line, does not litter the
// directory with tiny files.
const KeptBytes = 2 << 20

// flushDeletes flushes, in an idle database, the memtables with deletions that make a
// merge worth while, so that the space returns although nothing is written any more.
func (s *scheduler) flushDeletes() {
	for group := range slices.Chunk(s.u.pickDeletes(), s.u.opts.FlushGroup) {
		if s.ctx.Err() != nil || s.flushGroup(s.ctx, group) != nil {
			return // the next time
		}
	}
}

// flushGroup flushes the stripes together and remembers the outcome.
func (s *scheduler) flushGroup(ctx context.Context, group []uint8) error {
	s.flushMu.Lock()
	event, err := s.u.flush(ctx, &s.builder, group)
	if errors.Is(err, vfs.ErrNoSpace) {
		event, err = s.flushFromReserve(ctx, group)
	}
	switch {
	case err == nil:
		s.lastFailure.Store(nil)
	case !givenUp(ctx, err):
		s.lastFailure.Store(&err)
		s.u.env.Logger.Warn("flush", "err", err)
	default:
		s.kickFlush() // what is frozen by now
	}
	s.flushMu.Unlock()
	if s.u.env.Flushed != nil && event != nil {
		s.u.env.Flushed(*event)
	}
	return err
}

// idleEvery is how often an idle database looks for expired or deleted data, and after how long
// without a commit, up to twice that, it is at rest.
const idleEvery = 30 * time.Second

func (s *scheduler) mergeLoop() {
	u := s.u
	b := &stripe.Builder{Pace: s.limiter.Wait}
	idle := time.NewTicker(idleEvery)
	defer idle.Stop()
	for {
		o := u.pickerOptions()
		select {
		case <-s.ctx.Done():
			return
		case <-s.mergeKick:
		case <-idle.C:
			o = o.Idle() // a little garbage is worth a merge now
		}
		if u.reserve.full.Load() {
			o = o.Idle()
		}
		for s.ctx.Err() == nil && u.env.Writable() == nil {
			left := s.burst.left(time.Now())
			now, resting := burstOptions(o, left > 0), s.resting()
			if resting {
				now = o.Resting()
			}
			job, ok := s.pickJob(now)
			if !ok {
				if resting {
					u.recycler.rest()
				}
				if left > 0 {
					s.mergeLater(left) // look again when it is over
				}
				break
			}
			err := u.runMerge(s.ctx, b, job)
			if s.ctx.Err() != nil {
				return
			}
			s.retryLater(job.stripe, err)
			if err != nil {
				u.env.Logger.Warn("compaction", "stripe", job.stripe, "err", err)
				_ = base.Sleep(s.ctx, retryAfter)
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
	s.mergeLater(pause)
}

// mergeJob is a plan for one stripe, with the view it was made for.
type mergeJob struct {
	stripe uint8
	view   *stripe.View // referenced
	plan   compaction.Plan
}

// pickJob chooses the most urgent merge of all stripes and marks its stripe as
// busy. It also measures how deep the stripes are, for the back-pressure.
func (s *scheduler) pickJob(o compaction.Options) (best mergeJob, ok bool) {
	u := s.u
	nowMs, now, horizon := u.env.NowMs(), time.Now(), u.env.Horizon()
	s.mu.Lock()
	defer s.mu.Unlock()
	deepest, full := 0, u.reserve.full.Load()
	for i := range u.env.Stripes {
		v := u.env.Stripes[i].View()
		if v == nil {
			return best, false
		}
		deepest = max(deepest, v.Readable())
		if s.busy[i] || len(v.Runs) == 0 || now.Before(s.backoff[i].until) {
			continue
		}
		plan, found := u.pickMerge(uint8(i), v, o, nowMs, horizon)
		if found && full {
			plan.Score = u.scoreFull(mergeJob{uint8(i), v, plan})
		}
		if found && (!ok || plan.Score > best.plan.Score) {
			best, ok = mergeJob{stripe: uint8(i), plan: plan}, true
		}
	}
	u.throttle.deepest.Store(int64(deepest))
	if !ok {
		return best, false
	}
	return s.takeLocked(best, o)
}

// takeLocked takes a reference on the stripe's view for the job. Requires: mu held.
func (s *scheduler) takeLocked(
	job mergeJob, o compaction.Options,
) (mergeJob, bool) {
	st := &s.u.env.Stripes[job.stripe]
	if job.view = st.Acquire(); job.view == nil {
		return job, false
	}
	// A flush may have added a run since the pick; plan again on what is now pinned.
	plan, ok := s.u.pickMerge(job.stripe, job.view, o, s.u.env.NowMs(), s.u.env.Horizon())
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
