package engine

import (
	"context"
	"errors"
	"time"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

func (db *DB) compactionOptions() compaction.Options {
	return compaction.Options{Trigger: db.opts.MaxRuns, MaxRuns: 2 * db.opts.MaxRuns}
}

// pickMerge is compaction.Pick among the runs of the view that can be read.
func pickMerge(
	v *stripe.View, o compaction.Options, nowMs int64, horizon base.SeqNum,
) (compaction.Plan, bool) {
	n := v.Readable()
	plan, ok := compaction.Pick(runInfos(v)[:n], o, nowMs, horizon)
	if n < len(v.Runs) {
		// Nothing that hides something in the damaged run can be dropped; so a single
		// run would stay as it is.
		plan.Bottom = false
		ok = ok && plan.Hi-plan.Lo > 1
	}
	return plan, ok
}

// runInfos describes the runs of a view to the picker.
func runInfos(v *stripe.View) []compaction.RunInfo {
	infos := make([]compaction.RunInfo, len(v.Runs))
	for i, r := range v.Runs {
		infos[i] = r.Info
	}
	return infos
}

// Compact flushes and merges every stripe down to one run, dropping everything that
// no reader can see any more. A stripe that is such a run already is written again only if
// the options about files (Compression and the like) have changed. Reads and writes go on.
// Stripes that cannot be merged because they are damaged, or too large for the space there
// is, are left as they are and reported in the error.
func (db *DB) Compact(ctx context.Context) error {
	all := make([]uint8, len(db.stripes))
	for i := range all {
		all[i] = uint8(i)
	}
	return db.compactStripes(ctx, all)
}

// CompactPartition is Compact of the stripe that partition pk is in, with the other partitions
// of that stripe: about 1/256 of the database. A range of partitions lies in all stripes, so
// there is nothing between the two.
func (db *DB) CompactPartition(ctx context.Context, pk []byte) error {
	if err := usable(ctx); err != nil {
		return err
	}
	if err := (Key{PK: pk}).Validate(); err != nil {
		return keyError("compact", err)
	}
	return db.compactStripes(ctx, []uint8{keycodec.Stripe(pk)})
}

// compactStripes is Compact of some stripes.
func (db *DB) compactStripes(ctx context.Context, todo []uint8) error {
	if err := db.Flush(ctx); err != nil {
		return err
	}
	if err := db.calls.begin(); err != nil {
		return err
	}
	defer db.calls.end()
	ctx, stop := db.calls.within(ctx)
	defer stop()
	b := &stripe.Builder{Pace: db.sched.limiter.wait}
	var unreadable []error
	for {
		var large []uint8 // for the space that there is
		var full error
		for _, id := range todo {
			err := db.compactFully(ctx, b, id)
			if read := (*stripe.ReadError)(nil); errors.As(err, &read) {
				unreadable = append(unreadable, err)
			} else if errors.Is(err, ErrDiskFull) {
				large, full = append(large, id), err
			} else if err != nil {
				return err
			}
		}
		if len(large) == 0 || len(large) == len(todo) { // else what the others freed may do
			return errors.Join(errors.Join(unreadable...), full)
		}
		todo = large
	}
}

// compactFully merges all runs of a stripe into one.
func (db *DB) compactFully(ctx context.Context, b *stripe.Builder, id uint8) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := db.writable(); err != nil {
			return err
		}
		job, wait, ok := db.sched.reserveFull(id)
		switch {
		case wait: // a background merge of the stripe is under way
			if err := sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		case !ok:
			return nil
		}
		return db.compact(ctx, b, job)
	}
}

// reserveFull makes a job of merging all runs of a stripe; wait means that the stripe
// is busy, not ok that there is nothing to do.
func (s *scheduler) reserveFull(id uint8) (job compactionJob, wait, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] {
		return job, true, false
	}
	v := s.db.stripes[id].Acquire()
	if v == nil {
		return job, false, false
	}
	plan, ok := compaction.PickFull(runInfos(v))
	if !ok || s.db.settled(v) {
		v.Release()
		return job, false, false
	}
	s.busy[id] = true
	return compactionJob{stripe: id, view: v, plan: plan}, false, true
}

