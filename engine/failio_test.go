package engine_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// witness is what a program knows of its writes: for each key the last
// acknowledged value, and values of later writes whose outcome it does not know.
type witness map[string]*witnessed

type witnessed struct {
	key     engine.Key
	acked   string // "" for none or deleted
	unknown []string
}

func (w witness) of(k engine.Key) *witnessed {
	if w[id(k)] == nil {
		w[id(k)] = &witnessed{key: k}
	}
	return w[id(k)]
}

// note records the outcome of a write of value, "" for a delete.
func (w witness) note(k engine.Key, value string, err error) {
	it := w.of(k)
	if err == nil {
		it.acked, it.unknown = value, nil
	} else {
		it.unknown = append(it.unknown, value)
	}
}

// check accepts the acknowledged value or one of unknown outcome, and while faults may still come
// an error.
func (w witness) check(t *testing.T, what string, db *engine.DB, faulty bool) {
	t.Helper()
	for _, it := range w {
		v, err := db.Get(it.key)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			if faulty {
				continue
			}
			t.Fatalf("%s: %v: %v", what, it.key, err)
		}
		if string(v) != it.acked && !slices.Contains(it.unknown, string(v)) {
			t.Fatalf("%s: %v is %q, acknowledged %q, possible %q",
				what, it.key, v, it.acked, it.unknown)
		}
	}
}

// failOptions are those of failScript.
var failOptions = engine.Options{
	Durability: engine.Sync, MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 2,
	CacheBytes: 1, CompactionWorkers: 1,
}

// failScript is the workload: writes of all kinds with flushes, merges, a checkpoint and
// a property in between, and a reopen. It goes on after errors, as a program may.
func failScript(t *testing.T, fsys vfs.FS, w witness) {
	for round := range 2 {
		db, err := engine.OpenFS(fsys, "db", &failOptions)
		if err != nil {
			continue
		}
		for step := range 6 {
			failStep(t, db, w, round*10+step)
		}
		_ = db.Close() // the error is one of those injected
	}
}

func failStep(t *testing.T, db *engine.DB, w witness, n int) {
	value := fmt.Sprintf("value %d", n)
	for i := range 4 {
		k := pksk(fmt.Sprintf("p%d", i), "s")
		w.note(k, value, db.Put(k, []byte(value)))
	}
	final := errors.Is(db.Put(pk("probe"), nil), engine.ErrReadOnly)
	b := engine.NewBatch()
	keys := []engine.Key{pk("b1"), pk("b2"), pk("b3")}
	for _, k := range keys {
		ok(t, b.Put(k, []byte(value)))
	}
	err := db.Apply(ctx, b)
	for _, k := range keys {
		w.note(k, value, err)
	}
	k := pksk("p1", "s")
	w.note(k, "", db.Delete(k))
	w.note(pksk("p2", "s"), "", db.DeleteRange([]byte("p2"), engine.SKCondition{}))
	switch n % 10 {
	case 1, 3:
		_ = db.Flush(ctx)
	case 2:
		_ = db.SetProperty("n", []byte(value))
	case 4:
		_ = db.Compact(ctx)
	case 5:
		_ = db.Checkpoint(ctx, fmt.Sprintf("copy%d", n), nil)
	}
	w.check(t, "reads", db, true)
	if final && !errors.Is(db.Put(pk("probe"), nil), engine.ErrReadOnly) {
		t.Errorf("step %d: a failure that was final is not any more", n)
	}
}

