package ship_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func follow(t testing.TB, h *harbor, fsys vfs.FS, o ship.FollowOptions) *ship.Follower {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = 5 * time.Millisecond
	}
	f, err := ship.FollowOn(ctx, h.dest, fsys, "copy", &o)
	ok(t, err)
	return f
}

// Promise (shipping): A follower has a prefix of the commits, goes on where it ended, and ends with
// an error if it has commits of its own or misses some.
func TestFollow(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	fsys := vfs.NewMem()
	for range 3 {
		f := follow(t, h, fsys, ship.FollowOptions{})
		for range 5 {
			h.put()
			h.shipped(s)
			ok(t, f.WaitFor(ctx, h.last))
			it, err := f.DB().GetItem(engine.Key{PK: []byte("k")})
			ok(t, err)
			if it.Version < h.last {
				t.Errorf("version %d after %d", it.Version, h.last)
			}
		}
		ok(t, s.Round(ctx)) // merges what it has read
		ok(t, f.Close())
	}
	f := follow(t, h, fsys, ship.FollowOptions{})
	own := engine.Key{PK: []byte("own")}
	wantIs(t, f.DB().Put(own, nil), engine.ErrReadOnly)
	_, err := f.DB().Begin(ctx, nil)
	wantIs(t, err, engine.ErrReadOnly)
	ok(t, f.Close())
	wantIs(t, f.DB().Put(own, nil), engine.ErrClosed)
	db, err := openfs.Open(fsys, "copy", &engine.Options{MustExist: true})
	ok(t, err)
	ok(t, db.(*engine.DB).Put(own, nil))
	ok(t, db.(*engine.DB).Close())
	h.put()
	h.put()
	h.shipped(s)
	_, err = ship.FollowOn(ctx, h.dest, fsys, "copy", nil)
	wantIs(t, err, ship.ErrOther)
	ok(t, s.Close(ctx))
}