// settled reports whether the view is one run with nothing to drop (no tombstone, no
// expiry, no key twice) whose files are written as the options say of old data. A merge
// would write the same again.
func (db *DB) settled(v *stripe.View) bool {
	if len(v.Runs) != 1 {
		return false
	}
	in := &v.Runs[0].Info
	if in.Tombstones+in.RangeTombstones+in.TTLEntries > 0 {
		return false
	}
	old := sst.Layout{
		Codec: db.env.BottomCodec, FilterBits: db.env.FilterBits, BlockBytes: db.env.BlockBytes,
	}
	var keys uint64
	for _, f := range v.Runs[0].Files {
		n, err := f.Reader.DistinctKeys()
		if err != nil {
			return false // the merge will tell
		}
		if l, err := f.Reader.Layout(); err != nil || l != old {
			return false
		}
		keys += n
	}
	return keys == in.Entries
}

// compact executes a job: merge, sync, commit the edit, publish. The files of the
// replaced runs are deleted when the last reader has left them.
func (db *DB) compact(ctx context.Context, b *stripe.Builder, job compactionJob) error {
	event, err := db.merge(ctx, b, job)
	if errors.Is(err, vfs.ErrNoSpace) && db.reserve.give(forMerge, int64(job.plan.Bytes)) {
		event, err = db.merge(ctx, b, job)
	}
	job.view.Release()
	db.sched.release(job.stripe)
	if err == nil && db.reserve.full.Load() {
		db.sched.clearBackoff()
		db.reserve.settle()
	}
	if cb := db.opts.Events.Compacted; cb != nil && event != nil {
		cb(*event)
	}
	return err
}

// merge does the work of compact, and returns what to tell Events.Compacted if it
// succeeds.
func (db *DB) merge(
	ctx context.Context, b *stripe.Builder, job compactionJob,
) (*CompactionEvent, error) {
	start := time.Now()
	s := &db.stripes[job.stripe]
	out, err := s.Compact(ctx, b, job.view, job.plan, db.retention(), db.nextRun.Add(1))
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if read := (*stripe.ReadError)(nil); errors.As(err, &read) {
			// The merge cannot happen, but reads of what is intact and writes can.
			return nil, err
		}
		return nil, db.fail(err)
	}
	outs := []*stripe.Output{out}
	if err := db.syncOutputs(outs); err != nil {
		return nil, db.abandon(err, outs)
	}
	if err := db.commitCompaction(job.stripe, out); err != nil {
		if errors.Is(err, manifest.ErrUncertain) {
			outs = nil // perhaps named by the manifest: not ours to remove
		}
		return nil, db.abandon(err, outs)
	}
	d := time.Since(start)
	db.metrics.compactions.Add(1)
	db.metrics.compactBytes.Add(uint64(out.BytesWritten))
	db.metrics.stripes[job.stripe].merged.Add(out.BytesWritten)
	db.metrics.compactRead.Add(uint64(out.BytesRead))
	db.opts.Logger.Debug("compacted", "stripe", job.stripe, "reason", job.plan.Reason,
		"runs", len(out.Replaced), "read", out.BytesRead, "written", out.BytesWritten, "dur", d)
	return &CompactionEvent{
		Stripe: int(job.stripe), Runs: len(out.Replaced),
		BytesRead: out.BytesRead, BytesWritten: out.BytesWritten, Duration: d,
	}, nil
}

func (db *DB) commitCompaction(id uint8, out *stripe.Output) error {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	se := manifest.StripeEdit{Stripe: base.StripeID(id)}
	for _, r := range out.Replaced {
		se.Remove = append(se.Remove, r.ID)
	}
	if out.Run != nil {
		se.Add = []*manifest.Run{out.Run}
	}
	err := db.commitEdit(&manifest.Edit{
		Stripes:  []manifest.StripeEdit{se},
		NextFile: base.FileNum(db.nextFile.Load()), NextRun: db.nextRun.Load() + 1,
	})
	if err != nil {
		return err
	}
	db.stripes[id].Install(out)
	return nil
}
