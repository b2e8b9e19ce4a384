//go:build unix

package readers

import (
	"os"
	"path/filepath"
	"syscall"
)

// lockedByOther reports whether another process holds the lock of LevelDB in C++, which goleveldb
// does not see.
func lockedByOther(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "LOCK"))
	if err != nil {
		return false
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
	return err == nil && lock.Type != syscall.F_UNLCK
}
