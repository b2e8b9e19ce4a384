package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// TestMakeDirSteps: MakeDir makes and syncs what is missing from the top, and nothing else. Each
// operation that fails ends it, apart from looking, and from the sync of a parent that may not be
// read.
func TestMakeDirSteps(t *testing.T) {
	const (
		whole = "stat a/b/c, stat a/b, stat a, sync-dir ., mkdir a, sync-dir ., mkdir a/b, " +
			"sync-dir a, mkdir a/b/c, sync-dir a/b"
		half = "stat a/b/c, stat a/b, stat a, sync-dir ., mkdir a/b, sync-dir a, mkdir a/b/c, " +
			"sync-dir a/b"
		there = "stat a/b/c, sync-dir a/b"
	)
	for _, c := range []struct{ exists, want string }{
		{"", whole}, {"a", half}, {"a/b/c", there},
	} {
		for _, cause := range []error{errIO, fs.ErrPermission} {
			for at := int64(0); ; at++ {
				mem := vfs.NewMem()
				if c.exists != "" {
					ok(t, mem.MkdirAll(c.exists))
				}
				var ops []string
				p := &vfstest.FailPlan{At: at, Err: cause}
				err := manifest.MakeDir(vfstest.NewFault(mem, func(op vfstest.Op) error {
					ops = append(ops, fmt.Sprintf("%v %s", op.Kind, filepath.ToSlash(op.Name)))
					return p.Hook(op)
				}), "a/b/c")
				op, failed := p.Failed()
				got := strings.Join(ops, ", ")
				if !failed {
					if got != c.want || err != nil {
						t.Errorf("%q exists: %s, want %s: %v", c.exists, got, c.want, err)
					}
					if at > 0 {
						break
					}
					continue
				}
				first := strings.Count(strings.Join(ops[:at], ","), "sync-dir") == 1
				passes := op.Kind == vfstest.OpStat ||
					op.Kind == vfstest.OpSyncDir && cause == fs.ErrPermission && first
				if passes != (err == nil) || err != nil && (!errors.Is(err, cause) ||
					!strings.HasPrefix(err.Error(), "create database directory: ")) {
					t.Errorf("%q exists, %v %s fails: %v", c.exists, op.Kind, op.Name, err)
				}
				if err != nil && int64(len(ops)) != at {
					t.Errorf("%q exists: goes on after %v %s failed", c.exists, op.Kind, op.Name)
				}
			}
		}
	}
}

// The error of a directory that holds something else names up to five files.
func TestUnexpectedFiles(t *testing.T) {
	mem := vfs.NewMem()
	for i, want := range []string{"a", "a, b", "a, b, c", "a, b, c, d", "a, b, c, d, e",
		"a, b, c, d, e and 1 more", "a, b, c, d, e and 2 more"} {
		write(t, mem, filepath.Join(dir, string(rune('a'+i))), nil)
		_, err := manifest.Exists(mem, dir)
		want = "db: not a kstone database: no file CURRENT, but unexpected files: " + want
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := manifest.Exists(vfstest.NewFault(mem, func(vfstest.Op) error { return errIO }),
		dir); !errors.Is(err, errIO) {
		t.Errorf("a directory that cannot be read: %v", err)
	}
}
