package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/keycodec"
)

// pastItem is an item of a model.
type pastItem struct {
	key    engine.Key
	value  string
	expiry time.Time // zero: never
}

// pastState is all items after a commit.
type pastState struct {
	at    time.Time // of the commit
	loose bool      // a power cut may have undone what says so
	items map[string]pastItem
}

// past runs a random program and compares the past of the database with that of a model.
type past struct {
	t      *testing.T
	rnd    *rand.Rand
	disk   *vfstest.CrashFS
	db     *engine.DB
	beside *engine.DB // reads what db writes
	o      engine.Options
	states []pastState // by version
	read   int         // comparisons
	gone   int         // moments that were not kept any more
}

const pastAge = 20 * time.Second

func (p *past) key() engine.Key {
	return pksk(fmt.Sprintf("p%d", p.rnd.IntN(3)), fmt.Sprintf("%02d", p.rnd.IntN(12)))
}

// commit applies some random operations to the database and the model.
func (p *past) commit() {
	b := new(engine.Batch)
	before := p.states[len(p.states)-1].items
	items := map[string]pastItem{}
	maps.Copy(items, before)
	for range 1 + p.rnd.IntN(3) {
		k := p.key()
		switch n := p.rnd.IntN(12); {
		case n < 7:
			it := pastItem{key: k, value: fmt.Sprintf("%d %d", len(p.states), n)}
			if n == 0 {
				// Not near to any commit: the time of those is known by a second.
				it.expiry = time.Now().Truncate(10 * time.Second).Add(
					time.Duration(1+p.rnd.IntN(2)) * 10 * time.Second)
				ok(p.t, b.Put(k, []byte(it.value), engine.ExpiresAt(it.expiry)))
			} else {
				ok(p.t, b.Put(k, []byte(it.value)))
			}
			items[id(k)] = it
		case n < 11:
			ok(p.t, b.Delete(k))
			delete(items, id(k))
		default: // a commit of its own, in place of this one
			ok(p.t, p.db.DeleteRange(k.PK, engine.SKLess(k.SK)))
			items = map[string]pastItem{}
			maps.Copy(items, before)
			maps.DeleteFunc(items, func(_ string, it pastItem) bool {
				return bytes.Equal(it.key.PK, k.PK) && bytes.Compare(it.key.SK, k.SK) < 0
			})
			p.states = append(p.states, pastState{at: time.Now(), items: items})
			return
		}
	}
	ok(p.t, p.db.Apply(ctx, b))
	p.states = append(p.states, pastState{at: time.Now(), items: items})
	if v := p.db.Metrics().LastVersion; v != uint64(len(p.states)-1) {
		p.t.Fatalf("version %d, want %d", v, len(p.states)-1)
	}
}

func (p *past) over(it pastItem, now time.Time) bool {
	return !it.expiry.IsZero() && !now.Before(it.expiry)
}

// compare reads a snapshot and compares it with the model.
func (p *past) compare(s *engine.Snapshot) {
	state := &p.states[s.Version()]
	want := map[string]string{}
	either := map[string]bool{} // expires in the second after the commit, or its time was lost
	for k, it := range state.items {
		if !p.over(it, state.at) {
			want[k] = it.value
			either[k] = !it.expiry.IsZero() &&
				(state.loose || it.expiry.Sub(state.at) < 3*time.Second)
		}
	}
	got := map[string]string{}
	for it, err := range s.Scan(ctx, engine.Scan{Unordered: p.rnd.IntN(2) == 0}) {
		ok(p.t, err)
		got[id(it.Key)] = string(it.Value)
		if it.Version > s.Version() {
			p.t.Fatalf("version %d of an item at %d", it.Version, s.Version())
		}
	}
	for k, may := range either {
		if _, there := got[k]; !there && may {
			delete(want, k)
		}
	}
	wantSame(p.t, got, want)
	for range 5 {
		k := p.key()
		v, err := s.Get(k)
		if w, there := want[id(k)]; there != (err == nil) || string(v) != w {
			p.t.Fatalf("%s at %d: %q, %v, want %q", k, s.Version(), v, err, w)
		}
	}
	var keys []engine.Key
	for _, k := range slices.Sorted(maps.Keys(want)) {
		key, _, err := keycodec.DecodeOrdered([]byte(k), nil)
		ok(p.t, err)
		keys = append(keys, key)
	}
	var res engine.Results
	ok(p.t, s.MultiGet(ctx, keys, &res))
	for i, k := range keys {
		if v, there := res.Value(i); !there || string(v) != want[id(k)] {
			p.t.Fatalf("%s at %d: %q of many", k, s.Version(), v)
		}
	}
	p.read++
}

