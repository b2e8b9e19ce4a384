package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/windows"
)

// dirHandle is an open directory. The system does not let anybody move or remove it while
// files in it are open.
type dirHandle struct {
	root *os.Root
	path string // absolute, for links between directories
}

func openDirHandle(dir string) (*dirHandle, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &dirHandle{root, path}, nil
}

func (h *dirHandle) close() error { return h.root.Close() }

// open opens a regular file, shared for deletion: an open file can be renamed, replaced and
// removed as on other systems.
func (h *dirHandle) open(rel, name string, flag int) (*os.File, error) {
	if flag&os.O_EXCL == 0 {
		if st, err := h.root.Lstat(rel); err == nil && !st.Mode().IsRegular() {
			return nil, &NotRegularError{name, st.Mode()}
		}
	}
	f, err := h.root.OpenFile(rel, flag, 0o666)
	var p *fs.PathError
	if errors.As(err, &p) {
		return nil, pathErr("open", name, p.Err)
	}
	return f, err
}

func (h *dirHandle) remove(rel string) error       { return h.root.Remove(rel) }
func (h *dirHandle) rename(from, to string) error  { return h.root.Rename(from, to) }
func (h *dirHandle) sync() error                   { return nil } // see syncDirOS
func (h *dirHandle) removed() bool                 { return false }
func (h *dirHandle) tryLock(bool) (*os.File, bool) { return nil, false }

func (h *dirHandle) link(from string, other *dirHandle, to string) error {
	return os.Link(filepath.Join(h.path, from), filepath.Join(other.path, to))
}

func (h *dirHandle) stat(rel string) (Info, error) {
	st, err := h.root.Lstat(rel)
	if err != nil {
		return Info{}, err
	}
	return Info{SizeBytes: st.Size(), IsDir: st.IsDir()}, nil
}

// info describes the directory itself.
func (h *dirHandle) info() (fs.FileInfo, error) { return h.root.Stat(".") }

func (h *dirHandle) list() ([]string, error) {
	f, err := h.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (f *osFile) sizeOS() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// linksOS returns the number of names of an open file.
func (f *osFile) linksOS() (n int, err error) {
	err = f.control("stat", func(fd uintptr) error {
		var info windows.ByHandleFileInformation
		err := windows.GetFileInformationByHandle(windows.Handle(fd), &info)
		n = int(info.NumberOfLinks)
		return err
	})
	return n, err
}
