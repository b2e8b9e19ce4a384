package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

var wantIs = testutil.WantIs

// A commit at Sync passes its stages in order. Under the guard nothing has happened; when the
// log is written nothing is in the memtables; when the log is synced the commit is visible, and
// its stripe is free for others.
func TestStagesOfACommit(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("other", "v"), Terms{Sync: true}, nil)) // the log's file is there
	id := keycodec.Stripe([]byte("k"))
	var stages []string
	note := func(stage string) error {
		stages = append(stages, fmt.Sprintf("%s: logged %d, visible %d, newest %q", stage,
			w.log.LastSeq(), w.reads.Visible(), w.newest("k")))
		return nil
	}
	var synced atomic.Bool
	w.intercept(func(op vfstest.Op) error {
		switch {
		case !strings.HasSuffix(op.Name, ".log"):
		case op.Kind == vfstest.OpWriteAt && len(stages) == 1:
			stages = append(stages, fmt.Sprintf("log: visible %d, newest %q", w.reads.Visible(),
				w.newest("k")))
		case op.Kind == vfstest.OpSync && !synced.Swap(true):
			w.stripes[id].Lock() // waits for ever if the commit holds it
			stages = append(stages, fmt.Sprintf("sync: visible %d, newest %q", w.reads.Visible(),
				w.newest("k")))
			w.stripes[id].Unlock()
		}
		return nil
	})
	g := &Guard{Check: func() error { return note("guard") }}
	w.ok(w.Commit(ctx, put("k", "v"), Terms{Sync: true}, g))
	w.ok(note("end"))
	want := []string{
		`guard: logged 1, visible 1, newest ""`,
		`log: visible 1, newest ""`,
		`sync: visible 2, newest "v"`,
		`end: logged 2, visible 2, newest "v"`,
	}
	if !slices.Equal(stages, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(stages, "\n"), strings.Join(want, "\n"))
	}
	if m := w.Metrics(); m.Commits != 2 || m.Operations != 2 || m.Bytes == 0 {
		t.Errorf("%+v", m)
	}
}

// A guard that refuses a commit, and a condition that does not hold, leave nothing: no record,
// no version, no number. The error of a condition names the first one that fails.
func TestRefusedCommitsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("there", "1"), Terms{}, nil))
	conflict := errors.New("conflict")
	g := &Guard{Check: func() error { return conflict }}
	wantIs(t, w.Commit(ctx, put("k", "v"), Terms{}, g), conflict)
	for _, n := range []int{0, 3, 40} { // in every way to look conditions up
		b := put("k", "v")
		b.RequireOfLast(&Condition{Kind: CondAbsent})
		for i := range n {
			b.Require(key(fmt.Sprint("x", i)), &Condition{Kind: CondAbsent})
		}
		b.Require(key("there"), &Condition{Kind: CondVersion, Version: 1})
		b.Require(key("there"), &Condition{Kind: CondValue, Value: []byte("2")})
		b.Require(key("k"), &Condition{Kind: CondPresent})
		err := w.Commit(ctx, b, Terms{}, nil)
		var unmet *UnmetError
		if !errors.As(err, &unmet) || unmet.Op != n+2 || !unmet.Exists || unmet.Seq != 1 {
			t.Errorf("%d more conditions: %v, %+v", n, err, unmet)
		}
	}
	if w.log.LastSeq() != 1 || w.reads.Visible() != 1 || w.newest("k") != "" {
		t.Errorf("logged %d, visible %d, newest %q", w.log.LastSeq(), w.reads.Visible(),
			w.newest("k"))
	}
	b := put("k", "v")
	b.RequireOfLast(&Condition{Kind: CondAbsent})
	w.ok(w.Commit(ctx, b, Terms{}, nil))
	if w.newest("k") != "v" {
		t.Error("conditions that hold: nothing is written")
	}
}