// look compares a random moment.
func (p *past) look(db *engine.DB) {
	newest := len(p.states) - 1
	if newest == 0 {
		return
	}
	v := 1 + p.rnd.IntN(newest)
	if p.rnd.IntN(2) == 0 {
		v = max(1, newest-p.rnd.IntN(60))
	}
	s, err := db.SnapshotAt(uint64(v))
	var gone *engine.PastError
	if errors.As(err, &gone) {
		// Kept is what was the present at any time since then.
		if v < newest && time.Since(p.states[v+1].at) < pastAge || uint64(v) >= gone.Oldest ||
			gone.Newest != uint64(newest) {
			p.t.Fatalf("version %d of %v ago: %v", v, time.Since(p.states[v].at), err)
		}
		p.gone++
		return
	}
	ok(p.t, err)
	p.compare(s)
	ok(p.t, s.Close())
	at := time.Now().Add(-time.Duration(p.rnd.Int64N(int64(pastAge * 3 / 4))))
	if s, err = db.SnapshotAtTime(at); errors.As(err, &gone) {
		return // the index is lost, or shorter
	}
	ok(p.t, err)
	if p.states[s.Version()].at.After(at) {
		p.t.Fatalf("version %d is of after %v", s.Version(), at)
	}
	p.compare(s)
	ok(p.t, s.Close())
}

func (p *past) reopen(crash bool) {
	mustClose(p.t, p.beside)
	if crash {
		ok(p.t, p.db.Sync(ctx))
		disk := vfstest.CrashOf(p.disk.PowerCut(p.rnd, p.rnd.Float64()))
		mustClose(p.t, p.db)
		p.disk = disk
		for i := range p.states {
			s := &p.states[i]
			s.loose = s.loose || time.Since(s.at) < time.Minute // see timesSyncEvery
		}
	} else {
		mustClose(p.t, p.db)
	}
	if p.rnd.IntN(3) == 0 {
		o := p.o
		o.ReadOnly = true
		db := openOn(p.t, p.disk, o)
		p.look(db)
		mustClose(p.t, db)
	}
	p.open()
}

func (p *past) open() {
	p.db = openOn(p.t, p.disk, p.o)
	o := p.o
	o.ReadOnly = true
	p.beside = openOn(p.t, p.disk, o)
}

// The past is read as it was, at every commit since RetainVersions ago: over flushes, merges, opens
// and power cuts, by the process that writes and by one beside it, with range deletes and items
// that have expired since.
//
// Promise (history): The database is read as it was after any commit of the time of RetainVersions,
// whatever was merged since, after every open and crash; what is older is refused with the oldest
// moment.
func TestSnapshotAt(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := testutil.Rand(t)
	synctest.Test(t, func(t *testing.T) {
		p := &past{t: t, rnd: rnd, disk: vfstest.NewCrash(),
			states: []pastState{{at: time.Now()}},
			o: engine.Options{RetainVersions: pastAge, FlushRecords: 30, MaxRuns: 2,
				MemtableBytes: 1 << 20, LogBytes: 8 << 20, Durability: engine.Process}}
		p.open()
		defer func() { _ = errors.Join(p.beside.Close(), p.db.Close()) }() // if the test has failed
		for range testutil.Effort(3000, 30000) {
			switch n := p.rnd.IntN(100); {
			case n < 55:
				p.commit()
			case n < 85:
				p.look(p.db)
			case n < 88:
				ok(t, p.beside.Refresh())
				p.look(p.beside)
			case n < 95:
				time.Sleep(time.Duration(p.rnd.IntN(2000)) * time.Millisecond)
			case n < 97:
				ok(t, p.db.Flush(ctx))
			case n < 98:
				ok(t, p.db.Compact(ctx))
			default:
				p.reopen(p.rnd.IntN(2) == 0)
			}
		}
		mustClose(t, p.beside)
		mustClose(t, p.db)
		if p.read < 500 || p.gone < 20 {
			t.Errorf("%d moments were read, %d were not kept", p.read, p.gone)
		}
	})
}

