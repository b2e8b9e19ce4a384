package ship_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A database is shipped by another process than the one that writes it, over flushes, merges and
// opens of that, which may also let the files of a base go while it is made.
//
// Promise (shipping): A database is shipped beside the process that writes it, as by that process.
func TestShipBesideTheWriter(t *testing.T) {
	for _, of := range []struct {
		readerBytes int64 // 1: nothing is kept for readers
		items, puts int   // of three SSTs, or one
	}{{0, 300, 3}, {1, 300, 4}, {1, 100, 1}} {
		t.Run(fmt.Sprintf("%+v", of), func(t *testing.T) {
			h := newHarbor(t)
			h.opts.RetainAge, h.opts.ReaderBytes = time.Hour, of.readerBytes
			h.opts.Durability = engine.Process
			h.reopen()
			for i := range of.items {
				h.last++
				ok(t, h.db.Put(oneStripe(i), make([]byte, 500)))
			}
			ok(t, h.db.Compact(ctx))
			states := map[uint64]map[string]string{h.last: shiptest.Items(t, h.db)}
			var lost atomic.Int32
			h.dest.set(func(op, name string) error { // the files of the first bases go
				if op == "put" && strings.HasPrefix(name, "sst/") && lost.Add(1) < 4 {
					return rewrite(h, of.items)
				}
				return nil
			})
			reader := openOn(t, h.fs, engine.Options{ReadOnly: true, MustExist: true})
			o := ship.Options{Interval: 5 * time.Millisecond, BaseEvery: time.Millisecond}
			o.Hurry(time.Hour)
			s, err := ship.Start(reader, h.dest, &o)
			ok(t, err)
			ok(t, s.WaitFor(ctx, uint64(of.items)))
			h.dest.set(nil)
			h.last = h.db.Metrics().LastVersion
			for i := range 20 {
				h.put()
				states[h.last] = shiptest.Items(t, h.db)
				switch i {
				case 5:
					ok(t, h.db.Flush(ctx))
				case 8, 15:
					ok(t, h.db.Compact(ctx))
				case 10:
					h.reopen()
				case 12:
					h.shipped(s)
					h.now.Add(10)
					_ = s.Round(ctx) // a base, unless its files go meanwhile
				}
			}
			ok(t, s.Close(ctx))
			ok(t, reader.Close())
			c := h.contents()
			if len(c.Damage) > 0 || c.Ranges[len(c.Ranges)-1].Last.Version != h.last {
				t.Fatalf("%+v", c)
			}
			for _, r := range c.Ranges {
				for v := r.First.Version; v <= r.Last.Version; v++ {
					wantRestored(t, h, v, states[v])
				}
			}
			if int(lost.Load()) < of.puts {
				t.Errorf("%d SSTs were put", lost.Load())
			}
		})
	}
}

// oneStripe returns a key. All files are of its stripe, so that they are used again at once.
func oneStripe(i int) engine.Key { return engine.Key{PK: []byte("k"), SK: fmt.Append(nil, i)} }

// rewrite makes all files of a database others, in the place of those that were before.
func rewrite(h *harbor, items int) error {
	for round := range 3 {
		b := engine.NewBatch()
		for i := range items {
			if err := b.Put(oneStripe(i), make([]byte, 480+round)); err != nil {
				return err
			}
		}
		if err := errors.Join(h.db.Apply(ctx, b), h.db.Compact(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// wantRestored restores a version and compares it, unless want is nil.
func wantRestored(t *testing.T, h *harbor, version uint64, want map[string]string) {
	t.Helper()
	fsys := vfs.NewMem()
	_, err := ship.RestoreOn(ctx, h.dest, fsys, "db", &ship.RestoreOptions{
		To: ship.Target{Version: version}})
	ok(t, err)
	db := openOn(t, fsys, engine.Options{MustExist: true})
	defer func() { ok(t, db.Close()) }()
	_, err = db.Verify(ctx, nil)
	ok(t, err)
	if got := shiptest.Items(t, db); want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("version %d has %d items, want %d", version, len(got), len(want))
	}
}

// A shipper that ends while it pins a base, which nobody makes any more, lets go of it.
func TestShipperEndsWithABasePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarbor(t)
		h.put()
		var armed atomic.Bool
		began := make(chan *ship.Shipper, 1)
		closed := make(chan error, 1)
		reader := openOn(t, vfstest.NewFault(h.fs, func(vfstest.Op) error {
			if armed.CompareAndSwap(true, false) { // in the first cycle
				s := <-began
				ended, cancel := context.WithCancel(ctx)
				cancel()
				go func() { closed <- s.Close(ended) }()
				synctest.Wait()
			}
			return nil
		}), engine.Options{ReadOnly: true, MustExist: true})
		armed.Store(true)
		s, err := ship.Start(reader, h.dest, nil)
		ok(t, err)
		began <- s
		wantIs(t, <-closed, context.Canceled)
		ok(t, reader.Close())
		ok(t, h.db.Close())
	})
}

// What a reader shows before it is durable is not shipped.
func TestVisibleIsNotShipped(t *testing.T) {
	h := newHarbor(t)
	reader := openOn(t, h.fs, engine.Options{ReadOnly: true, Visible: true})
	defer func() { ok(t, reader.Close()) }()
	_, err := ship.Start(reader, h.dest, nil)
	wantIs(t, err, engine.ErrInvalid)
}

// Promise (readers): A backup stream made beside the writing process has what was there, or ends
// with ErrStale.
func TestBackupBesideTheWriter(t *testing.T) {
	const items = 300
	stale := 0
	for at, more := 1, true; more; at++ {
		h := newHarbor(t)
		h.opts.ReaderBytes, h.opts.Durability = 1, engine.Process // nothing is kept for readers
		h.reopen()
		ok(t, rewrite(h, items))
		reader := openOn(t, h.fs, engine.Options{ReadOnly: true, MustExist: true})
		var b bytes.Buffer
		n := 0
		err := ship.Backup(ctx, reader, writerFunc(func(p []byte) (int, error) {
			if n++; n == at {
				ok(t, rewrite(h, items))
			}
			return b.Write(p)
		}))
		if more = n >= at; errors.Is(err, engine.ErrStale) {
			stale++
		} else {
			ok(t, err)
			fsys := vfs.NewMem()
			ok(t, ship.RestoreFromOn(ctx, &b, fsys, "db"))
			db := openOn(t, fsys, engine.Options{MustExist: true})
			if _, err := db.Verify(ctx, nil); err != nil {
				t.Fatalf("the writer goes on at write %d: %v", at, err)
			}
			if n := len(shiptest.Items(t, db)); n != items {
				t.Errorf("%d items", n)
			}
			ok(t, db.Close())
		}
		ok(t, reader.Close())
		ok(t, h.db.Close())
	}
	if stale == 0 {
		t.Error("no file went while it was copied")
	}
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
