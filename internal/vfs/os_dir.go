package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// osDir is a directory of the operating system that is held open. Its methods are what FS
// says, relative to the directory; the handle has the system's calls.
type osDir struct {
	dirNames
	h *dirHandle
}

// openDir implements dirOpener.
func (osFS) openDir(dir string) (FS, error) { return openOSDir(dir) }

func openOSDir(dir string) (*osDir, error) {
	h, err := openDirHandle(dir)
	if err != nil {
		return nil, wrapOS(err)
	}
	return &osDir{newDirNames(filepath.Clean(dir)), h}, nil
}

func (d *osDir) Close() error { return d.h.close() }

// wrap is wrapOS, and says of a missing name whether the directory is missing, too.
func (d *osDir) wrap(err error) error {
	if errors.Is(err, fs.ErrNotExist) && d.h.removed() {
		return &removedDirError{d.dir, err}
	}
	return wrapOS(err)
}

func (d *osDir) open(name string, flag int) (File, error) {
	rel, err := d.rel("open", name)
	if err != nil {
		return nil, err
	}
	f, err := d.h.open(rel, name, flag)
	if err != nil {
		return nil, d.wrap(err)
	}
	return &osFile{f: f}, nil
}

// Create implements FS. For why it removes first see osFS.Create.
func (d *osDir) Create(name string) (File, error) {
	const flag = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := d.open(name, flag)
	if errors.Is(err, fs.ErrExist) {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err = d.open(name, flag)
	}
	return f, err
}

func (d *osDir) Open(name string) (File, error)          { return d.open(name, os.O_RDONLY) }
func (d *osDir) OpenReadWrite(name string) (File, error) { return d.open(name, os.O_RDWR) }

func (d *osDir) OpenShared(name string) (SharedFile, error) {
	rel, err := d.rel("open", name)
	if err != nil {
		return nil, err
	}
	f, err := d.h.open(rel, name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, d.wrap(err)
	}
	return &osFile{f: f}, nil
}

func (d *osDir) Remove(name string) error {
	rel, err := d.rel("remove", name)
	if err != nil {
		return err
	}
	return d.wrap(asPathError("remove", name, d.h.remove(rel)))
}

func (d *osDir) Rename(oldName, newName string) error {
	from, err1 := d.rel("rename", oldName)
	to, err2 := d.rel("rename", newName)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return d.wrap(asPathError("rename", oldName, d.h.rename(from, to)))
}

func (d *osDir) Link(oldName, newName string) error { return d.linkInto(oldName, d, newName) }

func (d *osDir) linkInto(oldName string, to *osDir, newName string) error {
	from, err1 := d.rel("link", oldName)
	dest, err2 := to.rel("link", newName)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	err := asPathError("link", oldName, d.h.link(from, to.h, dest))
	if errors.Is(err, fs.ErrNotExist) && to.h.removed() {
		return to.wrap(err)
	}
	return d.wrap(err)
}

// MkdirAll implements FS: the directory is there.
func (d *osDir) MkdirAll(dir string) error { return d.itself("mkdir", dir) }

func (d *osDir) SyncDir(dir string) error {
	if err := d.itself("sync", dir); err != nil {
		return err
	}
	return d.wrap(asPathError("sync", dir, d.h.sync()))
}

func (d *osDir) List(dir string) ([]string, error) {
	if err := d.itself("list", dir); err != nil {
		return nil, err
	}
	names, err := d.h.list()
	return names, d.wrap(asPathError("list", dir, err))
}

func (d *osDir) Stat(name string) (Info, error) {
	if filepath.Clean(name) == d.dir {
		if d.h.removed() {
			return Info{}, &removedDirError{d.dir, fs.ErrNotExist}
		}
		st, err := d.h.info()
		return Info{IsDir: true, os: st}, wrapOS(err)
	}
	rel, err := d.rel("stat", name)
	if err != nil {
		return Info{}, err
	}
	info, err := d.h.stat(rel)
	return info, d.wrap(asPathError("stat", name, err))
}

// Lock implements FS. It locks the directory first, then the file: without the directory,
// whoever removes the file lets a second writer in, and without the file a copy of the
// directory by hard links would have no lock in common with the original. A system that
// cannot lock a directory (NFS refuses) locks the file alone.
func (d *osDir) Lock(name, owner string, shared bool) (io.Closer, error) {
	rel, err := d.rel("lock", name)
	if err != nil {
		return nil, err
	}
	dirLock, held := d.h.tryLock(shared)
	if held {
		f, err := d.h.open(rel, name, os.O_RDONLY)
		if err != nil {
			return nil, &LockedError{Name: name}
		}
		defer f.Close()
		return nil, &LockedError{Name: name, Owner: lockOwner(f)}
	}
	f, err := d.h.open(rel, name, os.O_RDWR|os.O_CREATE)
	if err != nil && shared {
		// A reader of a read-only directory can still take a shared lock.
		if r, rerr := d.h.open(rel, name, os.O_RDONLY); rerr == nil {
			f, err = r, nil
		}
	}
	if err == nil {
		err = lockFile(f, name, owner, shared)
	}
	if err != nil {
		return nil, errors.Join(d.wrap(err), unlock(dirLock))
	}
	return &osLock{f: f, dir: dirLock, shared: shared}, nil
}

// Lock implements FS.
func (osFS) Lock(name, owner string, shared bool) (io.Closer, error) {
	d, err := openOSDir(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	l, err := d.Lock(name, owner, shared)
	return l, errors.Join(err, d.Close())
}

// maxOwnerBytes bounds what is read of another holder's owner text.
const maxOwnerBytes = 1 << 10

// lockOwner returns the owner text of a lock file.
func lockOwner(f *os.File) string {
	text := make([]byte, maxOwnerBytes)
	n, _ := f.ReadAt(text, 0)
	return string(text[:n])
}

// lockFile locks f and writes the owner to it, or closes it.
func lockFile(f *os.File, name, owner string, shared bool) error {
	held, err := tryLockOS(f, shared)
	if err == nil && held {
		err = &LockedError{Name: name, Owner: lockOwner(f)}
	}
	if err == nil && !shared {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(owner), 0)
		}
		// The owner is for people. A full disk must not keep anybody from opening.
		if err = wrapOS(err); errors.Is(err, ErrNoSpace) {
			err = nil
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// osLock is a held lock; the lock lives as long as the open files.
type osLock struct {
	f      *os.File
	dir    *os.File // nil if the directory is not locked
	shared bool
}

// Close clears the owner text and unlocks. A second Close wraps fs.ErrClosed.
func (l *osLock) Close() error {
	var err error
	if !l.shared {
		err = l.f.Truncate(0) // the text must not name a holder that is gone
	}
	return errors.Join(err, unlock(l.f), unlock(l.dir))
}

// unlock unlocks and closes a file that may be nil.
func unlock(f *os.File) error {
	if f == nil {
		return nil
	}
	unlockOS(f)
	return f.Close()
}

// asPathError adds operation and name to an error of the system.
func asPathError(op, name string, err error) error {
	var p *fs.PathError
	if err == nil || errors.As(err, &p) {
		return err
	}
	return pathErr(op, name, err)
}
