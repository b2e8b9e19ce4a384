package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/tikv"
)

// replace returns the replacement of a value by another one, which also requires a proof.
func replace(from, to string) *store.WriteSet {
	w := new(store.WriteSet)
	w.PutIf(key("rows", "a"), []byte(to), store.ValueIs([]byte(from)))
	w.Require(key("fences", "a"), store.Present())
	return w
}

// A commit that begins at a timestamp from before the call sees all that was acknowledged before
// it: it neither fails by an old value nor overwrites a new one.
//
// Promise (reads and writes): A commit on TiKV that begins at an earlier timestamp, for one trip
// less, is one of the present.
func TestEarlyCommits(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 4)
	a, b := cluster.Store(nil), cluster.Store(nil)
	ok(t, a.Commit(ctx, put("fences", "a", "")))
	ok(t, a.Commit(ctx, put("rows", "a", "0")))
	for i := range 20 { // each leaves a timestamp for the next one
		from, to := fmt.Sprint(2*i), fmt.Sprint(2*i+1)
		ok(t, a.Commit(ctx, replace(from, to)))
		ok(t, b.Commit(ctx, replace(to, fmt.Sprint(2*i+2))))
		wantIs(t, a.Commit(ctx, replace(to, "lost")), store.ErrConditionFailed)
	}
	var blind store.WriteSet // what it requires is older than the timestamp, what it writes is not
	blind.Put(key("rows", "a"), []byte("last"))
	blind.Require(key("fences", "a"), store.Present())
	ok(t, b.Commit(ctx, replace("40", "41")))
	ok(t, a.Commit(ctx, &blind))
	v, err := b.Get(ctx, nil, key("rows", "a"))
	if ok(t, err); string(v) != "last" {
		t.Errorf("the row is %q", v)
	}
}

// A snapshot that is taken while a commit is under way, whichever way that goes, does not change.
func TestSnapshotsBesideCommits(t *testing.T) {
	for _, o := range []tikv.Options{
		{}, {NoOnePhase: true}, {NoAsyncCommit: true, NoOnePhase: true},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			cluster := start(t)
			split(cluster, "", 4)
			s, other := cluster.Store(&o), cluster.Store(nil)
			ok(t, s.Commit(ctx, put("fences", "a", "")))
			ok(t, s.Commit(ctx, put("rows", "a", "0")))
			for i := range 4 {
				var snap store.Snapshot
				leaves := put("others", "a", "") // leaves a timestamp to begin at
				leaves.Require(key("fences", "a"), store.Present())
				ok(t, s.Commit(ctx, leaves))
				now, err := cluster.Client().CurrentTimestamp("global")
				ok(t, err)
				var once sync.Once                 // other requests wait
				before, err := other.Snapshot(ctx) // and not read yet
				ok(t, err)
				cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
					if req.Type == tikvrpc.CmdPrewrite {
						if least := req.Prewrite().MinCommitTs; !o.NoAsyncCommit && least <= now {
							t.Errorf("may be committed at %d, and was called at %d", least, now)
						}
						once.Do(func() {
							var err error
							snap, err = other.Snapshot(ctx)
							ok(t, err)
							v, err := snap.Get(ctx, nil, key("rows", "a"))
							if ok(t, err); string(v) != fmt.Sprint(i) {
								t.Errorf("before the commit of %d there is %s", i+1, v)
							}
						})
					}
					return false, nil
				})
				ok(t, s.Commit(ctx, replace(fmt.Sprint(i), fmt.Sprint(i+1))))
				cluster.SetFault(nil)
				for _, snap := range []store.Snapshot{before, snap} {
					v, err := snap.Get(ctx, nil, key("rows", "a"))
					if ok(t, err); string(v) != fmt.Sprint(i) {
						t.Errorf("a snapshot of %d has %s", i, v)
					}
				}
			}
		})
	}
}

// later returns a snapshot that has no timestamp yet, and its context, which counts.
func later(t *testing.T, s *tikv.Store) (store.Snapshot, context.Context, *store.Trips) {
	t.Helper()
	snap, err := s.SnapshotLater(ctx, true, func() error { return nil })
	ok(t, err)
	counted, trips := store.CountTrips(ctx)
	return snap, counted, trips
}

// Reads without a timestamp are as of one moment, too: what comes after the first read either
// belongs to it, or the second read fails, and nothing else does.
//
// Promise (reads and writes): A query on TiKV whose first read has no timestamp, for one trip less,
// is as of one moment.
func TestFirstReads(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	entries := store.Partition([]byte("entries"))
	move := func(from, to string) { // a row, and its entry
		var w store.WriteSet
		w.Delete(key("entries", from))
		w.Put(key("entries", to), nil)
		w.Put(key("rows", "r"), []byte(to))
		ok(t, s.Commit(ctx, &w))
	}
	move("none", "1")
	lookUp := func(trips **store.Trips, between func()) (row string, err error) {
		snap, counted, n := later(t, s)
		*trips = n
		defer func() { ok(t, snap.Close()) }()
		for it, err := range snap.Scan(counted, entries) {
			ok(t, err)
			row = string(it.Key.SK)
		}
		between()
		v, err := snap.Get(counted, nil, key("rows", "r"))
		if err == nil && string(v) != row {
			t.Errorf("entry %s, row %s", row, v)
		}
		return row, err
	}
	trips := new(*store.Trips)
	if row, err := lookUp(trips, func() {}); err != nil || row != "1" {
		t.Errorf("row %s, %v", row, err)
	}
	// A change after the first read is after its timestamp.
	if row, err := lookUp(trips, func() { move("1", "2") }); err != nil || row != "1" {
		t.Errorf("row %s, %v", row, err)
	}
	// One between the timestamp and the first read, which are under way at the same time, is not.
	changed := 0
	for i := 2; changed == 0 && i < 100; i++ {
		var trips *store.Trips
		var moved atomic.Bool
		cluster.SetFault(func(ctx context.Context, req *tikvrpc.Request) (bool, error) {
			if req.Type == tikvrpc.CmdScan && !moved.Swap(true) {
				for trips.Requests() < 2 {
					runtime.Gosched()
				}
				move(fmt.Sprint(i), fmt.Sprint(i+1))
			}
			return false, nil
		})
		_, err := lookUp(&trips, func() {})
		if errors.Is(err, store.ErrConflict) {
			changed++
		} else {
			ok(t, err)
		}
	}
	if changed == 0 {
		t.Error("no change was noticed")
	}
}

// What goes on after the first request has a timestamp from the beginning.
func TestFirstReadsThatGoOn(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	fill(t, s, 2, 600)
	limited := store.Partition([]byte("bucket00"))
	limited.Limit = 10
	for name, r := range map[string]store.Range{
		"all": store.Partition([]byte("bucket00")), "limited": limited,
		"two": store.Partitions([][]byte{[]byte("bucket00"), []byte("bucket01")}),
	} {
		snap, counted, _ := later(t, s)
		n := 0
		for it, err := range snap.Scan(counted, r) {
			ok(t, err)
			if n++; n == 5 || n == 300 {
				w := put(string(it.Key.PK), "000590", "changed")
				w.Put(key("bucket01", "zz"), nil)
				ok(t, s.Commit(ctx, w))
			}
			if string(it.Value) == "changed" {
				t.Errorf("%s: item %s was committed later", name, it.Key.SK)
			}
		}
		ok(t, snap.Close())
		ok(t, s.Commit(ctx, put("bucket00", "000590", "value")))
	}
}
