package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Dir is an open directory: a file system for the names directly in it and for the directory
// itself. Callers pass full names, as to any FS: filepath.Join(dir, name).
//
// Why: a path may lead elsewhere tomorrow. If the directory of an open database is moved or
// removed, and another database is made at its path, operations by path would cut, remove
// and rename the files of the other one. On the file system of the operating system a Dir
// holds the directory and works relative to it, whatever its name has become:
//
//   - A name outside of the directory is an error.
//   - What is not a regular file is not opened (*NotRegularError): no symbolic link is
//     followed, no named pipe waited for, no device or socket written to.
//   - Once the directory is removed, errors of missing names match ErrRemoved.
//   - Lock locks the directory as well as the file, so that removing the file does not end it.
//
// On any other file system a Dir passes the names on.
//
// A failed SyncDir of the directory is final for every caller of the Dir. Why: a system may
// report a failure to one caller and success to the next, although the names of both are
// lost. For the same reason there is one sync at a time.
type Dir struct {
	FS
	dir string // cleaned

	// MoreFiles, if not nil, is asked when the process has as many files open as it may. It
	// reports whether it has closed some; the operation is tried again. It is set before others
	// use the Dir.
	MoreFiles func() bool
	retrying  sync.Mutex // held while an operation is tried again

	mu     sync.Mutex
	failed error // Guarded by mu; of SyncDir
}

// dirOpener is implemented by file systems that can hold a directory. Why unexported:
// a wrapper that embeds an FS lacks it, so that the wrapper sees every operation.
type dirOpener interface {
	openDir(dir string) (FS, error)
}

// OpenDir opens an existing directory. It follows symbolic links to it. The error of a file
// in its place matches ErrNotDir. The caller closes the Dir after the files and locks that
// it has got from it.
func OpenDir(fsys FS, dir string) (*Dir, error) {
	st, err := fsys.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !st.IsDir {
		return nil, pathErr("open", dir, ErrNotDir)
	}
	d := &Dir{FS: fsys, dir: filepath.Clean(dir)}
	if o, ok := fsys.(dirOpener); ok {
		if d.FS, err = o.openDir(d.dir); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Close releases the directory. Operations that follow fail.
func (d *Dir) Close() error {
	if c, ok := d.FS.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Create implements FS.
func (d *Dir) Create(name string) (File, error) { return withFiles(d, name, d.FS.Create) }

// Open implements FS.
func (d *Dir) Open(name string) (File, error) { return withFiles(d, name, d.FS.Open) }

// OpenReadWrite implements FS.
func (d *Dir) OpenReadWrite(name string) (File, error) {
	return withFiles(d, name, d.FS.OpenReadWrite)
}

// OpenShared implements FS.
func (d *Dir) OpenShared(name string) (SharedFile, error) {
	return withFiles(d, name, d.FS.OpenShared)
}

// List implements FS.
func (d *Dir) List(dir string) ([]string, error) { return withFiles(d, dir, d.FS.List) }

// maxMoreFiles bounds how often an operation is tried again: others may take what MoreFiles
// has closed. morePause is the wait for others that hold files for a moment.
const (
	maxMoreFiles = 16
	morePause    = time.Millisecond
)

// withFiles does an operation that opens a file, again if there are too many open.
func withFiles[T any](d *Dir, name string, op func(string) (T, error)) (T, error) {
	r, err := op(name)
	if !IsTooManyFiles(err) || d.MoreFiles == nil {
		return r, err
	}
	d.retrying.Lock() // one at a time: each would take what another has closed
	defer d.retrying.Unlock()
	for range maxMoreFiles {
		if !d.MoreFiles() {
			time.Sleep(morePause)
		}
		if r, err = op(name); !IsTooManyFiles(err) {
			break
		}
	}
	return r, err
}

// SyncDir implements FS.
func (d *Dir) SyncDir(dir string) error {
	if filepath.Clean(dir) != d.dir {
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
	return errors.Is(err, ErrNoSpace) || IsTooManyFiles(err) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)
}

// LinkInto makes newName in another open directory a second name of oldName in this one.
// The error matches CannotLink if the two have no way to share a file.
func (d *Dir) LinkInto(oldName string, to *Dir, newName string) error {
	from, ok := d.FS.(*osDir)
	if !ok {
		return d.FS.Link(oldName, newName)
	}
	if t, ok := to.FS.(*osDir); ok {
		return from.linkInto(oldName, t, newName)
	}
	return &fs.PathError{Op: "link", Path: oldName, Err: errors.ErrUnsupported}
}

// SyncNamed syncs a file that is to be found again by its name. It fails, with an error that
// matches ErrRemoved, if the file has none any more: its content is durable, and lost.
func SyncNamed(f File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	switch n, err := f.Links(); {
	case err != nil:
		return err
	case n == 0:
		return pathErr("sync", f.Name(), ErrRemoved)
	}
	return nil
}

// ErrNotDir is matched by the error of OpenDir for a file.
var ErrNotDir = errNotDir

// ErrRemoved is matched by errors that say that an open file or directory has been removed
// from the file system. It matches fs.ErrNotExist.
var ErrRemoved error = errRemoved{}

type errRemoved struct{}

func (errRemoved) Error() string        { return "removed while in use" }
func (errRemoved) Is(target error) bool { return target == fs.ErrNotExist }

// removedDirError is why a name is missing in a directory that has been removed.
type removedDirError struct {
	dir string
	err error
}

func (e *removedDirError) Error() string {
	return fmt.Sprintf("the directory %s was removed while in use: %v", e.dir, e.err)
}

func (e *removedDirError) Unwrap() error        { return e.err }
func (e *removedDirError) Is(target error) bool { return target == ErrRemoved }

// NotRegularError says that a name in a Dir belongs to something else than a regular file.
// It was neither followed nor changed.
type NotRegularError struct {
	Name string
	Type fs.FileMode // its type bits
}

// Error implements error.
func (e *NotRegularError) Error() string {
	what := "not a regular file"
	switch t := e.Type.Type(); {
	case t == fs.ModeSymlink:
		what = "a symbolic link"
	case t == fs.ModeNamedPipe:
		what = "a named pipe"
	case t == fs.ModeSocket:
		what = "a socket"
	case t == fs.ModeDir:
		what = "a directory"
	case t&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Sprintf("open %s: it is %s, and only a regular file is opened here: remove it, "+
		"or put the file itself in its place", e.Name, what)
}

// dirNames turns full names into names relative to a directory.
type dirNames struct {
	dir    string // cleaned
	prefix string // of the full names in it
}

func newDirNames(dir string) dirNames {
	return dirNames{dir, strings.TrimSuffix(filepath.Join(dir, "x"), "x")}
}

// rel returns the name of a file relative to the directory.
func (n *dirNames) rel(op, name string) (string, error) {
	rel, ok := strings.CutPrefix(filepath.Clean(name), n.prefix)
	if !ok || rel == "" || rel == "." || rel == ".." || filepath.Base(rel) != rel {
		return "", n.outside(op, name)
	}
	return rel, nil
}

// itself checks that a name is that of the directory.
func (n *dirNames) itself(op, name string) error {
	if filepath.Clean(name) != n.dir {
		return n.outside(op, name)
	}
	return nil
}

func (n *dirNames) outside(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("not in directory %s: %w", n.dir,
		fs.ErrInvalid)}
}
