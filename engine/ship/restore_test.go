package ship_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A restore that was interrupted, continued and finished is durable: what the first call had
// written and not synced is synced by the second.
//
// Promise (shipping): A power cut after Restore has returned takes nothing of it back, also if an
// earlier call was interrupted.
func TestRestoreIsDurable(t *testing.T) {
	h := newHarbor(t)
	for i := range 300 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, make([]byte, 1000)))
	}
	s := h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	disk := vfstest.NewCrash()
	dead := vfstest.NewFault(disk, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst") {
			return errServer
		}
		return nil
	})
	_, err := ship.RestoreOn(ctx, h.dest, dead, "db", nil)
	wantIs(t, err, errServer)
	_, err = ship.RestoreOn(ctx, h.dest, disk, "db", nil)
	ok(t, err)
	db := openOn(t, vfstest.CrashOf(disk.PowerCut(testutil.Rand(t), 0)),
		engine.Options{MustExist: true})
	defer func() { ok(t, db.Close()) }()
	if n, err := db.CountScan(ctx, engine.Scan{}); n != 301 || err != nil {
		t.Errorf("%d items, %v", n, err)
	}
	_, err = db.Verify(ctx, nil)
	ok(t, err)
}

// A sync of a directory of the destination fails, or the process ends there. What the shipper says
// then, or the next one, holds when the power of the destination fails, too.
//
// Promise (shipping): What is reported as shipped to a directory survives a power cut, also if a
// process has ended, or failed, after it made an object and before that was durable.
func TestObjectsAreDurable(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for at, more := int64(1), true; more; at++ {
			h := newHarbor(t)
			h.put()
			disk := vfstest.NewCrash()
			plan := &vfstest.FailPlan{At: at, Err: errServer, Lasting: killed,
				Match: func(op vfstest.Op) bool { return op.Kind == vfstest.OpSyncDir }}
			h.dest = &counting{Destination: ship.DirectoryOn(vfstest.NewFault(disk, plan.Hook),
				"dest")}
			var s *ship.Shipper
			begin := func() {
				var err error
				for s, err = h.tryStart(ship.Options{}); err != nil && !killed; {
					s, err = h.tryStart(ship.Options{})
				}
			}
			if begin(); s != nil {
				h.put()
				settle := func() bool { return !killed || s.Metrics().Failures == 0 }
				for s.Metrics().Restorable < h.last && settle() {
					runtime.Gosched()
				}
			}
			if _, more = plan.Failed(); more && killed {
				if s != nil {
					now, cancel := context.WithCancel(ctx)
					cancel()
					_ = s.Close(now)
				}
				disk = disk.Kill()
				h.dest = &counting{Destination: ship.DirectoryOn(disk, "dest")}
				killed = false
				begin()
				killed = true
			}
			m := s.Metrics()
			after := ship.DirectoryOn(disk.PowerCut(testutil.Rand(t), 0), "dest")
			c, err := ship.List(ctx, after)
			if m.Bases {
				ok(t, err)
			}
			if n := len(c.Ranges); m.Bases && c.Ranges[n-1].Last.Version < m.Restorable {
				t.Fatalf("sync %d, killed %v: %d is reported, there is %+v", at, killed,
					m.Restorable, c)
			}
			if m.Bases {
				_, err = ship.RestoreOn(ctx, after, vfs.NewMem(), "db", nil)
				ok(t, err)
			}
			ok(t, s.Close(ctx))
			ok(t, h.db.Close())
		}
	}
}

// Promise (shipping): A restore goes on with another base if a shipper removes its own meanwhile.
func TestRestoreWhileItsBaseGoes(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Second})
	h.ships(s, 3)
	d := &counting{Destination: h.dest}
	for _, prefix := range []string{"sst/", "log/"} {
		var gone atomic.Bool
		d.set(func(op, name string) error {
			if op == "get" && strings.HasPrefix(name, prefix) && gone.CompareAndSwap(false, true) {
				away(t, h, s)
			}
			return nil
		})
		h.ships(s, 3)
		fsys := vfs.NewMem()
		at, err := ship.RestoreOn(ctx, d, fsys, "db", nil)
		ok(t, err)
		if !gone.Load() || at.Version != h.last {
			t.Errorf("%s: restored %v of %d", prefix, at, h.last)
		}
	}
	ok(t, s.Close(ctx))
}

