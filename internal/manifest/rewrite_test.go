package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// TestRewriteLimit: a commit rewrites the manifest if it is longer than 8 KiB and than four times
// its snapshot, and not one byte earlier, also after it was opened again.
func TestRewriteLimit(t *testing.T) {
	const minBytes, factor = 8 << 10, 4
	for _, settings := range []int{100, 1990, 2020, 5000} {
		for over := range int64(2) {
			mem := vfs.NewMem()
			init := initState()
			init.Settings = make([]byte, settings)
			l, err := makeAndCreate(mem, dir, init)
			ok(t, err)
			size := func() int64 {
				_, info, err := manifest.Load(mem, dir)
				ok(t, err)
				return info.SizeBytes
			}
			limit := max(minBytes, factor*(size()-40))
			mustCommit(t, l, &manifest.Edit{Settings: make([]byte, 1000)})
			rest := limit + over - size()
			mustCommit(t, l, &manifest.Edit{Settings: make([]byte, rest-26)})
			if got := size(); got != limit+over {
				t.Fatalf("%d bytes, want %d", got, limit+over)
			}
			if settings == 5000 {
				ok(t, l.Close())
				if l, _, err = manifest.Open(mem, dir); err != nil {
					t.Fatal(err)
				}
			}
			mustCommit(t, l, &manifest.Edit{})
			if got := int64(l.Manifest()); got != 1+over {
				t.Errorf("a commit at %d bytes, limit %d: manifest %d", limit+over, limit, got)
			}
			ok(t, l.Close())
		}
	}
}

// After a rewrite the limit is that of the new snapshot.
func TestRewriteAfterRewrite(t *testing.T) {
	mem := vfs.NewMem()
	l, err := makeAndCreate(mem, dir, initState())
	ok(t, err)
	defer l.Close()
	var got []string
	for range 12 {
		mustCommit(t, l, &manifest.Edit{Settings: make([]byte, 3000)})
		_, info, err := manifest.Load(mem, dir)
		ok(t, err)
		got = append(got, fmt.Sprintf("%d:%d", info.Manifest, info.SizeBytes))
	}
	want := "1:3106 1:6132 1:9158 2:3073 2:6099 2:9125 2:12151 3:3073 3:6099 3:9125 3:12151 4:3073"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("manifests and sizes are\n%s, want\n%s", s, want)
	}
}

// Settings of an edit replace those of the state, also by nothing; a state keeps its own copy.
func TestSettings(t *testing.T) {
	mem := vfs.NewMem()
	init := initState()
	l, err := makeAndCreate(mem, dir, init)
	ok(t, err)
	init.Settings[0] = 'X'
	for _, c := range []struct {
		edit *manifest.Edit
		want string
	}{
		{flush(1), "settings"},
		{&manifest.Edit{Settings: []byte("other")}, "other"},
		{flush(2), "other"},
		{&manifest.Edit{Settings: []byte{}}, ""},
	} {
		s := mustCommit(t, l, c.edit)
		found, _, err := manifest.Load(mem, dir)
		if err != nil || string(s.Settings) != c.want || string(found.Settings) != c.want {
			t.Errorf("settings are %q, found %q, want %q: %v",
				s.Settings, found.Settings, c.want, err)
		}
	}
	ok(t, l.Close())
}

// sizedFS reports other sizes, and other numbers of names, than files have.
type sizedFS struct {
	vfs.FS
	size  func(name string) (int64, error)
	links func() (int, error)
}

func (s *sizedFS) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	return &sizedFile{f, s, name}, err
}

func (s *sizedFS) OpenReadWrite(name string) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name)
	return &sizedFile{f, s, name}, err
}

type sizedFile struct {
	vfs.File
	s    *sizedFS
	name string
}

func (f *sizedFile) Size() (int64, error) {
	if f.s.size != nil {
		if n, err := f.s.size(f.name); n != 0 || err != nil {
			return n, err
		}
	}
	return f.File.Size()
}

func (f *sizedFile) Links() (int, error) {
	if f.s.links != nil {
		return f.s.links()
	}
	return f.File.Links()
}