// Goal: whatever I/O fails, once or for good, nothing acknowledged is lost, no read is
// wrong, nothing hangs, and the database opens again on a healthy disk. Method: a script
// runs once to count its I/O operations, then again and again with the n-th failing, for
// n spread over all of them and each kind of failure.
//
// Promise (disks): Whatever I/O fails, once or for good: nothing acknowledged is lost, no read
// is wrong, nothing hangs, no goroutine or file is left, what was final stays so. Also
// `TestEveryOperationFails` in `internal/manifest`.
func TestFailingIOLosesNothing(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	count := &vfstest.FailPlan{}
	failScript(t, vfstest.NewFault(vfs.NewMem(), count.Hook), witness{})
	total := count.Count()
	step := int64(max(1, 53/testutil.Effort(1, 3)))
	run := func(t *testing.T, total, step int64, p *vfstest.FailPlan) {
		runs := 0
		for at := int64(1); at <= total+10; at += step {
			failRun(t, &vfstest.FailPlan{
				At: at, Err: p.Err, Lasting: p.Lasting, Short: p.Short, Match: p.Match,
			})
			runs++
		}
		t.Logf("%d runs over %d operations", runs, total)
	}
	// Of each kind a few at least, spread over all of them.
	for _, kind := range []vfstest.OpKind{vfstest.OpSync, vfstest.OpSyncDir, vfstest.OpRename,
		vfstest.OpRemove, vfstest.OpCreate, vfstest.OpAllocate, vfstest.OpTruncate,
		vfstest.OpClose, vfstest.OpLink, vfstest.OpList} {
		match := func(op vfstest.Op) bool { return op.Kind == kind }
		for _, err := range []error{syscall.EIO, vfs.ErrNoSpace} {
			t.Run(fmt.Sprintf("%v, %v", kind, err), func(t *testing.T) {
				count := &vfstest.FailPlan{Match: match}
				failScript(t, vfstest.NewFault(vfs.NewMem(), count.Hook), witness{})
				n := count.Count()
				run(t, n, min(step, n/5+1), &vfstest.FailPlan{Err: err, Match: match})
			})
		}
	}
	for name, p := range map[string]*vfstest.FailPlan{
		"EIO once":                 {Err: syscall.EIO},
		"EIO forever":              {Err: syscall.EIO, Lasting: true},
		"short write":              {Err: syscall.EIO, Short: true},
		"no space once":            {Err: vfs.ErrNoSpace},
		"no space, short, forever": {Err: vfs.ErrNoSpace, Lasting: true, Short: true},
	} {
		t.Run(name, func(t *testing.T) { run(t, total, step, p) })
	}
}

func failRun(t *testing.T, p *vfstest.FailPlan) {
	mem, w := vfs.NewMem(), witness{}
	what := fmt.Sprintf("operation %d", p.At)
	within(t, 2*time.Minute, what, func() {
		failScript(t, vfstest.NewFault(mem, p.Hook), w)
		if n := mem.OpenFiles(); n != 0 {
			t.Fatalf("%s: %d files are still open", what, n)
		}
		db, err := engine.OpenFS(mem, "db", nil)
		if err != nil {
			t.Fatalf("%s: open on the healthy disk: %v", what, err)
		}
		w.check(t, what, db, false)
		if _, err := db.Verify(ctx, nil); err != nil {
			t.Fatalf("%s: verify: %v", what, err)
		}
		if err := db.Put(pk("after"), nil); err != nil {
			t.Fatalf("%s: write afterwards: %v", what, err)
		}
		if err := db.Close(); err != nil {
			t.Fatalf("%s: close: %v", what, err)
		}
	})
}

// A disk that fails for good gives a short error: what failed, and how many files are left.
//
// Promise (disks): A disk that fails for good gives one short error.
func TestFailingDiskGivesAShortError(t *testing.T) {
	for name, kind := range map[string]vfstest.OpKind{
		"write": vfstest.OpWrite, "sync": vfstest.OpSync,
	} {
		t.Run(name, func(t *testing.T) {
			var dying atomic.Bool
			fsys := vfstest.NewFault(vfs.NewMem(), func(op vfstest.Op) error {
				sst := strings.HasSuffix(op.Name, ".sst")
				if sst && (op.Kind == kind || op.Kind == vfstest.OpRemove) && dying.Load() {
					return &os.PathError{Op: op.Kind.String(), Path: op.Name, Err: syscall.EIO}
				}
				return nil
			})
			db := openOn(t, fsys, engine.Options{})
			defer db.Close()
			for i := range 1000 {
				ok(t, db.Put(pk(fmt.Sprint(i)), []byte("v")))
			}
			dying.Store(true)
			err := db.Flush(ctx)
			wantIs(t, err, syscall.EIO)
			wantIs(t, err, engine.ErrReadOnly)
			if text := err.Error(); len(text) > 400 || name == "sync" &&
				!strings.Contains(text, "(and 63 more errors like this)") {
				t.Errorf("%d bytes: %s", len(text), text)
			}
		})
	}
}
