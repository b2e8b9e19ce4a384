// Package upkeep is what a database does in the background: it flushes memtables,
// merges runs, slows writers down that are faster than that, keeps a reserve for a full disk,
// reuses files, and orders the edits of the manifest.
//
// An Upkeep knows the directory, the stripes, the log and the manifest. All else that it asks
// of a database is in its Env.
//
// Locks: a flush holds scheduler.flushMu, and takes the others while it does; edits.mu is held
// over a commit of the manifest and the exchange of views after it. No lock of a stripe or of
// the log is held when one of the two is taken.
package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/lease"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Env is all that upkeep may touch of a database. It does not change after New. The functions
// are called concurrently.
type Env struct {
	FS       vfs.FS
	Dir      string
	Manifest *manifest.Log // nil if read-only
	Stripes  *[base.NumStripes]stripe.Stripe
	Logger   *slog.Logger

	// Visible is the visible seq, and Horizon the lowest that a present or future reader can
	// have.
	Visible, Horizon func() base.SeqNum
	// Retain returns what flushes and merges that start now must keep.
	Retain func() stripe.Retention
	NowMs  func() int64
	// Begin admits a call that Close waits for. The context ends with the given one and with
	// Close; the caller must call end.
	Begin func(context.Context) (ctx context.Context, end func(), err error)
	// Writable returns the error that a write would get now: that of a closed database, or of
	// one that is read-only.
	Writable func() error
	// FailForGood turns the database read-only because of an error, and returns the one that
	// writers get.
	FailForGood func(error) error

	// Leases returns what processes that read the database need, and whether there are any. It is
	// nil if no other process can.
	Leases func() (lease.Held, bool)
	// LogReleased is called after log was released, LogGiveUp when the disk is full. LogShare
	// returns how much of its limit the retained log has that writers wait for, and the consumer
	// that needs it. All are nil if no log is retained.
	LogReleased, LogGiveUp func()
	LogShare               func() (share float64, consumer string)

	// Flushed, Merged and Stalled are called after the event; nil is allowed.
	Flushed func(Flush)
	Merged  func(Merge)
	Stalled func(time.Duration)
}

// Options say how much, how often and how large.
type Options struct {
	MemtableBytes int64 // budget of all memtables
	LogBytes      int64 // budget of the log
	SegmentBytes  int64 // of a segment of the log
	MaxRuns       int   // at which a merge starts
	Workers       int   // merges at a time
	// MergeBytesPerSecond limits what merges write; 0 means no limit.
	MergeBytesPerSecond int64
	// FlushGroup is the number of stripes to flush at a time, at most MaxFlushGroup.
	FlushGroup int
	// ReaderBytes and ReaderAge are the most, and the oldest, that is kept for leases.
	ReaderBytes int64
	ReaderAge   time.Duration
	// NoReserve is for databases that write nothing to a disk.
	NoReserve bool
	// OldData is how merges with the oldest run write files.
	OldData sst.Layout
}

// Upkeep is the upkeep of one open database. Its methods may be called concurrently, but for
// Start, Stop and Close.
type Upkeep struct {
	env  Env
	opts Options
	log  *wal.Log // nil until Start

	throttle  throttle
	reserve   reserve
	recycler  recycler
	edits     edits
	scheduler scheduler
	counters  counters
}

// counters are about finished work. They grow for ever.
type counters struct {
	flushes, flushBytes             atomic.Uint64
	merges, mergeRead, mergeWritten atomic.Uint64
	stripes                         [base.NumStripes]StripeBytes
	stalls                          stalls
}

// StripeBytes are the file bytes that flushes and merges of a stripe have written.
type StripeBytes struct{ Flushed, Merged atomic.Int64 }

// Flush describes a flush of a group of stripes.
type Flush struct {
	Stripes  int   // stripes flushed together
	Bytes    int64 // file bytes written
	Duration time.Duration
}

// Merge describes a merge of runs of one stripe.
type Merge struct {
	Stripe       int
	Runs         int // runs that became one, or none if nothing was left
	BytesRead    int64
	BytesWritten int64
	Duration     time.Duration
}