// A CURRENT or a manifest above its limit is not read, and the error names the limit.
func TestFilesThatAreTooLong(t *testing.T) {
	for path, limit := range map[string]int64{currentPath: 4 << 10, manifestPath(1): 1 << 30} {
		mem := vfs.NewMem()
		create(t, mem, 1)
		size := limit + 1
		long := &sizedFS{FS: mem, size: func(name string) (int64, error) {
			if name == path {
				return size, nil
			}
			return 0, nil
		}}
		_, _, err := manifest.Load(long, dir)
		var c *corrupt.Error
		want := fmt.Sprintf("at offset %d: want at most %d bytes, got %d", limit, limit, limit+1)
		if !errors.As(err, &c) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
		if path == currentPath {
			// What is missing of the stated size is not there: the file has shrunk meanwhile.
			size = limit
			if s, _, err := manifest.Load(long, dir); err != nil || s.LastSeq != 10 {
				t.Errorf("%s of the largest size: %v, %v", path, s, err)
			}
		}
		broken := &sizedFS{FS: mem, size: func(name string) (int64, error) {
			if name == path {
				return 0, errIO
			}
			return 0, nil
		}}
		if _, _, err := manifest.Load(broken, dir); !errors.Is(err, errIO) {
			t.Errorf("%s without a size: %v", path, err)
		}
		if n := mem.OpenFiles(); n != 0 {
			t.Errorf("%s: %d files are open", path, n)
		}
	}
}

// The manifest of an open database that has been removed, or whose names cannot be counted, takes
// no commit.
func TestCommitIntoARemovedManifest(t *testing.T) {
	for _, c := range []struct {
		links int
		err   error
		want  error
	}{{0, nil, vfs.ErrRemoved}, {0, errIO, errIO}} {
		mem := vfs.NewMem()
		create(t, mem, 1)
		fsys := &sizedFS{FS: mem}
		l, _, err := manifest.Open(fsys, dir)
		ok(t, err)
		fsys.links = func() (int, error) { return c.links, c.err }
		if _, err := l.Commit(flush(2)); !errors.Is(err, c.want) ||
			!errors.Is(err, manifest.ErrUncertain) || !errors.Is(l.Err(), c.want) {
			t.Errorf("got %v, later %v, want %v", err, l.Err(), c.want)
		}
		ok(t, l.Close())
		_, _, err = manifest.Open(fsys, dir)
		if (err == nil) != (c.err == nil) || err != nil && !errors.Is(err, c.want) {
			t.Errorf("opened with %v", err)
		}
	}
}

// A reader goes on with the manifest to which a writer has moved after it read CURRENT.
func TestLoadDuringAMove(t *testing.T) {
	mem, after := vfs.NewMem(), vfs.NewMem()
	create(t, mem, 3)
	create(t, after, 0)
	moveOn(t, after)
	moves := 0
	s, info, err := manifest.Load(vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && op.Name == manifestPath(1) {
			moves++
			write(t, mem, manifestPath(2), read(t, after, manifestPath(2)))
			write(t, mem, currentPath, read(t, after, currentPath))
			return mem.Remove(manifestPath(1))
		}
		return nil
	}), dir)
	if err != nil || s.LastSeq != 30 || info.Manifest != 2 || moves != 1 {
		t.Errorf("got %+v, %v after %d moves", info, err, moves)
	}
}

func TestMissingManifestIsNamed(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 1)
	ok(t, mem.Remove(manifestPath(1)))
	want := "corrupt manifest number in CURRENT at offset 28: want that of an existing file, " +
		"got MANIFEST-000001"
	_, _, err := manifest.Load(mem, dir)
	if !errors.Is(err, corrupt.ErrCorrupt) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, _, err = manifest.Load(mem, "nowhere")
	wantIs(t, err, fs.ErrNotExist)
}

// Files stops where its caller does.
func TestFilesStops(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 4)
	s, _, err := manifest.Load(mem, dir)
	ok(t, err)
	var all []base.FileNum
	for f := range s.Files() {
		all = append(all, f.Num)
	}
	if want := []base.FileNum{3, 4, 1, 2}; !slices.Equal(all, want) {
		t.Errorf("files %d, want %d", all, want)
	}
	for range s.Files() {
		break
	}
}