// Promise (shipping): A follower starts while the objects that it looks at are merged.
func TestFollowWhileObjectsAreMerged(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.ships(s, 3)
	fsys := vfs.NewMem()
	f := follow(t, h, fsys, ship.FollowOptions{})
	ok(t, f.WaitFor(ctx, h.last))
	ok(t, f.Close())
	h.ships(s, 8)
	h.now.Add(int64(time.Hour / time.Millisecond))
	var one sync.Once
	d := wholeGets{h.dest, func() { one.Do(func() { ok(t, s.Round(ctx)) }) }}
	f, err := ship.FollowOn(ctx, d, fsys, "copy", &ship.FollowOptions{Open: small})
	ok(t, err)
	ok(t, f.WaitFor(ctx, h.last))
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// A restore has the last commit also if the objects that it looks at are merged meanwhile.
func TestRestoreWhileObjectsAreMerged(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.ships(s, 20)
	h.now.Add(int64(time.Hour / time.Millisecond))
	d := &counting{Destination: h.dest}
	var merged atomic.Bool
	d.set(func(op, name string) error {
		if op == "get" && name == "log/0000000008" && merged.CompareAndSwap(false, true) {
			ok(t, s.Round(ctx))
		}
		return nil
	})
	at, err := ship.RestoreOn(ctx, d, vfs.NewMem(), "db", nil)
	ok(t, err)
	if !merged.Load() || s.Metrics().Merges == 0 || at.Version != h.last {
		t.Errorf("restored %v of %d, %+v", at, h.last, s.Metrics())
	}
	ok(t, s.Close(ctx))
}

// A list that takes its time has neither the objects that are merged meanwhile nor what they are
// merged into, wherever in the chain they are.
func TestRestoreWhileObjectsAreListed(t *testing.T) {
	for commits := 17; commits < 21; commits++ {
		h := newHarbor(t)
		s := h.start(ship.Options{})
		h.ships(s, commits)
		h.now.Add(int64(time.Hour / time.Millisecond))
		d := &longLists{Destination: h.dest, during: func() { ok(t, s.Round(ctx)) }}
		d.armed.Store(true)
		at, err := ship.RestoreOn(ctx, d, vfs.NewMem(), "db", nil)
		ok(t, err)
		if s.Metrics().Merges == 0 || at.Version != h.last {
			t.Errorf("restored %v of %d", at, h.last)
		}
		ok(t, s.Close(ctx))
	}
}

// A follower takes nothing for a gap that it misses in such a list, though a base has it.
func TestFollowWhileObjectsAreListed(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	h.ships(s, 3)
	stopped := &counting{Destination: h.dest}
	d := &longLists{Destination: stopped, during: func() { ok(t, s.Round(ctx)) }}
	f, err := ship.FollowOn(ctx, d, vfs.NewMem(), "copy",
		&ship.FollowOptions{Interval: 5 * time.Millisecond})
	ok(t, err)
	ok(t, f.WaitFor(ctx, h.last))
	stopped.set(func(string, string) error { return errServer })
	for range 5 { // in the end two are not merged, and a base has them
		h.ships(s, 1)
		h.now.Add(int64(time.Hour / time.Millisecond))
		ok(t, s.Round(ctx))
	}
	h.ships(s, 1)
	d.armed.Store(true)
	stopped.set(nil)
	ok(t, f.WaitFor(ctx, h.last))
	if n := f.Metrics().Rebases; n > 0 || d.armed.Load() {
		t.Errorf("%d rebases", n)
	}
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// longLists is a destination in which something happens during a list of the log, once it is armed.
type longLists struct {
	ship.Destination
	during func()
	armed  atomic.Bool
}

// List implements ship.Destination.
func (d *longLists) List(ctx context.Context, prefix string) ([]ship.Info, error) {
	infos, err := d.Destination.List(ctx, prefix)
	if prefix == "log/" && d.armed.CompareAndSwap(true, false) {
		d.during()
		infos = slices.DeleteFunc(infos, func(i ship.Info) bool {
			_, err := d.Head(ctx, i.Name)
			return err != nil
		})
	}
	return infos, err
}

// Promise (shipping): What was reported as shipped is listed also while a shipper makes a base and
// removes what is before it.
func TestListWhileBasesGo(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Second})
	h.ships(s, 3)
	reported := h.last
	var one sync.Once
	d := lists{h.dest, func(prefix string) {
		if prefix == "log/" {
			one.Do(func() { away(t, h, s) })
		}
	}}
	c, err := ship.List(ctx, d)
	ok(t, err)
	if last := c.Ranges[len(c.Ranges)-1].Last.Version; last < reported {
		t.Errorf("%d was reported, listed is %+v", reported, c)
	}
	ok(t, s.Close(ctx))
}

// lists is a destination that calls a function before it lists objects.
type lists struct {
	ship.Destination
	before func(prefix string)
}

