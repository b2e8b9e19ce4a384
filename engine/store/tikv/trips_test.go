package tikv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/internal/testutil"
)

// fill puts n items into each of some partitions, and returns their keys.
func fill(t testing.TB, s store.Store, partitions, n int) (pks [][]byte) {
	t.Helper()
	for i := range partitions {
		pk := fmt.Appendf(nil, "bucket%02d", i)
		pks = append(pks, pk)
		for j := 0; j < n; {
			var w store.WriteSet
			for range min(n-j, 1000) {
				w.Put(store.Key{PK: pk, SK: fmt.Appendf(nil, "%06d", j)}, []byte("value"))
				j++
			}
			ok(t, s.Commit(ctx, &w))
		}
	}
	return pks
}

// trips returns the round trips of f in a cluster where each request takes a while.
func trips(t *testing.T, f func(ctx context.Context) error) int {
	t.Helper()
	counted, trips := store.CountTrips(ctx)
	begun := time.Now()
	ok(t, f(counted))
	t.Logf("%v, %v", trips, time.Since(begun).Round(100*time.Microsecond))
	return trips.Waves()
}

// insertion returns the insert of a row with three indexes.
func insertion(name string, unique bool) *store.WriteSet {
	w := new(store.WriteSet)
	w.PutIf(key("rows", name), []byte("row"), store.Absent())
	for i := range 3 {
		w.Put(key(fmt.Sprintf("index%d", i), name), nil)
	}
	if unique {
		w.Ops[1].Cond = store.Absent()
	}
	return w
}

// Reads and commits wait for the cluster as often as they must, wherever the keys are. Where the
// moment of a read is not given by a snapshot, its timestamp is one trip.
//
// Promise (reads and writes): A point get on TiKV is one round trip, a page one, an insert with
// three indexes two.
func TestRoundTrips(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 8)
	s := cluster.Store(nil)
	pks := fill(t, s, 16, 300)
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	cluster.SetLatency(5 * time.Millisecond)
	page := func(r store.Range, limit int) func(context.Context) error {
		r.Limit = limit
		return func(ctx context.Context) error {
			n, err := count(ctx, snap, r)
			if err == nil && n != limit {
				err = fmt.Errorf("%d items, want %d", n, limit)
			}
			return err
		}
	}
	keys := make([]store.Key, 200)
	for i := range keys {
		keys[i] = store.Key{PK: pks[i%16], SK: fmt.Appendf(nil, "%06d", i)}
	}
	multi := func(r store.Reader) func(context.Context) error {
		return func(ctx context.Context) error {
			return r.MultiGet(ctx, keys, func(int, store.Item) {})
		}
	}
	insert := func(name string, unique bool) func(context.Context) error {
		return func(ctx context.Context) error { return s.Commit(ctx, insertion(name, unique)) }
	}
	for _, c := range []struct {
		name string
		want int
		f    func(context.Context) error
	}{
		{"point", 1, func(ctx context.Context) error {
			_, err := s.Get(ctx, nil, keys[0])
			return err
		}},
		{"200 keys", 2, multi(s)},
		{"200 keys of a snapshot", 1, multi(snap)},
		{"page", 1, page(store.Partition(pks[0]), 100)},
		{"page of 16 buckets", 1, page(store.Partitions(pks), 100)},
		{"page of all partitions", 1, page(store.Interval(nil, nil), 10)},
		{"insert with three indexes", 2, insert("a", false)},
		{"with a unique index", 2, insert("b", true)},
		{"conditional update", 3, func(ctx context.Context) error {
			var w store.WriteSet
			w.PutIf(key("rows", "a"), []byte("new"), store.ValueIs([]byte("row")))
			w.Require(key("rows", "b"), store.Present())
			return s.Commit(ctx, &w)
		}},
		{"property", 1, func(ctx context.Context) error {
			_, _, err := s.Property(ctx, "schema")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := trips(t, c.f); got > c.want {
				t.Errorf("%d round trips, want %d", got, c.want)
			}
		})
	}
}

// Without the short ways to commit there are two phases, with a timestamp before each.
func TestRoundTripsOfTwoPhases(t *testing.T) {
	cluster := start(t)
	plain := cluster.Store(&tikv.Options{NoAsyncCommit: true, NoOnePhase: true})
	cluster.SetLatency(5 * time.Millisecond)
	commit := func(ctx context.Context) error { return plain.Commit(ctx, insertion("a", true)) }
	if got := trips(t, commit); got != 4 {
		t.Errorf("a commit in two phases takes %d round trips, not 4", got)
	}
}

// A long scan waits for few of its pages.
func TestLongScan(t *testing.T) {
	testutil.SkipUnderRace(t, "it measures")
	cluster := start(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	const n = 50_000
	fill(t, s, 50, n/50)
	cluster.SetLatency(time.Millisecond)
	for _, unordered := range []bool{true, false} {
		r := store.Interval(nil, nil)
		r.Unordered = unordered
		counted, trips := store.CountTrips(ctx)
		begun := time.Now()
		got, err := count(counted, s, r)
		ok(t, err)
		d := time.Since(begun)
		t.Logf("unordered=%v: %d items in %v, %v, %.0f a second", unordered, got, d, trips,
			float64(got)/d.Seconds())
		if got != n || trips.Waves() > 300 {
			t.Errorf("%d items in %v", got, trips)
		}
	}
}
