package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

var ok, wantIs = testutil.OK, testutil.WantIs

const dir = "db"

func initState() *manifest.State {
	return &manifest.State{DBID: testDBID, HashSeed: 0x5eed, Settings: []byte("settings")}
}

// flush is the i-th edit of the tests (from 1): stripe i%3 gets a new run of one
// file with number i, and LastSeq becomes 10*i.
func flush(i int) *manifest.Edit {
	id := base.StripeID(i % 3)
	f := &base.FileMeta{
		Num: base.FileNum(i), Stripe: id, SizeBytes: 1000, Entries: 10, Tombstones: 2,
		RangeTombstones: 1, TTLEntries: 3, RawBytes: 5000, MinExpiry: -5, MaxExpiry: 1 << 40,
		Smallest: []byte("a"), Largest: []byte("z"),
		MinSeq: base.SeqNum(10*i - 9), MaxSeq: base.SeqNum(10 * i),
	}
	return &manifest.Edit{
		NextFile: f.Num + 1, NextRun: uint64(i + 1), LogStart: uint64(i), LastSeq: f.MaxSeq,
		Stripes: []manifest.StripeEdit{{
			Stripe: id, FlushedSeq: f.MaxSeq,
			Add: []*manifest.Run{{ID: uint64(i), Files: []*base.FileMeta{f}}},
		}},
	}
}

func mustCommit(t *testing.T, l *manifest.Log, e *manifest.Edit) *manifest.State {
	t.Helper()
	s, err := l.Commit(e)
	ok(t, err)
	return s
}

// create makes a database with n flushes and closes it.
func create(t *testing.T, fsys vfs.FS, n int) {
	t.Helper()
	l, err := makeAndCreate(fsys, dir, initState())
	ok(t, err)
	for i := 1; i <= n; i++ {
		mustCommit(t, l, flush(i))
	}
	ok(t, l.Close())
}

func read(t *testing.T, fsys vfs.FS, path string) []byte {
	t.Helper()
	b, err := vfstest.ReadFile(fsys, path)
	ok(t, err)
	return b
}

func write(t *testing.T, fsys vfs.FS, path string, b []byte) {
	t.Helper()
	ok(t, fsys.MkdirAll(filepath.Dir(path)))
	ok(t, vfstest.WriteFile(fsys, path, b))
}

func manifestPath(num uint64) string { return filepath.Join(dir, manifest.Name(num)) }

var currentPath = filepath.Join(dir, "CURRENT")

func TestReopen(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 7)
	l, s, err := manifest.Open(mem, dir)
	ok(t, err)
	if s.DBID != testDBID || s.HashSeed != 0x5eed || string(s.Settings) != "settings" {
		t.Errorf("identity, seed or settings changed: %x %x %q", s.DBID, s.HashSeed, s.Settings)
	}
	want := mustCommit(t, l, flush(8))
	ok(t, l.Close())
	got, info, err := manifest.Load(mem, dir)
	ok(t, err)
	if renderState(got) != renderState(want) {
		t.Errorf("got\n%swant\n%s", renderState(got), renderState(want))
	}
	if info.Records != 9 || info.TornBytes != 0 || info.Manifest != 1 {
		t.Errorf("info %+v", info)
	}
	f := got.Stripes[2].Runs[0].Files[0]
	if fmt.Sprint(*f) != fmt.Sprint(*flush(8).Stripes[0].Add[0].Files[0]) {
		t.Errorf("file description changed: %+v", *f)
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Errorf("%d files left open", n)
	}
}

// Close syncs the seal, so that the next Open writes nothing; a log that is only opened and
// closed syncs nothing.
func TestCloseSyncsTheSeal(t *testing.T) {
	mem := vfs.NewMem()
	syncs := 0
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync {
			syncs++
		}
		return nil
	})
	create(t, mem, 1) // a single edit proves that CURRENT was synced
	for _, commits := range []int{0, 1, 0} {
		syncs = 0
		l, _, err := manifest.Open(fsys, dir)
		if err != nil || syncs != 0 {
			t.Fatalf("%d syncs to open: %v", syncs, err)
		}
		for range commits {
			mustCommit(t, l, flush(3))
		}
		if syncs != commits {
			t.Errorf("%d syncs of %d commits", syncs, commits)
		}
		syncs = 0
		if err := l.Close(); err != nil || syncs != commits {
			t.Errorf("%d syncs to close after %d commits: %v", syncs, commits, err)
		}
	}
}