// TestFileRules: a file that contradicts itself, its place or the state is refused; one at the
// limit of each rule is not.
func TestFileRules(t *testing.T) {
	type file = base.FileMeta
	for _, c := range []struct {
		change func(f *file)
		want   string
	}{
		{func(*file) {}, ""},
		{func(f *file) { f.Stripe = 2 }, "belongs to stripe 2"},
		{func(f *file) { f.Num = 0 }, "number is outside [1, 9)"},
		{func(f *file) { f.Num = 1 }, ""},
		{func(f *file) { f.Num = 8 }, ""},
		{func(f *file) { f.Num = 9 }, "number is outside [1, 9)"},
		{func(f *file) { f.SizeBytes = 0 }, ""},
		{func(f *file) { f.SizeBytes = -1 }, "negative size -1"},
		{func(f *file) { f.Largest = f.Smallest }, ""},
		{func(f *file) { f.Largest = []byte("A") },
			"smallest key 61 is above largest key 41"},
		{func(f *file) { f.MinSeq = f.MaxSeq }, ""},
		{func(f *file) { f.MinSeq = f.MaxSeq + 1 },
			"lowest sequence number 21 is above the highest, 20"},
		{func(f *file) { f.MaxSeq = 50 }, ""},
		{func(f *file) { f.MaxSeq = 51 }, "sequence number 51 is above the last one, 50"},
		{func(f *file) { f.Tombstones, f.TTLEntries = 10, 10 }, ""},
		{func(f *file) { f.Tombstones = 11 },
			"11 tombstones and 3 entries with expiry among 10 entries"},
		{func(f *file) { f.TTLEntries = 11 },
			"2 tombstones and 11 entries with expiry among 10 entries"},
	} {
		f := *flush(2).Stripes[0].Add[0].Files[0]
		f.Stripe = 1
		c.change(&f)
		s := &manifest.State{DBID: testDBID, NextFile: 9, NextRun: 9, LastSeq: 50}
		run := &manifest.Run{ID: 8, Files: []*file{&f}}
		_, err := manifest.Apply(s, &manifest.Edit{
			Stripes: []manifest.StripeEdit{{Stripe: 1, Add: []*manifest.Run{run}}},
		})
		want := fmt.Sprintf("stripe 1: run 8: file %d: %s", f.Num, c.want)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestRunRules: the files of a run ascend by key, after those that have none.
func TestRunRules(t *testing.T) {
	for _, c := range []struct {
		bounds string // of each file: smallest, largest; "-" has none
		id     uint64
		want   string
	}{
		{"ab cd", 1, ""},
		{"- ab cd", 1, ""},
		{"- - ab", 1, ""},
		{"ab cd", 8, ""},
		{"ab bc", 1, "run 1: files 1 and 2 overlap"},
		{"cd ab", 1, "run 1: files 1 and 2 overlap"},
		{"ab -", 1, "run 1: files 1 and 2 overlap"},
		{"- ab cd dd", 1, "run 1: files 3 and 4 overlap"},
		{"", 1, "run 1 has no files"},
		{"ab", 0, "run 0 is outside [1, 9)"},
		{"ab", 9, "run 9 is outside [1, 9)"},
	} {
		run := &manifest.Run{ID: c.id}
		for i, b := range strings.Fields(c.bounds) {
			f := &base.FileMeta{Num: base.FileNum(i + 1)}
			if b != "-" {
				f.Smallest, f.Largest = []byte(b[:1]), []byte(b[1:])
			}
			run.Files = append(run.Files, f)
		}
		s := &manifest.State{DBID: testDBID, NextFile: 9, NextRun: 9}
		_, err := manifest.Apply(s, &manifest.Edit{
			Stripes: []manifest.StripeEdit{{Add: []*manifest.Run{run}}},
		})
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || err.Error() != "stripe 0: "+c.want) {
			t.Errorf("%q: got %v, want %q", c.bounds, err, c.want)
		}
	}
}

// A database needs an identity. Counters of a new one that are zero become 1.
func TestFirstState(t *testing.T) {
	mem := vfs.NewMem()
	s := initState()
	s.DBID = [16]byte{}
	if _, err := makeAndCreate(mem, dir, s); err == nil ||
		!strings.Contains(err.Error(), "database identity is zero") {
		t.Errorf("without an identity: %v", err)
	}
	for _, next := range []uint64{0, 1, 7} {
		mem := vfs.NewMem()
		s := initState()
		s.NextFile, s.NextRun = base.FileNum(next), next
		l, err := makeAndCreate(mem, dir, s)
		ok(t, err)
		want := max(next, 1)
		if got := l.State(); uint64(got.NextFile) != want || got.NextRun != want ||
			uint64(s.NextFile) != next || l.Manifest() != 1 {
			t.Errorf("next file %d and run %d, want %d", got.NextFile, got.NextRun, want)
		}
		ok(t, l.Close())
	}
	mem = vfs.NewMem()
	create(t, mem, 0)
	if _, err := manifest.Create(mem, dir, initState()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
}
