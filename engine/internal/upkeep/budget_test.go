package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/stripe"
)

var ok = testutil.OK

// bare returns an upkeep with a directory, the usual options, and no background work.
func bare(t *testing.T) (*Upkeep, *vfs.MemFS) {
	t.Helper()
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll("db"))
	return bareOn(t, mem), mem
}

func bareOn(t *testing.T, fsys vfs.FS) *Upkeep {
	t.Helper()
	u := New(Env{
		FS: fsys, Dir: "db", Stripes: new([base.NumStripes]stripe.Stripe),
		Logger:   slog.New(slog.DiscardHandler),
		Writable: func() error { return nil },
	}, Options{
		MemtableBytes: 64 << 20, LogBytes: 192 << 20, SegmentBytes: 12 << 20, MaxRuns: 4,
		Workers: 1, FlushGroup: MaxFlushGroup,
	}, &manifest.State{})
	t.Cleanup(func() {
		if u.reserve.file != nil {
			_ = u.reserve.file.Close()
		}
	})
	return u
}

// TestPressure: each debt has a size at which pauses begin and one at which writers wait, and
// debts of merges alone stop no writer.
func TestPressure(t *testing.T) {
	u, _ := bare(t)
	m := &u.throttle
	const mib = 1 << 20
	for _, c := range []struct {
		used, log, runs int64
		want            string // of buffers, log, runs
		free            bool
	}{
		{0, 0, 0, "-1.69 -5.67 -0.60", true},
		{70*mib + 419430, 0, 0, "-0.00 -5.67 -0.60", false},
		{70*mib + 419429, 0, 12, "-0.00 -5.67 0.00", true},
		{0, 0, 13, "-1.69 -5.67 0.05", false},
		{0, 0, 30, "-1.69 -5.67 0.90", false},
		{0, 0, 100, "-1.69 -5.67 0.90", false},
		{112 * mib, 0, 0, "1.00 -5.67 -0.60", false},
		{0, 163*mib + 209714, 0, "-1.69 -0.00 -0.60", true},
		{0, 163*mib + 209715, 0, "-1.69 -0.00 -0.60", false},
		{0, 192 * mib, 0, "-1.69 1.00 -0.60", false},
	} {
		m.ceiling.Store(m.freeUsed)
		m.used.Store(c.used)
		m.logUsed.Store(c.log)
		m.deepest.Store(c.runs)
		buffers, log, runs := m.debts()
		got := fmt.Sprintf("%.2f %.2f %.2f", buffers, log, runs)
		if got != c.want || u.Free() != c.free || m.pressure() != max(buffers, log, runs) {
			t.Errorf("%+v: got %s, free %t", c, got, u.Free())
		}
	}
	if got, want := m.flushThreshold(), int64(60397977); got != want {
		t.Errorf("flushes begin at %d bytes, want %d", got, want)
	}
	m.used.Store(0)
	m.deepest.Store(0)
	m.logUsed.Store(0)
	m.ceiling.Store(0)
	if u.Free() {
		t.Error("free on a full disk")
	}
}

