package vfs

import (
	"errors"
	"syscall"
)

// IsTooManyFiles reports whether err says that the process, or the system, has as many
// files open as it may: the operation did nothing and may succeed later.
func IsTooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// MaxFiles returns how many files the process may have open, 0 if there is no limit or the
// system does not tell.
func MaxFiles() int { return maxFilesOS() }