// 1515: a follower stopped for ever and logged nothing. Here a destination that fails is an error
// within two intervals, and the follower goes on when it answers again.
//
// Promise (shipping): A follower without success for two intervals is an error.
func TestLitestream1515FollowerStopsSilently(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	reported := make(chan error, 100)
	f := follow(t, h, vfs.NewMem(), ship.FollowOptions{Interval: 20 * time.Millisecond,
		OnError: func(err error) { reported <- err }})
	ok(t, f.WaitFor(ctx, h.last))
	h.dest.set(func(string, string) error { return errServer })
	wantIs(t, received(t, reported), ship.ErrSilent)
	for !errors.Is(f.Metrics().Err, errServer) {
		<-time.After(time.Millisecond)
	}
	h.dest.set(nil)
	h.put()
	h.shipped(s)
	ok(t, f.WaitFor(ctx, h.last))
	wantMetric(t, monitor.Prometheus(f.DB(), f.Samples), "kstone_follow_version 2\n",
		"kstone_follow_failures_total ", "kstone_follow_rebases_total 0\n")
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// Promise (shipping): A backup stream that is cut off or changed anywhere makes no database.
func TestBackupStream(t *testing.T) {
	h := newHarbor(t)
	for i := range 20 {
		ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, []byte("v")))
	}
	var b bytes.Buffer
	ok(t, ship.Backup(ctx, h.db, &b))
	restore := func(b []byte) (*vfs.MemFS, error) {
		fsys, in := vfs.NewMem(), bytes.NewReader(b)
		err := ship.RestoreFromOn(ctx, in, fsys, "db")
		if err == nil && in.Len() > 0 {
			t.Fatalf("%d bytes are not read: what writes them to a pipe waits for ever", in.Len())
		}
		return fsys, err
	}
	fsys, err := restore(b.Bytes())
	ok(t, err)
	db := openOn(t, fsys, engine.Options{MustExist: true})
	if n := len(shiptest.Items(t, db)); n != 20 {
		t.Errorf("%d items", n)
	}
	ok(t, db.Close())
	for n := 0; n < b.Len()-2048; n += 1 + b.Len()/50 {
		fsys, err := restore(b.Bytes()[:n])
		if err == nil {
			t.Fatalf("%d of %d bytes are a database", n, b.Len())
		}
		if _, err := fsys.Stat("db"); err == nil {
			t.Fatal("a database is there after an error")
		}
		bad := bytes.Clone(b.Bytes())
		bad[n] ^= 1
		if fsys, err := restore(bad); err == nil {
			db := openOn(t, fsys, engine.Options{MustExist: true}) // a header of tar, or padding
			if n := len(shiptest.Items(t, db)); n != 20 {
				t.Fatalf("%d items after byte %d was changed", n, n)
			}
			ok(t, db.Close())
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	wantIs(t, ship.Backup(gone, h.db, io.Discard), context.Canceled)
}

// away makes commits that a follower misses: the log up to the last of them is removed.
func away(t *testing.T, h *harbor, s *ship.Shipper) {
	t.Helper()
	for range 6 {
		h.now.Add(60_000)
		h.put()
		h.shipped(s)
		ok(t, s.Round(ctx)) // a base each time, and the log before it goes
	}
}

// A follower that was away for longer than the log is kept begins again, whether it was stopped
// or not, and from any moment at which its process ends. A directory with commits of its own stays
// as it is.
//
// Promise (shipping): A follower that has missed commits goes on with the next base, in place of
// what it has, and never in place of a directory with commits of its own.
func TestFollowerBeginsAgain(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Second})
	h.shipped(s)
	disk := vfstest.NewCrash()
	d := &counting{Destination: h.dest}
	f, err := ship.FollowOn(ctx, d, disk, "copy",
		&ship.FollowOptions{Interval: 5 * time.Millisecond})
	ok(t, err)
	ok(t, f.WaitFor(ctx, h.last))
	// While it runs: the destination does not answer.
	d.set(func(string, string) error { return errServer })
	first := f.DB()
	away(t, h, s)
	d.set(nil)
	ok(t, f.WaitFor(ctx, h.last))
	if f.DB() == first || f.Metrics().Rebases == 0 {
		t.Errorf("%+v", f.Metrics())
	}
	_, err = first.Get(engine.Key{PK: []byte("k")})
	wantIs(t, err, engine.ErrClosed)
	wantVersion(t, f, h.last)
	ok(t, f.Close())
	// While it is stopped; its process ends after any step.
	stopped := disk.Kill()
	away(t, h, s)
	rnd := testutil.Rand(t)
	ends := 0
	for n := int64(1); ; n += 1 + int64(rnd.IntN(2)) {
		fsys := stopped.Kill()
		plan := &vfstest.FailPlan{At: n, Err: errServer, Lasting: true,
			Match: func(op vfstest.Op) bool {
				return slices.Contains([]vfstest.OpKind{vfstest.OpRename, vfstest.OpRemove,
					vfstest.OpSyncDir, vfstest.OpCreate}, op.Kind)
			}}
		f, err := ship.FollowOn(ctx, h.dest, vfstest.NewFault(fsys, plan.Hook), "copy",
			&ship.FollowOptions{Interval: 5 * time.Millisecond})
		if err == nil {
			settled(f, h.last)
			_ = f.Close()
		}
		if _, failed := plan.Failed(); !failed {
			break
		}
		ends++
		after := vfs.FS(fsys.Kill())
		if rnd.IntN(2) == 0 {
			after = fsys.PowerCut(rnd, rnd.Float64())
		}
		f = follow(t, h, after, ship.FollowOptions{})
		ok(t, f.WaitFor(ctx, h.last))
		wantVersion(t, f, h.last)
		ok(t, f.Close())
	}
	if ends < 10 {
		t.Errorf("the process ended at %d moments", ends)
	}
	// With a commit of its own.
	db, err := openfs.Open(stopped, "copy", &engine.Options{MustExist: true})
	ok(t, err)
	ok(t, db.(*engine.DB).Put(engine.Key{PK: []byte("own")}, nil))
	ok(t, db.(*engine.DB).Close())
	f = follow(t, h, stopped, ship.FollowOptions{})
	h.ends(f)
	wantIs(t, f.Err(), ship.ErrGap)
	_, err = f.DB().Get(engine.Key{PK: []byte("own")})
	ok(t, err)
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// What is not at the destination any more takes no memory.
func TestFollowerForgetsObjects(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.put()
	h.shipped(s)
	f := follow(t, h, vfs.NewMem(), ship.FollowOptions{})
	for range 6 {
		for range 9 {
			h.put()
			h.shipped(s)
			ok(t, f.WaitFor(ctx, h.last))
		}
		h.now.Add(int64(time.Hour / time.Millisecond))
		ok(t, s.Round(ctx))
	}
	h.put()
	h.shipped(s)
	ok(t, f.WaitFor(ctx, h.last))
	ok(t, f.Close())
	if n, most := f.Headers(), h.contents().Objects; n > 3*most {
		t.Errorf("%d headers of %d objects", n, most)
	}
	ok(t, s.Close(ctx))
}

// A directory that a person has put aside stays, whatever a follower beside it does.
func TestFollowerLeavesOthersAlone(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	fsys := vfs.NewMem()
	ok(t, follow(t, h, fsys, ship.FollowOptions{}).Close())
	ok(t, fsys.MkdirAll("copy.before"))
	ok(t, follow(t, h, fsys, ship.FollowOptions{}).Close())
	_, err := fsys.Stat("copy.before")
	ok(t, err)
	ok(t, s.Close(ctx))
}

