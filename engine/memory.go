package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
)

// memory is the budget of all memtables together, and the back-pressure that keeps
// writers from outrunning flushes, the log's budget and compactions.
//
// Pressure is a number: below 0 nothing happens; from 0 to 1 writers pause more and
// more for every pressureBytes they write; at 1 they wait until it falls. Because
// pauses begin early and grow smoothly, the rate of writing settles at the rate of
// flushing and nobody waits long.
type memory struct {
	used   atomic.Int64
	budget int64

	// logUsed is the size of the log on disk as of the last look, logBudget its limit.
	logUsed   atomic.Int64
	logBudget int64
	// deepest is the number of runs of the stripe that has most, kept by the
	// scheduler; runsSoft and runsHard are where it begins and ends to hurt.
	deepest            atomic.Int64
	runsSoft, runsHard int64
	// freeUsed and freeLog are the bytes in memtables and in the log below which there
	// is no pressure.
	freeUsed, freeLog int64
	// ceiling is freeUsed, or less if the reserve covers less; 0 on a full disk.
	ceiling atomic.Int64

	// gate has room for one token. Writers under pressure pass one by one: who holds
	// the token may look at debt, the bytes written under pressure since the last pause.
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
	// longestPause is the pause just below full pressure. Below it a pause is
	// proportional to the square of the pressure.
	longestPause = 4 * time.Millisecond
)

func (m *memory) init(db *DB) {
	m.budget, m.logBudget = db.opts.MemtableBytes, db.opts.LogBytes
	m.gate = make(chan struct{}, 1)
	m.runsSoft, m.runsHard = int64(3*db.opts.MaxRuns), int64(8*db.opts.MaxRuns)
	m.freeUsed = int64(softAt * float64(m.budget))
	m.freeLog = int64(logSoftAt * float64(m.logBudget))
}

func (m *memory) bytes() int64 { return m.used.Load() }

// grow accounts for n more bytes in memtables and wakes the flusher when it is time.
func (m *memory) grow(db *DB, n int64) {
	if n == 0 {
		return
	}
	m.logUsed.Store(db.log.HeldBytes()) // memtables grow by chunks, so this is rare
	used := m.used.Add(n)
	if n > 0 && (used >= m.flushThreshold() ||
		float64(m.logUsed.Load()) >= logFlushAt*float64(m.logBudget)) {
		db.sched.kickFlush()
	}
}

func (m *memory) flushThreshold() int64 { return int64(flushAt * float64(m.budget)) }

// pressure combines the three debts.
func (m *memory) pressure() float64 {
	buffers, log, runs := m.debts()
	return max(buffers, log, runs)
}

// debts returns the pressure by each of what writers wait for.
func (m *memory) debts() (buffers, log, runs float64) {
	buffers = share(float64(m.used.Load())/float64(m.budget), softAt, hardAt)
	log = share(float64(m.logUsed.Load())/float64(m.logBudget), logSoftAt, 1)
	runs = share(float64(m.deepest.Load()), float64(m.runsSoft), float64(m.runsHard))
	return buffers, log, min(runs, 0.9) // compactions slow writers down, they never stop them
}

func share(x, soft, hard float64) float64 { return (x - soft) / (hard - soft) }

// admit lets a writer of n bytes in, after a pause if there is pressure. The error is a
// full disk's, or the context's, which ends after maxWait if that is not 0. Deletes, what
// only deletes, goes on on a full disk.
func (m *memory) admit(ctx context.Context, db *DB, n int64, deletes bool, maxWait time.Duration,
) error {
	if m.free() {
		return nil // the common case
	}
	if maxWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, maxWait)
		defer cancel()
	}
	wait := db.metrics.stalls.begin(time.Now())
	err := m.queue(ctx, db, n, deletes)
	d, stalled := db.metrics.stalls.end(wait, time.Now())
	if cb := db.opts.Events.Stalled; cb != nil && stalled {
		cb(d)
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("engine: nothing is written, after %v of waiting for %s: %w", d,
			m.waitedFor(db), err)
	}
	return err
}

// waitedFor says what holds writers up.
func (m *memory) waitedFor(db *DB) string {
	buffers, log, runs := m.debts()
	switch p := max(buffers, log, runs); {
	case db.reserve.full.Load():
		return "space on the full disk"
	case p < 0:
		return "other writers"
	case p == buffers:
		return fmt.Sprintf("a flush: write buffers hold %d bytes, MemtableBytes is %d",
			m.used.Load(), m.budget)
	case p == log:
		return fmt.Sprintf("a flush that releases log: it has %d bytes, LogBytes is %d",
			m.logUsed.Load(), m.logBudget)
	}
	return fmt.Sprintf("merges: a stripe has %d runs, writers are slowed down from %d on",
		m.deepest.Load(), m.runsSoft)
}

// admitBatch is admit for a batch.
func (m *memory) admitBatch(ctx context.Context, db *DB, b *Batch, maxWait time.Duration) error {
	if m.free() || len(b.ops) == 0 { // what only has conditions needs no room
		return nil
	}
	return m.admit(ctx, db, b.logBytes(), b.deletesOnly(), maxWait)
}

// free reports whether writers need not wait nor ask.
func (m *memory) free() bool {
	return m.used.Load() < m.ceiling.Load() && m.deepest.Load() <= m.runsSoft &&
		m.logUsed.Load() < m.freeLog
}

// deletesOnly reports whether the batch writes no values.
func (b *Batch) deletesOnly() bool {
	for i := range b.ops {
		if op := &b.ops[i]; op.kind != base.KindDelete && !op.isRange() {
			return false
		}
	}
	return true
}

// queue waits in line for the gate, and then for the pressure to fall.
func (m *memory) queue(ctx context.Context, db *DB, n int64, deletes bool) error {
	select {
	case m.gate <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.gate }()
	for {
		if deletes && db.reserve.full.Load() {
			return m.roomForDelete(ctx, db, n)
		}
		if !deletes {
			if err := db.reserve.admit(); err != nil {
				return err
			}
		}
		m.logUsed.Store(db.log.HeldBytes())
		p := m.pressure()
		if p < 0 {
			return nil
		}
		db.sched.kickFlush()
		if p < 1 {
			if m.debt += n; m.debt < pressureBytes {
				return nil
			}
			m.debt = 0
			return sleep(ctx, time.Duration(p*p*float64(longestPause)))
		}
		if err := db.sched.flushFailure(); err != nil {
			return fmt.Errorf("engine: write buffers are full and cannot be flushed: %w", err)
		}
		if err := db.writable(); err != nil {
			return err
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// deleteSlack is the room in the log that a delete leaves to others that were admitted and
// have not logged yet.
const deleteSlack = 4 << 10

// roomForDelete returns when a delete of n bytes has room on the full disk, for which it
// flushes and merges if need be. Requires: the gate is held.
func (m *memory) roomForDelete(ctx context.Context, db *DB, n int64) error {
	for {
		if err := db.writable(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		err := db.log.MakeRoom(n + deleteSlack)
		if db.closed.Load() {
			return ErrClosed // the error may be that the log is closed
		}
		if err != nil && !errors.Is(err, ErrDiskFull) {
			return db.fail(err)
		}
		m.logUsed.Store(db.log.HeldBytes())
		if err == nil && m.pressure() < 1 && db.reserve.covers(n) {
			return nil
		}
		if err := db.sched.makeSpace(ctx); err != nil {
			return fmt.Errorf("engine: no room for a delete: %w", err)
		}
	}
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if ctx.Done() == nil {
		time.Sleep(d)
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