func TestCommitRefusesEditThatDoesNotFit(t *testing.T) {
	mem := vfs.NewMem()
	l, err := makeAndCreate(mem, dir, initState())
	ok(t, err)
	defer l.Close()
	before := len(read(t, mem, manifestPath(1)))
	bad := &manifest.Edit{Stripes: []manifest.StripeEdit{{Remove: []uint64{4}}}}
	if _, err := l.Commit(bad); err == nil || errors.Is(err, manifest.ErrUncertain) {
		t.Errorf("got %v", err)
	}
	if after := len(read(t, mem, manifestPath(1))); after != before {
		t.Errorf("manifest grew from %d to %d bytes", before, after)
	}
	mustCommit(t, l, flush(1))
}

// The manifest cut at any length is either an earlier state (a crash may have left
// it) or an error, never a panic and never a state that did not exist.
func TestTruncated(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 4)
	whole := read(t, mem, manifestPath(1))
	last := base.SeqNum(0)
	for n := range whole {
		write(t, mem, manifestPath(1), whole[:n])
		s, _, err := manifest.Load(mem, dir)
		if err != nil {
			if !errors.Is(err, corrupt.ErrCorrupt) || last > 0 {
				t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
			}
			continue
		}
		if s.LastSeq < last || s.LastSeq%10 != 0 {
			t.Fatalf("%d of %d bytes: last seq %d after %d", n, len(whole), s.LastSeq, last)
		}
		last = s.LastSeq
	}
	if last != 40 {
		t.Errorf("without a part of the seal: last seq %d", last)
	}
}

// Any flipped byte of a cleanly closed database is an error that names the file,
// or (in the seal, which holds nothing) harmless.
func TestFlippedByte(t *testing.T) {
	for _, path := range []string{manifestPath(1), currentPath} {
		mem := vfs.NewMem()
		create(t, mem, 4)
		whole := read(t, mem, path)
		for i := range whole {
			b := slices.Clone(whole)
			b[i] ^= 0x41
			write(t, mem, path, b)
			s, _, err := manifest.Load(mem, dir)
			var c *corrupt.Error
			switch {
			case err == nil && s.LastSeq == 40 && path != currentPath && i >= len(whole)-17:
			case !errors.As(err, &c):
				t.Fatalf("byte %d of %s: %v, state %v", i, path, err, s)
			case c.File != filepath.Base(path):
				t.Fatalf("byte %d of %s: error names %s", i, path, c.File)
			case i >= 40 && (c.Offset < 40 || c.Offset > int64(i)):
				t.Fatalf("byte %d of %s: error at offset %d", i, path, c.Offset)
			}
		}
	}
}

// offsets returns where the records of a database with n flushes begin, and last
// where its seal does.
func offsets(t *testing.T, n int) (at []int64) {
	t.Helper()
	at = append(at, 40)
	for i := 0; i <= n; i++ {
		mem := vfs.NewMem()
		create(t, mem, i)
		_, info, err := manifest.Load(mem, dir)
		ok(t, err)
		at = append(at, info.SizeBytes)
	}
	return at
}

