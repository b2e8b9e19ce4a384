package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/engine/store/tikv/tikvtest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// begin begins a transaction that has read a range, or a key, and written an item.
func begin(t *testing.T, s *tikv.Store, read store.Range, pk, value string) store.Tx {
	t.Helper()
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	t.Cleanup(tx.Rollback)
	_, err = count(ctx, tx, read)
	ok(t, err)
	ok(t, tx.Commit(ctx, put(pk, "row", value)))
	ok(t, tx.Commit(ctx, put(pk+"/entry", "row", value)))
	return tx
}

// once calls f before the first request of a kind.
func once(cluster *tikvtest.Cluster, kind tikvrpc.CmdType, f func()) {
	var called atomic.Bool
	cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
		if req.Type == kind && !called.Swap(true) {
			f()
		}
		return false, nil
	})
}

// A transaction whose answer is lost has an unknown outcome, is carried out as a whole or not at
// all, and is not run again.
//
// Promise (reads and writes): A transaction on TiKV whose answer is lost is reported as unknown, is
// there as a whole or not at all, and is not run again. Also `TestTxHistoryWithFaults`.
func TestTxUnknown(t *testing.T) {
	point := store.Point(key("read", "row"))
	for i, c := range []struct {
		read store.Range
		kind tikvrpc.CmdType
	}{{point, tikvrpc.CmdPrewrite}, {store.Partition([]byte("read")), tikvrpc.CmdCommit}} {
		for _, done := range []bool{false, true} {
			cluster := start(t)
			split(cluster, "", 4)
			s := cluster.Store(nil)
			runs := 0
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			err := s.Update(short, func(tx store.Tx) error {
				runs++
				_, err := count(ctx, tx, c.read)
				if err == nil {
					err = errors.Join(tx.Commit(ctx, put("a", "row", "1")),
						tx.Commit(ctx, put("b", "entry", "1")))
				}
				cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
					if req.Type != c.kind {
						return false, nil
					}
					return done, errors.New("connection lost")
				})
				return err
			})
			cluster.SetFault(nil)
			wantIs(t, err, store.ErrUnknown)
			_, err1 := s.Get(ctx, nil, key("a", "row"))
			_, err2 := s.Get(ctx, nil, key("b", "entry"))
			missing := errors.Is(err1, store.ErrNotFound)
			if missing != errors.Is(err2, store.ErrNotFound) || runs != 1 {
				t.Errorf("case %d: row: %v, entry: %v, after %d runs", i, err1, err2, runs)
			}
		}
	}
}

// The ranges that a transaction has read are proven for the timestamp that it commits at: not for
// one that the cluster has refused, as a reader has pushed it.
//
// Promise (reads and writes): A transaction on TiKV commits at a timestamp at which the ranges that
// it has read are what they were. Also `TestTxRangesOfEachOther`.
func TestTxPushed(t *testing.T) {
	for _, changes := range []bool{false, true} {
		cluster := start(t) // in which nothing is under way
		split(cluster, "", 4)
		a, b := cluster.Store(nil), cluster.Store(nil)
		tx := begin(t, a, store.Partition([]byte("range")), "a", "1")
		once(cluster, tikvrpc.CmdCommit, func() {
			_, err := b.Snapshot(ctx)
			ok(t, err)
			_, err = count(ctx, b, store.Partitions([][]byte{[]byte("a"), []byte("a/entry")}))
			ok(t, err) // meets the lock
			if changes {
				ok(t, b.Commit(ctx, put("range", "new", "")))
			}
		})
		err := tx.End(ctx)
		cluster.SetFault(nil)
		if !changes {
			ok(t, err)
		} else {
			wantIs(t, err, store.ErrConflict)
		}
	}
}

// Of two transactions that write into the range that the other has read one commits, also if all of
// the other's commit comes between the proof and the commit of the first.
func TestTxRangesOfEachOther(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	first := begin(t, s, store.Partition([]byte("b")), "a", "1")
	second := begin(t, s, store.Partition([]byte("a")), "b", "2")
	var between error
	once(cluster, tikvrpc.CmdCommit, func() { between = second.End(ctx) })
	err := first.End(ctx)
	cluster.SetFault(nil)
	if (err == nil) == (between == nil) {
		t.Fatalf("%v and %v, want one success", err, between)
	}
	wantIs(t, errors.Join(err, between), store.ErrConflict)
}

// A transaction does not wait long for the lock of another one in a range that it has read: that
// one may wait for it.
func TestTxWaitsShortly(t *testing.T) {
	cluster := start(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	tx := begin(t, s, store.Partition([]byte("range")), "a", "1")
	var other atomic.Uint64 // its second half does not come through
	cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
		if req.Type == tikvrpc.CmdCommit && req.Commit().StartVersion == other.Load() {
			return false, errors.New("connection lost")
		}
		if req.Type == tikvrpc.CmdPrewrite && other.Load() == 0 {
			other.Store(req.Prewrite().StartVersion)
		}
		return false, nil
	})
	w := put("range", "new", "")
	w.Put(key("elsewhere", "new"), nil) // in two regions: asynchronously
	w.Put(key("elsewhere2", "new"), nil)
	w.Put(key("elsewhere3", "new"), nil)
	ok(t, s.Commit(ctx, w))
	begun := time.Now()
	wantIs(t, tx.End(ctx), store.ErrConflict)
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("it has waited for %v", d)
	}
	cluster.SetFault(nil)
}

// Histories of transactions are serializable while regions split, leaders move and answers are
// lost.
func TestTxHistoryWithFaults(t *testing.T) {
	for i, o := range []tikv.Options{{}, {NoAsyncCommit: true, NoOnePhase: true}} {
		cluster, rnd := start(t), testutil.Rand(t)
		s := cluster.Store(&o)
		var mu sync.Mutex
		var requests int
		heads := s.Layout.Heads()
		cluster.SetFault(func(context.Context, *tikvrpc.Request) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			switch requests++; {
			case requests > 3000: // all transactions have ended
			case rnd.IntN(80) == 0:
				cluster.SplitAt(heads[rnd.IntN(len(heads))])
			case rnd.IntN(80) == 0:
				cluster.MoveLeaders()
			case rnd.IntN(40) == 0:
				return rnd.IntN(2) == 0, fmt.Errorf("request %d: connection lost", requests)
			}
			return false, nil
		})
		storetest.TxHistory(t, s, testutil.Seed(t)+uint64(i), true)
		cluster.SetFault(nil)
	}
}

// A transaction waits for its timestamp, its reads and its commit: that is a timestamp and the
// writes, and after a range those, a timestamp, the range and the commit of the first key.
func TestTxRoundTrips(t *testing.T) {
	cluster := start(t)
	s := cluster.Store(nil)
	cluster.SetLatency(5 * time.Millisecond)
	for _, c := range []struct {
		read store.Range
		want int
	}{{store.Point(key("rows", "a")), 4}, {store.Partition([]byte("rows")), 6}} {
		got := trips(t, func(ctx context.Context) error {
			return s.Update(ctx, func(tx store.Tx) error {
				if _, err := count(ctx, tx, c.read); err != nil {
					return err
				}
				return tx.Commit(ctx, put("rows", "b", ""))
			})
		})
		if got != c.want {
			t.Errorf("%v: %d round trips, want %d", c.read.Kind, got, c.want)
		}
	}
}
