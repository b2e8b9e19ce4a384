package ship_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A directory on a disk, and in memory, is what a destination has to be.
func TestDirectoryIsADestination(t *testing.T) {
	for _, c := range shiptest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			c.Run(t, ship.DirectoryOn(vfs.NewMem(), "dest"))
			if c.Name != "Lists" { // a thousand synced files
				c.Run(t, ship.Directory(t.TempDir()))
			}
		})
	}
}

// register registers a scheme, once however often its test runs.
var register = sync.OnceFunc(func() {
	ship.Register("mine", func(_ context.Context, url string) (ship.Destination, error) {
		return ship.DirectoryOn(vfs.NewMem(), url), nil
	})
})

// A destination is opened by the scheme of its URL, or is a directory.
func TestOpenDestination(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, "file://" + dir} {
		d, err := ship.OpenDestination(ctx, name)
		ok(t, err)
		_, err = ship.List(ctx, d)
		wantIs(t, err, ship.ErrEmpty)
	}
	file := filepath.Join(dir, "backup.tar")
	ok(t, os.WriteFile(file, nil, 0o600))
	for _, name := range []string{"s3://bucket", "ftp://host/dir", file} {
		_, err := ship.OpenDestination(ctx, name)
		wantIs(t, err, engine.ErrInvalid)
	}
	register()
	_, err := ship.OpenDestination(ctx, "mine://x")
	ok(t, err)
	if got := ship.Schemes(); len(got) != 1 || got[0] != "mine" {
		t.Errorf("schemes are %q", got)
	}
}

// A destination is the root of a file system, which has a directory that others may not read.
func TestDirectoryBesideOthers(t *testing.T) {
	h := newHarbor(t)
	ok(t, h.disk.MkdirAll("dest/lost+found"))
	h.dest = &counting{Destination: ship.DirectoryOn(vfstest.NewFault(h.disk,
		func(op vfstest.Op) error {
			if op.Kind == vfstest.OpSyncDir && filepath.Base(op.Name) == "lost+found" {
				return fs.ErrPermission
			}
			return nil
		}), "dest")}
	h.put()
	ok(t, h.start(ship.Options{}).Close(ctx))
	h.restores(ship.Target{}, h.last)
}
