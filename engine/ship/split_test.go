package ship_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// lateDestination holds puts of log objects and bases back until it is woken. They were sent: they
// arrive also when nobody waits for them any more.
type lateDestination struct {
	ship.Destination
	log, base chan struct{} // closed: puts arrive
	sent      chan string   // names of what is held back
	arrived   chan string   // names of the bases among them, when they are there
}

func newLate(d ship.Destination) *lateDestination {
	return &lateDestination{d, make(chan struct{}), make(chan struct{}), make(chan string, 10),
		make(chan string, 10)}
}

// Put implements ship.Destination.
func (d *lateDestination) Put(ctx context.Context, name string, content io.ReaderAt, size int64,
) error {
	gate := d.log
	switch {
	case strings.HasPrefix(name, "base/"):
		gate = d.base
	case !strings.HasPrefix(name, "log/"):
		return d.Destination.Put(ctx, name, content, size)
	}
	select {
	case <-gate:
	default:
		d.sent <- name
		<-gate
	}
	err := d.Destination.Put(context.WithoutCancel(ctx), name, content, size)
	if gate == d.base {
		d.arrived <- name
	}
	return err
}

// A shipper falls asleep in the middle of a base. Another copy of the database goes on meanwhile,
// and ships. What arrives of the first one afterwards is not mixed with what the second ships.
//
// Promise (shipping): A base that arrives late, of a copy that another one has taken the place of,
// is no part of what is restored.
func TestLateBases(t *testing.T) {
	for _, first := range []bool{true, false} { // the destination is new, or has a base
		t.Run(fmt.Sprint("first=", first), func(t *testing.T) {
			h := newHarbor(t)
			h.put()
			if !first {
				s := h.start(ship.Options{})
				h.ships(s, 2)
				ok(t, s.Close(ctx))
			}
			ok(t, h.db.Close())
			other := openOn(t, vfstest.CrashOf(h.fs.(*vfs.MemFS)), h.opts)
			defer func() { ok(t, other.Close()) }()
			h.open()
			put := func(db *engine.DB, who string) {
				n := db.Metrics().LastVersion + 1
				ok(t, db.Put(engine.Key{PK: fmt.Append(nil, n)}, []byte(who)))
			}
			late := newLate(h.dest)
			o := ship.Options{Interval: 5 * time.Millisecond, BaseEvery: time.Millisecond}
			o.Hurry(time.Hour)
			if first {
				put(h.db, "a")
			}
			a, err := ship.Start(h.db, late, &o)
			ok(t, err)
			for range 3 {
				put(h.db, "a")
			}
			received(t, late.sent)
			var round sync.WaitGroup
			if !first {
				h.now.Add(10) // a base is due
				round.Go(func() { _ = a.Round(ctx) })
			}
			based := false // before what it has is shipped
			select {
			case <-late.sent:
				based = true
			case <-time.After(100 * time.Millisecond):
			}
			b, err := ship.Start(other, h.dest, &o)
			ok(t, err)
			for range 6 {
				put(other, "b")
				ok(t, b.WaitFor(ctx, other.Metrics().LastVersion))
			}
			close(late.base)
			if based {
				received(t, late.arrived)
			}
			close(late.log)
			h.ends(a)
			wantIs(t, a.Err(), ship.ErrFenced)
			round.Wait()
			put(other, "b")
			ok(t, b.WaitFor(ctx, other.Metrics().LastVersion))
			want := shiptest.Items(t, other)
			wantAll(t, h.dest, want)
			if c := h.contents(); len(c.Bases) != 1 {
				t.Errorf("a late base is listed: %+v", c)
			}
			ok(t, b.Close(ctx))
			b, err = ship.Start(other, h.dest, &o) // it goes on
			ok(t, err)
			ok(t, b.Close(ctx))
			wantAll(t, h.dest, want)
		})
	}
}

// Promise (shipping): A shipper that finds an object of another copy of the database where its
// first one should be ends.
func TestShippersMeetOtherHistories(t *testing.T) {
	h := newHarbor(t)
	h.put()
	ok(t, h.db.Close())
	other := openOn(t, vfstest.CrashOf(h.fs.(*vfs.MemFS)), h.opts)
	defer func() { ok(t, other.Close()) }()
	h.open()
	h.put()
	var of [2]*ship.Shipper
	var late [2]*lateDestination
	for i, db := range []*engine.DB{h.db, other} {
		late[i] = newLate(h.dest)
		o := ship.Options{Interval: 5 * time.Millisecond}
		o.Hurry(time.Hour)
		var err error
		of[i], err = ship.Start(db, late[i], &o)
		ok(t, err)
		received(t, late[i].sent) // the first object of the log
	}
	for i, want := range []error{ship.ErrFenced, ship.ErrOther} {
		close(late[i].base)
		close(late[i].log)
		h.ends(of[i])
		wantIs(t, of[i].Err(), want)
	}
}

