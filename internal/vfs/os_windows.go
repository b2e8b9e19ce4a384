package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// openOS opens with FILE_SHARE_DELETE, which package os does not: an open file can
// then be renamed, replaced and removed as on other systems.
func openOS(name string, flag int) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	access := uint32(windows.GENERIC_READ)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	disposition := uint32(windows.OPEN_EXISTING)
	switch {
	case flag&os.O_EXCL != 0:
		disposition = windows.CREATE_NEW
	case flag&os.O_CREATE != 0:
		disposition = windows.OPEN_ALWAYS
	}
	share := uint32(windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE)
	h, err := windows.CreateFile(path, access, share, nil, disposition,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

func maxFilesOS() int { return 0 }

func isNoSpaceOS(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) ||
		errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// cannotLinkOS: ERROR_INVALID_FUNCTION is what FAT says.
func cannotLinkOS(err error) bool {
	return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) ||
		errors.Is(err, windows.ERROR_TOO_MANY_LINKS) ||
		errors.Is(err, windows.ERROR_NOT_SUPPORTED) ||
		errors.Is(err, windows.ERROR_INVALID_FUNCTION)
}

// syncDirOS does nothing: Windows has no way to sync a directory; NTFS journals it.
func syncDirOS(string) error { return nil }

// tryLockOS locks one byte far beyond the content, because Windows locks are
// mandatory and others must be able to read the owner text.
func tryLockOS(f *os.File, shared bool) (held bool, err error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		where := windows.Overlapped{Offset: 0, OffsetHigh: 1 << 30}
		lockErr = windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, &where)
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(lockErr, windows.ERROR_LOCK_VIOLATION),
		errors.Is(lockErr, windows.ERROR_IO_PENDING):
		return true, nil
	case lockErr != nil:
		return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: lockErr}
	}
	return false, nil
}

// unlockOS does nothing: closing the file does it.
func unlockOS(*os.File) {}

// rangeLocksAt is where range locks are, far beyond the content: locked bytes cannot be read.
const rangeLocksAt = 1 << 40

func lockRange(fd uintptr, off, n int64) (ok bool, where *windows.Overlapped, err error) {
	off += rangeLocksAt
	where = &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
	err = windows.LockFileEx(windows.Handle(fd),
		windows.LOCKFILE_FAIL_IMMEDIATELY|windows.LOCKFILE_EXCLUSIVE_LOCK, 0, uint32(n), 0, where)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, where, nil
	}
	return err == nil, where, err
}

func tryLockRangeOS(fd uintptr, off, n int64) (bool, error) {
	ok, _, err := lockRange(fd, off, n)
	return ok, err
}

// rangeLockedOS takes the lock for a moment: there is no other way to ask.
func rangeLockedOS(fd uintptr, off, n int64) (bool, error) {
	ok, where, err := lockRange(fd, off, n)
	if ok {
		err = windows.UnlockFileEx(windows.Handle(fd), 0, uint32(n), 0, where)
	}
	return !ok && err == nil, err
}

func (f *osFile) sync() error { return f.f.Sync() }

// allocate only extends the file: reserving needs rights that programs rarely have.
func (f *osFile) allocate(old, size int64) error {
	if size <= old {
		return nil
	}
	return f.f.Truncate(size)
}

type osMapping struct{}
