package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// openDir opens the directory, which is made if there is none and one may be made. From
// then on the database works on what was opened, whatever becomes of its path: see vfs.Dir.
func (db *DB) openDir() (made bool, err error) {
	db.fs, err = vfs.OpenDir(db.base, db.dir)
	if errors.Is(err, fs.ErrNotExist) && !db.opts.ReadOnly && !db.opts.MustExist {
		if err = manifest.MakeDir(db.base, db.dir); err == nil {
			made = true
			db.fs, err = vfs.OpenDir(db.base, db.dir)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %s", ErrNotExist, db.dir)
	case errors.Is(err, vfs.ErrNotDir):
		err = fmt.Errorf("engine: open: %w: %w", ErrNotDatabase, err)
	case err != nil:
		err = fmt.Errorf("engine: open: %w", err)
	}
	return made, err
}

// closeDir gives the lock back, and the directory.
func (db *DB) closeDir() error {
	var errs []error
	if db.lock != nil {
		errs = append(errs, db.lock.Close())
	}
	if db.fs != nil {
		errs = append(errs, db.fs.Close())
	}
	return errors.Join(errs...)
}

// lockDir keeps other processes, and other databases of this one, out of the directory.
func (db *DB) lockDir() error {
	if db.lock != nil {
		return nil // by the caller of openFS
	}
	owner := lockOwner()
	lock, err := db.fs.Lock(filepath.Join(db.dir, manifest.LockName), owner, db.opts.ReadOnly)
	var locked *vfs.LockedError
	switch {
	case errors.As(err, &locked):
		return &LockedError{Dir: db.dir, Owner: locked.Owner}
	case err != nil:
		return fmt.Errorf("engine: open: %w", err)
	}
	db.lock = lock
	return nil
}

// lockOwner is the text that others get when they find the database locked.
func lockOwner() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("process %d (%s) on %s since %s", os.Getpid(), filepath.Base(os.Args[0]),
		host, time.Now().UTC().Format(time.RFC3339))
}

// limitFiles makes do with the files that the process may have open. A quarter of them, at
// least 32, are left to the program and to everything but SSTs: log, manifest, lock, merges.
// It returns how many stripes to flush at a time.
func (db *DB) limitFiles() (flushGroup int) {
	limit := vfs.MaxFiles()
	if limit == 0 || db.opts.InMemory {
		return upkeep.MaxFlushGroup
	}
	flushGroup, most := shareFiles(limit)
	if db.opts.MaxOpenFiles > most {
		db.opts.Logger.Info("fewer files stay open than MaxOpenFiles, because of the limit of the"+
			" process", "MaxOpenFiles", db.opts.MaxOpenFiles, "open", most, "limit", limit)
		db.opts.MaxOpenFiles = most
	}
	return flushGroup
}

// shareFiles returns how many of limit files a flush may have open, and the readers of SSTs.
func shareFiles(limit int) (flush, readers int) {
	room := limit - max(limit/4, 32)
	flush = max(1, min(upkeep.MaxFlushGroup, room/2))
	return flush, max(4, room-flush)
}