// Promise (shipping): A shipper beside the writing process goes on after what another one has
// shipped that has seen more of the commits.
func TestShippersBesideTheWriterFollowEachOther(t *testing.T) {
	h := newHarbor(t)
	reader := openOn(t, h.fs, engine.Options{ReadOnly: true, MustExist: true})
	defer func() { ok(t, reader.Close()) }()
	o := ship.Options{Interval: time.Millisecond}
	o.Hurry(time.Hour)
	for range 20 {
		h.put()
		s := h.start(o)
		h.shipped(s)
		b, err := ship.Start(reader, h.dest, &o)
		ok(t, err)
		ok(t, b.Close(ctx))
		h.ends(s)
	}
	h.restores(ship.Target{}, h.last)
}

// Promise (shipping): A follower that misses nothing finds no base where its next commit should be.
func TestFollowersMeetNoBaseAheadOfTheLog(t *testing.T) {
	h := newHarbor(t)
	h.put()
	o := ship.Options{Interval: time.Millisecond, BaseEvery: time.Millisecond}
	o.Hurry(time.Millisecond)
	s, err := ship.Start(h.db, h.dest, &o)
	ok(t, err)
	h.ships(s, 2)
	f, err := ship.FollowOn(ctx, h.dest, vfs.NewMem(), "db",
		&ship.FollowOptions{Interval: time.Millisecond, Open: small})
	ok(t, err)
	asleep, wake := h.sleepInPut()
	h.put()
	<-asleep
	h.now.Add(10) // a base is due
	for t := time.NewTicker(time.Millisecond); h.now.Add(1)%50 > 0; {
		<-t.C // rounds of both
	}
	close(wake)
	ok(t, f.WaitFor(ctx, h.last))
	if m := f.Metrics(); m.Rebases > 0 {
		t.Errorf("restored again: %+v", m)
	}
	ok(t, f.Close())
	ok(t, s.Close(ctx))
}

// wantAll checks what is restored.
func wantAll(t *testing.T, d ship.Destination, want map[string]string) {
	t.Helper()
	fsys := vfs.NewMem()
	_, err := ship.RestoreOn(ctx, d, fsys, "db", &ship.RestoreOptions{
		Plan: func(c ship.Contents, _ ship.Moment) {
			if len(c.Damage) > 0 {
				t.Errorf("damage: %v", c.Damage)
			}
		}})
	ok(t, err)
	db := openOn(t, fsys, engine.Options{MustExist: true})
	defer func() { ok(t, db.Close()) }()
	if got := shiptest.Items(t, db); !maps.Equal(got, want) {
		t.Fatalf("restored %v, want %v", got, want)
	}
}

// lateDeletes is a destination whose removals of SSTs are under way until arrive.
type lateDeletes struct {
	ship.Destination
	t     testing.TB
	mu    sync.Mutex
	names []string // guarded by mu
}

// Delete implements ship.Destination.
func (d *lateDeletes) Delete(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, "sst/") {
		return d.Destination.Delete(ctx, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, name)
	return errServer
}

func (d *lateDeletes) arrive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range d.names {
		ok(d.t, d.Destination.Delete(ctx, name))
	}
}

// A base fails when its SSTs are there. They are removed, since no base has them, and the requests
// arrive when the next base is whole, of the same shipper or of the next one.
//
// Promise (shipping): What is removed late was part of no base that was made meanwhile.
func TestLateDeletes(t *testing.T) {
	const farMs = 120_000 // further than the time stands still
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart=", restart), func(t *testing.T) {
			h := newHarbor(t)
			late := &lateDeletes{Destination: h.dest, t: t}
			o := ship.Options{Interval: 5 * time.Millisecond, BaseEvery: time.Second}
			o.Hurry(time.Hour)
			start := func() *ship.Shipper {
				s, err := ship.Start(h.db, late, &o)
				ok(t, err)
				return s
			}
			h.put()
			s := start()
			h.ships(s, 1)
			for i := range 20 {
				h.last++
				ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, []byte("v")))
			}
			h.shipped(s)
			h.now.Add(farMs)
			h.dest.set(func(op, name string) error {
				if op == "put" && strings.HasPrefix(name, "base/") {
					return errServer
				}
				return nil
			})
			wantIs(t, s.Round(ctx), errServer)
			h.dest.set(nil)
			if restart {
				ok(t, s.Close(ctx))
				s = start()
			}
			h.now.Add(-farMs) // no base is due
			wantIs(t, s.Round(ctx), errServer)
			if len(late.names) == 0 {
				t.Fatal("nothing is removed")
			}
			h.now.Add(farMs)
			_ = s.Round(ctx) // removals fail again
			late.arrive()
			ok(t, s.Close(ctx))
			if n := len(h.contents().Bases); n != 2 {
				t.Fatalf("%d bases", n)
			}
			wantAll(t, h.dest, shiptest.Items(t, h.db))
		})
	}
}

