package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Commands of fcntl for locks of open file descriptions: F_OFD_SETLK and F_OFD_GETLK.
const (
	ofdSetLock = 90
	ofdGetLock = 92
)

// noAccessTime is a flag that the system lacks.
const noAccessTime = 0

// sync writes the mappings back, then asks the drive to flush its cache: os.File's
// Sync uses F_FULLFSYNC, a plain fsync stops at the drive.
func (f *osFile) sync() error {
	f.mu.Lock()
	for _, m := range f.maps {
		if err := unix.Msync(m.data, unix.MS_SYNC); err != nil {
			f.mu.Unlock()
			return err
		}
	}
	f.mu.Unlock()
	return f.f.Sync()
}

func (f *osFile) allocate(old, size int64) error {
	if size <= old {
		return nil
	}
	err := f.control("preallocate", func(fd uintptr) error {
		// Relative to the physical end of file: ask only for what is missing.
		st := unix.Fstore_t{
			Flags:   unix.F_ALLOCATEALL,
			Posmode: unix.F_PEOFPOSMODE,
			Length:  size - old,
		}
		return retryEINTR(func() error { return unix.FcntlFstore(fd, unix.F_PREALLOCATE, &st) })
	})
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		f.mu.Lock()
		f.unreserved = true
		f.mu.Unlock()
		err = nil
	}
	if err != nil {
		return err
	}
	return f.f.Truncate(size)
}

// statOS describes a file in an open directory, or the open file itself if the name is empty. It
// does not follow a symbolic link.
func statOS(fd int, name string) (fileStat, error) {
	var st unix.Stat_t
	var err error
	if name == "" {
		err = unix.Fstat(fd, &st)
	} else {
		err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return fileStat{uint32(st.Mode), st.Size, int(st.Nlink)}, err
}
