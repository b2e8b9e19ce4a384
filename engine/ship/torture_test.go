package ship_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// voyage is a database that is shipped, by one process after another, with what it must be after
// each commit.
type voyage struct {
	t    *testing.T
	rnd  *rand.Rand
	fs   *vfstest.CrashFS
	good ship.Destination // without faults

	states   []map[string]string // after each version
	reported uint64              // the last version that was reported to be restorable
	restored int
	did      map[string]int
}

func openOn(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db, err := openfs.Open(fsys, "db", &o)
	ok(t, err)
	return db.(*engine.DB)
}

func items(t testing.TB, db *engine.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		all[string(it.Key.PK)+"/"+string(it.Key.SK)] = string(it.Value)
	}
	return all
}

// commit makes a random commit.
func (v *voyage) commit(db *engine.DB) {
	next := maps.Clone(v.states[len(v.states)-1])
	b := engine.NewBatch()
	for range 1 + v.rnd.IntN(3) {
		p, s := fmt.Sprint(v.rnd.IntN(4)), fmt.Sprint(v.rnd.IntN(5))
		key := engine.Key{PK: []byte(p), SK: []byte(s)}
		switch v.rnd.IntN(10) {
		case 0:
			ok(v.t, b.DeleteRange(key.PK, engine.SKCondition{}))
			for id := range next {
				if id[:len(p)+1] == p+"/" {
					delete(next, id)
				}
			}
		case 1:
			ok(v.t, b.DeleteScan(engine.Key{}, engine.Key{}))
			clear(next)
		case 2, 3:
			ok(v.t, b.Delete(key))
			delete(next, p+"/"+s)
		default:
			value := fmt.Sprintf("%d of %d %0*d", len(v.states), v.rnd.IntN(1000),
				v.rnd.IntN(3000), 0)
			ok(v.t, b.Put(key, []byte(value)))
			next[p+"/"+s] = value
		}
	}
	level := []engine.CommitOption{engine.Sync, engine.Process}[v.rnd.IntN(2)]
	before := db.Metrics().LastVersion
	ok(v.t, db.Apply(ctx, b, level))
	if db.Metrics().LastVersion > before { // a range of nothing is no commit
		v.states = append(v.states, next)
	}
}

// leg is the life of one process.
func (v *voyage) leg(dest *faulty) {
	t := v.t
	o := small
	o.FlushRecords = v.rnd.IntN(20)
	db := openOn(t, v.fs, o)
	last := db.Metrics().LastVersion
	if n := uint64(len(v.states)) - 1; last > n {
		t.Fatalf("version %d of %d", last, n)
	}
	v.states = v.states[:last+1]
	so := ship.Options{Interval: time.Millisecond, Keep: time.Millisecond,
		BaseEvery: time.Duration(1 + v.rnd.IntN(50)*int(time.Millisecond))}
	so.Hurry(5 * time.Millisecond)
	var s *ship.Shipper
	for s == nil {
		var err error
		if s, err = ship.Start(db, dest, &so); err != nil && !errors.Is(err, errServer) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("start: %v", err)
		}
	}
	for range 5 + v.rnd.IntN(60) {
		v.commit(db)
		if v.rnd.IntN(6) == 0 {
			wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			if n := uint64(len(v.states)) - 1; s.WaitFor(wait, n) == nil {
				v.reported = max(v.reported, n)
			}
			cancel()
		}
	}
	m := s.Metrics()
	v.reported = max(v.reported, m.Restorable)
	for what, n := range map[string]int{"merged": m.Merges, "bases": m.BasesMade,
		"removed": m.Removed, "objects": m.LogObjects, "failures": m.Failures} {
		v.did[what] += n
	}
	v.finish(dest, s, db)
}

