package ship_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/vfs"
)

// The tests in this file are named after reports about litestream, which ships SQLite.

// 1083: replication stopped without an error, and the metrics froze. Here a destination that
// answers no more, or with errors only, is an error within two intervals: of Err, of Metrics, and
// of OnError; and none once it answers again.
//
// Promise (shipping): Two intervals without success are an error, whether the destination fails or
// hangs; lag and last success are metrics.
func TestLitestream1083StopsWithoutAnError(t *testing.T) {
	const interval = 100 * time.Millisecond
	for _, how := range []string{"fails", "hangs"} {
		h := newHarbor(t)
		reported := make(chan error, 100)
		s := h.start(ship.Options{Interval: interval, OnError: func(err error) { reported <- err }})
		h.put()
		h.shipped(s)
		for s.Err() != nil || len(reported) > 0 { // of a machine that was busy
			select {
			case <-reported:
			case <-time.After(time.Millisecond):
			}
		}
		hang := make(chan struct{})
		h.dest.set(func(string, string) error {
			if how == "hangs" {
				<-hang
			}
			return errServer
		})
		h.put()
		wantIs(t, received(t, reported), ship.ErrSilent)
		wantIs(t, s.Err(), ship.ErrSilent)
		if m := s.Metrics(); !errors.Is(m.Err, ship.ErrSilent) || m.Lag < 2*interval ||
			m.Restorable != h.last-1 || m.Newest != h.last {
			t.Errorf("%s: %+v", how, m)
		}
		if how == "fails" {
			wantIs(t, s.Err(), errServer)
		}
		wantMetric(t, monitor.Prometheus(h.db, s.Samples), "kstone_ship_failing 1\n",
			"# TYPE kstone_ship_lag_seconds gauge\n", fmt.Sprintf("restorable_version %d\n",
				h.last-1))
		close(hang)
		if how == "hangs" { // what it was is known now
			wantIs(t, received(t, reported), errServer)
		}
		h.dest.set(nil)
		h.shipped(s)
		for s.Err() != nil { // of a machine that is busy
			<-time.After(time.Millisecond)
		}
		wantMetric(t, monitor.Prometheus(h.db, s.Samples), "kstone_ship_failing 0\n",
			"kstone_ship_lag_seconds 0\n", "kstone_ship_last_success_timestamp_seconds 1.")
		ok(t, s.Close(ctx))
		ok(t, h.db.Close())
	}
}

// wantMetric wants lines of the text for Prometheus.
func wantMetric(t *testing.T, metrics http.Handler, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, line := range lines {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("no %q in %s", line, w.Body)
		}
	}
}

// 771, 224, 535, 805: retention and merges removed what a restore needed. Here every moment that
// is to be kept can be restored, whatever was merged and removed.
//
// Promise (shipping): Merges and retention take no moment away that is to be kept.
func TestLitestream771RetentionRemovesWhatIsNeeded(t *testing.T) {
	h := newHarbor(t)
	o := ship.Options{Keep: 10 * time.Second, BaseEvery: 3 * time.Second}
	s := h.start(o)
	when := map[uint64]int64{}
	removed := 0
	for i := range 60 {
		h.now.Add(500)
		h.put()
		h.shipped(s)
		when[h.last] = h.now.Load()
		ok(t, s.Round(ctx))
		if first := h.contents().Ranges[0].First; i > 20 &&
			first.Time.After(time.UnixMilli(h.now.Load()-10_000)) {
			t.Fatalf("nothing before %v", first)
		}
		if i%20 == 19 {
			removed += s.Metrics().Removed
			ok(t, s.Close(ctx))
			h.reopen()
			s = h.start(o)
		}
	}
	m := s.Metrics()
	ok(t, s.Close(ctx))
	c := h.contents()
	if len(c.Ranges) != 1 || len(c.Damage) > 0 || c.Objects > 40 || removed+m.Removed < 30 {
		t.Fatalf("%+v, %+v", c, m)
	}
	first := c.Ranges[0].First.Version
	for v := h.last; v > 0 && h.now.Load()-when[v] <= 10_000; v-- {
		if v < first {
			t.Fatalf("version %d of %d ms ago is gone: %+v", v, h.now.Load()-when[v], c)
		}
		h.restores(ship.Target{Version: v}, v)
		h.restores(ship.Target{Time: time.UnixMilli(when[v])}, v)
	}
}

