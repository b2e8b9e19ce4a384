package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// destination is a locked directory in which a checkpoint or a repair makes a database. It
// notes the names made in it.
//
// Why it notes them: a call that fails removes what it has made, and nothing else. Another
// process may have made a database in the directory just before it was locked, or be about to
// use it.
type destination struct {
	*vfs.Dir
	dir  string
	lock io.Closer
	made []string // in the directory, some of which may be gone again
}

// openDestination makes and locks dir, which must not exist or be empty. The caller calls
// close or abandon.
func openDestination(base vfs.FS, dir string) (d *destination, err error) {
	dir = filepath.Clean(dir)
	if err := checkEmpty(base, dir); err != nil {
		return nil, err
	}
	if err := manifest.MakeDir(base, dir); err != nil {
		return nil, err
	}
	d = &destination{dir: dir}
	if d.Dir, err = vfs.OpenDir(base, dir); err != nil {
		return nil, err
	}
	d.lock, err = d.Lock(filepath.Join(dir, manifest.LockName), lockOwner(), false)
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		err = &LockedError{Dir: dir, Owner: locked.Owner}
	}
	if err != nil {
		return nil, errors.Join(err, d.Dir.Close())
	}
	// Under the lock the answer is final.
	if err := checkEmpty(d.Dir, dir); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// checkOutside refuses a destination in the directory that is copied or repaired.
func checkOutside(source *vfs.Dir, base vfs.FS, dest string) error {
	if source.Contains(base, dest) {
		return invalid("%s is inside of the database: name a directory elsewhere", dest)
	}
	return nil
}

// checkEmpty returns an error if there is anything in the directory but a lock file.
func checkEmpty(fsys vfs.FS, dir string) error {
	if st, err := fsys.Stat(dir); err == nil && !st.IsDir {
		return invalid("%s is a file: name a new or an empty directory", dir)
	}
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == manifest.LockName })
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names); n > 3 {
		names, more = names[:3], fmt.Sprintf(" and %d more", n-3)
	}
	return invalid("%s is not empty, it holds %s%s: name a new or an empty directory", dir,
		strings.Join(names, ", "), more)
}

// close gives up the directory, which is a database now.
func (d *destination) close() error { return errors.Join(d.lock.Close(), d.Dir.Close()) }

// abandon removes what was made in the directory, because of err, so that another attempt
// finds it empty. It begins with what was made last: that is CURRENT, without which nothing
// else is a database.
func (d *destination) abandon(err error) error {
	errs := []error{err}
	for _, name := range slices.Backward(d.made) {
		errs = append(errs, d.removeIfThere(name))
	}
	// The lock file last: not every system removes a file that is open.
	errs = append(errs, d.lock.Close(), d.removeIfThere(manifest.LockName), d.Dir.Close())
	return errors.Join(errs...)
}

func (d *destination) removeIfThere(name string) error {
	err := d.Remove(filepath.Join(d.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// note remembers a name before it is made: the operation may take effect and fail.
func (d *destination) note(name string) { d.made = append(d.made, filepath.Base(name)) }

// Create implements vfs.FS.
func (d *destination) Create(name string) (vfs.File, error) {
	d.note(name)
	return d.Dir.Create(name)
}

// Rename implements vfs.FS.
func (d *destination) Rename(oldName, newName string) error {
	d.note(newName)
	return d.Dir.Rename(oldName, newName)
}

// linkFrom makes newName a second name of a file in another directory. A name that is there
// already was not made here.
func (d *destination) linkFrom(from *vfs.Dir, oldName, newName string) error {
	err := from.LinkInto(oldName, d.Dir, newName)
	if !errors.Is(err, fs.ErrExist) {
		d.note(newName)
	}
	return err
}
