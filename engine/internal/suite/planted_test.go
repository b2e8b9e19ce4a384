package suite_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// forgetfulFS leaves out some syncs, as a database that forgets them would.
type forgetfulFS struct {
	vfs.FS
	forgets func(kind vfstest.OpKind, name string) bool
}

func (f *forgetfulFS) file(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &forgetfulFile{file, f}, nil
}

func (f *forgetfulFS) Create(name string) (vfs.File, error) {
	f.forgets(vfstest.OpCreate, name)
	return f.file(f.FS.Create(name))
}

func (f *forgetfulFS) Open(name string) (vfs.File, error) { return f.file(f.FS.Open(name)) }

func (f *forgetfulFS) OpenReadWrite(name string) (vfs.File, error) {
	return f.file(f.FS.OpenReadWrite(name))
}

func (f *forgetfulFS) SyncDir(dir string) error {
	if f.forgets(vfstest.OpSyncDir, dir) {
		return nil
	}
	return f.FS.SyncDir(dir)
}

type forgetfulFile struct {
	vfs.File
	fs *forgetfulFS
}

func (f *forgetfulFile) Sync() error {
	if f.fs.forgets(vfstest.OpSync, f.Name()) {
		return nil
	}
	return f.File.Sync()
}

// forget plants a forgetful file system in all stages from a level on.
func forget(
	from int, forgets func() func(vfstest.OpKind, string) bool,
) func(int, vfs.FS) vfs.FS {
	return func(level int, fsys vfs.FS) vfs.FS {
		if level < from {
			return fsys
		}
		return &forgetfulFS{fsys, forgets()}
	}
}

// forgetSyncOf forgets the syncs of files whose names have that in them.
func forgetSyncOf(part string) func() func(vfstest.OpKind, string) bool {
	return func() func(vfstest.OpKind, string) bool {
		return func(kind vfstest.OpKind, name string) bool {
			return kind == vfstest.OpSync && strings.Contains(name, part)
		}
	}
}

// forgetNamesOfSSTs forgets the syncs of directories from the first SST on.
func forgetNamesOfSSTs() func(vfstest.OpKind, string) bool {
	var made atomic.Bool
	return func(kind vfstest.OpKind, name string) bool {
		if kind == vfstest.OpCreate && strings.Contains(name, ".sst") {
			made.Store(true)
		}
		return kind == vfstest.OpSyncDir && made.Load()
	}
}

// plantedCrashes are bugs that only a crash shows.
var plantedCrashes = []struct {
	name    string
	trial   trial
	crashes int // that it takes
}{
	{"the log is not synced", trial{plant: forget(0, forgetSyncOf("wal-"))}, 1},
	{"new SSTs are not synced", trial{plant: forget(0, forgetSyncOf(".sst"))}, 1},
	{"an edit is not synced", trial{plant: forget(0, forgetSyncOf("MANIFEST-"))}, 1},
	{"names of new SSTs are not synced", trial{plant: forget(0, forgetNamesOfSSTs)}, 1},
	{
		"range deletes do too much",
		trial{forget: func(o *op) bool { return o.Kind == "delete-range" }}, 0,
	},
	{
		"after a crash the log is not synced any more",
		trial{plant: forget(1, forgetSyncOf("wal-"))}, 2,
	},
}

// Goal: a program that fails is reduced to a few operations and the crash that it takes, and what
// is printed of it fails, too. Method: the programs, of 60 to 200 operations, run on a file
// system that breaks a promise. One operation or two would do, but which ones are left depends
// on what has run at the same time.
//
// Promise (tests): A program that a power cut or a kill makes fail is reduced to a few operations
// and the crash, and what is printed of it fails again; what was found once is not found again.
// Also `TestTextIsTheProgram`, `TestFailureThatDoesNotRepeat`; `TestStoredPrograms`.
func TestReducedPowerCutsShowTheCause(t *testing.T) {
	testutil.SlowUnderRace(t, "what it tests is of tests")
	const steps = 6
	for i, p := range plantedCrashes {
		if i%3 > 0 && testutil.Effort(1, 3) < 3 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			// A failure that took a rare schedule does not repeat and cannot be reduced.
			r, seed, tries := (*reducer)(nil), uint64(0), 0
			p.trial.t = t
			for ; tries < 5 && seed < 50 && (r == nil || r.confirms == 0); seed++ {
				if f := p.trial.crashing(seed); f != nil {
					r, tries = p.trial.reduce(f, time.Now().Add(time.Hour)), tries+1
				}
			}
			if r == nil {
				t.Fatal("it is not found")
			}
			text := format(r.best.path)
			if r.steps() > steps || len(r.best.path) <= p.crashes || r.confirms == 0 {
				t.Errorf("%d operations are left after %d runs, %d of %d failed again: %s\n%s",
					r.steps(), r.runs, r.confirms, confirmations, r.best.text, text)
			}
			path, err := parse(text)
			ok(t, err)
			again := false
			for i := uint64(0); i < 100 && !again; i++ {
				again = p.trial.repeat(path, i) != nil
			}
			if !again {
				t.Errorf("this does not fail:\n%s", text)
			}
			t.Logf("seed %d, %d runs, %d of %d failed again:\n%s", seed-1, r.runs, r.confirms,
				confirmations, text)
		})
	}
}

// What does not happen again is printed as it was found.
func TestFailureThatDoesNotRepeat(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	s := stage{ops: []op{{Kind: "flush"}, {Kind: "compact"}}}
	at := &point{At: afterClose, Nth: 1}
	f := &failure{text: "something", path: []link{{stage: s, at: at}, {}}}
	text := trial{t: t}.explain(f, time.Now().Add(time.Hour))
	for _, part := range []string{
		"something", "fail 0 times", "flush\ncompact\ncrash-at at=closed nth=1",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}
