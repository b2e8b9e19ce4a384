package history

import (
	"fmt"
	"time"

	"github.com/kstonedb/kstone/internal/base"
)

// # The past
//
// With Limits.Versions merges keep the versions that are read at the moments since the floor, a
// commit that is about that old. The floor moves up as time passes.
//
// The naive way: a merge asks which commit is old enough, and drops what is below it.
//
// Why it fails: after a crash the time index may end before that commit. A floor that is computed
// again is lower than what the merge has dropped, and the past is read with holes.
//
// The way taken: the floor is an edit of the manifest first, and merges use it then. What expires
// is dropped by the time of the floor. A reader of the past judges it by the time of its commit.
//
// Invariants: no merge has used a floor above the stored one. A floor is the seq of a commit that
// is synced. The time of a moment is not before that of the floor, whatever the index has lost:
// the times of commits ascend, and a time that is not known is the present.
//
// What a crash leaves: the stored floor, and versions from there on.

// floorShare is the part of Limits.Versions by which the floor moves at least.
const floorShare = 16

// PastError reports that the database cannot be read as it was at a moment: merges have dropped
// what is needed for that, or the moment is not there yet. It matches ErrGone.
type PastError struct {
	Version    uint64    // of the commit that was asked for; 0: a time was
	Time       time.Time // that was asked for
	Oldest     uint64    // version of the oldest commit that can be read at; 0 if Off
	OldestTime time.Time // about when it was the newest; zero: not known
	Newest     uint64    // version of the newest commit
	Off        bool      // versions of the past are not kept at all
}

// Error implements error.
func (e *PastError) Error() string {
	what := fmt.Sprintf("version %d", e.Version)
	if !e.Time.IsZero() {
		what = stamp(e.Time)
	}
	if e.Off {
		return fmt.Sprintf("engine: %s is not kept, nor is any other moment: choose "+
			"Options.RetainVersions, or the setting retain-versions", what)
	}
	since := fmt.Sprintf("version %d", e.Oldest)
	if !e.OldestTime.IsZero() {
		since += " of " + stamp(e.OldestTime)
	}
	return fmt.Sprintf("engine: %s is not kept: the oldest moment is %s, the newest version %d",
		what, since, e.Newest)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Is makes errors.Is(err, ErrGone) true.
func (e *PastError) Is(target error) bool { return target == ErrGone }

// openFloor begins with the stored floor, or one at the newest commit.
func (h *History) openFloor() error {
	h.floor = h.limits.Floor
	if h.floor == 0 {
		h.floor = max(h.env.Visible(), 1)
		if h.env.Store != nil {
			if err := h.env.StoreFloor(h.floor); err != nil {
				return err
			}
		}
	}
	h.env.Keep(h.floor, h.times.of(h.floor, h.env.NowMs()))
	return nil
}

// Follow takes over the floor of the process that writes the database.
func (h *History) Follow(floor base.SeqNum) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limits.Versions == 0 || floor <= h.floor {
		return
	}
	h.floor = floor
	h.lookLocked()
	h.env.Keep(floor, h.times.of(floor, h.env.NowMs()))
}

// lookLocked finds the entries of the time index that another process has added. A file without a
// name was replaced: see times.forget.
func (h *History) lookLocked() {
	t := &h.times
	if h.env.Store != nil || t.file == nil {
		return
	}
	if names, err := t.file.Links(); err != nil || names > 0 {
		_ = t.load()
		return
	}
	var next times
	if next.open(&h.env) == nil && next.file != nil {
		_ = t.close()
		*t = next
	}
}

// raiseFloor moves the floor to the commit that is as old as Limits.Versions.
func (h *History) raiseFloor() {
	now := h.env.NowMs()
	age := h.limits.Versions.Milliseconds()
	h.mu.Lock()
	next := min(h.times.seqAt(now-age).seq, h.env.Log.SyncedSeq())
	ms := h.times.of(next, now)
	// A clock that was ahead may have raised it.
	due := next > h.floor && (now < h.raised || now-h.raised >= age/floorShare)
	h.mu.Unlock()
	if !due {
		return
	}
	if err := h.env.StoreFloor(next); err != nil {
		h.env.Logger.Warn("the oldest moment of the past is not stored", "err", err)
		return
	}
	h.env.Keep(next, ms)
	h.mu.Lock()
	h.floor, h.raised = next, now
	h.forgetTimesLocked()
	h.mu.Unlock()
}

// forgetTimesLocked lets the time index forget what nothing asks for any more.
func (h *History) forgetTimesLocked() {
	oldest := base.MaxSeqNum
	if h.On() {
		oldest = h.env.Log.OldestSeq()
	}
	if h.limits.Versions > 0 {
		oldest = min(oldest, h.floor)
	}
	h.times.forget(oldest)
}

// Moment returns the time of a commit as far as it is known, and otherwise the present.
func (h *History) Moment(seq base.SeqNum) (ms int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookLocked()
	return h.times.of(seq, h.env.NowMs())
}

// Commit returns the newest commit that was there at a time, by the time index: of those in the
// second before some may be missing. It is 0 if that is not known.
func (h *History) Commit(t time.Time) base.SeqNum {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookLocked()
	return h.times.seqAt(t.UnixMilli()).seq
}

// Past returns the error about a moment that is not kept.
func (h *History) Past(version base.SeqNum, t time.Time) *PastError {
	e := &PastError{Version: uint64(version), Time: t, Newest: uint64(h.env.Visible())}
	if h.limits.Versions == 0 {
		e.Off = true
		return e
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Oldest = uint64(h.floor)
	if ms := h.times.of(h.floor, 0); ms > 0 {
		e.OldestTime = time.UnixMilli(ms)
	}
	return e
}
