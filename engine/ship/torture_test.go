package ship_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

func openOn(t testing.TB, fsys vfs.FS, o engine.Options) *engine.DB {
	t.Helper()
	db, err := openfs.Open(fsys, "db", &o)
	ok(t, err)
	return db.(*engine.DB)
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
		good := ship.DirectoryOn(vfs.NewMem(), "dest")
		dest := newFaulty(good, rnd.Uint64(), []int{8, 40, 200}[rnd.IntN(3)])
		v := &shiptest.Voyage{T: t, Rnd: rnd, Dest: dest, Good: good, Did: did, Dead: dest.setDead,
			Temporary: func(err error) bool {
				return errors.Is(err, errServer) || errors.Is(err, io.ErrUnexpectedEOF)
			},
			Upkeep: 5 * time.Millisecond,
			Restore: func(version uint64) *engine.DB {
				fsys := vfs.NewMem()
				if _, err := ship.RestoreOn(ctx, good, fsys, "db", &ship.RestoreOptions{
					To: ship.Target{Version: version}}); err != nil {
					t.Fatalf("restore to %d: %v", version, err)
				}
				return openOn(t, fsys, engine.Options{MustExist: true})
			}}
		v.Run(4)
		dest.heal()
		for what, n := range dest.hits {
			did[what] += n
		}
	}
	t.Log(did)
}

// Goal: whatever happens to a follower and its destination, its database is one state of the
// shipped one, not an older one than it was, and in the end the newest.
//
// Method: a shipper that makes bases, merges and removes all the time, and a follower, one after
// another, whose calls of the destination fail like those of TestShipUnderFaults. They end in
// order, are killed, or lose their power.
//
// Promise (shipping): A follower shows whole commits and never goes back, whatever its destination
// answers and whatever the shipper removes meanwhile.
func TestFollowersUnderFaults(t *testing.T) {
	rnd := testutil.Rand(t)
	for range testutil.Effort(3, 200) {
		v := &convoy{harbor: newHarbor(t), rnd: rnd, disk: vfstest.NewCrash(),
			states: []map[string]string{{}}}
		v.rate = []int{8, 40, 200}[rnd.IntN(3)]
		v.faulty = newFaulty(v.dest, rnd.Uint64(), v.rate)
		v.commit()
		o := ship.Options{Interval: time.Millisecond, Keep: time.Duration(1 + rnd.IntN(50)),
			BaseEvery: time.Millisecond * time.Duration(1+rnd.IntN(50))}
		o.Hurry(3 * time.Millisecond)
		s, err := ship.Start(v.db, v.dest, &o)
		ok(t, err)
		ok(t, s.WaitFor(ctx, 1))
		for range 4 {
			v.leg()
		}
		ok(t, s.Close(ctx))
		ok(t, v.db.Close())
		t.Logf("%d commits, %d rebases", len(v.states), v.rebases)
	}
}

// convoy is a database that is shipped and followed, with what it must be after each commit.
type convoy struct {
	*harbor
	rnd    *rand.Rand
	faulty *faulty
	rate   int              // of its faults
	disk   *vfstest.CrashFS // of the follower
	states []map[string]string
	seen   int // the last state that a follower has shown

	rebases int
}

// commit makes a random commit: "n" has its number.
func (v *convoy) commit() {
	n := len(v.states)
	next := maps.Clone(v.states[n-1])
	b := engine.NewBatch()
	put := func(key, value string) {
		ok(v.t, b.Put(engine.Key{PK: []byte(key)}, []byte(value)))
		next[key+"/"] = value
	}
	if v.rnd.IntN(8) == 0 {
		ok(v.t, b.DeleteScan(engine.Key{}, engine.Key{}))
		clear(next)
	}
	put("n", fmt.Sprint(n))
	for range v.rnd.IntN(4) {
		put(fmt.Sprint(v.rnd.IntN(5)), fmt.Sprintf("%d %0*d", n, v.rnd.IntN(3000), 0))
	}
	ok(v.t, v.db.Apply(ctx, b))
	v.states = append(v.states, next)
	v.now.Add(v.rnd.Int64N(20))
}

// leg is the life of one follower.
func (v *convoy) leg() {
	t := v.t
	o := &ship.FollowOptions{Interval: time.Millisecond, Open: small}
	f, err := ship.FollowOn(ctx, v.faulty, v.disk, "copy", o)
	for ; err != nil; f, err = ship.FollowOn(ctx, v.faulty, v.disk, "copy", o) {
		if !errors.Is(err, errServer) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("follow: %v", err)
		}
	}
	for range 5 + v.rnd.IntN(40) {
		v.commit()
		v.check(f)
	}
	safe := int(f.Metrics().Version)
	v.rebases += f.Metrics().Rebases
	switch v.rnd.IntN(4) {
	case 0: // all there is
		v.faulty.heal()
		wait, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := f.WaitFor(wait, uint64(len(v.states)-1)); !errors.Is(err, ship.ErrGap) {
			ok(t, err)
			v.check(f)
			safe = v.seen
		}
		ok(t, f.Close())
		v.faulty = newFaulty(v.dest, v.rnd.Uint64(), v.rate)
	case 1:
		ok(t, f.Close())
	case 2: // the process is killed
		safe = v.seen
		v.end(f, v.disk.Kill)
	case 3: // the power fails
		v.end(f, func() *vfstest.CrashFS {
			return vfstest.CrashOf(v.disk.PowerCut(v.rnd, v.rnd.Float64()))
		})
	}
	v.seen = safe
	if errors.Is(f.Err(), ship.ErrGap) { // its last commits are not known to be its own
		v.disk, v.seen = vfstest.NewCrash(), 0
	} else if err := f.Err(); errors.Is(err, ship.ErrOther) || errors.Is(err, engine.ErrCorrupt) {
		t.Fatal(err)
	}
}

// end ends a follower and its process. What it does from then on has no effect.
func (v *convoy) end(f *ship.Follower, after func() *vfstest.CrashFS) {
	v.faulty.setDead(true)
	next := after()
	_ = f.Close()
	v.disk = next
	v.faulty.setDead(false)
}

// check compares what a follower shows.
func (v *convoy) check(f *ship.Follower) {
	db := f.DB()
	got := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if errors.Is(err, engine.ErrClosed) {
			return // it has begun again
		}
		ok(v.t, err)
		got[string(it.Key.PK)+"/"+string(it.Key.SK)] = string(it.Value)
	}
	n, err := strconv.Atoi(got["n/"])
	ok(v.t, err)
	if n < v.seen || n >= len(v.states) || !maps.Equal(got, v.states[n]) {
		v.t.Fatalf("state %d after %d, of %d: %.300v, want %.300v", n, v.seen, len(v.states),
			got, v.states[min(n, len(v.states)-1)])
	}
	v.seen = n
}