// List implements ship.Destination.
func (d lists) List(ctx context.Context, prefix string) ([]ship.Info, error) {
	d.before(prefix)
	return d.Destination.List(ctx, prefix)
}

// wholeGets is a destination that calls a function before it gives a whole object of the log.
type wholeGets struct {
	ship.Destination
	before func()
}

// Get implements ship.Destination.
func (d wholeGets) Get(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if n < 0 && strings.HasPrefix(name, "log/") {
		d.before()
	}
	return d.Destination.Get(ctx, name, off, n)
}

// A destination of a former version is restored: its SST objects are named by their hashes alone.
func TestFormerDestination(t *testing.T) {
	for version, want := range map[uint64]map[string]string{
		3: {"a0/": "0", "a1/": "1", "a2/": "2"},
		4: {"a0/": "0", "a1/": "1", "a2/": "2", "k/": "4"},
		5: {"a0/": "0", "a1/": "1", "a2/": "2", "k/": "5"},
	} {
		fsys := vfs.NewMem()
		_, err := ship.RestoreOn(ctx, ship.Directory("testdata/v1"), fsys, "db",
			&ship.RestoreOptions{To: ship.Target{Version: version}})
		ok(t, err)
		db := openOn(t, fsys, engine.Options{MustExist: true})
		if got := shiptest.Items(t, db); !maps.Equal(got, want) {
			t.Errorf("version %d: %v", version, got)
		}
		ok(t, db.Close())
	}
}

// Promise (shipping): A restore does without a base that is damaged where the log leads on from the
// one before, and else says what is damaged; it never restores less.
func TestRestoreWithoutADamagedBase(t *testing.T) {
	h := newHarbor(t)
	h.opts.RetainBytes = 1 << 20
	h.reopen()
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	h.ships(s, 2)
	h.now.Add(10)
	ok(t, s.Round(ctx)) // the next base
	h.ships(s, 2)
	h.loseSST()
	last := ship.Target{}
	h.restores(last, h.last)
	if last.String() != "the last" {
		t.Errorf("the last moment is %q", last.String())
	}
	h.restores(ship.Target{Version: h.last - 1}, h.last-1)
	// After a gap no log leads on from the base before.
	h.dest.set(func(op, _ string) error { return errServer })
	for range 200 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
	}
	ok(t, h.db.Flush(ctx))
	h.put()
	h.dest.set(nil)
	h.shipped(s)
	ok(t, s.Close(ctx))
	h.loseSST()
	_, err := ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", nil)
	wantIs(t, err, engine.ErrCorrupt)
}

// loseSST removes the SST object that was put last.
func (h *harbor) loseSST() {
	h.t.Helper()
	h.dest.mu.Lock()
	names := slices.Clone(h.dest.names)
	h.dest.mu.Unlock()
	for _, name := range slices.Backward(names) {
		if strings.HasPrefix(name, "sst/") {
			ok(h.t, h.dest.Destination.Delete(ctx, name))
			return
		}
	}
	h.t.Fatal("no SST was put")
}

// Promise (shipping): A base that lacks objects takes the place of no other, and another one is
// made.
func TestLostSST(t *testing.T) {
	t.Run("idle", lostSSTOfAnIdleDatabase)
	h := newHarbor(t)
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	h.ships(s, 2)
	h.now.Add(10)
	ok(t, s.Round(ctx))
	h.ships(s, 2)
	ok(t, s.Close(ctx))
	h.loseSST()
	s = h.start(ship.Options{Keep: time.Nanosecond})
	h.now.Add(10)
	ok(t, s.Round(ctx))
	h.restores(ship.Target{}, h.last)
	ok(t, s.Round(ctx))
	ok(t, s.Close(ctx))
	if n := s.Metrics().BasesMade; n != 1 {
		t.Errorf("%d bases are made", n)
	}
	wantAll(t, h.dest, shiptest.Items(t, h.db))
}

// Nothing is written any more, and all log is removed, since the last base has it.
func lostSSTOfAnIdleDatabase(t *testing.T) {
	h := newHarbor(t)
	h.shipsAndRests()
	h.loseSST()
	s := h.start(ship.Options{})
	const rounds = 4
	done := make(chan error, rounds)
	go func() {
		for range rounds {
			done <- s.Round(ctx)
		}
	}()
	for range rounds {
		ok(t, received(t, done))
	}
	if n := s.Metrics().BasesMade; n != 1 {
		t.Errorf("%d bases are made", n)
	}
	h.restores(ship.Target{}, h.last)
	ok(t, s.Close(ctx))
}
