package upkeep

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// throttle has the budget of all memtables together, and the back-pressure that keeps
// writers from outrunning flushes, the log's budget and compactions.
//
// Pressure is a number: below 0 nothing happens; from 0 to 1 writers pause more and
// more for every pressureBytes they write; at 1 they wait until it falls. Because
// pauses begin early and grow smoothly, the rate of writing settles at the rate of
// flushing and no writer waits long.
type throttle struct {
	u      *Upkeep
	used   atomic.Int64 // bytes in memtables
	budget int64

	// logUsed is the size of the log on disk as of the last look, when it had begun logBegun
	// segments; logBudget is its limit.
	logUsed   atomic.Int64
	logBegun  atomic.Uint64
	logBudget int64
	// deepest is the number of runs of the stripe that has most, kept by the
	// scheduler; pressure rises from runsSoft to runsHard.
	deepest            atomic.Int64
	runsSoft, runsHard int64
	// freeUsed and freeLog are the bytes in memtables and in the log below which there
	// is no pressure.
	freeUsed, freeLog int64
	// ceiling is freeUsed, or less if the reserve covers less; 0 on a full disk.
	ceiling atomic.Int64

	// gate has room for one token. Writers under pressure pass one by one. The token guards
	// debt, the bytes written under pressure since the last pause.
	gate chan struct{}
	debt int64
}

const (
	// flushAt is the share of the budget at which flushes begin; the rest is
	// headroom while they run.
	flushAt = 0.90
	// softAt and hardAt are the shares at which writers begin to pause, and wait.
	softAt, hardAt = 1.10, 1.75
	// logFlushAt, logSoftAt are the same for the log's budget; its hard limit is 1.
	logFlushAt, logSoftAt = 0.60, 0.85

	// pressureBytes is how much a writer may write between two pauses.
	pressureBytes = 32 << 10
	// longestPause is the pause just below full pressure, but for runs: maxPause. Below it a pause
	// is proportional to the square of the pressure.
	longestPause = 4 * time.Millisecond
	maxPause     = 250 * time.Millisecond
)

func (t *throttle) init(u *Upkeep) {
	t.u = u
	t.budget, t.logBudget = u.opts.MemtableBytes, u.opts.LogBytes
	t.gate = make(chan struct{}, 1)
	t.runsSoft, t.runsHard = int64(3*u.opts.MaxRuns), int64(8*u.opts.MaxRuns)
	t.freeUsed = int64(softAt * float64(t.budget))
	t.freeLog = int64(logSoftAt * float64(t.logBudget))
}

func (t *throttle) bytes() int64 { return t.used.Load() }

// MemtableBytes returns the size of all memtables, which stripes count in it, too.
func (u *Upkeep) MemtableBytes() *atomic.Int64 { return &u.throttle.used }

// Grow accounts for n more bytes in memtables and wakes the flusher when it is time. Why it looks
// at the log when n is 0: writes that replace what memtables have let the log grow alone.
func (u *Upkeep) Grow(n int64) {
	t := &u.throttle
	if n == 0 && t.logBegun.Load() == u.log.Begun() {
		return
	}
	held := t.lookAtLog() // memtables grow by chunks, and the log by segments, so this is rare
	used := t.used.Add(n)
	if n >= 0 && (used >= t.flushThreshold() || held >= logFlushAt*float64(t.logBudget)) {
		u.scheduler.kickFlush()
	}
}

// lookAtLog updates logUsed, and returns how many bytes flushes could release. What is retained
// for consumers is as pressing as the same share of the log's budget.
func (t *throttle) lookAtLog() (held float64) {
	t.logBegun.Store(t.u.log.Begun())
	n := t.u.log.HeldBytes()
	held = float64(n)
	if t.u.env.LogShare != nil {
		share, _ := t.u.env.LogShare()
		n = max(n, int64(share*float64(t.logBudget)))
	}
	t.logUsed.Store(n)
	return held
}

func (t *throttle) flushThreshold() int64 { return int64(flushAt * float64(t.budget)) }

// pressure combines the three debts.
func (t *throttle) pressure() float64 {
	buffers, log, runs := t.debts()
	return max(buffers, log, runs)
}

// debts returns the pressure by each of what writers wait for.
func (t *throttle) debts() (buffers, log, runs float64) {
	buffers = share(float64(t.used.Load())/float64(t.budget), softAt, hardAt)
	log = share(float64(t.logUsed.Load())/float64(t.logBudget), logSoftAt, 1)
	runs = share(float64(t.deepest.Load()), float64(t.runsSoft), float64(t.runsHard))
	return buffers, log, min(runs, 0.9) // compactions slow writers down, they never stop them
}

func share(x, soft, hard float64) float64 { return (x - soft) / (hard - soft) }

