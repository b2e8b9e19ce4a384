package ship_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var ok, wantIs = testutil.OK, testutil.WantIs

// small makes flushes and segments frequent.
var small = engine.Options{
	MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20, FileBytes: 64 << 10,
	Compression: engine.NoCompression, RetainBytes: 64 << 20,
}

// harbor is a database in memory and a destination.
type harbor struct {
	t    testing.TB
	fs   vfs.FS
	db   *engine.DB
	now  atomic.Int64 // Unix ms
	opts engine.Options
	disk *vfs.MemFS // of the destination
	dest *counting
	last uint64 // version
}

func newHarbor(t testing.TB) *harbor {
	h := &harbor{t: t, fs: vfs.NewMem(), disk: vfs.NewMem(), opts: small}
	h.dest = &counting{Destination: ship.DirectoryOn(h.disk, "dest")}
	h.now.Store(1_750_000_000_000)
	h.opts.Clock = func() time.Time { return time.UnixMilli(h.now.Load()) }
	h.open()
	t.Cleanup(func() { _ = h.db.Close() })
	return h
}

func (h *harbor) open() {
	h.t.Helper()
	h.db = openOn(h.t, h.fs, h.opts)
}

func (h *harbor) reopen() {
	h.t.Helper()
	ok(h.t, h.db.Close())
	h.open()
}

// put makes a commit: key k has its version as value.
func (h *harbor) put() {
	h.t.Helper()
	h.last++
	ok(h.t, h.db.Put(engine.Key{PK: []byte("k")}, fmt.Append(nil, h.last)))
}

func (h *harbor) start(o ship.Options) *ship.Shipper {
	h.t.Helper()
	s, err := h.tryStart(o)
	ok(h.t, err)
	return s
}

func (h *harbor) tryStart(o ship.Options) (*ship.Shipper, error) {
	if o.Interval == 0 {
		o.Interval = 5 * time.Millisecond
	}
	if o.OnError == nil {
		o.Hurry(time.Hour) // only when a test asks
	}
	return ship.Start(h.db, h.dest, &o)
}

// shipped returns when everything is.
func (h *harbor) shipped(s *ship.Shipper) {
	h.t.Helper()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ok(h.t, s.WaitFor(wait, h.last))
}

// ships makes commits, and ships each by itself.
func (h *harbor) ships(s *ship.Shipper, commits int) {
	h.t.Helper()
	for range commits {
		h.put()
		h.shipped(s)
	}
}

// short retains nothing but the last base and the log after it.
var short = ship.Options{Keep: time.Millisecond, BaseEvery: time.Millisecond}

// shipsAndRests ships some commits, until a base has all of them and no log is left.
func (h *harbor) shipsAndRests() {
	h.t.Helper()
	s := h.start(short)
	h.ships(s, 5)
	for range 2 {
		h.now.Add(10)
		ok(h.t, s.Round(ctx))
	}
	ok(h.t, s.Close(ctx))
}

// ends waits for a shipper or a follower to end.
func (h *harbor) ends(s interface{ Ended() <-chan struct{} }) {
	h.t.Helper()
	received(h.t, s.Ended())
}

// received returns what comes over a channel, or fails the test.
func received[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing comes")
	}
	return v
}

func (h *harbor) contents() ship.Contents {
	h.t.Helper()
	c, err := ship.List(ctx, h.dest)
	ok(h.t, err)
	return c
}

// restores checks that a target gives a version.
func (h *harbor) restores(to ship.Target, want uint64) {
	h.t.Helper()
	fsys := vfs.NewMem()
	at, err := ship.RestoreOn(ctx, h.dest, fsys, "db", &ship.RestoreOptions{To: to})
	ok(h.t, err)
	db := openOn(h.t, fsys, engine.Options{MustExist: true})
	defer func() { ok(h.t, db.Close()) }()
	it, err := db.GetItem(engine.Key{PK: []byte("k")})
	ok(h.t, err)
	if at.Version != want || it.Version != want || string(it.Value) != fmt.Sprint(want) {
		h.t.Fatalf("target %v: restored %v, the item is %q of version %d, want version %d", to, at,
			it.Value, it.Version, want)
	}
}

