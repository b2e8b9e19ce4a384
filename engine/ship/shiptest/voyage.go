package shiptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Voyage is a database that is shipped, by one process after another, with what it must be after
// each commit.
type Voyage struct {
	T    testing.TB
	Rnd  *rand.Rand
	Dest ship.Destination // with faults
	Good ship.Destination // the same, without
	// Dead cuts all processes off from Dest, or lets new ones reach it.
	Dead func(bool)
	// Temporary reports whether an error of Start comes from a fault of Dest.
	Temporary func(error) bool
	// Upkeep is how often shippers merge, and remove what is not kept.
	Upkeep time.Duration
	// Restore restores a version from Good and opens it.
	Restore func(version uint64) *engine.DB
	// Did counts what has happened.
	Did map[string]int

	fs       *vfstest.CrashFS
	states   []map[string]string // after each version
	reported uint64              // the last version that was reported to be restorable
}

// Run has processes ship, one after another, and restores after each.
func (v *Voyage) Run(processes int) {
	v.fs, v.states = vfstest.NewCrash(), []map[string]string{{}}
	for range processes {
		v.leg()
		v.check()
	}
}

// openOn opens the database of a file system.
func openOn(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db, err := openfs.Open(fsys, "db", &o)
	ok(t, err)
	return db.(*engine.DB)
}

// Items returns what a database has: PK/SK and values.
func Items(t testing.TB, db *engine.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		all[string(it.Key.PK)+"/"+string(it.Key.SK)] = string(it.Value)
	}
	return all
}

// commit makes a random commit.
func (v *Voyage) commit(db *engine.DB) {
	next := maps.Clone(v.states[len(v.states)-1])
	b := engine.NewBatch()
	for range 1 + v.Rnd.IntN(3) {
		p, s := fmt.Sprint(v.Rnd.IntN(4)), fmt.Sprint(v.Rnd.IntN(5))
		key := engine.Key{PK: []byte(p), SK: []byte(s)}
		switch v.Rnd.IntN(10) {
		case 0:
			ok(v.T, b.DeleteRange(key.PK, engine.SKCondition{}))
			for id := range next {
				if id[:len(p)+1] == p+"/" {
					delete(next, id)
				}
			}
		case 1:
			ok(v.T, b.DeleteScan(engine.Key{}, engine.Key{}))
			clear(next)
		case 2, 3:
			ok(v.T, b.Delete(key))
			delete(next, p+"/"+s)
		default:
			value := fmt.Sprintf("%d of %d %0*d", len(v.states), v.Rnd.IntN(1000),
				v.Rnd.IntN(3000), 0)
			ok(v.T, b.Put(key, []byte(value)))
			next[p+"/"+s] = value
		}
	}
	level := []engine.CommitOption{engine.Sync, engine.Process}[v.Rnd.IntN(2)]
	before := db.Metrics().LastVersion
	ok(v.T, db.Apply(ctx, b, level))
	if db.Metrics().LastVersion > before { // a range of nothing is not a commit
		v.states = append(v.states, next)
	}
}

// leg is the life of one process.
func (v *Voyage) leg() {
	t := v.T
	o := engine.Options{ // flushes and segments are frequent
		MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20, FileBytes: 64 << 10,
		Compression: engine.NoCompression, RetainBytes: 64 << 20, FlushRecords: v.Rnd.IntN(20),
		LargeValue: []int{engine.NoLargeValue, 1, 40}[v.Rnd.IntN(3)]}
	db := openOn(t, v.fs, o)
	last := db.Metrics().LastVersion
	if n := uint64(len(v.states)) - 1; last > n {
		t.Fatalf("version %d of %d", last, n)
	}
	v.states = v.states[:last+1]
	so := ship.Options{Interval: time.Millisecond, Keep: time.Millisecond,
		BaseEvery: []time.Duration{1, 20 * time.Millisecond, time.Hour}[v.Rnd.IntN(3)]}
	source.Hurry(&so, v.Upkeep)
	var s *ship.Shipper
	for s == nil {
		var err error
		if s, err = ship.Start(db, v.Dest, &so); err != nil && !v.Temporary(err) {
			t.Fatalf("start: %v", err)
		}
	}
	for range 5 + v.Rnd.IntN(60) {
		v.commit(db)
		if v.Rnd.IntN(6) == 0 {
			wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			if n := uint64(len(v.states)) - 1; s.WaitFor(wait, n) == nil {
				v.reported = max(v.reported, n)
			}
			cancel()
		}
	}
	if v.Rnd.IntN(2) == 0 {
		v.linger(s)
	}
	m := s.Metrics()
	v.reported = max(v.reported, m.Restorable)
	for what, n := range map[string]int{"merged": m.Merges, "bases": m.BasesMade,
		"removed": m.Removed, "objects": m.LogObjects, "failures": m.Failures} {
		v.Did[what] += n
	}
	v.finish(s, db)
}

// linger lets a shipper merge and remove, unless the faults are too many.
func (v *Voyage) linger(s *ship.Shipper) {
	t := time.NewTicker(v.Upkeep)
	defer t.Stop()
	for range 20 {
		if m := s.Metrics(); m.Merges > 0 && m.Removed > 0 {
			return
		}
		select {
		case <-t.C:
		case <-s.Ended():
			return
		}
	}
}

// finish ends the process in one of four ways.
func (v *Voyage) finish(s *ship.Shipper, db *engine.DB) {
	kill := func(after func() *vfstest.CrashFS) {
		v.Dead(true)
		next := after()
		v.abandon(s, db)
		v.fs = next
		v.Dead(false)
	}
	switch v.Rnd.IntN(4) {
	case 0: // an orderly end, if the destination lets it
		wait, cancel := context.WithTimeout(ctx, time.Second)
		if s.Close(wait) == nil {
			v.reported = max(v.reported, uint64(len(v.states))-1)
		}
		cancel()
		ok(v.T, db.Close())
	case 1: // the shipper ends, then the database
		v.abandon(s, db)
	case 2: // the process is killed
		kill(v.fs.Kill)
	case 3: // the power fails
		kill(func() *vfstest.CrashFS {
			return vfstest.CrashOf(v.fs.PowerCut(v.Rnd, v.Rnd.Float64()))
		})
	}
}

// abandon ends what a dead process has left running.
func (v *Voyage) abandon(s *ship.Shipper, db *engine.DB) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.Close(now)
	_ = db.Close()
}

// check restores.
func (v *Voyage) check() {
	t := v.T
	c, err := ship.List(ctx, v.Good)
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
		for _, to := range []uint64{r.Last.Version, first + v.Rnd.Uint64N(r.Last.Version-first+1)} {
			v.restore(to)
		}
	}
}

func (v *Voyage) restore(to uint64) {
	if to == 0 { // as a target, the last
		return
	}
	t, db := v.T, v.Restore(to)
	defer func() { ok(t, db.Close()) }()
	if got := Items(t, db); !maps.Equal(got, v.states[to]) {
		t.Fatalf("version %d has %d items %.200v, want %d items %.200v", to, len(got), got,
			len(v.states[to]), v.states[to])
	}
	v.Did["restored"]++
}