// 781: a restore forgot how far it had come. Here one that was interrupted anywhere is continued,
// keeps what is there, and ends with the wanted commit.
//
// Promise (shipping): A restore that was interrupted is no database; the next call continues it.
func TestLitestream781RestoreForgetsItsPosition(t *testing.T) {
	h := newHarbor(t)
	h.put()
	s := h.start(ship.Options{})
	h.shipped(s)
	h.ships(s, 20)
	ok(t, s.Close(ctx))
	fsys := vfs.NewMem()
	for stop := int64(1); ; stop++ {
		var n atomic.Int64
		cut, cancel := context.WithCancel(ctx)
		h.dest.set(func(op, name string) error {
			if op == "get" && (strings.HasPrefix(name, "log/") || name[:3] == "sst") &&
				n.Add(1) > stop {
				cancel()
				return context.Canceled
			}
			return nil
		})
		at, err := ship.RestoreOn(cut, h.dest, fsys, "db", nil)
		cancel()
		if err == nil {
			if at.Version != h.last || stop < 3 {
				t.Fatalf("restored %v in attempt %d", at, stop)
			}
			break
		}
		if _, err := fsys.Stat("db"); err == nil {
			t.Fatal("an interrupted restore has a name")
		}
	}
	db := openOn(t, fsys, small)
	defer func() { ok(t, db.Close()) }()
	if got := db.Metrics().LastVersion; got != h.last {
		t.Errorf("version %d of %d", got, h.last)
	}
}

// 781, too: a shipper that is started again goes on where the last one ended.
func TestLitestream781ShipperForgetsItsPosition(t *testing.T) {
	h := newHarbor(t)
	for range 5 {
		h.put()
		s := h.start(ship.Options{})
		ok(t, s.Close(ctx))
		h.reopen()
	}
	c := h.contents()
	if len(c.Bases) != 1 || len(c.Ranges) != 1 || c.Objects != 5 {
		t.Errorf("%+v", c)
	}
	h.restores(ship.Target{}, h.last)
}

// 1175: traffic without changes. Here nothing is put if nothing was written.
//
// Promise (shipping): Without changes nothing is put.
func TestLitestream1175TrafficWithoutChanges(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{BaseEvery: time.Nanosecond, Interval: time.Millisecond})
	h.put()
	h.shipped(s)
	h.now.Add(60_000)
	ok(t, s.Round(ctx)) // a base with the put
	before, _, _ := h.dest.counts()
	for range 20 {
		h.now.Add(60_000)
		ok(t, h.db.Sync(ctx))
		ok(t, s.Round(ctx))
		ok(t, s.WaitFor(ctx, h.last))
	}
	after, _, _ := h.dest.counts()
	if after > before {
		t.Errorf("%d objects were put without a change", after-before)
	}
	ok(t, s.Close(ctx))
}

// 631: the wrong copy was restored, chosen by its clock. Here versions order copies; a clock that
// goes back changes no more than which moments have which time.
func TestLitestream631ClockGoesBack(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{BaseEvery: time.Millisecond})
	for _, step := range []int64{3_600_000, -7_200_000, 10, 10, 10} {
		h.now.Add(step)
		h.put()
		h.shipped(s)
		ok(t, s.Round(ctx))
	}
	ok(t, s.Close(ctx))
	h.restores(ship.Target{}, h.last)
	for v := h.contents().Ranges[0].First.Version + 1; v <= h.last; v++ {
		h.restores(ship.Target{Version: v}, v)
	}
}

// 266: a small database took ten seconds to restore, object by object. Here old objects are merged:
// a restore reads few.
func TestLitestream266ManySmallObjects(t *testing.T) {
	h := newHarbor(t)
	s := h.start(ship.Options{})
	for i := range 100 {
		h.put()
		h.shipped(s)
		if i%10 == 9 {
			h.now.Add(1)
			ok(t, s.Round(ctx))
		}
	}
	for range 5 {
		h.now.Add(1)
		ok(t, s.Round(ctx))
	}
	ok(t, s.Close(ctx))
	if c := h.contents(); c.Objects > 25 || len(c.Damage) > 0 {
		t.Errorf("%+v", c)
	}
	h.restores(ship.Target{}, h.last)
	h.restores(ship.Target{Version: 50}, 50)
}