// New returns the upkeep of a database in the given state, which changes nothing before
// Start, except through Edit. The stripes need not be initialised yet.
func New(env Env, opts Options, state *manifest.State) *Upkeep {
	u := &Upkeep{env: env, opts: opts}
	u.edits.init(state)
	u.throttle.init(u)
	u.recycler = recycler{fs: env.FS, dir: env.Dir, logger: env.Logger, full: &u.reserve.full,
		floor: env.Leases, most: opts.ReaderBytes, age: opts.ReaderAge}
	if env.Leases != nil {
		u.recycler.position = env.Manifest.Position
	}
	u.scheduler.init(u)
	u.reserve.init(u)
	return u
}

// Start begins the background work. Writers may come from now on.
func (u *Upkeep) Start(log *wal.Log) {
	u.log = log
	u.scheduler.start()
}

// Stop ends the background work: merges and a flush under way are given up.
func (u *Upkeep) Stop() { u.scheduler.stop() }

// Close closes the stripes, removes the files that are obsolete, and gives up the
// reserve. Unless the database has failed it leaves a reserve for the next run.
func (u *Upkeep) Close(failed bool) {
	keep := int64(0)
	if !failed {
		keep = u.reserve.closedGoal()
	}
	for i := range u.env.Stripes {
		u.env.Stripes[i].Close()
	}
	u.recycler.close()
	u.reserve.close(keep)
}

// Fail sorts an error of the disk and returns the one that the caller gets. What passes does
// not make the database read-only: a full disk, and too many open files. Nor does what was
// refused before anything was committed.
func (u *Upkeep) Fail(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) {
		u.reserve.enter()
		u.recycler.drop()
		return err
	}
	if err == nil || errors.Is(err, context.Canceled) || vfs.IsTooManyFiles(err) ||
		errors.Is(err, base.ErrLimit) || errors.Is(err, kv.ErrClosed) {
		return err
	}
	return u.env.FailForGood(err)
}

// CreateFile returns a file for an SST, see stripe.Env.
func (u *Upkeep) CreateFile(name string) (vfs.File, error) { return u.recycler.create(name) }

// Obsolete takes over a file that is obsolete, see stripe.Env.
func (u *Upkeep) Obsolete(name string) { u.recycler.obsolete(name) }

// Full reports whether the disk is full.
func (u *Upkeep) Full() bool { return u.reserve.full.Load() }

// Orphan takes over an SST or value file that no state names: if no lease needs it, it is removed.
func (u *Upkeep) Orphan(name string) {
	u.recycler.hold(heldFile{name: name, once: true})
	u.recycler.settle()
}

// HeldBytes returns the size of the files that are kept for processes that read the database.
func (u *Upkeep) HeldBytes() int64 { return u.recycler.heldBytes() }

// LeasedFrom returns the lowest segment of the log that processes which read the database need.
func (u *Upkeep) LeasedFrom() wal.SegmentNum {
	if u.env.Leases != nil {
		if h, any := u.env.Leases(); any {
			return h.Segment
		}
	}
	return math.MaxUint64
}

// MoreLogSpace gives up n bytes of the reserve for the log, and reports whether it could.
func (u *Upkeep) MoreLogSpace(n int64) bool { return u.reserve.give(forLog, n) }

// Metrics are figures about finished work since Start, and about the waits of writers.
type Metrics struct {
	Flushes, FlushedBytes                     uint64
	Merges, MergeReadBytes, MergeWrittenBytes uint64
	Stalls                                    uint64
	StallTime, LongestStall                   time.Duration
}

// Metrics returns the present figures.
func (u *Upkeep) Metrics() Metrics {
	c := &u.counters
	m := Metrics{
		Flushes: c.flushes.Load(), FlushedBytes: c.flushBytes.Load(), Merges: c.merges.Load(),
		MergeReadBytes: c.mergeRead.Load(), MergeWrittenBytes: c.mergeWritten.Load(),
	}
	m.Stalls, m.StallTime, m.LongestStall = c.stalls.sum(time.Now())
	return m
}

// Written returns what has been written to a stripe's SSTs since Start.
func (u *Upkeep) Written(id int) *StripeBytes { return &u.counters.stripes[id] }
