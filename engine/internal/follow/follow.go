// Package follow is how a database is read that another process may write: it takes over what the
// log and the manifest of that process say.
//
// # Readers beside the writer
//
// A follower keeps a lease (package lease) and is at one state of the manifest and one place in the
// log. With each refresh it reads the manifest (not each time), then the log, to their ends;
// inserts the records into its memtables; switches to stripes with the files of a newer state
// (read.State's generations); raises the visible seq; and moves its lease on.
//
// Why the manifest before the log: a flush syncs the log before its edit, so the log, read
// afterwards, has all that is in the files of the state. Then the memtables may let go of what the
// files have.
//
// The visible seq is that of the last commit that is known to be durable, by the log, by the
// manifest, or because the follower has synced the log itself, as it does after a while without a
// sync. With Env.Visible it is that of the last commit.
//
// A follower whose next records are gone (it was stopped for long, and its lease was broken)
// begins again with the present state, as Open does.
//
// Locks: Follower.mu, over a refresh. Nothing that the writing process waits for is held.
package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/lease"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// ErrStale is matched by errors of reads whose files the writing process has let go: it keeps them
// for a reader up to a limit. Another read, or another snapshot, finds the present.
var ErrStale = errors.New("the writing process has removed what this reader needs")

const (
	// refreshEvery is the time between two looks at the log.
	refreshEvery = 20 * time.Millisecond
	// manifestEvery is how many looks at the log pass between two at the manifest: commits are in
	// the log, so until then the memtables have what files have, too.
	manifestEvery = 4
	// syncAfter is how long commits wait for their writer to sync them.
	syncAfter = 40 * time.Millisecond
)

// Env is all that a follower may touch of a database. It does not change after Start.
type Env struct {
	FS      vfs.FS
	Dir     string
	Wal     wal.Options
	Stripes *[base.NumStripes]stripe.Stripe // of the state that was loaded first
	Reads   *read.State
	Memory  *atomic.Int64
	Logger  *slog.Logger
	Visible bool // also what is not durable
	// Switched is called with each newer state.
	Switched func(*manifest.State)
}

// Follower follows one database. Its methods may be called concurrently, but for Recover and Start.
type Follower struct {
	env   Env
	lease *lease.Lease // nil: there is none

	mu      sync.Mutex
	man     *manifest.Follower              // guarded by mu, as all below
	state   *manifest.State                 // that the stripes are in
	log     *wal.Follower                   //
	stripes *[base.NumStripes]stripe.Stripe // the present ones
	in      commit.Inserter                 // into stripes
	first   moment                          // after Recover
	view    *wal.Log                        // grows with log
	pinned  map[wal.SegmentNum]int          // the first segments of copies under way
	late    time.Time                       // since when the commits up to lateSeq are not durable
	lateSeq base.SeqNum                     //
	// unsyncable: a sync of the log has failed.
	unsyncable bool
	closed     bool //
	looks      int  // at the log

	genMu sync.Mutex
	gens  map[*[base.NumStripes]stripe.Stripe]manifest.Position // guarded by genMu: in use

	stop chan struct{}
	work sync.WaitGroup
}

// moment is a place in manifest and log.
type moment struct {
	edit manifest.Position
	last base.SeqNum
}

// Open takes a lease, unless the caller has locked the directory, and loads the present state. The
// caller closes the follower.
func Open(fsys vfs.FS, dir string, leased bool, logger *slog.Logger) (*Follower, error) {
	f := &Follower{stop: make(chan struct{}),
		gens:   map[*[base.NumStripes]stripe.Stripe]manifest.Position{},
		pinned: map[wal.SegmentNum]int{}}
	var err error
	if leased {
		f.lease, err = lease.Take(fsys, dir)
	}
	if errors.Is(err, lease.ErrNone) {
		logger.Info("read without a lease: a writing process keeps no files for it", "err", err)
	} else if err != nil {
		return nil, err
	}
	if f.man, err = manifest.Follow(fsys, dir); err != nil {
		return nil, errors.Join(err, f.release())
	}
	f.state = f.man.State()
	return f, nil
}

// State returns the state that was loaded, before Start.
func (f *Follower) State() *manifest.State { return f.state }

// Recover replays the log into the memtables. It returns the end of what wal.Recover has found, and
// the number of operations.
func (f *Follower) Recover(env Env) (tail wal.Tail, ops int, err error) {
	f.env, f.stripes = env, env.Stripes
	f.in = commit.Inserter{Stripes: f.stripes, Hash: env.Reads.Hash}
	f.log, tail, ops, err = f.replay(f.state, f.stripes)
	if err == nil {
		f.gens[f.stripes] = f.man.Position()
		f.first = moment{f.man.Position(), f.log.LastSeq()}
		f.moveLease()
	}
	return tail, ops, err
}