// What is shipped to a directory is restored on the disk: the last commit, each one before down to
// the base, and properties.
func TestShipToADirectory(t *testing.T) {
	dir := t.TempDir()
	o := small
	db, err := engine.Open(dir+"/db", &o)
	ok(t, err)
	for i := range 20 {
		ok(t, db.Put(engine.Key{PK: fmt.Append(nil, "before", i)}, []byte("x")))
	}
	d := ship.Directory(dir + "/dest")
	s, err := ship.Start(db, d, &ship.Options{Interval: 10 * time.Millisecond})
	ok(t, err)
	ok(t, s.WaitFor(ctx, 20))
	for i := range 10 {
		ok(t, db.Put(engine.Key{PK: []byte("k")}, fmt.Append(nil, i)))
	}
	ok(t, db.SetProperty("p", []byte("v")))
	ok(t, s.Close(ctx))
	ok(t, db.Close())
	for _, v := range []uint64{20, 25, 0} {
		to := fmt.Sprint(dir, "/r", v)
		at, err := ship.Restore(ctx, d, to, &ship.RestoreOptions{To: ship.Target{Version: v}})
		ok(t, err)
		db, err := engine.Open(to, &engine.Options{MustExist: true})
		ok(t, err)
		_, err = db.Verify(ctx, nil)
		ok(t, err)
		n, err := db.CountScan(ctx, engine.Scan{})
		ok(t, err)
		last := db.Metrics().LastVersion
		if want := max(v, 30*min(1, 1-min(v, 1))); last != want || at.Version != want ||
			n != int64(20+min(want-20, 1)) {
			t.Errorf("to %d: version %d, %s, %d items", v, last, at, n)
		}
		if p, _ := db.Property("p"); v == 0 && string(p) != "v" {
			t.Errorf("property %q", p)
		}
		ok(t, db.Close())
	}
	_, err = ship.Restore(ctx, d, dir+"/r0", nil)
	wantIs(t, err, engine.ErrInvalid)
	_, err = ship.Restore(ctx, ship.Directory(dir+"/none"), dir+"/x", nil)
	wantIs(t, err, ship.ErrEmpty)
}

// A base is made when the log since the last one is as long as the database, whichever shipper has
// put it.
func TestBasesByTheLengthOfTheLog(t *testing.T) {
	h := newHarbor(t)
	fill := func(items int) {
		for i := range items {
			h.last++
			ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i%50)}, make([]byte, 4<<10)))
		}
	}
	fill(50)
	for i, want := range []int{1, 1, 2} {
		o := ship.Options{}
		o.BasesAfter(1)
		s := h.start(o)
		h.put()
		h.shipped(s)
		ok(t, s.Round(ctx))
		if got := len(h.contents().Bases); got != want {
			t.Errorf("shipper %d: %d bases, want %d", i, got, want)
		}
		if i == 1 {
			fill(150)
		}
		ok(t, s.Close(ctx))
	}
}

// Promise (shipping): Of two shippers the second goes on; the first ends with ErrFenced, also if it
// has nothing to ship, and what it puts meanwhile is part of the one history or refused.
func TestSecondShipperFencesTheFirst(t *testing.T) {
	h := newHarbor(t)
	fenced := make(chan error, 100)
	o := ship.Options{OnError: func(err error) { fenced <- err }}
	o.Hurry(time.Hour)
	a := h.start(o)
	h.put()
	h.shipped(a)
	b := h.start(ship.Options{})
	h.ends(a)
	wantIs(t, a.Err(), ship.ErrFenced)
	for !errors.Is(received(t, fenced), ship.ErrFenced) { // before, that it is late
	}
	wantIs(t, a.Close(ctx), ship.ErrFenced)
	h.put()
	ok(t, b.Close(ctx))
	h.restores(ship.Target{}, 2)

	// A shipper that sleeps between looking and putting finds its slot taken.
	c := h.start(ship.Options{})
	h.shipped(c)
	asleep, wake := h.sleepInPut()
	h.put()
	<-asleep
	d := h.start(ship.Options{})
	h.put()
	h.shipped(d)
	close(wake)
	h.ends(c)
	wantIs(t, c.Err(), ship.ErrFenced)
	h.put()
	ok(t, d.Close(ctx))
	for v := uint64(1); v <= h.last; v++ {
		h.restores(ship.Target{Version: v}, v)
	}
}

