package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Checkpoint makes a copy of the database in dest, which must not exist or be an empty
// directory. On the same file system SSTs are shared by hard links, which takes no time
// and no space; on another one, or one without links, they are copied. The log (made short
// by a flush) is copied. Reads and writes go on meanwhile. The copy holds every commit
// acknowledged before the call, and a prefix of those after, and opens like any database.
//
// The manifest's CURRENT is written last, so that an interrupted checkpoint is never
// taken for a database.
func (db *DB) Checkpoint(ctx context.Context, dest string) error {
	if dest == "" {
		return invalid("checkpoint: no destination")
	}
	if err := db.Flush(ctx); err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	if err := db.calls.begin(); err != nil {
		return err
	}
	defer db.calls.end()
	ctx, stop := db.calls.within(ctx)
	defer stop()
	if err := prepareDir(db.base, dest); err != nil {
		return err
	}
	to, err := vfs.OpenDir(db.base, dest)
	if err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	defer to.Close()
	lock, err := to.Lock(filepath.Join(dest, manifest.LockName), lockOwner(), false)
	if err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	if err = db.checkpoint(ctx, to, dest); err == nil {
		return lock.Close()
	}
	// The lock file last: not every system removes a file that is open.
	return errors.Join(fmt.Errorf("engine: checkpoint: %w", err), clearDir(to, dest), lock.Close(),
		to.Remove(filepath.Join(dest, manifest.LockName)))
}

// prepareDir makes sure that dest is an empty directory.
func prepareDir(fsys vfs.FS, dest string) error {
	if st, err := fsys.Stat(dest); err == nil && !st.IsDir {
		return invalid("checkpoint: %s is a file", dest)
	}
	if names, err := fsys.List(dest); err == nil && len(names) > 0 {
		return invalid("checkpoint: %s is not empty", dest)
	}
	if err := manifest.MakeDir(fsys, dest); err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	return nil
}

// clearDir removes what a failed checkpoint has put into dest except the lock file, so
// that it can be tried again: CURRENT first, so that it is no database any more.
// Requires: dest was empty.
func clearDir(fsys vfs.FS, dest string) error {
	names, err := fsys.List(dest)
	if err != nil {
		return err
	}
	var errs []error
	for _, first := range []bool{true, false} {
		for _, name := range names {
			if first == (name == manifest.CurrentName) && name != manifest.LockName {
				errs = append(errs, fsys.Remove(filepath.Join(dest, name)))
			}
		}
	}
	return errors.Join(errs...)
}

func (db *DB) checkpoint(ctx context.Context, to *vfs.Dir, dest string) error {
	// The log first: what the state needs of it must not go before it is copied.
	unpin := db.log.Pin()
	defer db.sched.kickFlush() // releases what was held back
	defer unpin()
	p, err := db.pin()
	if err != nil {
		return err
	}
	defer p.release()
	for f := range p.state.Files() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := db.share(f, to, dest); err != nil {
			return err
		}
	}
	last, err := db.log.CopyTo(to, dest, wal.SegmentNum(p.state.LogStart))
	if err != nil {
		return err
	}
	if err := to.SyncDir(dest); err != nil {
		return err
	}
	state := *p.state
	state.LastSeq = max(state.LastSeq, last) // a copy that is cut off is noticed
	return manifest.WriteSnapshot(to, dest, &state)
}

// share gives an SST a name in dest, or a copy where that cannot be.
func (db *DB) share(f *base.FileMeta, to *vfs.Dir, dest string) error {
	src, dst := filepath.Join(db.dir, f.Name()), filepath.Join(dest, f.Name())
	err := db.fs.LinkInto(src, to, dst)
	if !vfs.CannotLink(err) {
		return err
	}
	return vfs.CopyFile(db.fs, src, to, dst, f.SizeBytes)
}

// pinned is a state of the database with the views that keep its files.
type pinned struct {
	state *manifest.State
	views []*stripe.View
}

func (p *pinned) release() {
	for _, v := range p.views {
		v.Release()
	}
}

// pin returns the present state and keeps its SSTs from being deleted until release.
//
// Why views pin files: a file is deleted when the last view that contains it is
// released, and under manifestMu the views hold exactly the files of the state.
func (db *DB) pin() (*pinned, error) {
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	p := &pinned{state: db.state.Load()}
	for i := range db.stripes {
		v := db.stripes[i].Acquire()
		if v == nil {
			p.release()
			return nil, ErrClosed
		}
		p.views = append(p.views, v)
	}
	return p, nil
}