// replay reads the log that a state needs into the memtables of stripes, and returns a follower at
// its end. Why f.log stays as it is: it belongs to f.stripes until others take their place.
func (f *Follower) replay(state *manifest.State, stripes *[base.NumStripes]stripe.Stripe,
) (log *wal.Follower, tail wal.Tail, ops int, err error) {
	var flushed [base.NumStripes]base.SeqNum
	for i := range flushed {
		flushed[i] = state.Stripes[i].FlushedSeq
	}
	r := commit.NewReplay(commit.ReplayEnv{
		Stripes: stripes, Hash: f.env.Reads.Hash, Memory: f.env.Memory,
		Floor: f.env.Reads.ReplayFloor(),
	}, &flushed)
	o := f.env.Wal
	o.Beside = true
	tail, err = wal.Recover(o, wal.SegmentNum(state.LogStart), max(state.LogSeq, 1), r.Apply)
	log = wal.Follow(o, tail)
	// Further records show that there is no damage: they were appended meanwhile.
	if err == nil || errors.Is(err, corrupt.ErrCorrupt) {
		if err != nil || log.LastSeq() < state.LastSeq {
			log.LookAround()
		}
		for {
			rec, ok, ferr := log.Next()
			if ferr != nil && err == nil {
				err = ferr
			}
			if !ok {
				break
			}
			if err = r.Apply(0, rec.Seq, rec.Payload); err != nil {
				break
			}
		}
	}
	r.Finish()
	if err == nil && log.LastSeq() < state.LastSeq {
		// Flushes sync the log first, so it reaches at least as far as the files.
		err = &corrupt.Error{
			File: tail.Segment.FileName(), Offset: tail.Offset, What: "end of log",
			Want: fmt.Sprintf("commit %d", state.LastSeq),
			Got:  fmt.Sprintf("commit %d", log.LastSeq()),
		}
	}
	if err != nil {
		return nil, tail, 0, errors.Join(err, log.Close())
	}
	log.Durable(state.LastSeq)
	if !f.env.Visible && log.SyncedSeq() < log.LastSeq() {
		f.sync(log)
	}
	return log, tail, r.Operations(), nil
}

// sync makes durable what was read of a log. If that fails, it does not become visible before the
// writer says that it has synced it. Why no second try: it may succeed for pages that the kernel
// has given up.
func (f *Follower) sync(log *wal.Follower) {
	f.late = time.Time{}
	if f.unsyncable {
		return
	}
	if err := log.Sync(); err != nil {
		f.unsyncable = true
		f.env.Logger.Warn("commits of the writing process are not shown until it syncs them",
			"err", err)
	}
}

// visible returns the seq up to which commits are shown.
func (f *Follower) visible() base.SeqNum {
	if f.env.Visible {
		return f.log.LastSeq()
	}
	return f.log.SyncedSeq()
}

// shown is visible, or what was shown before, if that is more.
func (f *Follower) shown() base.SeqNum { return max(f.visible(), f.env.Reads.Visible()) }

// Visible returns the seq up to which commits are shown, before Start.
func (f *Follower) Visible() base.SeqNum { return f.visible() }

// Start begins to refresh. The view, of what Recover has returned, grows.
func (f *Follower) Start(view *wal.Log) {
	f.view = view
	f.grow()
	f.work.Go(func() {
		t := time.NewTicker(refreshEvery)
		defer t.Stop()
		var before string
		for {
			select {
			case <-f.stop:
				return
			case <-t.C:
			}
			err := f.refresh(syncAfter)
			if err != nil && err.Error() != before {
				f.env.Logger.Warn("refresh", "err", err)
				before = err.Error()
			}
		}
	})
}

// Log returns the view of the log that Start was given.
func (f *Follower) Log() *wal.Log { return f.view }

// Refresh takes over what was committed before.
func (f *Follower) Refresh() error { return f.refresh(0) }

// refresh takes over what was committed before. It syncs what was not synced for a time.
func (f *Follower) refresh(patience time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	return f.refreshLocked(patience)
}

