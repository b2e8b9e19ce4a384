//go:build !linux && !darwin && !windows

package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// The other systems, among them WebAssembly, have no databases on a disk: nobody has tried what
// their syncs, locks and renames promise. A database in memory needs none of this.

// errNoFiles is the error of every file.
var errNoFiles = fmt.Errorf("kstone keeps no files on %s/%s, only databases in memory "+
	"(Options.InMemory): %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)

func openOS(name string, _ int) (*os.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errNoFiles}
}

func maxFilesOS() int                        { return 0 }
func isNoSpaceOS(error) bool                 { return false }
func cannotLinkOS(error) bool                { return false }
func syncDirOS(string) error                 { return errNoFiles }
func tryLockOS(*os.File, bool) (bool, error) { return false, errNoFiles }
func unlockOS(*os.File)                      {}
func (f *osFile) sync() error                { return errNoFiles }
func (f *osFile) allocate(_, _ int64) error  { return errNoFiles }
func (f *osFile) sizeOS() (int64, error)     { return 0, errNoFiles }
func (f *osFile) linksOS() (int, error)      { return 0, errNoFiles }

func tryLockRangeOS(uintptr, int64, int64) (bool, error) { return false, errNoFiles }
func rangeLockedOS(uintptr, int64, int64) (bool, error)  { return false, errNoFiles }

// osMapping is a mapping, which does not exist here.
type osMapping struct{}

// dirHandle is an open directory, which does not exist here.
type dirHandle struct{}

func openDirHandle(dir string) (*dirHandle, error) {
	return nil, &fs.PathError{Op: "open", Path: dir, Err: errNoFiles}
}

func (h *dirHandle) close() error                              { return errNoFiles }
func (h *dirHandle) open(_, _ string, _ int) (*os.File, error) { return nil, errNoFiles }
func (h *dirHandle) remove(string) error                       { return errNoFiles }
func (h *dirHandle) rename(_, _ string) error                  { return errNoFiles }
func (h *dirHandle) link(string, *dirHandle, string) error     { return errNoFiles }
func (h *dirHandle) stat(string) (Info, error)                 { return Info{}, errNoFiles }
func (h *dirHandle) info() (fs.FileInfo, error)                { return nil, errNoFiles }
func (h *dirHandle) list() ([]string, error)                   { return nil, errNoFiles }
func (h *dirHandle) sync() error                               { return errNoFiles }
func (h *dirHandle) removed() bool                             { return false }
func (h *dirHandle) tryLock(bool) (lock *os.File, held bool)   { return nil, false }