// finish ends the process in one of four ways.
func (v *voyage) finish(dest *faulty, s *ship.Shipper, db *engine.DB) {
	kill := func(after func() *vfstest.CrashFS) {
		dest.mu.Lock()
		dest.dead = true
		next := after()
		dest.mu.Unlock()
		v.abandon(s, db)
		v.fs = next
		dest.mu.Lock()
		dest.dead = false
		dest.mu.Unlock()
	}
	switch v.rnd.IntN(4) {
	case 0: // an orderly end, if the destination lets it
		wait, cancel := context.WithTimeout(ctx, time.Second)
		if s.Close(wait) == nil {
			v.reported = max(v.reported, uint64(len(v.states))-1)
		}
		cancel()
		ok(v.t, db.Close())
	case 1: // the shipper ends, then the database
		v.abandon(s, db)
	case 2: // the process is killed
		kill(v.fs.Kill)
	case 3: // the power fails
		kill(func() *vfstest.CrashFS {
			return vfstest.CrashOf(v.fs.PowerCut(v.rnd, v.rnd.Float64()))
		})
	}
}

// abandon ends what a dead process has left running.
func (v *voyage) abandon(s *ship.Shipper, db *engine.DB) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.Close(now)
	_ = db.Close()
}

// check restores.
func (v *voyage) check() {
	t := v.t
	c, err := ship.List(ctx, v.good)
	if errors.Is(err, ship.ErrEmpty) && v.reported == 0 {
		return
	}
	ok(t, err)
	last := c.Ranges[len(c.Ranges)-1].Last.Version
	if last < v.reported {
		t.Fatalf("version %d was reported to be restorable, the last is %d: %+v", v.reported, last,
			c)
	}
	if n := uint64(len(v.states)) - 1; last > n {
		t.Fatalf("version %d is restorable of %d", last, n)
	}
	for _, r := range c.Ranges {
		first := r.First.Version
		for _, to := range []uint64{r.Last.Version, first + v.rnd.Uint64N(r.Last.Version-first+1)} {
			v.restore(to)
		}
	}
}

func (v *voyage) restore(to uint64) {
	if to == 0 { // as a target, the last
		return
	}
	t, fsys := v.t, vfs.NewMem()
	o := ship.RestoreOptions{To: ship.Target{Version: to}}
	if _, err := ship.RestoreOn(ctx, v.good, fsys, "db", &o); err != nil {
		t.Fatalf("restore to %d: %v", to, err)
	}
	db := openOn(t, fsys, engine.Options{MustExist: true})
	defer func() { ok(t, db.Close()) }()
	if got := items(t, db); !maps.Equal(got, v.states[to]) {
		t.Fatalf("version %d has %d items %.200v, want %d items %.200v", to, len(got), got,
			len(v.states[to]), v.states[to])
	}
	v.restored++
}

// Goal: whatever happens to the writer, the shipper and the destination, what can be restored is a
// prefix of the commits, and has all that was reported as shipped.
//
// Method: processes that write random commits and ship them every millisecond, with bases, merges
// and retention as often, to a destination where one call in 8, 40 or 200 fails before or after its
// effect, tears, forgets, comes late or twice. They end in order, are killed, or lose their power.
// After each the destination is listed, without faults, and restored at its last version and at
// another one of each range.
//
// Promise (shipping): Every version that a destination lists is restored as it was, and every one
// that was reported as shipped is listed: whatever was killed, and with a destination that delays,
// duplicates, tears, forgets and answers 5xx.
func TestShipUnderFaults(t *testing.T) {
	rnd := testutil.Rand(t)
	voyages := testutil.Effort(2, 300)
	did := map[string]int{}
	for range voyages {
		v := &voyage{t: t, rnd: rnd, fs: vfstest.NewCrash(), states: []map[string]string{{}},
			did: did, good: ship.DirectoryOn(vfs.NewMem(), "dest")}
		dest := newFaulty(v.good, rnd.Uint64(), []int{8, 40, 200}[rnd.IntN(3)])
		for range 4 {
			v.leg(dest)
			v.check()
		}
		dest.heal()
		for what, n := range dest.hits {
			did[what] += n
		}
		did["restored"] += v.restored
	}
	t.Log(did)
}