// Promise (shipping): A copy of the database that went on by itself, a restored older one, and
// another database are refused by the destination, which does not change.
func TestOtherHistoriesAreRefused(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	ok(t, h.db.Close())
	older := vfstest.CrashOf(h.fs.(*vfs.MemFS))
	h.open()
	s = h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	ok(t, h.db.Close())
	own, last := h.fs, h.last
	// The older copy, without and with commits of its own.
	h.fs = older
	h.open()
	for range 3 {
		_, err := h.tryStart(ship.Options{})
		wantIs(t, err, ship.ErrOther)
		h.put()
	}
	ok(t, h.db.Close())
	h.fs = vfs.NewMem()
	h.open()
	_, err := h.tryStart(ship.Options{})
	wantIs(t, err, ship.ErrOther)
	ok(t, h.db.Close())
	h.restores(ship.Target{}, last)
	h.fs, h.last = own, last
	h.open()
	s = h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	h.restores(ship.Target{}, h.last)
}

// The second base has only the SSTs that are new, and no commit is shipped twice.
//
// Promise (shipping): A base puts only the SSTs that the last one does not have.
func TestBasesShareSSTs(t *testing.T) {
	h := newHarbor(t)
	for i := range 300 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, make([]byte, 2000)))
	}
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	h.shipped(s)
	first := s.Metrics()
	h.put() // one stripe
	h.shipped(s)
	h.now.Add(10)
	ok(t, s.Round(ctx))
	second := s.Metrics()
	if n := second.SSTs - first.SSTs; first.SSTs < 100 || n != 1 || second.BasesMade != 2 {
		t.Errorf("%d SSTs in the first base, %d in the second: %+v", first.SSTs, n, second)
	}
	ok(t, s.Round(ctx)) // nothing is new
	ok(t, s.Close(ctx))
	if n := len(h.contents().Bases); n != 2 {
		t.Errorf("%d bases", n)
	}
	h.restores(ship.Target{}, h.last)
}

// Commits that were lost to the shipper make a gap, which is not part of any range; the same
// process goes on with a new base, a later one if it is said so.
func TestGap(t *testing.T) {
	h := newHarbor(t)
	h.opts.RetainBytes = 1 << 20
	h.reopen()
	s := h.start(ship.Options{})
	h.ships(s, 3) // objects of the log before the gap, and after it
	h.dest.set(func(op, _ string) error { return errServer })
	first := h.last
	much := func() {
		for range 200 {
			h.last++
			ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
		}
		ok(t, h.db.Flush(ctx))
		h.put()
	}
	much()
	h.dest.set(nil)
	h.shipped(s)
	h.ships(s, 2)
	h.put()
	ok(t, s.Close(ctx))
	c := h.contents()
	if len(c.Ranges) != 2 || c.Ranges[0].Last.Version != first || len(c.Damage) > 0 {
		t.Fatalf("%+v", c)
	}
	for _, r := range c.Ranges {
		h.restores(ship.Target{Version: r.Last.Version}, r.Last.Version)
	}
	var e *ship.MomentError
	_, err := ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", &ship.RestoreOptions{
		To: ship.Target{Version: first + 1}})
	if !errors.As(err, &e) || len(e.Ranges) != 2 {
		t.Errorf("error %v", err)
	}
	// The consumer is dropped, and the log is gone.
	for _, c := range h.db.Consumers() {
		ok(t, h.db.DropConsumer(c.Name))
	}
	much()
	h.reopen()
	_, err = h.tryStart(ship.Options{})
	wantIs(t, err, ship.ErrGap)
	s = h.start(ship.Options{BeginAgain: true})
	ok(t, s.Close(ctx))
	h.restores(ship.Target{}, h.last)
	if n := len(h.contents().Ranges); n != 3 {
		t.Errorf("%d ranges", n)
	}
}

// sleepInPut makes the next put of a log object close asleep and wait for wake to be closed.
func (h *harbor) sleepInPut() (asleep, wake chan struct{}) {
	asleep, wake = make(chan struct{}), make(chan struct{})
	var one atomic.Bool
	h.dest.set(func(op, name string) error {
		if op == "put" && strings.HasPrefix(name, "log/") && one.CompareAndSwap(false, true) {
			close(asleep)
			<-wake
		}
		return nil
	})
	return asleep, wake
}