// TestPauses: under pressure a writer pauses for every 32 KiB, for as long as the square of the
// pressure says, and at full pressure it waits until it falls.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, vfs.NewMem())
		m := &w.throttle
		press := func(p float64) {
			m.used.Store(int64((softAt + p*(hardAt-softAt)) * float64(m.budget)))
		}
		write := func(ctx context.Context, n int64) (time.Duration, error) {
			start := time.Now()
			err := m.queue(ctx, n, true)
			return time.Since(start), err
		}
		bg := context.Background()
		press(0.5)
		for i, c := range []struct {
			bytes int64
			pause time.Duration
		}{
			{pressureBytes - 1, 0}, {1, time.Millisecond}, {pressureBytes, time.Millisecond},
			{pressureBytes / 2, 0}, {pressureBytes/2 - 1, 0}, {1, time.Millisecond},
		} {
			d, err := write(bg, c.bytes)
			if d.Round(10*time.Microsecond) != c.pause || err != nil {
				t.Errorf("write %d: paused for %v, %v, want %v", i, d, err, c.pause)
			}
		}
		press(-0.01)
		if d, err := write(bg, 10*pressureBytes); d != 0 || err != nil {
			t.Errorf("without pressure: %v, %v", d, err)
		}
		press(0.5)
		ctx, cancel := context.WithTimeout(bg, 300*time.Microsecond)
		d, err := write(ctx, pressureBytes)
		cancel()
		if d != 300*time.Microsecond || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends in a pause: %v, %v", d, err)
		}
		press(1.01)
		time.AfterFunc(10*time.Millisecond-1, func() { press(0) })
		if d, err := write(bg, 1); d != 10*time.Millisecond || err != nil {
			t.Errorf("full pressure for 10 ms: %v, %v", d, err)
		}
		press(1.01)
		ctx, cancel = context.WithTimeout(bg, 5*time.Millisecond/2)
		d, err = write(ctx, 1)
		cancel()
		if d != 5*time.Millisecond/2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends at full pressure: %v, %v", d, err)
		}
		failed := errors.New("flush failed")
		w.scheduler.lastFailure.Store(&failed)
		if d, err := write(bg, 1); d != 0 || !errors.Is(err, failed) {
			t.Errorf("full pressure and no flush: %v, %v", d, err)
		}
		w.scheduler.lastFailure.Store(nil)
		press(0.5)
		w.closed.Store(true)
		if d, err := write(bg, pressureBytes); d != 0 || err != errClosed {
			t.Errorf("a closed database: %v, %v", d, err)
		}
		w.closed.Store(false)
		press(-1)
	})
}

// TestReserveGives: flushes may have all of the reserve; the log leaves what they need, and
// merges what both need.
func TestReserveGives(t *testing.T) {
	const kib, mib = int64(1 << 10), int64(1 << 20)
	for _, c := range []struct {
		purpose         purpose
		have, filled, n int64
		want            int64 // what is left, -1 if nothing is given
	}{
		{forFlush, 4 * mib, mib, 1, 4*mib - 4*kib - reserveEdits},
		{forFlush, 4 * mib, mib, 4096, 4*mib - 4*kib - reserveEdits},
		{forFlush, 4 * mib, mib, 4097, 4*mib - 8*kib - reserveEdits},
		{forFlush, 4 * mib, mib, 10 * mib, 0},
		{forFlush, 0, mib, 1, -1},
		{forLog, 4 * mib, 0, 3 * mib, 4*mib - 3*mib - reserveEdits},
		{forLog, 4 * mib, 0, 3*mib + 1, -1},
		{forLog, 4 * mib, 1, 3*mib - 4*kib, mib + 4*kib - reserveEdits},
		{forLog, 4 * mib, 512 * kib, 1128*kib + 1, -1},
		{forLog, 4 * mib, 512 * kib, 1128 * kib, 4*mib - 1504*kib},
		{forLog, 4 * mib, 100 * kib, mib, 4*mib - mib - reserveEdits},
		{forMerge, 4 * mib, 0, mib, 4*mib - mib - reserveEdits},
		{forMerge, 4 * mib, 0, 9 * mib, mib / 4},
		{forMerge, 4 * mib, 100 * kib, 9 * mib, mib/4 + flushBytes(100*kib, 100)},
		{forMerge, 512 * kib, 0, 9 * mib, 128 * kib},
		{forMerge, 512 * kib, mib, mib, -1},
	} {
		u, mem := bare(t)
		r := &u.reserve
		r.readyLocked()
		ok(t, r.growLocked(c.have))
		u.throttle.used.Store(c.filled)
		given := r.give(c.purpose, c.n)
		want := c.want
		if want < 0 {
			want = c.have
		}
		info, err := mem.Stat("db/RESERVE")
		if err != nil || given != (c.want >= 0) || r.have != want || info.SizeBytes != want {
			t.Errorf("%+v: gave %t, %d of %d bytes left, file of %d, %v", c, given, r.have, c.have,
				info.SizeBytes, err)
		}
		if !r.full.Load() || u.throttle.ceiling.Load() != 0 {
			t.Errorf("%+v: puts go on", c)
		}
	}
}

