package vfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/vfs"
)

// Contains goes by spelling where there are no identities.
func TestContains(t *testing.T) {
	forEach(t, func(t *testing.T, fsys vfs.FS, dir string) {
		db := filepath.Join(dir, "db")
		ok(t, fsys.MkdirAll(filepath.Join(db, "sub")))
		ok(t, fsys.MkdirAll(filepath.Join(dir, "db2")))
		d, err := vfs.OpenDir(fsys, db)
		ok(t, err)
		sep := string(filepath.Separator)
		for name, want := range map[string]bool{
			db: true, db + sep: true, filepath.Join(db, "new"): true,
			filepath.Join(db, "sub"): true, filepath.Join(db, "sub", "new", "deep"): true,
			filepath.Join(dir, "db2") + sep + ".." + sep + "db" + sep + "new": true,
			dir: false, filepath.Join(dir, "db2"): false, filepath.Join(dir, "new"): false,
			filepath.Join(dir, "db2", "db"): false, sep: false, "elsewhere": false,
		} {
			if got := d.Contains(fsys, name); got != want {
				t.Errorf("%s: %v", name, got)
			}
		}
		ok(t, d.Close())
	})
}

// Symbolic links do not hide where a name is, on either side.
func TestContainsThroughLinks(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	ok(t, os.MkdirAll("db/sub", 0o777))
	ok(t, os.Mkdir("out", 0o777))
	for name, target := range map[string]string{
		"link": "db", "deep": "db/sub", "out/back": "..", "db/away": "../out", "none": "db/none",
	} {
		if err := os.Symlink(target, name); err != nil {
			t.Skip(err)
		}
	}
	for name, want := range map[string]bool{
		"link": true, "link/new": true, "deep": true, "deep/new": true, "out/back/db/new": true,
		"out/back/link/new": true, "../" + filepath.Base(top) + "/db/new": true,
		filepath.Join(top, "link/sub/new"): true,
		"db/away":                          false, "db/away/new": false, "out/back/new": false,
	} {
		for _, dir := range []string{"db", "link", filepath.Join(top, "out/back/db")} {
			d, err := vfs.OpenDir(vfs.OS(), dir)
			ok(t, err)
			if got := d.Contains(vfs.OS(), name); got != want {
				t.Errorf("%s in %s: %v", name, dir, got)
			}
			ok(t, d.Close())
		}
	}
}
