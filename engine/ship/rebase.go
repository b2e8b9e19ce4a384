package ship

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Followers that have missed commits
//
// A follower that was away for longer than log is kept finds a base where its next commit should
// be. It restores that in place of what it has.
//
// The naive way: remove the directory, restore again.
//
// Why it fails: readers have nothing meanwhile, a crash leaves nothing, and the directory may be a
// database that is being written to.
//
// The way taken: the last commit is restored into DIR.rebased. Then DIR is renamed to
// DIR.before-rebased, DIR.rebased to DIR, and the former DIR is removed. Why no shorter name:
// DIR.before is what a person calls a database that is to be kept. A follower does so only with a
// directory whose commits it has all made: by its own count while it runs, and by the position of
// a consumer, the mark, that it moves with what it makes. The mark is durable after a second and
// with Close, so after a crash it may be too old: then the follower ends with ErrGap.
//
// What a crash leaves: before the first rename, DIR as it was. Between the renames, no DIR, and
// DIR.rebased, which the next Follow takes. After them, DIR.before-rebased, which the next Follow
// removes.

const (
	markName      = "ship follower"
	rebasedSuffix = ".rebased"
	beforeSuffix  = ".before-rebased"
)

// settle finishes what a follower before was doing when it ended.
func settle(fsys vfs.FS, dir string) error {
	there := func(name string) (bool, error) {
		_, err := fsys.Stat(filepath.Join(name, manifest.CurrentName))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	is, err := there(dir)
	if err != nil {
		return err
	}
	if !is {
		rebased, err := there(dir + rebasedSuffix)
		if err != nil || !rebased {
			return err
		}
		if err := moveDir(fsys, dir+rebasedSuffix, dir); err != nil {
			return err
		}
	}
	return removeDir(fsys, dir+beforeSuffix)
}

// moveDir gives a directory another name, durably.
func moveDir(fsys vfs.FS, from, to string) error {
	if err := fsys.Rename(from, to); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(to))
}

// removeDir removes a directory of files, if it is there.
func removeDir(fsys vfs.FS, dir string) error {
	if err := removeAll(fsys, dir); err != nil {
		return err
	}
	if err := fsys.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// marked reports whether the follower has made all that the database has, as far as the mark says.
func (f *Follower) marked() bool {
	last := source.Of(f.db).Log.LastSeq()
	for _, c := range f.db.Consumers() {
		if c.Name == markName && c.Position.Version == uint64(last)+1 {
			return true
		}
	}
	return false
}

// moveMark says that all commits of the database are the follower's, if they are.
func (f *Follower) moveMark() error {
	if !f.own {
		return nil
	}
	src := source.Of(f.db)
	at := src.History.At(src.Log.LastSeq())
	c, err := f.db.Consumer(markName, at)
	if err != nil {
		return err
	}
	return c.Ack(at)
}

// rebase restores the last commit of the destination in place of the database.
func (f *Follower) rebase(ctx context.Context) error {
	next, before := f.dir+rebasedSuffix, f.dir+beforeSuffix
	if err := removeDir(f.fs, next); err != nil {
		return err
	}
	at, err := restoreOn(ctx, f.dest, f.fs, next, &RestoreOptions{Open: f.o.Open})
	if err != nil {
		return err
	}
	// Whatever Close returns, the database is closed, readers or not, and what takes its place has
	// all of it.
	if err := f.db.Close(); err != nil {
		f.o.Logger.Warn("close what is replaced", "err", err)
	}
	if err = moveDir(f.fs, f.dir, before); err == nil {
		if err = moveDir(f.fs, next, f.dir); err != nil {
			err = errors.Join(err, moveDir(f.fs, before, f.dir))
		}
	}
	db, oerr := openFollowed(f.fs, f.dir, &f.o)
	if oerr != nil {
		return fmt.Errorf("%w: %w", errNoDatabase, errors.Join(err, oerr))
	}
	f.mu.Lock()
	f.db = db
	if err == nil {
		f.m.Rebases++
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.o.Logger.Warn("commits were missed: following goes on with a new base", "version",
		at.Version)
	return errors.Join(f.moveMark(), removeDir(f.fs, before))
}

var errNoDatabase = errors.New("ship: the follower has lost its database: follow again")

// openFollowed opens the database of a follower.
func openFollowed(fsys vfs.FS, dir string, o *FollowOptions) (*engine.DB, error) {
	open := o.Open
	open.MustExist, open.ReadOnly, open.InMemory = true, false, false
	db, err := openfs.Open(fsys, dir, &open)
	if err != nil {
		return nil, err
	}
	source.Of(db).Follow()
	return db.(*engine.DB), nil
}
