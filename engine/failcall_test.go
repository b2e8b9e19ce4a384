package engine_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// failEach runs call with operations on files failing, each alone and each with all after it;
// step leaves some out. After a failure call returns an error that is the failure, unless the
// operation is harmless. Check looks at what it leaves on the healthy disk.
func failEach(t *testing.T, step int64, harmless func(vfstest.Op) bool, fresh func() *vfs.MemFS,
	call func(fsys vfs.FS) error, check func(mem *vfs.MemFS, what string, err error)) {
	t.Helper()
	for _, lasting := range []bool{false, true} {
		for at := int64(1); ; at += step {
			mem := fresh()
			p := &vfstest.FailPlan{At: at, Err: errDisk, Lasting: lasting}
			err := call(vfstest.NewFault(mem, p.Hook))
			op, failed := p.Failed()
			what := fmt.Sprintf("operation %d, %v %s, lasting %t", at, op.Kind, op.Name, lasting)
			if failed && !errors.Is(err, errDisk) && (err != nil || !harmless(op)) {
				t.Fatalf("%s: got error %v", what, err)
			}
			if n := mem.OpenFiles(); n != 0 {
				t.Fatalf("%s: %d files are open", what, n)
			}
			check(mem, what, err)
			if !failed {
				ok(t, err)
				break
			}
		}
	}
}

// inAdvance reports whether an operation may belong to what is made before it is needed, and is
// tried again when it is: the reserve for a full disk, the next segment of the log.
func inAdvance(op vfstest.Op) bool {
	switch op.Kind {
	case vfstest.OpCreate, vfstest.OpAllocate, vfstest.OpOpenReadWrite, vfstest.OpTruncate:
		return strings.Contains(op.Name, "wal-") || strings.Contains(op.Name, "RESERVE")
	}
	return strings.Contains(op.Name, "RESERVE")
}

// failStride is the step of failEach for a call of many operations.
func failStride() int64 {
	return int64(max(1, 5/testutil.Effort(1, 5)))
}

// TestOpenFailsWithItsOperations: an operation of Open or Close that fails, alone or with all
// after it, is an error, and nothing is lost.
//
// Promise (durability): Opening can be interrupted anywhere and gives the same again; an
// operation that fails alone is an error. Also `TestOpenStoppedAtEveryOperation`,
// `TestRecoverStoppedAtEveryOperation` in `wal`, `TestPowerCutAnywhere` in `internal/manifest`.
func TestOpenFailsWithItsOperations(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, true)
	harmless := func(op vfstest.Op) bool {
		switch op.Kind {
		case vfstest.OpClose, vfstest.OpRemove, vfstest.OpRename, vfstest.OpStat:
			return true // of what is not needed any more
		case vfstest.OpWriteAt: // the seal of the manifest, which is not a promise
			return strings.Contains(op.Name, "MANIFEST") && op.Len == 17
		}
		return inAdvance(op)
	}
	fresh := func() *vfs.MemFS { return files.store(t) }
	failEach(t, failStride(), harmless, fresh, func(fsys vfs.FS) error {
		o := rescueOptions
		db, err := engine.OpenFS(fsys, "db", &o)
		if err == nil {
			err = db.Close()
		}
		return err
	}, func(mem *vfs.MemFS, what string, _ error) {
		db, err := engine.OpenFS(mem, "db", &rescueOptions)
		if err != nil {
			t.Fatalf("%s: open on the healthy disk: %v", what, err)
		}
		got := itemsOf(t, db)
		if !maps.EqualFunc(got, want, sameItem) {
			t.Fatalf("%s: %d items, want %d", what, len(got), len(want))
		}
		mustClose(t, db)
	})
}

func sameItem(a, b engine.Item) bool { return string(a.Value) == string(b.Value) }

// TestRepairFailsWithItsOperations: an operation of a repair that fails is an error or a loss that
// is reported; the source stays as it is, and the next attempt is a whole one.
//
// Promise (damage): What can be read of a log or manifest whose header, record or end is
// damaged, unreadable, copied or of another database is saved, once, and the rest is reported.
// Also the tests `TestSalvage…` in `wal`, `internal/manifest` and `sst`.
func TestRepairFailsWithItsOperations(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	files, want := rescueDatabase(t, true)
	harmless := func(op vfstest.Op) bool {
		switch op.Kind {
		case vfstest.OpClose, vfstest.OpOpen, vfstest.OpReadAt, vfstest.OpStat:
			return true // what was only read; what is read again, in another way
		}
		return inAdvance(op)
	}
	fresh := func() *vfs.MemFS { return files.store(t) }
	var rep engine.RepairReport
	failEach(t, 13*failStride(), harmless, fresh, func(fsys vfs.FS) error {
		o := rescueOptions
		var err error
		rep, err = engine.RepairFS(ctx, fsys, "db", "new", &o)
		if err == nil && len(rep.Lost) > 0 {
			err = fmt.Errorf("%w: %v", errDisk, rep.Lost)
		}
		return err
	}, func(mem *vfs.MemFS, what string, err error) {
		if after := filesOf(t, mem, "db"); !maps.EqualFunc(after, files, sameBytes) {
			t.Fatalf("%s: the source has changed", what)
		}
		if err == nil && rep.Items != uint64(len(want)) {
			t.Fatalf("%s: %d items without an error, want %d", what, rep.Items, len(want))
		}
		again, err := engine.RepairFS(ctx, mem, "db", "again", &rescueOptions)
		if err != nil || len(again.Lost) > 0 || again.Items != uint64(len(want)) {
			t.Fatalf("%s: the next attempt: %+v, %v", what, again, err)
		}
	})
}

func sameBytes(a, b []byte) bool { return string(a) == string(b) }
