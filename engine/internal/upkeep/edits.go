package upkeep

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// edits orders the edits of the manifest and what depends on their order: the exchange of views
// that follows an edit, and the states that are pinned.
type edits struct {
	mu    sync.Mutex
	state atomic.Pointer[manifest.State] // replaced with mu held

	nextFile, nextRun atomic.Uint64
}

func (e *edits) init(state *manifest.State) {
	e.state.Store(state)
	e.nextFile.Store(uint64(state.NextFile))
	e.nextRun.Store(state.NextRun)
}

// State returns what the manifest says at present. It must not be modified.
func (u *Upkeep) State() *manifest.State { return u.edits.state.Load() }

// SetState takes over what the manifest says, of a database that another process writes.
func (u *Upkeep) SetState(s *manifest.State) { u.edits.state.Store(s) }

// NextFile returns a file number that was never used before.
func (u *Upkeep) NextFile() base.FileNum {
	return base.FileNum(u.edits.nextFile.Add(1) - 1)
}

// Edit makes durable what change returns for the present state; nil is no edit. No other edit
// comes in between.
func (u *Upkeep) Edit(change func(*manifest.State) *manifest.Edit) error {
	u.edits.mu.Lock()
	defer u.edits.mu.Unlock()
	if e := change(u.State()); e != nil {
		return u.commitLocked(e)
	}
	return nil
}

// commitLocked makes the edit durable. Requires: edits.mu held.
func (u *Upkeep) commitLocked(e *manifest.Edit) error {
	st, err := u.env.Manifest.Commit(e)
	if errors.Is(err, fs.ErrClosed) { // Close was faster: no failure
		return kv.ErrClosed
	}
	if err != nil {
		err = fmt.Errorf("engine: manifest: %w", err)
		if u.env.Manifest.Err() != nil {
			return u.env.FailForGood(err) // even if it was a full disk, which passes otherwise
		}
		return err
	}
	u.edits.state.Store(st)
	return nil
}

// Pinned is a state of the database with the views that keep its files.
type Pinned struct {
	State *manifest.State
	Views []*stripe.View
}

// Release lets go of the files.
func (p *Pinned) Release() {
	for _, v := range p.Views {
		v.Release()
	}
}

// Pin returns the present state and keeps its SSTs from being deleted until Release. The error
// is stripe.ErrClosed.
func (u *Upkeep) Pin() (*Pinned, error) {
	u.edits.mu.Lock()
	defer u.edits.mu.Unlock()
	return u.pinLocked()
}

// PinWithLog is Pin, with the part of the log that the state needs up to the log's present
// end. The caller gives up both.
//
// Why under the mutex of edits: the log is released after the edit that makes it needless, so
// no more than the state allows. And since a flush syncs the log before its edit, the log
// reaches at least as far as the SSTs do.
func (u *Upkeep) PinWithLog() (*Pinned, *wal.Pinned, error) {
	u.edits.mu.Lock()
	defer u.edits.mu.Unlock()
	p, err := u.pinLocked()
	if err != nil {
		return nil, nil, err
	}
	return p, u.log.Pin(wal.SegmentNum(p.State.LogStart)), nil
}

// pinLocked is Pin. Requires: edits.mu held.
//
// Why views pin files: a file is deleted when the last view that contains it is
// released, and under edits.mu the views hold exactly the files of the state.
func (u *Upkeep) pinLocked() (*Pinned, error) {
	p := &Pinned{State: u.State()}
	for i := range u.env.Stripes {
		v := u.env.Stripes[i].Acquire()
		if v == nil {
			p.Release()
			return nil, stripe.ErrClosed
		}
		p.Views = append(p.Views, v)
	}
	return p, nil
}