func (f *Follower) refreshLocked(patience time.Duration) error {
	whole := patience == 0 || f.looks%manifestEvery == 0
	f.looks++
	if patience == 0 {
		f.log.LookAround()
	}
	if whole {
		if _, err := f.man.Poll(); err != nil {
			return err
		}
	}
	state := f.man.State()
	err := f.readLog(patience)
	if err == nil && f.log.LastSeq() < state.LastSeq { // another segment has what is missing
		f.log.LookAround()
		err = f.readLog(patience)
	}
	if errors.Is(err, wal.ErrLost) && !whole {
		return f.refreshLocked(0)
	}
	if errors.Is(err, wal.ErrLost) || err == nil && f.log.LastSeq() < state.LastSeq {
		return f.again(state)
	}
	if err != nil {
		return err
	}
	f.log.Durable(state.LastSeq)
	f.env.Reads.Reset(f.shown())
	if !sameFiles(state, f.state) {
		next := new([base.NumStripes]stripe.Stripe)
		for i := range next {
			st := &state.Stripes[i]
			next[i].Follow(&f.stripes[i], st.Runs, st.FlushedSeq)
		}
		f.switchTo(state, next)
	} else {
		f.setState(state)
	}
	f.grow()
	f.moveLease()
	return nil
}

// grow lets the view show what is visible.
func (f *Follower) grow() { f.view.Grow(f.log, f.visible()) }

// sameFiles reports whether two states have the same runs, and need the same log.
func sameFiles(a, b *manifest.State) bool {
	for i := range a.Stripes {
		x, y := &a.Stripes[i], &b.Stripes[i]
		if x.FlushedSeq != y.FlushedSeq || !slices.EqualFunc(x.Runs, y.Runs,
			func(r, q *manifest.Run) bool { return r.ID == q.ID }) {
			return false
		}
	}
	return true
}

// setState makes a state that of the present stripes.
func (f *Follower) setState(state *manifest.State) {
	if state == f.state {
		return
	}
	f.state = state
	f.genMu.Lock()
	f.gens[f.stripes] = f.man.Position()
	f.genMu.Unlock()
	f.env.Switched(state)
}

// readLog inserts the records that have come.
func (f *Follower) readLog(patience time.Duration) error {
	horizon := f.env.Reads.Horizon()
	flushed := func(id uint8) base.SeqNum { return f.state.Stripes[id].FlushedSeq }
	for {
		rec, ok, err := f.log.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		grown, err := f.in.Insert(rec.Seq, rec.Payload, horizon, flushed)
		f.env.Memory.Add(grown)
		if err != nil {
			return err
		}
	}
	synced, last := f.log.SyncedSeq(), f.log.LastSeq()
	switch {
	case f.env.Visible || synced >= last:
		f.late = time.Time{}
		return nil
	case f.late.IsZero() || synced >= f.lateSeq:
		// The last commit of a writer that syncs each is not known to be durable before the next.
		f.late, f.lateSeq = time.Now(), last
	}
	if time.Since(f.late) >= patience {
		f.sync(f.log)
	}
	return nil
}

// switchTo makes stripes in a newer state the present ones.
func (f *Follower) switchTo(state *manifest.State, next *[base.NumStripes]stripe.Stripe) {
	old := f.stripes
	f.stripes, f.in.Stripes = next, next
	f.setState(state)
	base.Yield()
	f.env.Reads.Switch(next, f.shown(), func() { f.end(old) })
}

// end closes stripes that no reader uses any more.
func (f *Follower) end(stripes *[base.NumStripes]stripe.Stripe) {
	for i := range stripes {
		stripes[i].Close()
	}
	f.genMu.Lock()
	delete(f.gens, stripes)
	f.genMu.Unlock()
}

// again begins with a state as Open does.
func (f *Follower) again(state *manifest.State) error {
	f.env.Logger.Info("the log has gone on: the database is loaded again")
	if f.lease != nil { // from here on all of the log stays
		if err := f.lease.Hold(lease.Held{Edit: f.lease.Held().Edit}); err != nil {
			return err
		}
	}
	next := new([base.NumStripes]stripe.Stripe)
	for i := range next {
		next[i].Follow(&f.stripes[i], state.Stripes[i].Runs, base.MaxSeqNum)
	}
	log, tail, _, err := f.replay(state, next)
	if err == nil {
		if err = f.view.Renew(tail); err != nil {
			_ = log.Close()
		}
	}
	if err != nil {
		memory := int64(0)
		for i := range next {
			next[i].Close()
			memory += f.stripes[i].View().MemtableBytes()
		}
		f.env.Memory.Store(memory)
		return err
	}
	_ = f.log.Close()
	f.log = log
	f.switchTo(state, next) // until then nothing is visible that the present stripes lack
	f.grow()
	f.moveLease()
	return nil
}

