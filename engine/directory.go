package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
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

// TempFile is a file in the directory of a database that holds, for a while, what one operation
// has no memory for. It is not durable and not part of the database; Close removes it, the Close
// of the database removes those that are left, and Open those that a crash has left. One
// goroutine writes to it.
type TempFile struct {
	file vfs.File
	temp *tempFiles
	done sync.Once
}

// tempFiles are the temporary files of a database.
type tempFiles struct {
	db   *DB
	last atomic.Uint64 // number

	mu     sync.Mutex
	closed bool                   // guarded by mu
	open   map[*TempFile]struct{} // guarded by mu
}

// Temp returns what makes temporary files, nil if the database has no directory to write to: it
// is in memory or read-only. The function may be called concurrently; its error after Close is
// ErrClosed.
func (db *DB) Temp() func() (*TempFile, error) {
	if db.opts.ReadOnly || db.opts.InMemory {
		return nil
	}
	return db.temp.create
}

func (t *tempFiles) create() (*TempFile, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrClosed
	}
	name := filepath.Join(t.db.dir, manifest.SpillName(t.last.Add(1)))
	file, err := t.db.fs.Create(name)
	if err != nil {
		return nil, err
	}
	f := &TempFile{file: file, temp: t}
	if t.open == nil {
		t.open = map[*TempFile]struct{}{}
	}
	t.open[f] = struct{}{}
	return f, nil
}

// close removes the files that are left. Their users get ErrClosed.
func (t *tempFiles) close() {
	t.mu.Lock()
	t.closed = true
	left := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, f := range left {
		f.Close()
	}
}

// Name returns the path of the file.
func (f *TempFile) Name() string { return f.file.Name() }

// Write appends to the file. The error of a full disk matches ErrDiskFull.
func (f *TempFile) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	return n, closedError(err)
}

// ReadAt implements io.ReaderAt. It may be called concurrently.
func (f *TempFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(b, off)
	return n, closedError(err)
}

// closedError returns ErrClosed for the error of a file that the database has closed.
func closedError(err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return ErrClosed
	}
	return err
}

// Close closes and removes the file. It may be called again. A file that cannot be removed is
// left to the next Open, and logged.
func (f *TempFile) Close() {
	f.done.Do(func() {
		db := f.temp.db
		err := errors.Join(f.file.Close(), db.fs.Remove(f.Name()))
		if err != nil {
			db.opts.Logger.Warn("temporary file is left to the next open", "file", f.Name(),
				"err", err)
		}
		f.temp.mu.Lock()
		defer f.temp.mu.Unlock()
		delete(f.temp.open, f)
	})
}
