package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// flushGroupMost bounds the stripes flushed under one manifest edit, each of which has a file
// open, and flushSyncers the files synced at a time. Why: a sync costs little more for eight
// files than for one, and a group must not hold memory for long.
const (
	flushGroupMost = 64
	flushSyncers   = 8
)

// pickFlush chooses the stripes to flush now: those with frozen memtables, those that
// hold back the oldest log segment when the log is long or the disk is full, and the
// largest when memory is short. It returns nil if nothing is due.
func (db *DB) pickFlush() []uint8 {
	type candidate struct {
		id    uint8
		bytes int64
	}
	var must []uint8
	var all []candidate
	pin := base.SeqNum(0)
	if db.reserve.full.Load() ||
		float64(db.log.HeldBytes()) >= logFlushAt*float64(db.opts.LogBytes) {
		if _, last, ok := db.log.Oldest(); ok {
			pin = last
		}
	}
	for i := range db.stripes {
		v := db.stripes[i].View()
		if v == nil {
			return nil
		}
		low, dirty := db.stripes[i].MinSeq(nil)
		switch {
		case !dirty:
		case len(v.Frozen) > 0 || low <= pin:
			must = append(must, uint8(i))
		default:
			all = append(all, candidate{uint8(i), v.MemtableBytes()})
		}
	}
	if len(must) > 0 {
		return must[:min(len(must), db.flushGroup)]
	}
	if db.memory.bytes() < db.memory.flushThreshold() {
		return nil
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(b.bytes, a.bytes) })
	var freed int64
	for _, c := range all {
		if len(must) == db.flushGroup || freed >= db.opts.MemtableBytes/8 {
			break
		}
		must = append(must, c.id)
		freed += c.bytes
	}
	return must
}

