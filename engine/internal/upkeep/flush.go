package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/garbage"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// MaxFlushGroup bounds the stripes flushed under one manifest edit, each with a file open,
// and maxSyncers the files synced at a time. Why: a sync costs little more for eight
// files than for one, and a group must not hold memory for long.
const (
	MaxFlushGroup = 64
	maxSyncers    = 8
)

// pickFlush chooses the stripes to flush now: those with frozen memtables, those that
// hold back the oldest log segment when the log is long or the disk is full, those whose reads
// pass over many deleted rows, and the largest when memory is short. It returns nil if nothing
// is due.
func (u *Upkeep) pickFlush() []uint8 {
	var must []uint8
	var all []candidate
	pin := base.SeqNum(0)
	if u.reserve.full.Load() ||
		float64(u.log.HeldBytes()) >= logFlushAt*float64(u.opts.LogBytes) {
		if _, last, ok := u.log.Oldest(); ok {
			pin = last
		}
	}
	for i := range u.env.Stripes {
		v := u.env.Stripes[i].View()
		if v == nil {
			return nil
		}
		low, dirty := u.env.Stripes[i].MinSeq(nil)
		switch {
		case !dirty:
		case len(v.Frozen) > 0 || low <= pin || u.env.Stripes[i].Littered(v):
			must = append(must, uint8(i))
		default:
			all = append(all, candidate{uint8(i), v.MemtableBytes()})
		}
	}
	if len(must) > 0 {
		return must[:min(len(must), u.opts.FlushGroup)]
	}
	if u.throttle.bytes() < u.throttle.flushThreshold() {
		return nil
	}
	return largest(all, u.opts.FlushGroup, u.opts.MemtableBytes/8)
}

// pickDeletes returns the stripes whose memtables hold deletions for at least a twentieth
// of what is in their files, or any range tombstone: an idle merge takes that much, too.
func (u *Upkeep) pickDeletes() (ids []uint8) {
	for i := range u.env.Stripes {
		v := u.env.Stripes[i].View()
		if v == nil {
			return nil
		}
		entries := uint64(0)
		for _, r := range v.Runs {
			entries += r.Info.Entries
		}
		deletes := uint64(v.Active.Tombstones())
		if entries > 0 && (v.Active.Ranges() > 0 || deletes >= max(1, entries/20)) {
			ids = append(ids, uint8(i))
		}
	}
	return ids
}

// Flush writes all memtables to SSTs and returns when they are durable.
func (u *Upkeep) Flush(ctx context.Context) error {
	var dirty []uint8
	for i := range u.env.Stripes {
		if _, ok := u.env.Stripes[i].MinSeq(nil); ok {
			dirty = append(dirty, uint8(i))
		}
	}
	for group := range slices.Chunk(dirty, u.opts.FlushGroup) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := u.scheduler.flushGroup(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// FlushLargest writes the largest memtables, of about that many bytes together, to SSTs.
func (u *Upkeep) FlushLargest(ctx context.Context, bytes int64) error {
	var all []candidate
	for i := range u.env.Stripes {
		if v := u.env.Stripes[i].View(); v != nil {
			all = append(all, candidate{uint8(i), v.MemtableBytes()})
		}
	}
	return u.scheduler.flushGroup(ctx, largest(all, u.opts.FlushGroup, bytes))
}

// candidate is a stripe that may be flushed.
type candidate struct {
	id    uint8
	bytes int64 // in its memtables
}

// largest returns at most n of the stripes, the largest first, that have about that many bytes.
func largest(all []candidate, n int, bytes int64) (ids []uint8) {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, c := range all {
		if len(ids) == n || bytes <= 0 {
			break
		}
		ids = append(ids, c.id)
		bytes -= c.bytes
	}
	return ids
}

// flush writes the memtables of the stripes to one run each.
//
// Steps, in this order (docs/crash-safety.md says what a crash after each leaves):
// freeze; write the files; sync the log up to the highest number in them; sync the
// files and the directory; commit one manifest edit; publish; release log segments.
//
// Why the log is synced first: after a power cut the log must not miss a commit that
// is older than one in the files, or the state would not be a prefix of the commits.
// It returns what to tell Env.Flushed, nil if there was nothing to flush.
//
// When ctx ends before the edit, the flush is given up: the tables stay frozen for the next one.
// Requires: scheduler.flushMu held.
func (u *Upkeep) flush(
	ctx context.Context, b *stripe.Builder, group []uint8,
) (event *Flush, err error) {
	start := time.Now()
	for _, id := range group {
		s := &u.env.Stripes[id]
		s.Lock()
		s.Freeze()
		s.Unlock()
	}
	ret := u.env.Retain()
	var outs []*stripe.Output
	defer func() {
		if err != nil {
			err = u.abandon(ctx, err, outs)
		}
	}()
	var ids []uint8
	var upTo base.SeqNum
	for _, id := range group {
		base.Yield()
		out, err := u.env.Stripes[id].Flush(ctx, b, ret, u.edits.nextRun.Add(1))
		if err != nil {
			return nil, err
		}
		if out != nil {
			outs, ids = append(outs, out), append(ids, id)
			upTo = max(upTo, out.FlushedSeq)
		}
	}
	if len(outs) == 0 {
		return nil, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := u.log.Sync(upTo); err != nil {
		return nil, err
	}
	if err := u.syncOutputs(ctx, outs); err != nil {
		return nil, err
	}
	written := outs
	needed, err := u.commitFlush(ids, outs, upTo)
	if err == nil || errors.Is(err, manifest.ErrUncertain) {
		outs = nil // installed, or perhaps named by the manifest: not ours to remove
	}
	if err != nil {
		return nil, err
	}
	event = u.flushed(written, ids, time.Since(start))
	return event, u.releaseLog(needed)
}

// releaseLog gives up the log below needed. That a file could not be removed is no
// reason to stop writing: the log tries again, less and less often, and says so.
func (u *Upkeep) releaseLog(needed base.SeqNum) error {
	err := u.log.Release(needed)
	if ferr := u.forgetLog(); err == nil {
		err = ferr
	}
	u.recycler.settle()
	if err == nil || u.log.Err() != nil {
		return err
	}
	u.env.Logger.Warn("release log segments", "err", err)
	return nil
}

// forgetLog gives up the released segments that are not kept any more.
func (u *Upkeep) forgetLog() error {
	if u.env.LogReleased != nil {
		u.env.LogReleased()
		return nil
	}
	return u.log.Forget(u.leased())
}

// leased returns the first of the released segments that are kept for readers: on a full disk none.
func (u *Upkeep) leased() wal.SegmentNum {
	if u.reserve.full.Load() {
		return math.MaxUint64
	}
	from := u.LeasedFrom()
	var bytes int64
	for _, s := range slices.Backward(u.log.Retained()) {
		bytes += s.SizeBytes
		if bytes > u.opts.ReaderBytes || time.Since(s.Released) >= u.opts.ReaderAge {
			return max(from, s.Num+1)
		}
	}
	return from
}

// releaseRest gives up what the last flush could not give up although it was not needed
// any more, because its removal failed. Why also a log that is too long: if nothing is left
// to flush it would hold up writers for ever.
func (u *Upkeep) releaseRest() {
	if float64(u.log.HeldBytes()) < logFlushAt*float64(u.opts.LogBytes) &&
		!u.log.RemovalDue() {
		return
	}
	_ = u.releaseLog(u.State().LogSeq) // a failure of the log is noticed elsewhere
}

// syncOutputs makes the new files and their names durable.
func (u *Upkeep) syncOutputs(ctx context.Context, outs []*stripe.Output) error {
	errs := make([]error, len(outs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxSyncers)
	for i, o := range outs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				errs[i] = o.Sync()
			}
		})
	}
	wg.Wait()
	if err := vfs.FirstOf(errs); err != nil {
		return fmt.Errorf("engine: sync of new files: %w", err)
	}
	return u.env.FS.SyncDir(u.env.Dir)
}

