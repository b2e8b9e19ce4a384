package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// What the scheduler does while the disk is full: it looks for what gives space back.

// relieve flushes the memtables with deletions, so that they can be merged with what they
// delete, and has the merges looked at. It comes again until there is space.
func (s *scheduler) relieve() {
	s.u.giveUpLog()
	s.u.log.DropSpares(1)
	s.flushDeletes()
	if s.u.reserve.settle() || s.ctx.Err() != nil || s.u.env.Writable() != nil {
		return
	}
	s.kickMerge()
	if s.again == nil {
		s.again = time.AfterFunc(retryAfter, s.kickFlush)
	} else {
		s.again.Reset(retryAfter)
	}
}

// flushFromReserve flushes one stripe at a time and releases space of the reserve for a flush
// that does not fit. Each flush releases log segments, which makes room for the next. It returns
// one event for all. Requires: flushMu held.
func (s *scheduler) flushFromReserve(
	ctx context.Context, group []uint8,
) (sum *Flush, err error) {
	for _, id := range group {
		v := s.u.env.Stripes[id].View()
		if v == nil {
			return sum, stripe.ErrClosed
		}
		bytes := v.MemtableBytes()
		event, err := s.u.flush(ctx, &s.builder, []uint8{id})
		if errors.Is(err, vfs.ErrNoSpace) &&
			s.u.reserve.give(forFlush, flushBytes(bytes, 1)) {
			event, err = s.u.flush(ctx, &s.builder, []uint8{id})
		}
		if err != nil {
			return sum, err
		}
		if event != nil && sum != nil {
			event.Stripes += sum.Stripes
			event.Bytes += sum.Bytes
			event.Duration += sum.Duration
		}
		if event != nil {
			sum = event
		}
		s.u.reserve.settle()
	}
	return sum, nil
}

// giveUpLog lets go of retained log, until nothing is left that may go.
func (u *Upkeep) giveUpLog() {
	if u.env.LogGiveUp != nil {
		u.env.LogGiveUp()
		return
	}
	_ = u.log.Forget(u.leased()) // what cannot be removed is tried again
}

// makeSpace flushes everything or, if that does not help, makes one merge. It returns an
// error if nothing helps.
func (u *Upkeep) makeSpace(ctx context.Context) error {
	ctx, end, err := u.env.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	s := &u.scheduler
	before := u.counters.flushes.Load()
	u.giveUpLog()
	err = u.Flush(ctx)
	if err != nil && !errors.Is(err, vfs.ErrNoSpace) {
		return err
	}
	u.reserve.settle()
	if err == nil && u.counters.flushes.Load() > before {
		return nil
	}
	job, ok := s.pickJob(u.pickerOptions().Idle())
	if !ok && s.merging() {
		return base.Sleep(ctx, time.Millisecond)
	}
	if !ok {
		return errors.Join(err, fmt.Errorf("nothing is left to merge: %w", vfs.ErrNoSpace))
	}
	merr := u.runMerge(ctx, &stripe.Builder{Pace: s.limiter.Wait}, job)
	s.retryLater(job.stripe, merr)
	if merr != nil && !errors.Is(merr, vfs.ErrNoSpace) {
		return merr
	}
	return nil // also if the merge did not fit: another one may
}

// merging reports whether a merge is under way.
func (s *scheduler) merging() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.busy {
		if b {
			return true
		}
	}
	return false
}

// clearBackoff forgets that merges have failed: there is space that was not there.
func (s *scheduler) clearBackoff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.backoff[:])
}

// scoreFull is the score of a merge on a full disk.
func (u *Upkeep) scoreFull(job mergeJob) float64 {
	if job.plan.Reason == compaction.ReasonValues {
		return 1 + float64(job.view.GarbageBytes)/float64(u.mergeBytes(job)+4096)
	}
	return spaceScore(job.view, job.plan)
}

// spaceScore orders merges on a full disk: the less one will probably write for what it
// frees, the sooner. How much of its stripe a range tombstone covers is not known, but that
// it may be all of it is likely when the disk is full.
func spaceScore(v *stripe.View, plan compaction.Plan) float64 {
	var entries, deletes, bytes float64
	for i := plan.Lo; i < plan.Hi; i++ {
		in := &v.Runs[i].Info
		entries += float64(in.Entries)
		deletes += 2*float64(in.Tombstones) + float64(in.TTLEntries)
		bytes += float64(in.Bytes)
		if in.RangeTombstones > 0 {
			deletes += entries
		}
	}
	kept := bytes * max(0, 1-deletes/max(entries, 1))
	return 1 + bytes/(kept+4096)
}

// dataBytes is the size of all SSTs and value files.
func (u *Upkeep) dataBytes() (n int64) {
	for i := range u.env.Stripes {
		if v := u.env.Stripes[i].View(); v != nil {
			n += v.ValueBytes
			for _, run := range v.Runs {
				n += int64(run.Info.Bytes)
			}
		}
	}
	return n
}
