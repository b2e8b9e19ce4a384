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

// linksOfFD returns the number of names of an open file.
func linksOfFD(fd int) (int, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return int(st.Nlink), err
}
