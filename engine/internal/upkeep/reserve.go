package upkeep

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// reserve is disk space that the database holds for the time when the disk is full: a file
// whose blocks are allocated and that is cut when something else needs them. With it the
// disk is full for puts only; deletes, flushes and merges go on, and give space back.
//
// Its size follows what it is for. Memtables: their flush always fits, so that the log can
// be released whatever is in them. The log: some small segments, for deletes. Merges: twice
// the bytes of an average stripe, so that of any database the merges of at least half of
// the stripes fit, as no more than half can be larger than twice the average. Why a put
// that would need a larger reserve than the disk has room for is refused: after it the
// three would no longer be certain.
//
// The file holds nothing. If it cannot be used, for another reason than a full disk, the
// database goes on without. docs/decisions/0017-a-reserve-for-deletes.md says more.
type reserve struct {
	u    *Upkeep
	full atomic.Bool // puts are refused

	mu    sync.Mutex
	off   bool      // guarded by mu; there is none and will be none
	file  vfs.File  // guarded by mu; nil: it has yet to be made
	have  int64     // guarded by mu; its size
	again time.Time // guarded by mu; when a put may try to make it whole
	data  int64     // guarded by mu; data bytes that puts go by until stale
	stale time.Time // guarded by mu
}

const (
	reserveName = "RESERVE"

	// reserveLog is for log segments, reserveEdits for edits of the manifest and for what a
	// file system wants to see free before it does something: XFS makes no file while fewer
	// than about 60 blocks are.
	reserveLog, reserveEdits = 1 << 20, 512 << 10
	// reserveClosed is the least that a closed database has instead of the two, and
	// reserveClosedPart the part of its data.
	reserveClosed, reserveClosedPart = 128 << 10, 16
	// reserveFile is what a flushed file may take beyond what its memtable did: filter,
	// index, footer, the rest of its last block.
	reserveFile = 8 << 10
	// reserveStep is by how much the reserve grows.
	reserveStep = 1 << 20
	// reserveStripes: the reserve has this part of the data for merges.
	reserveStripes = 128
)

// flushBytes is what the flush of memtables of the given size may take.
func flushBytes(memtables int64, stripes int) int64 {
	return memtables + memtables/16 + int64(stripes)*reserveFile
}

// init prepares the reserve. Its file is left alone until something is written: the first
// put has to ask, as the ceiling is 0.
func (r *reserve) init(u *Upkeep) {
	r.u = u
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off = u.opts.NoReserve; r.off {
		u.throttle.ceiling.Store(u.throttle.freeUsed)
	}
}

// readyLocked takes over the file that an earlier run has left, or makes it, unless that is
// done, and reports whether there is a reserve. Requires: mu held.
func (r *reserve) readyLocked() bool {
	if !r.off && r.file == nil {
		if err := r.openLocked(); err != nil && !errors.Is(err, vfs.ErrNoSpace) {
			r.dropLocked(err)
		}
	}
	return !r.off
}

// openLocked opens or makes the file. Requires: mu held.
func (r *reserve) openLocked() error {
	path := filepath.Join(r.u.env.Dir, reserveName)
	f, err := r.u.env.FS.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = r.u.env.FS.Create(path)
	}
	if err != nil {
		return err
	}
	r.file = f
	if r.have, err = f.Size(); err != nil {
		return err
	}
	if r.have > 0 { // a copy of the directory may have made holes of it
		err = f.Allocate(r.have)
	}
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil // XFS says so on a full disk even if it is whole, and then it mostly is
	}
	return err
}

// dropLocked goes on without a reserve. Requires: mu held.
func (r *reserve) dropLocked(err error) {
	r.u.env.Logger.Warn("no space can be reserved for a full disk", "err", err)
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
	r.have, r.off = 0, true
	r.leaveLocked()
}

