//go:build linux || darwin

package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

func openOS(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o666) }

func maxFilesOS() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}

func isNoSpaceOS(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// cannotLinkOS: EPERM is what Linux says of a file system without links.
func cannotLinkOS(err error) bool {
	return errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM)
}

// syncDirOS fsyncs a directory. File systems that have no such operation say
// EINVAL or ENOTSUP; their renames are durable or not as they please.
func syncDirOS(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(ignoreNoDirSync(d.Sync()), d.Close())
}

func ignoreNoDirSync(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// tryLockOS takes the flock of f without waiting; held means another open file has
// it. A flock belongs to the open file, so two Lock calls of one process conflict.
func tryLockOS(f *os.File, shared bool) (held bool, err error) {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err = flock(f, how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// unlockOS gives the flock of f back. Why before closing it: a process that is being started
// at this moment has a copy of the descriptor until it runs its program, and with it the lock.
func unlockOS(f *os.File) { _ = flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lockErr error
	err = conn.Control(func(fd uintptr) {
		lockErr = retryEINTR(func() error { return unix.Flock(int(fd), how) })
	})
	if err == nil && lockErr != nil {
		err = &fs.PathError{Op: "lock", Path: f.Name(), Err: lockErr}
	}
	return err
}

// tryLockRangeOS takes a lock of the open file description, which flock does not interfere with.
func tryLockRangeOS(fd uintptr, off, n int64) (ok bool, err error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: off, Len: n}
	err = retryEINTR(func() error { return unix.FcntlFlock(fd, ofdSetLock, &lk) })
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

func rangeLockedOS(fd uintptr, off, n int64) (bool, error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: off, Len: n}
	err := retryEINTR(func() error { return unix.FcntlFlock(fd, ofdGetLock, &lk) })
	return err == nil && lk.Type != unix.F_UNLCK, err
}

func retryEINTR(fn func() error) error {
	for {
		if err := fn(); err != unix.EINTR {
			return err
		}
	}
}

// Map implements Mapper. The file must be at least size long, and its blocks
// reserved: where Allocate could not reserve, a store could fault for want of
// space, and Map refuses with errors.ErrUnsupported.
func (f *osFile) Map(size int64) (Mapping, error) {
	have, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size <= 0 || size > have || int64(int(size)) != size {
		return nil, fmt.Errorf("map %s: size %d out of range, file has %d", f.Name(), size, have)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unreserved {
		return nil, fmt.Errorf("map %s: blocks cannot be reserved: %w",
			f.Name(), errors.ErrUnsupported)
	}
	m := &osMapping{file: f}
	err = f.control("map", func(fd uintptr) (err error) {
		const prot = unix.PROT_READ | unix.PROT_WRITE
		m.data, err = unix.Mmap(int(fd), 0, int(size), prot, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, wrapOS(err)
	}
	f.maps = append(f.maps, m)
	return m, nil
}

// osMapping is one mapping of a file. It outlives the closing of the file.
type osMapping struct {
	file *osFile
	data []byte // Guarded by file.mu for Unmap; nil afterwards
}

// Bytes returns the mapped bytes, nil after Unmap.
func (m *osMapping) Bytes() []byte { return m.data }

// Unmap ends the mapping; its bytes must not be touched any more. A second call does
// nothing.
func (m *osMapping) Unmap() error {
	m.file.mu.Lock()
	defer m.file.mu.Unlock()
	if m.data == nil {
		return nil
	}
	data := m.data
	m.data = nil
	m.file.maps = slices.DeleteFunc(m.file.maps, func(o *osMapping) bool { return o == m })
	if err := unix.Munmap(data); err != nil {
		return &fs.PathError{Op: "unmap", Path: m.file.Name(), Err: err}
	}
	return nil
}
