package engine

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/kstonedb/kstone/internal/vfs"
)

// dirSyncs is the file system of an open database, on which a failed sync of the database's
// directory is final for everybody: the log, flushes, merges and the manifest share it.
// Other directories, as those of checkpoints, are not concerned.
//
// Why: a system may report a failure to one caller and success to the next, although the
// names of both are lost. A flush that came next would commit an edit that names a file
// which is not there after a power cut. For the same reason there is one sync at a time.
type dirSyncs struct {
	vfs.FS
	dir    string
	mu     sync.Mutex
	failed error // Guarded by mu
}

// SyncDir implements vfs.FS.
func (d *dirSyncs) SyncDir(dir string) error {
	if dir != d.dir {
		return d.FS.SyncDir(dir)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return d.failed
	}
	err := d.FS.SyncDir(dir)
	if err != nil && !passes(err) {
		d.failed = err
	}
	return err
}

// passes reports whether the directory was not synced at all, or another attempt can tell.
func passes(err error) bool {
	return errors.Is(err, vfs.ErrNoSpace) || vfs.IsTooManyFiles(err) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
}
