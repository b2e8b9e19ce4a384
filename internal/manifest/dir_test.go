package manifest_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func TestNames(t *testing.T) {
	for _, num := range []uint64{1, 42, 999999, 1000000} {
		if got, ok := manifest.ParseName(manifest.Name(num)); !ok || got != num {
			t.Errorf("%s parses to %d, %t", manifest.Name(num), got, ok)
		}
	}
	for _, name := range []string{
		"MANIFEST-1", "MANIFEST-", "MANIFEST-+00001", "MANIFEST-000001.tmp", "x",
	} {
		if _, ok := manifest.ParseName(name); ok {
			t.Errorf("%s parses", name)
		}
	}
}

func TestIdentify(t *testing.T) {
	type content map[string]string
	const first = "MANIFEST-000001"
	tests := []struct {
		name  string
		files content // nil: the directory does not exist
		want  string  // part of the error
	}{
		{"does not exist", nil, ""},
		{"only a lock", content{"LOCK": "pid 1"}, ""},
		{"creation interrupted", content{"LOCK": "", first: "x", "CURRENT.tmp": "y"}, ""},
		{"a file of the user", content{"thesis.txt": "x"}, "thesis.txt"},
		{"tables without CURRENT", content{"007-1.sst": "x", first: "x"}, "007-1.sst"},
		{"a later manifest without CURRENT", content{"MANIFEST-000002": "x"}, "000002"},
		{"LevelDB", content{"CURRENT": first + "\n", "000005.ldb": "x"}, "another program"},
		{"CURRENT of someone else", content{"CURRENT": "hello"}, "CURRENT"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			for name, content := range tt.files {
				write(t, mem, filepath.Join(dir, name), []byte(content))
			}
			before, _ := mem.List(dir)
			exists, err := manifest.Exists(mem, dir)
			if exists {
				t.Error("taken for a database")
			}
			if (err != nil) != (tt.want != "") {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err == nil {
				create(t, mem, 2)
				return
			}
			if !errors.Is(err, manifest.ErrNotDatabase) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			_, err = manifest.Create(mem, dir, initState())
			if !errors.Is(err, manifest.ErrNotDatabase) {
				t.Errorf("create: %v", err)
			}
			if after, _ := mem.List(dir); !slices.Equal(before, after) {
				t.Errorf("directory changed from %v to %v", before, after)
			}
		})
	}
}

func TestExistingDatabase(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 1)
	write(t, mem, filepath.Join(dir, "anything"), nil)
	if ok, err := manifest.Exists(mem, dir); !ok || err != nil {
		t.Errorf("not found: %t, %v", ok, err)
	}
	if _, err := manifest.Create(mem, dir, initState()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over a database: %v", err)
	}
	b := read(t, mem, currentPath)
	b[20]++
	write(t, mem, currentPath, b)
	if ok, err := manifest.Exists(mem, dir); ok || !errors.Is(err, corrupt.ErrCorrupt) ||
		errors.Is(err, manifest.ErrNotDatabase) {
		t.Errorf("damaged CURRENT: %t, %v", ok, err)
	}
}

func TestOrphans(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 4)
	s, info, err := manifest.Load(mem, dir)
	ok(t, err)
	names := []string{
		"000-3.sst", "001-1.sst", "001-4.sst", "002-2.sst", // in use
		"CURRENT", "LOCK", "MANIFEST-000001", "000001.log", "notes.txt", "1-1.sst", "lost+found",
		"SPILL-1", "SPILL-000001.txt",
		"001-2.sst", "002-99.sst", "001-1.sst.tmp", "MANIFEST-000002", "CURRENT.tmp",
		"SPILL-000001", "SPILL-1234567",
	}
	want := names[13:]
	if got := manifest.Orphans(s, info.Manifest, names); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A directory is durable when MakeDir returns, also if another process that was making it
// has been killed at any moment.
//
// Promise (durability): The directory of a new database survives a power cut, also if an earlier
// process was killed while making it. Also `TestPowerCutsOfTheWholeEngine`.
func TestMakeDirAfterAKill(t *testing.T) {
	for stop := 1; ; stop++ {
		c, n := vfstest.NewCrash(), 0
		killed := vfstest.NewFault(c, func(op vfstest.Op) error {
			if n++; n >= stop {
				return errIO
			}
			return nil
		})
		first := manifest.MakeDir(killed, "a/b/c")
		if n < stop {
			break
		}
		ok(t, manifest.MakeDir(c, "a/b/c"))
		disk := c.PowerCut(rand.New(rand.NewPCG(1, 1)), 0)
		if _, err := disk.Stat("a/b/c"); err != nil {
			t.Fatalf("after operation %d (%v) and another MakeDir: %v", stop, first, err)
		}
	}
}
