package vfs

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// OS returns the file system of the operating system.
//
// On Linux and macOS its files implement Mapper, on Linux also Writebacker.
func OS() FS { return osFS{} }

type osFS struct{}

// Create removes an existing file first rather than truncating it, so that other
// names (hard links) and open handles of the old file keep their content.
func (osFS) Create(name string) (File, error) {
	f, err := openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrExist) {
		if err := removeFileOS(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, wrapOS(err)
		}
		f, err = openOS(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	}
	return newOSFile(f, err)
}

func (osFS) Open(name string) (File, error) {
	return newOSFile(openOS(name, os.O_RDONLY))
}

func (osFS) OpenReadWrite(name string) (File, error) {
	return newOSFile(openOS(name, os.O_RDWR))
}

// OpenShared implements FS.
func (osFS) OpenShared(name string) (SharedFile, error) {
	f, err := openOS(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, wrapOS(err)
	}
	return &osFile{f: f}, nil
}

func (osFS) Remove(name string) error             { return wrapOS(os.Remove(name)) }
func (osFS) Rename(oldName, newName string) error { return wrapOS(os.Rename(oldName, newName)) }
func (osFS) Link(oldName, newName string) error   { return wrapOS(os.Link(oldName, newName)) }
func (osFS) MkdirAll(dir string) error            { return wrapOS(os.MkdirAll(dir, 0o777)) }
func (osFS) SyncDir(dir string) error             { return wrapOS(syncDirOS(dir)) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (Info, error) {
	st, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: st.Size(), IsDir: st.IsDir(), os: st}, nil
}

// osFile implements File and, where the system has them, Mapper and Writebacker.
//
// Invariant: the raw descriptor is used only inside control, which keeps the
// os.File alive and unclosed meanwhile. A descriptor kept beyond that could be
// closed by the finalizer and reused for another file.
type osFile struct {
	f *os.File

	mu         sync.Mutex
	maps       []*osMapping // Guarded by mu; live mappings
	unreserved bool         // Guarded by mu; Allocate could not reserve blocks
}

func newOSFile(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, wrapOS(err)
	}
	return &osFile{f: f}, nil
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) { return f.f.ReadAt(p, off) }

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(p, off)
	return n, wrapOS(err)
}

func (f *osFile) Write(p []byte) (int, error) {
	n, err := f.f.Write(p)
	return n, wrapOS(err)
}

func (f *osFile) Close() error              { return wrapOS(f.f.Close()) }
func (f *osFile) Sync() error               { return wrapOS(f.sync()) }
func (f *osFile) Truncate(size int64) error { return wrapOS(f.f.Truncate(size)) }
func (f *osFile) Name() string              { return f.f.Name() }

func (f *osFile) Allocate(size int64) error {
	old, err := f.Size()
	if err != nil {
		return err
	}
	return wrapOS(f.allocate(old, size))
}

func (f *osFile) Size() (int64, error) { return f.sizeOS() }
func (f *osFile) Links() (int, error)  { return f.linksOS() }

// TryLock implements SharedFile.
func (f *osFile) TryLock(off, n int64) (ok bool, err error) {
	err = f.control("lock", func(fd uintptr) (err error) {
		ok, err = tryLockRangeOS(fd, off, n)
		return err
	})
	return ok, err
}

// Locked implements SharedFile.
func (f *osFile) Locked(off, n int64) (held bool, err error) {
	err = f.control("test lock of", func(fd uintptr) (err error) {
		held, err = rangeLockedOS(fd, off, n)
		return err
	})
	return held, err
}

// control runs fn with the file's raw descriptor, which stays open meanwhile.
func (f *osFile) control(op string, fn func(fd uintptr) error) error {
	conn, err := f.f.SyscallConn()
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	var inner error
	if conn.Control(func(fd uintptr) { inner = fn(fd) }) != nil {
		inner = fs.ErrClosed // the only reason for which Control itself fails
	}
	if inner != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: inner}
	}
	return nil
}

// spaceError makes an error of a full disk match ErrNoSpace.
type spaceError struct{ err error }

func (e *spaceError) Error() string        { return e.err.Error() }
func (e *spaceError) Unwrap() error        { return e.err }
func (e *spaceError) Is(target error) bool { return target == ErrNoSpace }

func wrapOS(err error) error {
	if err != nil && isNoSpaceOS(err) {
		return &spaceError{err}
	}
	return err
}

// removeFileOS removes a file but, unlike os.Remove, never a directory.
func removeFileOS(name string) error {
	st, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return &fs.PathError{Op: "create", Path: name, Err: errors.New("is a directory")}
	}
	return os.Remove(name)
}