// A record is only valid in its own file at its own place.
func TestMisplacedRecords(t *testing.T) {
	mem, other := vfs.NewMem(), vfs.NewMem()
	create(t, mem, 3)
	create(t, other, 0)
	moveOn(t, other)
	at := offsets(t, 3)
	whole := read(t, mem, manifestPath(1))
	foreign := read(t, other, manifestPath(2))
	_, info, err := manifest.Load(other, dir)
	ok(t, err)
	foreign = foreign[info.SizeBytes-(at[4]-at[3]) : info.SizeBytes]
	rec := func(i int) []byte { return whole[at[i]:at[i+1]] }
	head, seal := whole[:at[1]], whole[at[4]:]
	early := vfs.NewMem()
	create(t, early, 1)
	sealed := read(t, early, manifestPath(1))

	for _, tt := range []struct {
		name    string
		content [][]byte
		lastSeq base.SeqNum // 0: an error
	}{
		{"as it should be", [][]byte{head, rec(1), rec(2), rec(3), seal}, 30},
		{"record missing", [][]byte{head, rec(1), rec(3), seal}, 0},
		{"record and seal missing", [][]byte{head, rec(1), rec(3)}, 0},
		{"records swapped", [][]byte{head, rec(1), rec(3), rec(2), seal}, 0},
		{"record repeated", [][]byte{head, rec(1), rec(1), rec(2), rec(3), seal}, 0},
		{"last record repeated", [][]byte{head, rec(1), rec(2), rec(3), rec(3)}, 30},
		{"record of another manifest", [][]byte{head, rec(1), rec(2), foreign, seal}, 0},
		{"record after the seal", [][]byte{sealed, rec(3)}, 0},
		{"no snapshot", [][]byte{whole[:40], rec(1), rec(2), rec(3), seal}, 0},
		{"torn record after the seal", [][]byte{sealed, rec(3)[:len(rec(3))-1]}, 10},
		{"nothing but a header", [][]byte{whole[:40]}, 0},
	} {
		write(t, mem, manifestPath(1), slices.Concat(tt.content...))
		s, _, err := manifest.Load(mem, dir)
		switch {
		case tt.lastSeq == 0 && !errors.Is(err, corrupt.ErrCorrupt):
			t.Errorf("%s: got %v", tt.name, err)
		case tt.lastSeq != 0 && (err != nil || s.LastSeq != tt.lastSeq):
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}

// moveOn makes a database without flushes go on in manifest 2, and commits three.
func moveOn(t *testing.T, mem *vfs.MemFS) {
	t.Helper()
	fail := true
	l, _, err := manifest.Open(vfstest.NewFault(mem, func(op vfstest.Op) error {
		if fail && op.Kind == vfstest.OpWriteAt && op.Len > 17 {
			fail = false
			return errors.New("input/output error")
		}
		return nil
	}), dir)
	ok(t, err)
	defer l.Close()
	if _, err := l.Commit(flush(1)); err == nil {
		t.Fatal("no error from a failed write")
	}
	for i := 1; i <= 3; i++ {
		mustCommit(t, l, flush(i))
	}
	if l.Manifest() != 2 {
		t.Fatalf("still in manifest %d", l.Manifest())
	}
}

// A manifest under another number is refused, although all its bytes are right.
func TestReplayedManifest(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 0)
	old := read(t, mem, manifestPath(1))
	moveOn(t, mem)
	write(t, mem, manifestPath(2), old)
	if _, _, err := manifest.Load(mem, dir); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestWriteSnapshot(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 5)
	s, _, err := manifest.Load(mem, dir)
	ok(t, err)
	ok(t, mem.MkdirAll("copy"))
	ok(t, manifest.WriteSnapshot(mem, "copy", s))
	c, _, err := manifest.Load(mem, "copy")
	if err != nil || renderState(c) != renderState(s) || c.DBID != s.DBID {
		t.Errorf("checkpoint differs (%v)", err)
	}
	if err := manifest.WriteSnapshot(mem, "copy", s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second checkpoint into the same directory: %v", err)
	}
}

// makeAndCreate makes the directory of a database and the database.
func makeAndCreate(fsys vfs.FS, dir string, init *manifest.State) (*manifest.Log, error) {
	if err := manifest.MakeDir(fsys, dir); err != nil {
		return nil, err
	}
	return manifest.Create(fsys, dir, init)
}

// A state that contradicts itself makes no database, and leaves no file.
func TestCreateRefusesAnImpossibleState(t *testing.T) {
	s := initState()
	s.Stripes[1].FlushedSeq = 10
	mem := vfs.NewMem()
	l, err := makeAndCreate(mem, dir, s)
	if err == nil || l != nil {
		t.Fatalf("got %v, %v", l, err)
	}
	if ok, err := manifest.Exists(mem, dir); ok || err != nil {
		t.Errorf("a database is there: %t, %v", ok, err)
	}
}
