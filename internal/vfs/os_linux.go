package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Commands of fcntl for locks of open file descriptions.
const (
	ofdSetLock = unix.F_OFD_SETLK
	ofdGetLock = unix.F_OFD_GETLK
)

// noAccessTime is the flag of files whose access time stays. Why: each read after a write changes
// it, so readers beside the writer would write the inode of its log again and again.
const noAccessTime = unix.O_NOATIME

// sync uses fdatasync: it covers the content, the size, and stores to mappings,
// and leaves out only times.
func (f *osFile) sync() error {
	return f.control("fdatasync", func(fd uintptr) error {
		return retryEINTR(func() error { return unix.Fdatasync(int(fd)) })
	})
}

func (f *osFile) allocate(old, size int64) error {
	if size <= 0 {
		return nil
	}
	err := f.control("fallocate", func(fd uintptr) error {
		return retryEINTR(func() error { return unix.Fallocate(int(fd), 0, 0, size) })
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		f.mu.Lock()
		f.unreserved = true
		f.mu.Unlock()
		if size > old {
			return f.f.Truncate(size)
		}
		return nil
	}
	return err
}

// StartWriteback implements Writebacker with sync_file_range. It is a hint: it
// makes nothing durable, and a file system that lacks it is not an error.
func (f *osFile) StartWriteback(off, n int64) error {
	err := f.control("sync_file_range", func(fd uintptr) error {
		return retryEINTR(func() error {
			return unix.SyncFileRange(int(fd), off, n, unix.SYNC_FILE_RANGE_WRITE)
		})
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ESPIPE) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return wrapOS(err)
}

// Populate implements Pager, on Linux 5.14 and later.
func (m *osMapping) Populate(off, n int64) error {
	return m.advise(off, n, unix.MADV_POPULATE_WRITE)
}

// LetGo implements Pager. What stores have changed stays in the page cache.
func (m *osMapping) LetGo(off, n int64) error { return m.advise(off, n, unix.MADV_DONTNEED) }

func (m *osMapping) advise(off, n int64, advice int) error {
	page := int64(os.Getpagesize())
	end := min((off+n+page-1)/page*page, int64(len(m.data)))
	off = off / page * page
	if off >= end {
		return nil
	}
	return retryEINTR(func() error { return unix.Madvise(m.data[off:end], advice) })
}

// statOS describes a file in an open directory, or the open file itself if the name is empty. It
// does not follow a symbolic link. Why not fstat: since Linux 6.13 a question for the times of a
// file makes the next store to it update them to the nanosecond, and each sync write the inode. A
// put at Sync took a third longer for it, also if another process asked. Sandboxes and kernels
// before 4.11 refuse statx.
func statOS(fd int, name string) (fileStat, error) {
	const mask = unix.STATX_TYPE | unix.STATX_SIZE | unix.STATX_NLINK
	var x unix.Statx_t
	err := unix.Statx(fd, name, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, mask, &x)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		var st unix.Stat_t
		err = unix.Fstatat(fd, name, &st, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
		return fileStat{st.Mode, st.Size, int(st.Nlink)}, err
	}
	return fileStat{uint32(x.Mode), int64(x.Size), int(x.Nlink)}, err
}
