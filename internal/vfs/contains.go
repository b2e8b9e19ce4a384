package vfs

import (
	"os"
	"path/filepath"
)

// Contains reports whether name in fsys, the file system that d was opened in, is the
// directory d or lies in it at any depth. It goes by identity, not by spelling: symbolic
// links and relative paths do not hide it. Name and some of its parents may not exist. On
// file systems without identities cleaned paths are compared.
//
// Limits: a part of d that is mounted elsewhere as well is not recognised there.
func (d *Dir) Contains(fsys FS, name string) bool {
	root, err := d.Stat(d.dir)
	if err != nil {
		return false
	}
	at := filepath.Clean(name)
	for {
		st, err := fsys.Stat(at)
		parent := filepath.Dir(at)
		if err == nil {
			if sameDir(root, d.dir, st, at) {
				return true
			}
			// Why not Dir: the parent of what a symbolic link leads to is meant.
			parent = at + string(filepath.Separator) + ".."
			up, err := fsys.Stat(parent)
			if err != nil || sameDir(up, parent, st, at) {
				return false // the root
			}
		} else if parent == at {
			return false
		}
		at = parent
	}
}

// sameDir compares directories by identity if they have one, else by cleaned paths.
func sameDir(a Info, aPath string, b Info, bPath string) bool {
	if a.os != nil && b.os != nil {
		return os.SameFile(a.os, b.os)
	}
	return filepath.Clean(aPath) == filepath.Clean(bPath)
}