// A destination is emptied. Then another copy of the database, which has gone on from an older
// commit, begins there again, while a shipper and a follower of the first one still run.
//
// Promise (shipping): In a destination that was emptied nothing is reported as shipped. Where
// another copy has begun there again, shippers and followers of the first one end, and mix nothing.
func TestDestinationBeginsAgain(t *testing.T) {
	h := newHarbor(t)
	a := h.start(ship.Options{})
	h.ships(a, 3)
	other := openOn(t, vfstest.CrashOf(h.fs.(*vfs.MemFS)), h.opts)
	defer func() { ok(t, other.Close()) }()
	h.ships(a, 2)
	f := follow(t, h, vfs.NewMem(), ship.FollowOptions{})
	ok(t, f.WaitFor(ctx, h.last))
	for _, name := range h.names() {
		ok(t, h.dest.Delete(ctx, name))
	}
	h.put()
	for m := a.Metrics(); m.Failures == 0 && m.Restorable < h.last; m = a.Metrics() {
		<-time.After(time.Millisecond)
	}
	if n := a.Metrics().Restorable; n == h.last || len(h.names()) > 0 {
		t.Errorf("version %d is reported: there is %q", n, h.names())
	}
	b, err := ship.Start(other, h.dest, &ship.Options{Interval: 5 * time.Millisecond})
	ok(t, err)
	for range 5 {
		ok(t, other.Put(engine.Key{PK: []byte("other")}, nil))
		ok(t, b.WaitFor(ctx, other.Metrics().LastVersion))
	}
	h.ends(a)
	wantIs(t, a.Err(), ship.ErrFenced)
	h.ends(f)
	wantIs(t, f.Err(), ship.ErrOther)
	if got := shiptest.Items(t, f.DB()); len(got) != 1 {
		t.Errorf("the follower has %v", got)
	}
	ok(t, f.Close())
	want := shiptest.Items(t, other)
	ok(t, b.Close(ctx))
	wantAll(t, h.dest, want)
}

// A shipper that has nothing to ship makes no base, and removes nothing, in what has begun again.
func TestRoundWhereAnotherHasBegunAgain(t *testing.T) {
	h := newHarbor(t)
	a := h.start(ship.Options{})
	h.ships(a, 1)
	other := openOn(t, vfstest.CrashOf(h.fs.(*vfs.MemFS)), h.opts)
	defer func() { ok(t, other.Close()) }()
	for _, name := range h.names() {
		ok(t, h.dest.Delete(ctx, name))
	}
	b, err := ship.Start(other, h.dest, nil)
	ok(t, err)
	wantIs(t, a.Round(ctx), ship.ErrFenced)
	ok(t, b.Close(ctx))
	ok(t, a.Close(ctx))
}

// A shipper beside the writing process finds an object of its history where its own should be, and
// cannot read the database at that moment: it goes on later.
func TestShipperThatCannotCheck(t *testing.T) {
	h := newHarbor(t)
	a := h.start(ship.Options{})
	h.ships(a, 1)
	asleep, wake := h.sleepInPut()
	h.put()
	<-asleep
	var broken atomic.Bool
	reader := openOn(t, vfstest.NewFault(h.fs, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpOpen && strings.HasSuffix(op.Name, "CURRENT") && broken.Load() {
			return errServer
		}
		return nil
	}), engine.Options{ReadOnly: true, MustExist: true})
	defer func() { ok(t, reader.Close()) }()
	late := newLate(h.dest)
	o := ship.Options{Interval: 5 * time.Millisecond}
	o.Hurry(time.Hour)
	b, err := ship.Start(reader, late, &o)
	ok(t, err)
	received(t, late.sent)
	close(wake)
	h.ends(a)
	broken.Store(true)
	close(late.base)
	close(late.log)
	for b.Metrics().Failures == 0 {
		select {
		case <-b.Ended():
			t.Fatal(b.Err())
		case <-time.After(time.Millisecond):
		}
	}
	broken.Store(false)
	h.shipped(b)
	ok(t, b.Close(ctx))
	h.restores(ship.Target{}, h.last)
}