// Promise (shipping): A follower begins again also while others read its database.
func TestFollowerBeginsAgainBesideReaders(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Second})
	h.shipped(s)
	d := &counting{Destination: h.dest}
	f, err := ship.FollowOn(ctx, d, vfs.NewMem(), "copy",
		&ship.FollowOptions{Interval: 5 * time.Millisecond})
	ok(t, err)
	ok(t, f.WaitFor(ctx, h.last))
	reads, err := f.DB().Snapshot()
	ok(t, err)
	d.set(func(string, string) error { return errServer })
	away(t, h, s)
	d.set(nil)
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ok(t, f.WaitFor(wait, h.last))
	wantVersion(t, f, h.last)
	ok(t, reads.Close())
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// settled returns when a follower has a version, or has failed.
func settled(f *ship.Follower, version uint64) {
	for f.Metrics().Failures == 0 && f.Metrics().Version < version {
		select {
		case <-f.Ended():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func wantVersion(t *testing.T, f *ship.Follower, version uint64) {
	t.Helper()
	it, err := f.DB().GetItem(engine.Key{PK: []byte("k")})
	ok(t, err)
	if it.Version != version || string(it.Value) != fmt.Sprint(version) {
		t.Fatalf("the follower has %q of version %d, want %d", it.Value, it.Version, version)
	}
}

// A follower catches up though its log is bounded, and what it has made takes the place of the
// database that it followed.
//
// Promise (shipping): The database of a follower that is closed has the settings of the one that it
// followed, and ships to another destination; nothing waits for the follower that it was.
func TestFollowerTakesOver(t *testing.T) {
	h := newHarbor(t)
	h.opts.RetainBytes = 2 << 20
	h.reopen()
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	large := func() { // more than is retained
		for range 12 {
			h.last++
			ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 512<<10)))
			ok(t, s.WaitFor(wait, h.last))
		}
	}
	fsys, open := vfs.NewMem(), small
	open.RetainBytes, open.RetainLimit = 0, engine.WaitForConsumers
	ok(t, follow(t, h, fsys, ship.FollowOptions{Open: open}).Close())
	large()
	f := follow(t, h, fsys, ship.FollowOptions{Open: open})
	ok(t, f.WaitFor(wait, h.last))
	ok(t, f.Close())
	ok(t, s.Close(ctx))
	ok(t, h.db.Close())
	db, err := openfs.Open(fsys, "copy", &open)
	ok(t, err)
	h.db = db.(*engine.DB)
	for _, set := range h.db.Settings() {
		if set.Name == "retain-bytes" && set.Value != "2MiB" {
			t.Errorf("%s is %s", set.Name, set.Value)
		}
	}
	_, err = h.tryStart(ship.Options{})
	wantIs(t, err, ship.ErrOther) // what it follows may go on by itself
	h.dest = &counting{Destination: ship.DirectoryOn(h.disk, "next")}
	s = h.start(ship.Options{})
	large()
	ok(t, s.Close(ctx))
	if all := h.db.Consumers(); len(all) != 1 {
		t.Errorf("consumers %+v", all)
	}
	_, err = h.db.Consumer("follower", engine.Position{Version: h.last + 1}) // of somebody else
	ok(t, err)
	ok(t, h.start(ship.Options{}).Close(ctx))
	if all := h.db.Consumers(); len(all) != 2 {
		t.Errorf("consumers %+v", all)
	}
}

// With few of the commits retained a follower gets more of them in one object than writers may make
// before a consumer has moved, which a follower is, too.
func TestFollowerDoesNotWaitForItself(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	o := ship.FollowOptions{Open: small}
	o.Open.RetainBytes, o.Open.RetainLimit = 1<<20, engine.WaitForConsumers
	d := h.dest
	h.dest = &counting{Destination: d}
	f := follow(t, h, vfs.NewMem(), o)
	h.dest.set(func(string, string) error { return errServer })
	h.dest, d = d, h.dest
	for range 300 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
	}
	h.shipped(s)
	d.set(nil)
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ok(t, f.WaitFor(wait, h.last))
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// A property is set between two commits, while the clock stands still.
func TestFollowerHasProperties(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	f := follow(t, h, vfs.NewMem(), ship.FollowOptions{})
	ok(t, f.WaitFor(ctx, h.last))
	objects := s.Metrics().LogObjects
	ok(t, h.db.SetProperty("p", []byte("v")))
	for s.Metrics().LogObjects == objects {
		<-time.After(time.Millisecond)
	}
	h.put()
	h.shipped(s)
	ok(t, f.WaitFor(ctx, h.last))
	if p, _ := f.DB().Property("p"); string(p) != "v" {
		t.Errorf("property %q", p)
	}
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// The database of a follower that runs is shipped on: its mark stays.
func TestFollowerIsShipped(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	f := follow(t, h, vfs.NewMem(), ship.FollowOptions{})
	next, err := ship.Start(f.DB(), ship.DirectoryOn(h.disk, "next"), nil)
	ok(t, err)
	if all := f.DB().Consumers(); len(all) != 2 {
		t.Errorf("consumers %+v", all)
	}
	ok(t, next.Close(ctx))
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}