// Free reports whether writers need neither wait nor ask: the common case.
func (u *Upkeep) Free() bool {
	t := &u.throttle
	return t.used.Load() < t.ceiling.Load() && t.deepest.Load() <= t.runsSoft &&
		t.logUsed.Load() < t.freeLog
}

// Admit lets a writer of n bytes in, after a pause if there is pressure. The error is a
// full disk's, or the context's, which ends after maxWait if that is not 0. Deletes, what
// only deletes, goes on on a full disk. Writers need not ask if Free.
func (u *Upkeep) Admit(
	ctx context.Context, n int64, deletes bool, maxWait time.Duration,
) error {
	if maxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxWait)
		defer cancel()
	}
	stalls := &u.counters.stalls
	wait := stalls.begin(time.Now())
	err := u.throttle.queue(ctx, n, deletes)
	d, stalled := stalls.end(wait, time.Now())
	if u.env.Stalled != nil && stalled {
		u.env.Stalled(d)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("engine: nothing is written, after %v of waiting for %s: %w", d,
			u.throttle.waitedFor(), err)
	}
	return err
}

// pause returns how long a writer pauses at a pressure below 1. Beyond runsHard it goes on growing
// with the runs: where merges are slower than the slowest writers, runs would become ever more, and
// with them what reads search and what files take in memory.
func (t *throttle) pause(p float64) time.Duration {
	p = max(p, share(float64(t.deepest.Load()), float64(t.runsSoft), float64(t.runsHard)))
	return time.Duration(min(p*p*float64(longestPause), float64(maxPause)))
}

// waitedFor says what holds writers up.
func (t *throttle) waitedFor() string {
	buffers, log, runs := t.debts()
	switch p := max(buffers, log, runs); {
	case t.u.reserve.full.Load():
		return "space on the full disk"
	case p < 0:
		return "other writers"
	case p == buffers:
		return fmt.Sprintf("a flush: write buffers hold %d bytes, MemtableBytes is %d",
			t.used.Load(), t.budget)
	case p == log && t.waitsForConsumer() != "":
		return fmt.Sprintf("the consumer %q of changes, for which more than RetainBytes would be "+
			"retained", t.waitsForConsumer())
	case p == log:
		return fmt.Sprintf("a flush that releases log: it has %d bytes, LogBytes is %d",
			t.logUsed.Load(), t.logBudget)
	}
	return fmt.Sprintf("merges: a stripe has %d runs, writers are slowed down from %d on",
		t.deepest.Load(), t.runsSoft)
}

// waitsForConsumer returns the consumer that holds more log than flushes could release, if any.
func (t *throttle) waitsForConsumer() string {
	if t.u.env.LogShare != nil {
		share, name := t.u.env.LogShare()
		if share*float64(t.logBudget) > float64(t.u.log.HeldBytes()) {
			return name
		}
	}
	return ""
}

// queue waits in line for the gate, and then for the pressure to fall.
func (t *throttle) queue(ctx context.Context, n int64, deletes bool) error {
	select {
	case t.gate <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-t.gate }()
	u := t.u
	for {
		// Before a pause: after Close those in line would have theirs one after the other.
		if err := u.env.Writable(); err != nil {
			return err
		}
		if deletes && u.reserve.full.Load() {
			return t.roomForDelete(ctx, n)
		}
		if !deletes {
			if err := u.reserve.admit(); err != nil {
				return err
			}
		}
		t.lookAtLog()
		p := t.pressure()
		if p < 0 {
			return nil
		}
		u.scheduler.kickFlush()
		if p < 1 {
			if t.debt += n; t.debt < pressureBytes {
				return nil
			}
			t.debt = 0
			return base.Sleep(ctx, t.pause(p))
		}
		if err := u.scheduler.flushFailure(); err != nil {
			return fmt.Errorf("engine: write buffers are full and cannot be flushed: %w", err)
		}
		if err := base.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// deleteSlack is the room in the log that a delete leaves to others that were admitted and
// have not logged yet.
const deleteSlack = 4 << 10

// roomForDelete returns when a delete of n bytes has room on the full disk, for which it
// flushes and merges if need be. Requires: the gate is held.
func (t *throttle) roomForDelete(ctx context.Context, n int64) error {
	u := t.u
	for {
		if err := u.env.Writable(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		err := u.log.MakeRoom(n + deleteSlack)
		if err := u.env.Writable(); err != nil {
			return err // that of MakeRoom may be that the log is closed
		}
		if err != nil && !errors.Is(err, vfs.ErrNoSpace) {
			return u.Fail(err)
		}
		t.lookAtLog()
		if err == nil && t.pressure() < 1 && u.reserve.covers(n) {
			return nil
		}
		if err := u.makeSpace(ctx); err != nil {
			return fmt.Errorf("engine: no room for a delete: %w", err)
		}
	}
}