// A shipper that has slept while another one had to begin again, since commits were missing, puts
// nothing between the objects of that.
func TestShipperThatSleptOverAGap(t *testing.T) {
	h := newHarbor(t)
	h.opts.RetainBytes = 1 << 20
	h.reopen()
	a := h.start(ship.Options{})
	h.put()
	h.shipped(a)
	asleep, wake := h.sleepInPut()
	h.put()
	<-asleep
	for range 200 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
	}
	ok(t, h.db.Flush(ctx))
	ok(t, h.db.DropConsumer(a.Metrics().Consumer))
	h.last++
	ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
	b := h.start(ship.Options{BeginAgain: true})
	h.ships(b, 2) // a base, and the log object that a wanted to put
	close(wake)
	h.ends(a)
	wantIs(t, a.Err(), ship.ErrFenced)
	h.ships(b, 3)
	ok(t, b.Close(ctx))
	if c := h.contents(); c.Ranges[len(c.Ranges)-1].Last.Version != h.last {
		t.Errorf("the last version is %d: %+v", h.last, c)
	}
	h.restores(ship.Target{}, h.last)
}

// A shipper that begins when all log is removed, since the last base has it, goes on after that.
func TestShipperAfterTheLogIsRemoved(t *testing.T) {
	h := newHarbor(t)
	h.shipsAndRests()
	if c := h.contents(); c.Objects > 0 || len(c.Bases) != 1 {
		t.Fatalf("%+v", c)
	}
	h.reopen()
	s := h.start(short)
	for range 3 {
		h.put()
		h.shipped(s)
		h.restores(ship.Target{}, h.last)
	}
	ok(t, s.Close(ctx))
}

// What merges make goes with the objects around it: what retention leaves is a chain.
func TestMergesAndRetentionInOneRound(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{Keep: time.Nanosecond, BaseEvery: time.Millisecond})
	for range 3 {
		h.ships(s, 5)
		h.now.Add(10)
		ok(t, s.Round(ctx))
	}
	h.put()
	ok(t, s.Close(ctx))
	if c := h.contents(); len(c.Damage) > 0 || c.Objects != 1 {
		t.Errorf("%+v", c)
	}
	h.restores(ship.Target{}, h.last)
}

// What a round could not remove goes with the next one, though no base is old any more.
func TestRetentionIsTriedAgain(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{Keep: time.Second, BaseEvery: time.Second})
	h.ships(s, 5)
	for range 2 {
		ok(t, s.Round(ctx))
		h.now.Add(60_000)
	}
	h.dest.set(func(op, name string) error {
		if op == "delete" && strings.HasPrefix(name, "log/") {
			return errServer
		}
		return nil
	})
	wantIs(t, s.Round(ctx), errServer)
	h.dest.set(nil)
	ok(t, s.Round(ctx))
	if c := h.contents(); c.Objects > 0 || len(c.Bases) != 1 {
		t.Errorf("%+v", c)
	}
	ok(t, s.Close(ctx))
}

// A base is made after a crash, when the log of the last commit is forgotten: it has more than is
// to be retained. The log objects go on after the base nevertheless.
func TestBaseAfterTheLogIsForgotten(t *testing.T) {
	h := newHarbor(t)
	disk := vfstest.NewCrash()
	h.fs, h.opts.LogBytes, h.opts.RetainBytes = disk, 64<<20, 1<<20
	h.reopen()
	o := ship.Options{Keep: time.Second, BaseEvery: time.Second}
	s := h.start(o)
	for range 50 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: []byte("k")}, make([]byte, 60<<10)))
	}
	h.shipped(s)
	h.fs = disk.Kill()
	ok(t, s.Close(ctx))
	h.reopen()
	s = h.start(o)
	h.now.Add(60_000)
	ok(t, s.Round(ctx)) // a base
	h.ships(s, 2)
	h.now.Add(60_000)
	ok(t, s.Round(ctx)) // another one, and those before that go
	ok(t, s.Close(ctx))
	if n := len(h.contents().Bases); n != 2 {
		t.Fatalf("%d bases", n)
	}
	h.restores(ship.Target{Version: h.last - 1}, h.last-1)
}