// A commit at Sync whose condition does not hold makes durable what its caller has seen.
func TestRefusedCommitsSync(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "v"), Terms{}, nil))
	var syncs atomic.Int64
	w.intercept(func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".log") {
			syncs.Add(1)
		}
		return nil
	})
	b := put("k", "w")
	b.RequireOfLast(&Condition{Kind: CondAbsent})
	var unmet *UnmetError
	for _, sync := range []bool{false, true} {
		if err := w.Commit(ctx, b, Terms{Sync: sync}, nil); !errors.As(err, &unmet) {
			t.Errorf("%v", err)
		}
		if n := syncs.Load(); (n > 0) != sync {
			t.Errorf("at Sync %v: %d syncs", sync, n)
		}
	}
}

// A log that cannot be written makes the database read-only, and the commit leaves nothing.
func TestFailingLogAppend(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "old"), Terms{}, nil))
	broken := errors.New("broken")
	w.intercept(func(op vfstest.Op) error {
		if op.Kind == vfstest.OpWriteAt {
			return broken
		}
		return nil
	})
	err := w.Commit(ctx, put("k", "new"), Terms{}, nil)
	if f := w.failure.Load(); !errors.Is(err, broken) || f == nil || !errors.Is(*f, broken) {
		t.Errorf("%v, a failure for good: %v", err, f)
	}
	if w.newest("k") != "old" || w.reads.Visible() != 1 {
		t.Errorf("newest %q, visible %d", w.newest("k"), w.reads.Visible())
	}
}

// A log that has no space for another segment refuses a commit, and takes it when there is.
func TestFullLogAppend(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "0"), Terms{}, nil))
	w.intercept(func(op vfstest.Op) error {
		if op.Kind == vfstest.OpCreate {
			return vfs.ErrNoSpace
		}
		return nil
	})
	large, last := strings.Repeat("v", 300<<10), "0"
	var err error
	for i := 0; err == nil && i < 20; i++ {
		value := fmt.Sprint(i, large)
		if err = w.Commit(ctx, put("k", value), Terms{}, nil); err == nil {
			last = value
		}
	}
	if !errors.Is(err, vfs.ErrNoSpace) || w.failure.Load() != nil || w.newest("k") != last {
		t.Errorf("%v, a failure for good: %v", err, w.failure.Load())
	}
	if logged, visible := w.log.LastSeq(), w.reads.Visible(); logged != visible {
		t.Errorf("logged %d, visible %d", logged, visible)
	}
	w.intercept(func(vfstest.Op) error { return nil })
	w.ok(w.log.MakeRoom(1))
	w.ok(w.Commit(ctx, put("k", "again"), Terms{}, nil))
	if w.newest("k") != "again" {
		t.Error("with space again nothing is written")
	}
}

// A scan of deletes adds its ranges to the record when it is committed. If that makes the record
// too large nothing is written, and the database goes on.
//
// Promise (reads and writes): A batch that its DeleteScans make too large is refused, and nothing
// else is.
func TestScanOfDeletesIsTooLarge(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "v"), Terms{}, nil))
	var b Batch
	b.DeleteScan(base.Span{})
	b.Put(key("large"), make([]byte, 1<<20-32), Lifetime{})
	wantIs(t, w.Commit(ctx, &b, Terms{}, nil), kv.ErrTooLarge)
	if f := w.failure.Load(); f != nil || w.newest("k") != "v" || w.newest("large") != "" {
		t.Errorf("a failure for good: %v; k is %q", f, w.newest("k"))
	}
	w.ok(w.Commit(ctx, put("k", "again"), Terms{}, nil))
}

// A sync that fails makes the database read-only. The commit is visible by then: what it is on
// the disk is unknown.
func TestFailingSync(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "old"), Terms{Sync: true}, nil))
	broken := errors.New("broken")
	w.intercept(func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync {
			return broken
		}
		return nil
	})
	err := w.Commit(ctx, put("k", "new"), Terms{Sync: true}, nil)
	if f := w.failure.Load(); !errors.Is(err, broken) || f == nil || !errors.Is(*f, broken) {
		t.Errorf("%v, a failure for good: %v", err, f)
	}
	if w.newest("k") != "new" || w.reads.Visible() != 2 {
		t.Errorf("newest %q, visible %d", w.newest("k"), w.reads.Visible())
	}
}