// moveLease makes the lease keep what is still needed: the files of the oldest state in use, and
// the log from the next record on.
func (f *Follower) moveLease() {
	if f.lease == nil {
		return
	}
	h := lease.Held{Edit: f.man.Position(), Segment: f.log.Segment()}
	if f.view != nil {
		h.Segment = f.view.Pinned(h.Segment)
	}
	for from := range f.pinned {
		h.Segment = min(h.Segment, from)
	}
	f.genMu.Lock()
	for _, at := range f.gens {
		if at.Before(h.Edit) {
			h.Edit = at
		}
	}
	f.genMu.Unlock()
	if h == f.lease.Held() {
		return
	}
	if err := f.lease.Hold(h); err != nil {
		f.env.Logger.Warn("lease", "err", err)
	}
}

// Pin returns the present state, with what keeps its files until release.
func (f *Follower) Pin() (p *upkeep.Pinned, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pinLocked()
}

// pinTries is how often PinWithLog begins again since the writing process has flushed meanwhile.
const pinTries = 20

// PinWithLog is Pin, with the part of the log that the state needs.
func (f *Follower) PinWithLog() (p *upkeep.Pinned, log *wal.Pinned, release func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range pinTries {
		// As in Open: published first, loaded afterwards. If the state still needs the log from
		// there on, none of it was released before.
		from := wal.SegmentNum(f.state.LogStart)
		f.pinned[from]++
		unpin := func() {
			if f.pinned[from]--; f.pinned[from] == 0 {
				delete(f.pinned, from)
			}
			f.moveLease()
		}
		f.moveLease()
		if err = f.refreshLocked(0); err == nil && wal.SegmentNum(f.state.LogStart) != from {
			unpin()
			continue
		}
		var let func()
		if err == nil {
			p, let, err = f.pinLocked()
		}
		if err == nil {
			if log, err = f.log.Pin(from); err != nil {
				let()
			}
		}
		if err != nil {
			unpin()
			return nil, nil, nil, err
		}
		return p, log, func() {
			let()
			f.mu.Lock()
			defer f.mu.Unlock()
			unpin()
		}, nil
	}
	return nil, nil, nil, fmt.Errorf("%w: its log, while it flushes; try again", ErrStale)
}

func (f *Follower) pinLocked() (p *upkeep.Pinned, release func(), err error) {
	m := new(read.Moment)
	if err := m.Take(f.env.Reads); err != nil {
		return nil, nil, err
	}
	p = &upkeep.Pinned{State: f.state}
	for i := range f.stripes {
		v := f.stripes[i].Acquire()
		if v == nil {
			p.Release()
			m.Release()
			return nil, nil, stripe.ErrClosed
		}
		p.Views = append(p.Views, v)
	}
	return p, func() { p.Release(); m.Release() }, nil
}

// Moved reports whether another process has written since Open.
func (f *Follower) Moved() bool {
	_ = f.Refresh()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first != moment{f.man.Position(), f.log.LastSeq()}
}

// Stripes returns the present stripes.
func (f *Follower) Stripes() *[base.NumStripes]stripe.Stripe {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stripes
}

// Explain makes an error of reading a file that the writing process has let go an ErrStale. Why a
// missing name proves it: a recycled file gets another one before it is written.
func (f *Follower) Explain(err error) error {
	name := ""
	var bad *corrupt.Error
	var path *fs.PathError
	switch {
	case errors.Is(err, ErrStale):
	case errors.As(err, &bad):
		name = bad.File
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		name = path.Path
	}
	if name == "" {
		return err
	}
	name = filepath.Base(name)
	if _, serr := f.env.FS.Stat(filepath.Join(f.env.Dir, name)); !errors.Is(serr, fs.ErrNotExist) {
		return err
	}
	if f.Refresh() != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for file := range f.state.AllFiles() {
		if file == name {
			return err // it should be there
		}
	}
	return fmt.Errorf("%w: %s", ErrStale, name)
}

// Close ends the follower. Readers have ended.
func (f *Follower) Close() error {
	close(f.stop)
	f.work.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.stripes != nil {
		for i := range f.stripes {
			f.stripes[i].Close()
		}
	}
	return f.release()
}

func (f *Follower) release() error {
	var errs []error
	if f.log != nil {
		errs = append(errs, f.log.Close())
	}
	if f.man != nil {
		errs = append(errs, f.man.Close())
	}
	if f.lease != nil {
		errs = append(errs, f.lease.Release())
	}
	return errors.Join(errs...)
}