// A directory that is gone is an error, not a new destination: when it is back, shipping goes on
// without a gap.
//
// Promise (shipping): Where a destination was is nothing put after it is gone.
func TestDestinationIsGone(t *testing.T) {
	h := newHarbor(t)
	errs := make(chan error, 100)
	o := ship.Options{OnError: func(err error) { errs <- err }}
	o.Hurry(time.Hour)
	s := h.start(o)
	h.ships(s, 3)
	ok(t, h.disk.Rename("dest", "elsewhere"))
	h.put()
	for !strings.Contains(received(t, errs).Error(), "is gone") {
	}
	if _, err := h.disk.Stat("dest"); err == nil {
		t.Error("there is a new destination")
	}
	ok(t, h.disk.Rename("elsewhere", "dest"))
	h.shipped(s)
	h.put()
	ok(t, s.Close(ctx))
	if n := len(h.contents().Ranges); n != 1 {
		t.Errorf("%d ranges", n)
	}
	h.restores(ship.Target{}, h.last)
}

// A shipper that ends before its new base is at the destination keeps the log that proves what was
// shipped: the next one goes on.
func TestShipperThatEndsBeforeItsBase(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.ships(s, 2) // a base, and an object of the log
	ok(t, s.Close(ctx))
	bases, err := h.dest.List(ctx, "base/")
	ok(t, err)
	ok(t, h.dest.Delete(ctx, bases[0].Name))
	h.dest.set(func(op, name string) error {
		if op == "put" && !strings.HasPrefix(name, "epoch/") {
			return errServer
		}
		return nil
	})
	for range 4 {
		h.reopen()
		h.put()
		ok(t, h.db.Flush(ctx))
		s = h.start(ship.Options{})
		now, cancel := context.WithCancel(ctx)
		cancel()
		wantIs(t, s.Close(now), context.Canceled)
	}
	h.dest.set(nil)
	h.reopen()
	s = h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	h.restores(ship.Target{}, h.last)
}

// What a shipper begins with is durable: its position in the database is not after commits that a
// power cut takes back.
func TestShipperBeginsWithWhatIsDurable(t *testing.T) {
	h := newHarbor(t)
	disk := vfstest.NewCrash()
	h.fs, h.opts.Durability = disk, engine.Process
	h.reopen()
	for range 5 {
		h.put()
	}
	done := make(chan struct{})
	h.dest.set(func(op, _ string) error {
		if op == "head" {
			<-done // it does no more than begin
		}
		return nil
	})
	s := h.start(ship.Options{})
	h.fs = vfstest.CrashOf(disk.PowerCut(testutil.Rand(t), 0))
	close(done)
	ok(t, s.Close(ctx))
	ok(t, h.db.Close())
	h.open()
	all, last := h.db.Consumers(), h.db.Metrics().LastVersion
	if len(all) != 1 || all[0].Position.Version > last+1 {
		t.Errorf("version %d, and consumers %+v", last, all)
	}
}

// A commit is durable in the database before it is put, so that no copy has what a power cut takes
// back.
func TestShippedIsDurable(t *testing.T) {
	h := newHarbor(t)
	disk := vfstest.NewCrash()
	h.fs, h.opts.Durability = disk, engine.Process
	h.reopen()
	s := h.start(ship.Options{})
	h.ships(s, 1)
	var left *vfs.MemFS
	h.dest.set(func(op, name string) error {
		if op == "put" && strings.HasPrefix(name, "log/") {
			left = disk.PowerCut(testutil.Rand(t), 0)
		}
		return nil
	})
	for range 5 {
		h.put()
	}
	h.shipped(s)
	ok(t, s.Close(ctx))
	db := openOn(t, vfstest.CrashOf(left), h.opts)
	if last := db.Metrics().LastVersion; last < h.last {
		t.Errorf("version %d is put, and after a power cut the last is %d", h.last, last)
	}
	ok(t, db.Close())
}

// A moment is restored to the commit that was the newest then, never to a later one.
func TestRestoreToATime(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	at := map[int64]uint64{}
	for range 10 {
		h.now.Add(1000)
		h.put()
		h.shipped(s)
		at[h.now.Load()] = h.last
	}
	ok(t, s.Close(ctx))
	for ms, want := range at {
		h.restores(ship.Target{Time: time.UnixMilli(ms)}, want)
		if want < h.last {
			h.restores(ship.Target{Time: time.UnixMilli(ms + 999)}, want)
		}
	}
	for _, ms := range []int64{0, h.now.Load() + 1} {
		_, err := ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", &ship.RestoreOptions{
			To: ship.Target{Time: time.UnixMilli(ms)}})
		wantIs(t, err, ship.ErrMoment)
	}
}