// While a shipper begins, and has looked at the destination, the one before goes on, and merges
// what it puts. The slots of that are taken, though no object has their names any more.
//
// Promise (shipping): What is shipped is listed also if the shipper before has shipped and merged
// while this one began.
func TestStartWhileObjectsAreMerged(t *testing.T) {
	h := newHarbor(t)
	a := h.start(ship.Options{})
	h.ships(a, 2)
	var one sync.Once
	h.dest.set(func(op, name string) error {
		if op == "put" && strings.HasPrefix(name, "epoch/") {
			one.Do(func() {
				h.ships(a, 8)
				h.now.Add(time.Hour.Milliseconds())
				ok(t, a.Round(ctx))
			})
		}
		return nil
	})
	b := h.start(ship.Options{})
	for range 12 {
		h.ships(b, 1)
		h.restores(ship.Target{}, h.last)
	}
	ok(t, b.Close(ctx))
	if c := h.contents(); a.Metrics().Merges == 0 || len(c.Ranges) != 1 {
		t.Errorf("%+v", c)
	}
}

// A shipper sleeps before it puts an object. Another copy of the database goes on meanwhile, and
// merges what it ships, so that the name is free. If the object is put twice, that is no success
// either.
func TestShipperThatSleptOverAMerge(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint("twice=", twice), func(t *testing.T) {
			h := newHarbor(t)
			if twice {
				h.dest.Destination = putTwice{h.dest.Destination}
			}
			shipperThatSleptOverAMerge(t, h)
		})
	}
}

// putTwice is a destination that puts again what seems to have failed.
type putTwice struct{ ship.Destination }

// Put implements ship.Destination.
func (d putTwice) Put(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	err := d.Destination.Put(ctx, name, content, size)
	if err == nil && strings.HasPrefix(name, "log/") {
		err = d.Destination.Put(ctx, name, content, size)
	}
	return err
}

func shipperThatSleptOverAMerge(t *testing.T, h *harbor) {
	a := h.start(ship.Options{})
	h.ships(a, 2)
	other := openOn(t, vfstest.CrashOf(h.fs.(*vfs.MemFS)), h.opts)
	defer func() { ok(t, other.Close()) }()
	asleep, wake := h.sleepInPut()
	h.put()
	<-asleep
	o := ship.Options{Interval: 5 * time.Millisecond}
	o.Hurry(time.Hour)
	b, err := ship.Start(other, h.dest, &o)
	ok(t, err)
	for range 8 {
		ok(t, other.Put(engine.Key{PK: []byte("k")}, []byte("b")))
		ok(t, b.WaitFor(ctx, other.Metrics().LastVersion))
	}
	h.now.Add(time.Hour.Milliseconds())
	ok(t, b.Round(ctx))
	close(wake)
	h.ends(a)
	wantIs(t, a.Err(), ship.ErrFenced)
	if n := a.Metrics().Restorable; n >= h.last {
		t.Errorf("version %d is reported", n)
	}
	want := shiptest.Items(t, other)
	ok(t, b.Close(ctx))
	wantAll(t, h.dest, want)
}

// A copy of the database, which has as many commits and has forgotten which, begins again with a
// base. What is shipped then does not go on after what the first one has shipped.
func TestBeginAgainAtTheSameVersion(t *testing.T) {
	h := newHarbor(t)
	h.opts.LogBytes, h.opts.RetainBytes = 64<<20, 1<<20
	h.reopen()
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	other := vfstest.CrashOf(h.fs.(*vfs.MemFS))
	large := func() {
		for range 50 {
			ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
		}
		h.last = h.db.Metrics().LastVersion
	}
	large()
	h.shipped(s)
	ok(t, s.Close(ctx))
	ok(t, h.db.Close())
	h.fs = other
	h.open()
	large()
	h.fs = other.Kill()
	h.reopen()
	ok(t, h.db.Flush(ctx)) // nothing needs the log any more
	s = h.start(ship.Options{BeginAgain: true})
	h.shipped(s)
	h.ships(s, 2)
	ok(t, s.Close(ctx))
	h.restores(ship.Target{}, h.last)
	// Without that base no other leads on to what follows.
	names := h.names()
	for i := len(names) - 1; i >= 0; i-- {
		if strings.HasPrefix(names[i], "base/") {
			ok(t, h.dest.Delete(ctx, names[i]))
			break
		}
	}
	_, err := ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", nil)
	wantIs(t, err, ship.ErrMoment)
}