// Without RetainVersions only the present is there; switched on again, the past begins again.
// Versions of the past go after their time, so that the database does not grow for ever.
func TestRetainVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		db := openOn(t, mem, engine.Options{})
		ok(t, db.Put(pk("a"), []byte("1")))
		ok(t, db.Put(pk("a"), []byte("2")))
		var gone *engine.PastError
		for version := range uint64(3) { // the newest, too: the next commit would end it
			_, err := db.SnapshotAt(version)
			if !errors.As(err, &gone) || !gone.Off || gone.Oldest != 0 || gone.Newest != 2 {
				t.Errorf("got %v", err)
			}
		}
		wantIs(t, gone, engine.ErrGone)
		if text := gone.Error(); !strings.Contains(text, "version 2 is not kept, nor") {
			t.Error(text)
		}
		mustClose(t, db)
		on := engine.Options{RetainVersions: time.Minute, FlushRecords: 1 << 20}
		db = openOn(t, mem, on)
		ok(t, db.Put(pk("a"), []byte("3")))
		if _, err := db.SnapshotAt(1); !errors.As(err, &gone) || gone.Off || gone.Oldest != 2 {
			t.Errorf("got %v", err)
		}
		s, err := db.SnapshotAt(2)
		ok(t, err)
		if v, err := s.Get(pk("a")); err != nil || string(v) != "2" {
			t.Errorf("got %q, %v", v, err)
		}
		ok(t, s.Close())
		wantIs(t, second(db.SnapshotAt(4)), engine.ErrGone)
		wantIs(t, second(db.SnapshotAtTime(time.Now().Add(time.Hour))), engine.ErrInvalid)
		value := make([]byte, 1000)
		for range 1000 {
			ok(t, db.Put(pk("a"), value))
		}
		ok(t, db.Compact(ctx))
		large := db.Metrics().Total.Records
		for range 20 {
			time.Sleep(10 * time.Second)
			ok(t, db.Put(pk("b"), value))
		}
		ok(t, db.Compact(ctx))
		if small := db.Metrics().Total.Records; large < 1000 || small > 30 {
			t.Errorf("%d versions, later %d", large, small)
		}
		mustClose(t, db)
		db = openOn(t, mem, engine.Options{RetainVersions: engine.NoRetention})
		ok(t, db.Put(pk("a"), nil))
		mustClose(t, db)
		db = openOn(t, mem, on)
		if _, err := db.SnapshotAt(1020); !errors.As(err, &gone) || gone.Oldest != 1024 {
			t.Errorf("got %v", err)
		}
		mustClose(t, db)
	})
}

// A clock that was far ahead for a minute and is right again does not keep all versions until then.
//
// Promise (history): Versions of the past go after their time, also if the clock was ahead. Also
// `TestTimesOfAClockAhead` in `engine/internal/history`.
func TestPastAfterAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		db := openOn(t, vfs.NewMem(), engine.Options{
			RetainVersions: time.Minute, FlushRecords: 1 << 20,
			Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		write := func(n int) uint64 {
			for range n {
				time.Sleep(5 * time.Second)
				ok(t, db.Put(pk("a"), nil))
			}
			ok(t, db.Compact(ctx))
			return db.Metrics().Total.Records
		}
		write(30)
		ahead.Store(int64(20 * 365 * 24 * time.Hour))
		write(12)
		ahead.Store(0)
		if n := write(30); n < 12 {
			t.Errorf("%d versions of two and a half minutes", n)
		}
		if n := write(1000); n > 30 {
			t.Errorf("%d versions of a minute", n)
		}
		newest := db.Metrics().LastVersion
		s, err := db.SnapshotAtTime(time.Now().Add(-28 * time.Second))
		ok(t, err)
		if v := s.Version(); v < newest-7 || v > newest-5 {
			t.Errorf("half a minute ago was version %d of %d", v, newest)
		}
		ok(t, s.Close())
		mustClose(t, db)
	})
}