// TestReserveCovers: what is in the memtables and one more write could be flushed out of it.
func TestReserveCovers(t *testing.T) {
	u, _ := bare(t)
	r := &u.reserve
	r.readyLocked()
	const filled = 16 << 10
	ok(t, r.growLocked(flushBytes(filled+160, 1)))
	for _, c := range []struct {
		filled, n int64
		want      bool
	}{{0, 1 << 30, true}, {filled, 160, true}, {filled, 161, false}, {1, 0, true}} {
		u.throttle.used.Store(c.filled)
		if got := r.covers(c.n); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestReserveFollowsMemtables: the reserve grows with what it is for, in steps; up to the
// ceiling writers need not ask; and it shrinks when it is far too large.
func TestReserveFollowsMemtables(t *testing.T) {
	const mib = int64(1 << 20)
	u, mem := bare(t)
	r, m := &u.reserve, &u.throttle
	if m.ceiling.Load() != 0 {
		t.Errorf("before the first put the ceiling is %d", m.ceiling.Load())
	}
	check := func(what string, used, have, ceiling int64) {
		t.Helper()
		m.used.Store(used)
		if err := r.admit(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := m.ceiling.Load(); r.have != have || got != ceiling {
			t.Errorf("%s: %d bytes, ceiling %d, want %d, %d", what, r.have, got, have, ceiling)
		}
	}
	least := reserveLog + reserveEdits + 256*int64(reserveFile) // 3.5 MiB
	check("empty", 0, 5*mib, (5*mib-least)*7/8)
	check("a little", mib, 5*mib, mib+(5*mib-least-mib*17/16)-(5*mib-least-mib*17/16)/8)
	check("more", 2*mib, 7*mib, 2*mib+(7*mib-least-2*mib*17/16)*7/8)
	check("much", 64*mib, 73*mib, 64*mib+(73*mib-least-68*mib)*7/8)
	check("too much for puts", 80*mib, 90*mib, m.freeUsed)
	check("less", 40*mib, 90*mib, m.freeUsed)
	check("much less", 32*mib, least+35*mib, 32*mib+mib*7/8)
	check("nearly as much", 16*mib, least+35*mib, 16*mib+(18*mib)*7/8)
	check("hardly anything", 0, least+reserveStep, reserveStep*7/8)
	info, err := mem.Stat("db/RESERVE")
	if err != nil || info.SizeBytes != r.have {
		t.Errorf("the file has %d bytes of %d, %v", info.SizeBytes, r.have, err)
	}
}

// TestReserveOnAFullDisk: a reserve that cannot grow goes on while it is large enough; below
// that puts are refused until all of it, and a log segment, has room again.
func TestReserveOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = int64(1 << 20)
		u, mem := bare(t)
		r, m := &u.reserve, &u.throttle
		ok(t, r.admit())
		mem.SetCapacity(mem.UsedBytes() + 3*mib/2) // room for one step
		m.used.Store(2 * mib)
		if err := r.admit(); err != nil || r.have != 6*mib || r.full.Load() {
			t.Errorf("room for one step: %d bytes, %v", r.have, err)
		}
		m.used.Store(3 * mib)
		err := r.admit()
		if !errors.Is(err, vfs.ErrNoSpace) || !r.full.Load() || m.ceiling.Load() != 0 {
			t.Errorf("no room: %v, full %t, ceiling %d", err, r.full.Load(), m.ceiling.Load())
		}
		mem.SetCapacity(0)
		if err := r.admit(); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("right after it was full: %v", err)
		}
		time.Sleep(retryPuts - 1)
		if err := r.admit(); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("just before the next attempt: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := r.admit(); err != nil || r.full.Load() || r.have != 8*mib ||
			m.ceiling.Load() == 0 {
			t.Errorf("with space: %v, full %t, %d bytes", err, r.full.Load(), r.have)
		}
		r.enter()
		mem.SetCapacity(mem.UsedBytes() + 12*mib) // a log segment has 12 MiB
		if r.settle() || !r.full.Load() {
			t.Error("puts go on without room for a log segment")
		}
		mem.SetCapacity(mem.UsedBytes() + 14*mib)
		if !r.settle() || r.full.Load() || r.have != 8*mib {
			t.Errorf("puts do not go on with room for a log segment, %d bytes", r.have)
		}
	})
}