// pickDeletes returns the stripes whose memtables hold deletions for at least a twentieth
// of what is in their files, or any range tombstone: an idle merge takes that much, too.
func (db *DB) pickDeletes() (ids []uint8) {
	for i := range db.stripes {
		v := db.stripes[i].View()
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
func (db *DB) Flush(ctx context.Context) error {
	if err := cmp.Or(usable(ctx), db.writable()); err != nil {
		return err
	}
	if err := db.calls.begin(); err != nil {
		return err
	}
	defer db.calls.end()
	ctx, stop := db.calls.within(ctx)
	defer stop()
	return db.flushAll(ctx)
}

func (db *DB) flushAll(ctx context.Context) error {
	var dirty []uint8
	for i := range db.stripes {
		if _, ok := db.stripes[i].MinSeq(nil); ok {
			dirty = append(dirty, uint8(i))
		}
	}
	for group := range slices.Chunk(dirty, db.flushGroup) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := db.sched.flushGroup(group); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the memtables of the stripes to one run each.
//
// Steps, in this order (docs/crash-safety.md tells what a crash after each leaves):
// freeze; write the files; sync the log up to the highest number in them; sync the
// files and the directory; commit one manifest edit; publish; release log segments.
//
// Why the log is synced first: after a power cut the log must not miss a commit that
// is older than one in the files, or the state would not be a prefix of the commits.
// It returns what to tell Events.Flushed, nil if there was nothing to flush.
// Requires: scheduler.flushMu held.
func (db *DB) flush(b *stripe.Builder, group []uint8) (event *FlushEvent, err error) {
	start := time.Now()
	for _, id := range group {
		s := &db.stripes[id]
		s.Lock()
		s.Freeze()
		s.Unlock()
	}
	ret := db.retention()
	var outs []*stripe.Output
	defer func() {
		if err != nil {
			err = db.abandon(err, outs)
		}
	}()
	var ids []uint8
	var upTo base.SeqNum
	for _, id := range group {
		base.Yield()
		out, err := db.stripes[id].Flush(context.Background(), b, ret, db.nextRun.Add(1))
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
	if err := db.log.Sync(upTo); err != nil {
		return nil, err
	}
	if err := db.syncOutputs(outs); err != nil {
		return nil, err
	}
	written := outs
	needed, err := db.commitFlush(ids, outs, upTo)
	if err == nil || errors.Is(err, manifest.ErrUncertain) {
		outs = nil // installed, or perhaps named by the manifest: not ours to remove
	}
	if err != nil {
		return nil, err
	}
	event = db.flushed(written, ids, time.Since(start))
	return event, db.releaseLog(needed)
}

// releaseLog gives up the log below needed. That a file could not be removed is no
// reason to stop writing: the log tries again, less and less often, and says so.
func (db *DB) releaseLog(needed base.SeqNum) error {
	err := db.log.Release(needed)
	if err == nil || db.log.Err() != nil {
		return err
	}
	db.opts.Logger.Warn("release log segments", "err", err)
	return nil
}

// releaseRest gives up what the last flush could not give up although it was not needed
// any more, because its removal failed. Why also a log that is too long: if nothing is left
// to flush it would hold up writers for ever.
func (db *DB) releaseRest() {
	if float64(db.log.HeldBytes()) < logFlushAt*float64(db.opts.LogBytes) &&
		!db.log.RemovalDue() {
		return
	}
	_ = db.releaseLog(db.state.Load().LogSeq) // a failure of the log is noticed elsewhere
}

// retention returns what flushes and merges that start now must keep. Every number that
// is in a frozen memtable or file by now is visible afterwards, so that later readers see
// nothing but the newest versions of it. Of what is frozen later, all versions above the
// horizon are kept.
func (db *DB) retention() stripe.Retention {
	db.visible.wait(db.log.LastSeq())
	// Before the snapshots: a reader who is not among them registers later, and so reads at
	// this number or above.
	horizon := db.visible.load()
	base.Yield()
	snaps, _ := db.snaps.collect()
	return stripe.Retention{Snapshots: snaps, Horizon: horizon, NowMs: db.nowMs()}
}

// syncOutputs makes the new files and their names durable.
func (db *DB) syncOutputs(outs []*stripe.Output) error {
	errs := make([]error, len(outs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, flushSyncers)
	for i, o := range outs {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = o.Sync()
		})
	}
	wg.Wait()
	if err := vfs.FirstOf(errs); err != nil {
		return fmt.Errorf("engine: sync of new files: %w", err)
	}
	return db.fs.SyncDir(db.dir)
}

// commitFlush commits the edit, publishes the runs and returns the lowest sequence
// number the log must keep.
func (db *DB) commitFlush(
	ids []uint8, outs []*stripe.Output, upTo base.SeqNum,
) (base.SeqNum, error) {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	needed := db.visible.load() + 1 // before the memtables are looked at
	base.Yield()
	written := make(map[uint8]*stripe.Output, len(outs))
	for i, o := range outs {
		written[ids[i]] = o
	}
	for i := range db.stripes {
		if low, ok := db.stripes[i].MinSeq(written[uint8(i)]); ok {
			needed = min(needed, low)
		}
	}
	e := &manifest.Edit{
		NextFile: base.FileNum(db.nextFile.Load()), NextRun: db.nextRun.Load() + 1,
		LogStart: uint64(db.log.FirstSegment(needed)), LogSeq: needed,
		LastSeq: max(upTo, db.state.Load().LastSeq),
	}
	for i, o := range outs {
		se := manifest.StripeEdit{Stripe: base.StripeID(ids[i]), FlushedSeq: o.FlushedSeq}
		if o.Run != nil {
			se.Add = []*manifest.Run{o.Run}
		}
		e.Stripes = append(e.Stripes, se)
	}
	if err := db.commitEdit(e); err != nil {
		return 0, err
	}
	for i, o := range outs {
		db.stripes[ids[i]].Install(o)
	}
	return needed, nil
}

// commitEdit makes the edit durable. Requires: manifestMu held.
func (db *DB) commitEdit(e *manifest.Edit) error {
	st, err := db.manifest.Commit(e)
	if err != nil {
		err = fmt.Errorf("engine: manifest: %w", err)
		if db.manifest.Err() != nil {
			return db.failForGood(err) // even if it was a full disk, which passes otherwise
		}
		return err
	}
	db.state.Store(st)
	return nil
}

// flushed does the accounting after a flush.
func (db *DB) flushed(outs []*stripe.Output, ids []uint8, d time.Duration) *FlushEvent {
	var bytes, freed int64
	for i, o := range outs {
		db.metrics.stripes[ids[i]].flushed.Add(o.BytesWritten)
		bytes += o.BytesWritten
		freed += o.TableBytes()
	}
	db.memory.logUsed.Store(db.log.HeldBytes())
	db.metrics.flushes.Add(1)
	db.metrics.flushBytes.Add(uint64(bytes))
	db.opts.Logger.Debug("flushed", "stripes", len(ids), "bytes", bytes, "freed", freed, "dur", d)
	db.sched.kickCompact()
	return &FlushEvent{Stripes: len(ids), Bytes: bytes, Duration: d}
}

// abandon ends a flush or merge that failed before its edit was committed. Outputs
// whose edit may have reached the disk in spite of the error are not among outs: the
// next Open removes them if they turn out to be orphans.
func (db *DB) abandon(err error, outs []*stripe.Output) error {
	return errors.Join(db.fail(err), stripe.Discard(outs...))
}
