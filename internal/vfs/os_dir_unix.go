//go:build linux || darwin

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirHandle is the descriptor of a directory.
type dirHandle struct {
	f    *os.File
	conn syscall.RawConn
}

func openDirHandle(dir string) (*dirHandle, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &dirHandle{f, conn}, nil
}

func (h *dirHandle) close() error { return h.f.Close() }

// do runs fn with the descriptor, which stays open meanwhile.
func (h *dirHandle) do(fn func(dir int) error) error {
	var inner error
	err := h.conn.Control(func(fd uintptr) {
		inner = retryEINTR(func() error { return fn(int(fd)) })
	})
	if err != nil {
		return fs.ErrClosed // the only reason for which Control itself fails
	}
	return inner
}

// open opens a regular file. Why O_NONBLOCK: opening a named pipe would wait for its other
// end; regular files take no notice of it. Why no check after O_EXCL: the file is new.
func (h *dirHandle) open(rel, name string, flag int) (*os.File, error) {
	const always = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd := -1
	err := h.do(func(dir int) (err error) {
		fd, err = unix.Openat(dir, rel, flag|always|noAccessTime, 0o666)
		if err == unix.EPERM { // that is for the owner alone
			fd, err = unix.Openat(dir, rel, flag|always, 0o666)
		}
		if err == nil || flag&os.O_EXCL != 0 {
			return err
		}
		if st, serr := statOS(dir, rel); serr == nil && st.fileType() != 0 {
			return &NotRegularError{name, st.fileType()}
		}
		return err
	})
	if err == nil && flag&os.O_EXCL == 0 {
		var st fileStat
		if st, err = statOS(fd, ""); err == nil && st.fileType() != 0 {
			err = &NotRegularError{name, st.fileType()}
		}
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	var special *NotRegularError
	if errors.As(err, &special) {
		return nil, err
	}
	if err != nil {
		return nil, pathErr("open", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fileStat is what statOS returns.
type fileStat struct {
	mode  uint32
	size  int64
	links int
}

// fileType returns the type of the file; it is 0 for a regular one.
func (st *fileStat) fileType() fs.FileMode {
	switch st.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFREG:
		return 0
	}
	return fs.ModeDevice
}

func (h *dirHandle) remove(rel string) error {
	return h.do(func(dir int) error { return unix.Unlinkat(dir, rel, 0) })
}

func (h *dirHandle) rename(from, to string) error {
	return h.do(func(dir int) error { return unix.Renameat(dir, from, dir, to) })
}

func (h *dirHandle) link(from string, other *dirHandle, to string) error {
	return h.do(func(dir int) error {
		return other.do(func(dest int) error { return unix.Linkat(dir, from, dest, to, 0) })
	})
}

func (h *dirHandle) stat(rel string) (Info, error) {
	var st fileStat
	err := h.do(func(dir int) (err error) {
		st, err = statOS(dir, rel)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: st.size, IsDir: st.fileType() == fs.ModeDir}, nil
}

// info describes the directory itself.
func (h *dirHandle) info() (fs.FileInfo, error) { return h.f.Stat() }

// removed reports whether the directory is in no other directory any more, as far as the
// file system says.
func (h *dirHandle) removed() bool {
	var st fileStat
	err := h.do(func(dir int) (err error) {
		st, err = statOS(dir, "")
		return err
	})
	return err == nil && st.links == 0
}

// again opens the directory once more, by the descriptor.
func (h *dirHandle) again() (f *os.File, err error) {
	err = h.do(func(dir int) error {
		fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			f = os.NewFile(uintptr(fd), h.f.Name())
		}
		return err
	})
	return f, err
}

func (h *dirHandle) list() ([]string, error) {
	f, err := h.again() // the position in a directory belongs to the open one
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// sync fsyncs the directory. For the errors that are ignored see syncDirOS.
func (h *dirHandle) sync() error { return ignoreNoDirSync(h.f.Sync()) }

// tryLock takes the flock of the directory without waiting; nil if the system cannot lock
// directories. Why a descriptor of its own: a lock belongs to one, and two calls conflict.
func (h *dirHandle) tryLock(shared bool) (lock *os.File, held bool) {
	f, err := h.again()
	if err != nil {
		return nil, false
	}
	if held, err = tryLockOS(f, shared); err != nil || held {
		_ = f.Close()
		return nil, held
	}
	return f, false
}

// statOS describes the open file.
func (f *osFile) statOS() (st fileStat, err error) {
	err = f.control("stat", func(fd uintptr) (err error) {
		st, err = statOS(int(fd), "")
		return err
	})
	return st, err
}

func (f *osFile) sizeOS() (int64, error) {
	st, err := f.statOS()
	return st.size, err
}

// linksOS returns the number of names of the open file.
func (f *osFile) linksOS() (int, error) {
	st, err := f.statOS()
	return st.links, err
}