// TestReserveThatCannotBeUsed: without it the database goes on as if it had none.
func TestReserveThatCannotBeUsed(t *testing.T) {
	u, mem := bare(t)
	ok(t, mem.MkdirAll("db/RESERVE"))
	r := &u.reserve
	if err := r.admit(); err != nil || !r.off || r.have != 0 || r.file != nil {
		t.Errorf("%v, off %t", err, r.off)
	}
	if got := u.throttle.ceiling.Load(); got != u.throttle.freeUsed {
		t.Errorf("the ceiling is %d", got)
	}
	r.enter()
	if r.full.Load() || r.give(forFlush, 1) || !r.covers(1<<40) || !r.settle() {
		t.Error("a reserve that is off does something")
	}
}

// TestStallsOverlap: waits that go on count with their time so far; short ones do not count.
func TestStallsOverlap(t *testing.T) {
	var s stalls
	at := func(d time.Duration) time.Time { return time.Unix(100, 0).Add(d) }
	check := func(now time.Duration, want string) {
		t.Helper()
		n, total, longest := s.sum(at(now))
		if got := fmt.Sprint(n, total, longest); got != want {
			t.Errorf("after %v: %s, want %s", now, got, want)
		}
	}
	a, b := s.begin(at(0)), s.begin(at(time.Millisecond))
	check(stallFrom-1, "0 0s 0s")
	check(stallFrom, "1 100µs 100µs")
	check(3*time.Millisecond, "2 5ms 3ms")
	if d, stalled := s.end(b, at(4*time.Millisecond)); d != 3*time.Millisecond || !stalled {
		t.Errorf("ended after %v, %t", d, stalled)
	}
	check(5*time.Millisecond, "2 8ms 5ms")
	s.end(a, at(9*time.Millisecond))
	check(10*time.Millisecond, "2 12ms 9ms")
	c := s.begin(at(10 * time.Millisecond))
	if d, stalled := s.end(c, at(10*time.Millisecond+stallFrom-1)); d != stallFrom-1 || stalled {
		t.Errorf("a short wait: %v, %t", d, stalled)
	}
	c = s.begin(at(20 * time.Millisecond))
	if _, stalled := s.end(c, at(20*time.Millisecond+stallFrom)); !stalled {
		t.Error("the shortest stall is zero")
	}
	check(time.Second, "3 12.1ms 9ms")
}