// A commit does not wait for an earlier one that is unfinished, and is visible when that is.
func TestCommitsDoNotWaitForEarlierOnes(t *testing.T) {
	w := newWorld(t)
	earlier, err := w.log.Append(put("a", "v").payload)
	w.ok(err)
	w.ok(w.Commit(ctx, put("b", "v"), Terms{Sync: true}, nil))
	if v := w.reads.Visible(); v != 0 || w.newest("b") != "v" {
		t.Errorf("visible %d while commit %d is unfinished", v, earlier)
	}
	w.reads.Publish(earlier)
	if v := w.reads.Visible(); v != 2 {
		t.Errorf("visible %d after both", v)
	}
}

// What was changed under the locks after a search for new keys is found again there.
func TestGuardFillsTheBatch(t *testing.T) {
	w := newWorld(t)
	search := read.BeginNewKeys()
	defer search.Close()
	search.Add(key("a"))
	search.Add(key("b"))
	isNew := make([]bool, 2)
	present := w.reads.Reader(nil, nil)
	w.ok(search.Find(ctx, &present, nil, isNew, read.NewKeysOptions{}))
	if !isNew[0] || !isNew[1] {
		t.Fatalf("new: %v", isNew)
	}
	w.ok(w.Commit(ctx, put("a", "other"), Terms{}, nil))
	var b Batch
	b.Put(key("a"), []byte("mine"), Lifetime{})
	b.Put(key("b"), []byte("mine"), Lifetime{})
	w.ok(w.Commit(ctx, &b, Terms{}, &Guard{Stripes: search.Stripes(), Check: func() error {
		changed, err := search.Recheck(1000)
		if err != nil || !changed || isNew[0] || !isNew[1] {
			t.Errorf("under the locks: %v, new %v, %v", changed, isNew, err)
		}
		b.Reset()
		b.Put(key("b"), []byte("mine"), Lifetime{})
		b.Seal(1000)
		return err
	}}))
	if w.newest("a") != "other" || w.newest("b") != "mine" {
		t.Errorf("a is %q, b is %q", w.newest("a"), w.newest("b"))
	}
}

// A closed pipeline refuses commits, and so does an admission whose context has ended.
func TestCommitsAfterClose(t *testing.T) {
	w := newWorld(t)
	w.ok(w.Commit(ctx, put("k", "v"), Terms{}, nil))
	w.Pipeline.env.Upkeep.MemtableBytes().Add(1 << 40) // writers wait
	c, cancel := context.WithCancel(ctx)
	cancel()
	wantIs(t, w.Commit(c, put("k", "w"), Terms{}, nil), context.Canceled)
	w.Pipeline.env.Upkeep.MemtableBytes().Add(-1 << 40)
	w.Close()
	wantIs(t, w.Commit(ctx, put("k", "w"), Terms{}, nil), read.ErrClosed)
	if w.newest("k") != "v" || w.log.LastSeq() != 1 {
		t.Errorf("newest %q, logged %d", w.newest("k"), w.log.LastSeq())
	}
	var d Batch
	d.DeleteScan(base.Span{})
	wantIs(t, w.Commit(ctx, &d, Terms{}, nil), read.ErrClosed)
}

// A commit whose context ends under its locks writes nothing, and its stripes are free again.
func TestCommitEnds(t *testing.T) {
	w := newWorld(t)
	ended, cancel := context.WithCancel(ctx)
	g := &Guard{Check: func() error { cancel(); return nil }}
	for range 2 { // the second is refused as the first
		wantIs(t, w.Commit(ended, put("k", "v"), Terms{}, g), context.Canceled)
	}
	many := &Batch{}
	for i := range 3 * read.MaxAlone {
		many.Put(keycodec.Key{PK: fmt.Append(nil, i)}, nil, Lifetime{})
		many.RequireOfLast(&Condition{Kind: CondAbsent})
	}
	wantIs(t, w.Commit(ended, many, Terms{}, nil), context.Canceled)
	if w.log.LastSeq() != 0 || w.newest("k") != "" {
		t.Errorf("logged %d, newest %q", w.log.LastSeq(), w.newest("k"))
	}
	w.ok(w.Commit(ctx, put("k", "v"), Terms{}, nil))
}
