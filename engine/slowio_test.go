package engine_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// changes reports whether an operation changes the disk: readers never need one.
func changes(op vfstest.Op) bool {
	switch op.Kind {
	case vfstest.OpOpen, vfstest.OpReadAt, vfstest.OpStat, vfstest.OpList, vfstest.OpClose:
		return false
	}
	return true
}

// Goal: an operation on the disk that takes for ever delays no reader, and when it
// ends at last nothing is lost or wrong. Method: the script of the failing I/O, with its n-th
// operation that changes something waiting until everything has been read.
//
// Promise (disks): An operation that changes the disk and takes for ever holds up no reader.
func TestSlowIOBlocksNoReader(t *testing.T) {
	count := &vfstest.FailPlan{Match: changes}
	failScript(t, vfstest.NewFault(vfs.NewMem(), count.Hook), witness{})
	total := count.Count()
	step := max(1, total/int64(testutil.Effort(15, 60)))
	read := 0
	for at := int64(1); at <= total; at += step {
		if slowRun(t, at) {
			read++
		}
	}
	t.Logf("read beside %d of %d operations", read, total)
	if read == 0 {
		t.Error("nothing was read while an operation waited")
	}
}

// slowRun reports whether a database was open while operation at waited.
func slowRun(t *testing.T, at int64) (read bool) {
	t.Helper()
	what := fmt.Sprintf("operation %d waits", at)
	var n atomic.Int64
	waits, release := make(chan vfstest.Op, 1), make(chan struct{})
	mem := vfs.NewMem()
	fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if changes(op) && n.Add(1) == at {
			waits <- op
			<-release
		}
		return nil
	})
	var open atomic.Pointer[engine.DB]
	w, done := witness{}, make(chan struct{})
	go func() {
		defer close(done)
		slowScript(t, fsys, w, &open)
	}()
	select {
	case op := <-waits:
		what += fmt.Sprintf(" (%v of %s)", op.Kind, op.Name)
		if db := open.Load(); db != nil {
			read = true
			within(t, 2*time.Minute, "a reader while "+what, func() { readAll(t, db) })
		}
	case <-done:
	}
	close(release)
	within(t, 2*time.Minute, "the script after "+what, func() { <-done })
	if files := mem.OpenFiles(); files != 0 {
		t.Fatalf("%s: %d files are still open", what, files)
	}
	db := openOn(t, mem, engine.Options{})
	w.check(t, what, db, false)
	ok(t, second(db.Verify(ctx, nil)))
	mustClose(t, db)
	return read
}

// slowScript is failScript without failures.
func slowScript(t *testing.T, fsys vfs.FS, w witness, open *atomic.Pointer[engine.DB]) {
	for round := range 2 {
		db, err := engine.OpenFS(fsys, "db", &failOptions)
		if err != nil {
			t.Errorf("open: %v", err)
			return
		}
		open.Store(db)
		for step := range 6 {
			failStep(t, db, w, round*10+step)
		}
		if err := db.Close(); err != nil && !errors.Is(err, engine.ErrLeaked) { // the reader's
			t.Errorf("close: %v", err)
		}
		open.Store(nil)
	}
}

func readAll(t *testing.T, db *engine.DB) {
	fine := func(err error) {
		if err != nil && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	}
	for _, p := range []string{"p0", "p1", "p2", "p3", "b1", "b2", "none"} {
		fine(second(db.Get(pksk(p, "s"))))
		fine(second(db.Count(ctx, engine.Query{PK: []byte(p)})))
	}
	for _, err := range db.Scan(ctx, engine.Scan{}) {
		fine(err)
		if err != nil {
			break
		}
	}
	s, err := db.Snapshot()
	fine(err)
	if err == nil {
		fine(second(s.Get(pk("b1"))))
		s.Close()
	}
}