// TestBackoffDoubles: the pause before the next merge of a stripe doubles with each failure, up to
// a minute, and a success forgets it.
func TestBackoffDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _ := bare(t)
		s := &u.scheduler
		pause := func(err error) time.Duration {
			s.retryLater(7, err)
			return time.Until(s.backoff[7].until)
		}
		var got []string
		for range 12 {
			got = append(got, pause(vfs.ErrNoSpace).String())
		}
		const want = "100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 12.8s 25.6s 51.2s 1m0s 1m0s"
		if strings.Join(got, " ") != want {
			t.Errorf("pauses of %s, want %s", got, want)
		}
		s.retryLater(7, nil)
		if s.backoff[7] != (backoff{}) {
			t.Error("a success leaves a pause")
		}
		if d := pause(vfs.ErrNoSpace); d != 100*time.Millisecond {
			t.Errorf("the first pause after a success is %v", d)
		}
		<-s.mergeKick // looks again, in time
		if !s.backoff[7].until.After(time.Now().Add(-200 * time.Millisecond)) {
			t.Errorf("merges are looked for %v too late", time.Since(s.backoff[7].until))
		}
		s.clearBackoff()
		if s.backoff[7] != (backoff{}) {
			t.Error("a pause is left")
		}
		time.Sleep(2 * time.Minute) // for the timers
	})
}

// A flush takes what holds the oldest log back when that matters, and else the largest
// memtables, until an eighth of the budget is freed.
func TestPickFlush(t *testing.T) {
	w := newWorld(t, vfs.NewMem()) // segments of 1 MiB
	w.opts.MemtableBytes, w.throttle.budget, w.opts.FlushGroup = 64<<20, 64<<20, 64
	for id, size := range []int{1, 5, 9, 3} {
		w.put(id, "key", strings.Repeat("v", size*100_000))
	}
	check := func(what string, want ...uint8) {
		t.Helper()
		if got := w.pickFlush(); !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	check("nothing is due")
	used := w.throttle.bytes()
	w.throttle.used.Store(w.throttle.flushThreshold() - 1)
	check("below the threshold")
	w.throttle.used.Add(1)
	check("at the threshold", 2, 1, 3, 0)
	w.opts.FlushGroup = 2
	check("the largest two", 2, 1)
	w.opts.FlushGroup = 64
	w.opts.MemtableBytes = 8 * 1_300_000
	check("an eighth of the budget", 2, 1)
	w.opts.MemtableBytes = 64 << 20
	w.throttle.used.Store(used)
	w.reserve.full.Store(true)
	check("on a full disk", 0) // alone in the oldest segment
	w.reserve.full.Store(false)
	budget := w.opts.LogBytes
	w.opts.LogBytes = 1
	check("the log is long", 0)
	w.opts.LogBytes = budget
	s := &w.stripes[3]
	s.Lock()
	s.Freeze()
	s.Unlock()
	check("what is frozen", 3)
}

// TestReserveFailsToOpen: a full disk leaves a reserve that is to be made whole, any other
// failure leaves none.
func TestReserveFailsToOpen(t *testing.T) {
	broken := errors.New("broken")
	for _, kind := range []vfstest.OpKind{
		vfstest.OpOpenReadWrite, vfstest.OpCreate, vfstest.OpAllocate, vfstest.OpTruncate,
	} {
		for _, there := range []bool{false, true} {
			for _, failure := range []error{broken, vfs.ErrNoSpace} {
				u, mem := bare(t)
				if there {
					if !u.reserve.readyLocked() || u.reserve.growLocked(1<<20) != nil {
						t.Fatal("no reserve")
					}
					_ = u.reserve.file.Close()
					u.reserve.file = nil
				}
				hit := false
				fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
					if op.Kind == kind || kind == vfstest.OpTruncate &&
						op.Kind == vfstest.OpAllocate {
						hit = true
						return failure
					}
					return nil
				})
				u = bareOn(t, fsys)
				err := u.reserve.admit()
				off := u.reserve.off
				if !hit && (err != nil || off) ||
					hit && failure == broken && (err != nil || !off || u.reserve.file != nil) ||
					hit && failure != broken && (!errors.Is(err, vfs.ErrNoSpace) ||
						!u.reserve.full.Load()) {
					t.Errorf("%v fails with %v, file there %t: %v, off %t", kind, failure, there,
						err, off)
				}
				if free := u.throttle.ceiling.Load() == u.throttle.freeUsed; off && !free {
					t.Error("without a reserve puts ask")
				}
			}
		}
	}
}