// goalLocked is the size that the reserve should have at present; unless now, by data bytes of
// up to dataAge ago. Requires: mu held.
func (r *reserve) goalLocked(now bool) int64 {
	if t := time.Now(); now || t.After(r.stale) {
		r.data, r.stale = r.u.dataBytes(), t.Add(dataAge)
	}
	return reserveLog + reserveEdits + flushBytes(r.u.throttle.bytes(), base.NumStripes) +
		r.data/reserveStripes
}

// dataAge is how old data bytes may be. Why: under pressure each put asks, and they are those of
// all runs of all stripes.
const dataAge = time.Millisecond

// admit lets a put in, or says why not. Requires: the gate of the throttle is held.
func (r *reserve) admit() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.readyLocked() || r.settleLocked(false) {
		return nil
	}
	return fmt.Errorf("engine: no room for more than deletes: %w", vfs.ErrNoSpace)
}

// settle makes the reserve what it should be, as far as there is space, and reports
// whether puts may go on.
func (r *reserve) settle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.readyLocked() || r.settleLocked(true)
}

// rest gives up what the reserve has beyond its goal, if it was used since Open.
func (r *reserve) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil || !r.settleLocked(true) {
		return
	}
	if goal := r.goalLocked(true); r.have > goal+reserveStep {
		_ = r.cutLocked(goal + reserveStep) // it stays larger then
		r.ceilingLocked(goal)
	}
}

// settleLocked is settle; unless now, not again right after it has failed. Requires: mu
// held and there is a reserve.
func (r *reserve) settleLocked(now bool) bool {
	goal := r.goalLocked(now)
	full := r.full.Load()
	if !full && goal <= r.have {
		if r.have > 2*goal+4*reserveStep {
			_ = r.cutLocked(goal + reserveStep) // it stays larger then
		}
		r.ceilingLocked(goal)
		return true
	}
	start := time.Now()
	if full && !now && start.Before(r.again) {
		return false
	}
	want := (goal + 2*reserveStep) / reserveStep * reserveStep
	if full {
		// More than it will keep: for the next log segment, unless it is there, and so that
		// what is over now does not come back at once.
		want += reserveStep
		if l := r.u.log; l == nil || !l.HasNext() { // nil during Open
			want += r.u.opts.SegmentBytes
		}
	}
	err := r.growLocked(want)
	switch {
	case err == nil && full:
		_ = r.cutLocked((goal + 2*reserveStep) / reserveStep * reserveStep)
		r.leaveLocked()
	case err == nil || !full && goal <= r.have:
		r.ceilingLocked(goal)
	case !errors.Is(err, vfs.ErrNoSpace):
		r.dropLocked(err)
	default:
		r.enterLocked()
		r.again = time.Now().Add(max(retryPuts, 4*time.Since(start)))
		return false
	}
	return true
}

// retryPuts is the shortest time between two attempts of puts to find space again.
const retryPuts = 2 * time.Millisecond

// growLocked extends the reserve to n bytes: at once or, if there is no room for that, step
// by step. On an error it keeps what it has got. Requires: mu held.
func (r *reserve) growLocked(n int64) error {
	if r.file == nil {
		if err := r.openLocked(); err != nil {
			return err
		}
	}
	for step := n - r.have; r.have < n; {
		next := min(n, r.have+step)
		err := r.file.Allocate(next)
		if err == nil {
			r.have = next
			continue
		}
		terr := r.file.Truncate(r.have) // what was allocated of the step
		if terr != nil || step <= reserveStep || !errors.Is(err, vfs.ErrNoSpace) {
			return errors.Join(err, terr)
		}
		step = reserveStep
	}
	return nil
}

// cutLocked gives up what the reserve has beyond n bytes. Requires: mu held.
func (r *reserve) cutLocked(n int64) error {
	if err := r.file.Truncate(n); err != nil {
		return err
	}
	r.have = n
	return nil
}

// ceilingLocked notes up to which size of memtables writers need not ask: those that the
// reserve covers. Requires: mu held.
func (r *reserve) ceilingLocked(goal int64) {
	t := &r.u.throttle
	spare := r.have - goal
	t.ceiling.Store(min(t.freeUsed, t.bytes()+spare-spare/8))
}

