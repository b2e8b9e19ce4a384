package engine_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Streams of a database that is opened read-only go on with what its writer commits, over flushes,
// merges and opens of the writer, which lets go of its log.
//
// Promise (history): A change stream beside the writer has every commit once, whole and in order,
// and goes on by itself when the writer does.
func TestChangesBesideTheWriter(t *testing.T) {
	rnd := testutil.Rand(t)
	fsys := vfs.NewMem()
	// Nothing is retained but for the reader's lease.
	o := engine.Options{RetainBytes: 64 << 20, LogBytes: 8 << 20, Durability: engine.Process}
	writer := openOn(t, fsys, o)
	reader := openOn(t, fsys, engine.Options{ReadOnly: true})
	commits := testutil.Effort(400, 20_000)
	done := make(chan map[string]string, 1)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	defer stop()
	var at engine.Position
	begun, resume := make(chan struct{}), make(chan struct{})
	ok(t, writer.Put(pk("a"), nil))
	go func() {
		m := map[string]string{}
		defer func() { done <- m }()
		next := uint64(1)
		for c, err := range reader.Changes(ctx, engine.Position{}, nil) {
			if err != nil || c.Version != next {
				t.Errorf("%s follows version %d: %v", changeText(&c), next-1, err)
				return
			}
			applyChange(m, &c)
			if c.Version == 1 {
				close(begun)
				<-resume // the reader itself goes on
			}
			if c.Last {
				next, at = next+1, c.Next()
			}
			if string(c.Key.PK) == "end" {
				return
			}
		}
	}()
	<-begun
	for i := range 5 {
		seed := rand.New(rand.NewPCG(rnd.Uint64(), 0))
		ok(t, writeRandomly(writer, seed, commits))
		switch rnd.IntN(3) {
		case 0:
			ok(t, writer.Compact(ctx))
		case 1:
			ok(t, writer.Flush(ctx))
		}
		ok(t, reader.Refresh())
		mustClose(t, writer)
		writer = openOn(t, fsys, o)
		if i == 2 {
			close(resume)
		}
	}
	ok(t, writer.Put(pk("end"), nil)) // some of the others may have changed nothing
	var m map[string]string
	within(t, 2*time.Minute, "the reader", func() { m = <-done })
	wantSame(t, m, content(t, writer))
	ok(t, writer.Put(pk("z"), nil))
	c, err := first(reader.Changes(ctx, at, nil))
	ok(t, err)
	if string(c.Key.PK) != "z" {
		t.Errorf("after the last: %s", changeText(&c))
	}
	mustClose(t, reader)
	mustClose(t, writer)
}

// Close ends streams that wait for another process, with ErrClosed.
func TestCloseEndsChangesBesideTheWriter(t *testing.T) {
	fsys := vfs.NewMem()
	writer := openOn(t, fsys, retaining())
	defer mustClose(t, writer)
	reader := openOn(t, fsys, engine.Options{ReadOnly: true})
	ended := make(chan error, 1)
	go func() {
		for _, err := range reader.Changes(ctx, engine.Position{}, nil) {
			ended <- err
		}
	}()
	mustClose(t, reader)
	wantIs(t, <-ended, engine.ErrClosed)
}

// What the writer has let go of is forgotten by the reader, too: its streams name the oldest
// change that is there, and it does not grow with all that was ever written.
func TestReaderForgetsWhatIsGone(t *testing.T) {
	fsys := vfs.NewMem()
	o := engine.Options{RetainBytes: 4 << 20, RetainAge: time.Hour, LogBytes: 8 << 20,
		Durability: engine.Process}
	writer := openOn(t, fsys, o)
	reader := openOn(t, fsys, engine.Options{ReadOnly: true})
	value := make([]byte, 64<<10)
	for range 400 {
		ok(t, writer.Put(pk("a"), value))
		ok(t, reader.Refresh())
	}
	ok(t, writer.Flush(ctx))
	for range 40 { // a reader looks whenever it comes to another segment
		ok(t, writer.Put(pk("a"), value))
		ok(t, reader.Refresh())
	}
	there, seen := oldestVersion(t, writer), oldestVersion(t, reader)
	// Files that are to be used again are there for a while.
	if there < 100 || seen < 100 || seen > there {
		t.Errorf("the oldest change is %d, for the reader %d", there, seen)
	}
	mustClose(t, reader)
	mustClose(t, writer)
}