// What was durable before a moment is restored with it, also a commit that is made while the
// shipper looks at log and clock.
//
// Promise (shipping): A restore to a known moment of the log has all that was durable before.
func TestMomentsHaveWhatWasBefore(t *testing.T) {
	for _, beside := range []bool{false, true} {
		t.Run(fmt.Sprint("beside=", beside), func(t *testing.T) {
			momentsHaveWhatWasBefore(t, beside)
		})
	}
}

func momentsHaveWhatWasBefore(t *testing.T, beside bool) {
	const commits = 20
	h := newHarbor(t)
	ok(t, h.db.Close())
	var mu sync.Mutex
	before := map[uint64]int64{} // guarded by mu: when a commit was there
	var on atomic.Bool
	still := h.opts.Clock
	clock := func() time.Time {
		if !on.Load() || !mu.TryLock() { // of the commit below
			return time.UnixMilli(h.now.Load())
		}
		defer mu.Unlock()
		if len(before) < commits {
			h.put()
			before[h.last] = h.now.Load()
		}
		return time.UnixMilli(h.now.Add(1000))
	}
	h.opts.Clock = clock
	if beside {
		h.opts.Clock = still
	}
	h.open()
	db := h.db
	if beside {
		db = openOn(t, h.fs, engine.Options{ReadOnly: true, MustExist: true, Clock: clock})
		defer func() { ok(t, db.Close()) }()
	}
	o := ship.Options{Interval: 5 * time.Millisecond}
	o.Hurry(time.Hour)
	s, err := ship.Start(db, h.dest, &o)
	ok(t, err)
	on.Store(true)
	for n := 0; n < commits; {
		ok(t, s.WaitFor(ctx, 0))
		mu.Lock()
		n = len(before)
		mu.Unlock()
	}
	on.Store(false)
	ok(t, s.Close(ctx))
	base := h.contents().Bases[0] // its time is one at which its commits were there
	for version, ms := range before {
		at, err := ship.RestoreOn(ctx, h.dest, vfs.NewMem(), "db", &ship.RestoreOptions{
			To: ship.Target{Time: time.UnixMilli(ms + 1000)}})
		if errors.Is(err, ship.ErrMoment) {
			continue // the base is later
		}
		ok(t, err)
		if at != base && at.Version < version && at.Time.UnixMilli() > ms {
			t.Errorf("%v is restored: commit %d was there at %d", at, version, ms)
		}
	}
}

// A database that is closed ends its shipper.
func TestCloseOfTheDatabase(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	h.put()
	ok(t, h.db.Close())
	h.ends(s)
	wantIs(t, s.Err(), engine.ErrClosed)
	wantIs(t, s.WaitFor(ctx, 100), engine.ErrClosed)
	h.open()
	s = h.start(ship.Options{})
	ok(t, s.Close(ctx))
	ok(t, s.Err())
	h.restores(ship.Target{}, h.last)
}

// Commits that cannot be made durable are never shipped, so a failed sync ends the shipper: its
// Close waits for nothing.
func TestShipperOfAFailedLog(t *testing.T) {
	h := newHarbor(t)
	var broken atomic.Bool
	failed := errors.New("not synced")
	h.fs = vfstest.NewFault(h.fs, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".log") && broken.Load() {
			return failed
		}
		return nil
	})
	h.opts.Durability = engine.Process
	h.reopen()
	s := h.start(ship.Options{})
	h.ships(s, 1)
	broken.Store(true)
	h.put()
	h.ends(s)
	wantIs(t, s.Close(ctx), failed)
	h.restores(ship.Target{}, h.last-1)
}

// What does not retain its log cannot be shipped.
func TestShippingNeedsRetention(t *testing.T) {
	db := openOn(t, vfs.NewMem(), engine.Options{})
	defer func() { ok(t, db.Close()) }()
	_, err := ship.Start(db, ship.DirectoryOn(vfs.NewMem(), "dest"), nil)
	wantIs(t, err, engine.ErrInvalid)
	_, err = ship.Start(db, ship.DirectoryOn(vfs.NewMem(), "dest"), &ship.Options{Interval: -1})
	wantIs(t, err, engine.ErrInvalid)
}