// enter begins the time in which puts are refused.
func (r *reserve) enter() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.off {
		r.enterLocked()
	}
}

func (r *reserve) enterLocked() {
	if r.full.Swap(true) {
		return
	}
	r.u.throttle.ceiling.Store(0)
	r.again = time.Now().Add(retryPuts)
	r.u.env.Logger.Warn("the disk is full: deletes only until there is space")
	r.u.scheduler.kickFlush()
}

// leaveLocked ends it. Requires: mu held.
func (r *reserve) leaveLocked() {
	u := r.u
	if r.off {
		u.throttle.ceiling.Store(u.throttle.freeUsed)
	} else {
		r.ceilingLocked(r.goalLocked(true))
	}
	if !r.full.Swap(false) {
		return
	}
	u.env.Logger.Info("there is disk space again")
	if u.log != nil {
		u.log.Prepare()
	}
	u.scheduler.clearBackoff()
	u.scheduler.kickFlush()
	u.scheduler.kickMerge()
}

// purpose is what space of the reserve is given for.
type purpose int

const (
	forFlush purpose = iota // may have all of it
	forLog                  // leaves what flushes need
	forMerge                // leaves what flushes and the log need
)

// covers reports whether what is in the memtables could be flushed out of the reserve, and
// n bytes more.
func (r *reserve) covers(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	filled := r.u.throttle.bytes()
	return !r.readyLocked() || filled == 0 || flushBytes(filled+n, 1) <= r.have
}

// give gives up n bytes and some more for the file system, or fewer if that is all that it
// has for the purpose, and reports whether that was any.
func (r *reserve) give(p purpose, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.readyLocked() {
		return false
	}
	r.enterLocked()
	if r.file == nil {
		return false
	}
	room := r.have
	if filled := r.u.throttle.bytes(); p != forFlush && filled > 0 {
		room -= flushBytes(filled, int(min(filled/1024, int64(base.NumStripes))))
	}
	n = (n + 4095) &^ 4095
	switch p {
	case forLog:
		if n > room*3/4 {
			return false // it will ask for less
		}
	case forMerge:
		room -= min(reserveLog, r.have) / 4
	}
	if n = min(n+reserveEdits, room); n <= 0 {
		return false
	}
	return r.cutLocked(r.have-n) == nil
}

// close leaves a reserve for the next run, so that it can open and delete if the disk has
// become full meanwhile. Its size is in proportion: for what is to be replayed, and for
// merges.
func (r *reserve) close(keep int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { r.off = true }() // also for writers that still wait in line
	if r.file == nil && keep > r.leftBytes() {
		r.readyLocked()
	}
	if r.file == nil {
		return
	}
	if keep > 0 {
		if r.have > keep {
			_ = r.cutLocked(keep)
		} else {
			_ = r.growLocked(keep) // as far as there is space
		}
	}
	_ = r.file.Close()
	r.file = nil
}

// leftBytes is the size of the file that an earlier run has left: enough if none is wanted.
func (r *reserve) leftBytes() int64 {
	if r.off {
		return math.MaxInt64
	}
	info, err := r.u.env.FS.Stat(filepath.Join(r.u.env.Dir, reserveName))
	if err != nil {
		return 0
	}
	return info.SizeBytes
}

// closedGoal is what close is to keep.
func (r *reserve) closedGoal() int64 {
	dirty, bytes := 0, int64(0)
	for i := range r.u.env.Stripes {
		s := &r.u.env.Stripes[i]
		if v := s.View(); v != nil {
			if _, ok := s.MinSeq(nil); ok {
				dirty++
				bytes += v.MemtableBytes()
			}
		}
	}
	data := r.u.dataBytes()
	n := min(max(reserveClosed, data/reserveClosedPart), reserveLog+reserveEdits) +
		flushBytes(bytes, dirty) + data/reserveStripes
	return (n + 4095) &^ 4095
}
