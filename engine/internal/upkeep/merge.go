package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

func (u *Upkeep) pickerOptions() compaction.Options {
	return compaction.Options{Trigger: u.opts.MaxRuns, MaxRuns: 2 * u.opts.MaxRuns}
}

// pickMerge is compaction.Pick among the runs of the view that can be read. Where reads have paid
// for a merge, fewer runs are left; they begin to pay again when no merge is due.
func (u *Upkeep) pickMerge(
	id uint8, v *stripe.View, o compaction.Options, nowMs int64, horizon base.SeqNum,
) (compaction.Plan, bool) {
	s := &u.env.Stripes[id]
	paid := s.Paid(v)
	if paid {
		o = o.Read()
	}
	n := v.Readable()
	if n == len(v.Runs) { // else no merge rewrites values
		o.ValueBytes, o.ValueGarbage = uint64(v.ValueBytes), uint64(v.GarbageBytes)
	}
	plan, ok := compaction.Pick(runInfos(v)[:n], o, nowMs, horizon)
	if n < len(v.Runs) {
		// Nothing that hides something in the damaged run can be dropped; so a single
		// run would stay as it is.
		plan.Bottom = false
		ok = ok && plan.Hi-plan.Lo > 1
	}
	if paid && !ok {
		s.Settle()
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

// MergeStripes merges each of the stripes down to one run, without what no reader can see any more.
// Stripes that cannot be merged because they are damaged, or too large for the space there
// is, are left as they are and reported in the error.
func (u *Upkeep) MergeStripes(ctx context.Context, todo []uint8) error {
	b := &stripe.Builder{Pace: u.scheduler.limiter.Wait}
	var unreadable []error
	for {
		var large []uint8 // for the space that there is
		var full error
		for _, id := range todo {
			err := u.mergeFully(ctx, b, id)
			if read := (*stripe.ReadError)(nil); errors.As(err, &read) {
				unreadable = append(unreadable, err)
			} else if errors.Is(err, vfs.ErrNoSpace) {
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

// mergeFully merges all runs of a stripe into one.
func (u *Upkeep) mergeFully(ctx context.Context, b *stripe.Builder, id uint8) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := u.env.Writable(); err != nil {
			return err
		}
		job, wait, ok := u.scheduler.takeFull(id)
		switch {
		case wait: // a background merge of the stripe is under way
			if err := base.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		case !ok:
			return nil
		}
		return u.runMerge(ctx, b, job)
	}
}

// takeFull makes a job of merging all runs of a stripe; wait means that the stripe
// is busy, not ok that there is nothing to do.
func (s *scheduler) takeFull(id uint8) (job mergeJob, wait, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[id] {
		return job, true, false
	}
	v := s.u.env.Stripes[id].Acquire()
	if v == nil {
		return job, false, false
	}
	plan, ok := compaction.PickFull(runInfos(v))
	if !ok || s.u.settled(v) {
		v.Release()
		return job, false, false
	}
	s.busy[id] = true
	return mergeJob{stripe: id, view: v, plan: plan}, false, true
}

// settled reports whether the view is one run with nothing to drop (no tombstone, no
// expiry, no key twice) whose files are written as the options say of old data. A merge
// would write the same again.
func (u *Upkeep) settled(v *stripe.View) bool {
	if len(v.Runs) != 1 {
		return false
	}
	in := &v.Runs[0].Info
	if v.GarbageBytes*10 > v.ValueBytes {
		return false
	}
	if in.Tombstones+in.RangeTombstones+in.TTLEntries > 0 {
		return false
	}
	var keys uint64
	for _, f := range v.Runs[0].Files {
		n, err := f.Reader.DistinctKeys()
		if err != nil {
			return false // the merge will tell
		}
		if l, err := f.Reader.Layout(); err != nil || l != u.opts.OldData {
			return false
		}
		keys += n
	}
	return keys == in.Entries
}

// runMerge executes a job: merge, sync, commit the edit, publish. The files of the
// replaced runs are deleted when the last reader has left them.
func (u *Upkeep) runMerge(ctx context.Context, b *stripe.Builder, job mergeJob) error {
	event, err := u.merge(ctx, b, job)
	if errors.Is(err, vfs.ErrNoSpace) && u.reserve.give(forMerge, u.mergeBytes(job)) {
		event, err = u.merge(ctx, b, job)
	}
	job.view.Release()
	u.scheduler.release(job.stripe)
	if err == nil && u.reserve.full.Load() {
		u.scheduler.clearBackoff()
		u.reserve.settle()
	}
	if u.env.Merged != nil && event != nil {
		u.env.Merged(*event)
	}
	return err
}

// mergeBytes returns how much a merge on a full disk writes at most.
func (u *Upkeep) mergeBytes(job mergeJob) int64 {
	n := int64(job.plan.Bytes)
	if job.plan.Reason == compaction.ReasonValues {
		n += u.env.Stripes[job.stripe].RewriteBytes(job.view)
	}
	return n
}

// merge does the work of runMerge, and returns what to tell Env.Merged if it succeeds.
func (u *Upkeep) merge(
	ctx context.Context, b *stripe.Builder, job mergeJob,
) (*Merge, error) {
	start := time.Now()
	s := &u.env.Stripes[job.stripe]
	out, err := s.Compact(ctx, b, job.view, job.plan, u.env.Retain(), u.edits.nextRun.Add(1))
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if read := (*stripe.ReadError)(nil); errors.As(err, &read) {
			// The merge cannot happen, but reads of what is intact and writes can.
			return nil, err
		}
		return nil, u.Fail(err)
	}
	outs := []*stripe.Output{out}
	if err := u.syncOutputs(ctx, outs); err != nil {
		return nil, u.abandon(ctx, err, outs)
	}
	if err := u.commitMerge(job.stripe, out); err != nil {
		if errors.Is(err, manifest.ErrUncertain) {
			outs = nil // perhaps named by the manifest: not ours to remove
		}
		return nil, u.abandon(ctx, err, outs)
	}
	d := time.Since(start)
	u.counters.merges.Add(1)
	u.counters.mergeWritten.Add(uint64(out.BytesWritten))
	u.counters.stripes[job.stripe].Merged.Add(out.BytesWritten)
	u.counters.mergeRead.Add(uint64(out.BytesRead))
	u.env.Logger.Debug("compacted", "stripe", job.stripe, "reason", job.plan.Reason,
		"runs", len(out.Replaced), "read", out.BytesRead, "written", out.BytesWritten, "dur", d)
	return &Merge{
		Stripe: int(job.stripe), Runs: len(out.Replaced),
		BytesRead: out.BytesRead, BytesWritten: out.BytesWritten, Duration: d,
	}, nil
}

func (u *Upkeep) commitMerge(id uint8, out *stripe.Output) error {
	u.edits.mu.Lock()
	defer u.edits.mu.Unlock()
	se := manifest.StripeEdit{Stripe: base.StripeID(id)}
	for _, r := range out.Replaced {
		se.Remove = append(se.Remove, r.ID)
	}
	if out.Run != nil {
		se.Add = []*manifest.Run{out.Run}
	}
	err := u.commitLocked(&manifest.Edit{
		Stripes:  []manifest.StripeEdit{se},
		NextFile: base.FileNum(u.edits.nextFile.Load()), NextRun: u.edits.nextRun.Load() + 1,
	})
	if err != nil {
		return err
	}
	u.env.Stripes[id].Install(out)
	return nil
}