// commitFlush commits the edit, publishes the runs and returns the lowest sequence
// number the log must keep.
func (u *Upkeep) commitFlush(
	ids []uint8, outs []*stripe.Output, upTo base.SeqNum,
) (base.SeqNum, error) {
	u.edits.mu.Lock()
	defer u.edits.mu.Unlock()
	needed := u.env.Visible() + 1 // before the memtables are looked at
	base.Yield()
	written := make(map[uint8]*stripe.Output, len(outs))
	for i, o := range outs {
		written[ids[i]] = o
	}
	for i := range u.env.Stripes {
		if low, ok := u.env.Stripes[i].MinSeq(written[uint8(i)]); ok {
			needed = min(needed, low)
		}
	}
	e := &manifest.Edit{
		NextFile: base.FileNum(u.edits.nextFile.Load()), NextRun: u.edits.nextRun.Load() + 1,
		LogStart: uint64(u.log.FirstSegment(needed)), LogSeq: needed,
		LastSeq: max(upTo, u.State().LastSeq),
	}
	for i, o := range outs {
		se := manifest.StripeEdit{Stripe: base.StripeID(ids[i]), FlushedSeq: o.FlushedSeq}
		if o.Run != nil {
			se.Add = []*manifest.Run{o.Run}
		}
		e.Stripes = append(e.Stripes, se)
	}
	if err := u.commitLocked(e); err != nil {
		return 0, err
	}
	for i, o := range outs {
		u.env.Stripes[ids[i]].Install(o)
	}
	return needed, nil
}

// flushed does the accounting after a flush.
func (u *Upkeep) flushed(outs []*stripe.Output, ids []uint8, d time.Duration) *Flush {
	var bytes, freed int64
	for i, o := range outs {
		u.counters.stripes[ids[i]].Flushed.Add(o.BytesWritten)
		bytes += o.BytesWritten
		freed += o.TableBytes()
	}
	garbage.Add(freed)
	u.throttle.lookAtLog()
	u.counters.flushes.Add(1)
	u.counters.flushBytes.Add(uint64(bytes))
	u.env.Logger.Debug("flushed", "stripes", len(ids), "bytes", bytes, "freed", freed, "dur", d)
	u.scheduler.kickMerge()
	return &Flush{Stripes: len(ids), Bytes: bytes, Duration: d}
}

// abandon ends a flush or merge that failed before its edit was committed. Outputs
// whose edit may have reached the disk in spite of the error are not among outs: the
// next Open removes them if they turn out to be orphans.
func (u *Upkeep) abandon(ctx context.Context, err error, outs []*stripe.Output) error {
	if !givenUp(ctx, err) {
		err = u.Fail(err)
	}
	return errors.Join(err, stripe.Discard(outs...))
}

// givenUp reports whether the error says no more than that the context has ended.
func givenUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}
