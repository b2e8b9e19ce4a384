package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Counters that many writers raise under conditions add up, while regions split and leaders move;
// and no read sees a part of a commit.
func TestSplitsAndLeaders(t *testing.T) {
	cluster, rnd := start(t), testutil.Rand(t)
	s := cluster.Store(nil)
	const counters, writers, raises = 4, 4, 25
	pks := make([][]byte, counters)
	var w store.WriteSet
	for i := range pks {
		pks[i] = fmt.Appendf(nil, "counter%d", i)
		w.Put(store.Key{PK: pks[i], SK: []byte("n")}, []byte("0"))
	}
	ok(t, s.Commit(ctx, &w))
	raise := func() error { // all of them
		var w store.WriteSet
		for it, err := range s.Scan(ctx, store.Partitions(pks)) {
			if err != nil {
				return err
			}
			it = it.Clone()
			n := 0
			_, _ = fmt.Sscan(string(it.Value), &n)
			w.PutIf(it.Key, fmt.Append(nil, n+1), store.ValueIs(it.Value))
		}
		return s.Commit(ctx, &w)
	}
	var wg sync.WaitGroup
	var left atomic.Int64
	left.Store(writers)
	for range writers {
		wg.Go(func() {
			defer left.Add(-1)
			for done := 0; done < raises; {
				switch err := raise(); {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConditionFailed) &&
					!errors.Is(err, store.ErrConflict):
					t.Errorf("raise: %v", err)
					return
				}
			}
		})
	}
	heads := s.Layout.Heads()
	for left.Load() > 0 {
		if rnd.IntN(2) == 0 {
			cluster.SplitAt(heads[rnd.IntN(len(heads))])
		} else {
			cluster.MoveLeaders()
		}
		seen := map[string]bool{}
		for it, err := range s.Scan(ctx, store.Partitions(pks)) {
			ok(t, err)
			seen[string(it.Value)] = true
		}
		if len(seen) != 1 {
			t.Fatalf("one read sees %v", seen)
		}
	}
	wg.Wait()
	for _, pk := range pks {
		v, err := s.Get(ctx, nil, store.Key{PK: pk, SK: []byte("n")})
		if ok(t, err); string(v) != fmt.Sprint(writers*raises) {
			t.Errorf("%s is %s, want %d", pk, v, writers*raises)
		}
	}
}

// A commit whose answer is lost has an unknown outcome, whether or not the servers carried it out;
// it is carried out as a whole or not at all, and once.
//
// Promise (reads and writes): A commit on TiKV whose answer is lost is reported as unknown, and is
// not done twice. Also `TestPassingFaults`.
func TestUnknown(t *testing.T) {
	lost := errors.New("connection lost")
	for _, o := range []tikv.Options{
		{}, {NoOnePhase: true}, {NoAsyncCommit: true, NoOnePhase: true},
	} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%+v,done=%v", o, done), func(t *testing.T) {
				cluster := start(t)
				split(cluster, "", 4)
				s := cluster.Store(&o)
				kind := tikvrpc.CmdPrewrite
				if o.NoAsyncCommit {
					kind = tikvrpc.CmdCommit
				}
				cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
					if req.Type != kind {
						return false, nil
					}
					return done, lost
				})
				w := put("a", "row", "1")
				w.Put(key("b", "entry"), nil)
				short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
				err := s.Commit(short, w)
				wantIs(t, err, store.ErrUnknown)
				cluster.SetFault(nil)
				_, err1 := s.Get(ctx, nil, key("a", "row"))
				_, err2 := s.Get(ctx, nil, key("b", "entry"))
				if errors.Is(err1, store.ErrNotFound) != errors.Is(err2, store.ErrNotFound) {
					t.Errorf("row: %v, entry: %v", err1, err2)
				}
				var again store.WriteSet // another writer decides what is there from now on
				again.Put(key("a", "row"), []byte("2"))
				ok(t, s.Commit(ctx, &again))
				v, err := s.Get(ctx, nil, key("a", "row"))
				if ok(t, err); string(v) != "2" {
					t.Errorf("the row is %s after another commit", v)
				}
			})
		}
	}
}

// A commit whose second half takes longer than locks live is there as a whole.
func TestSlowSecondHalf(t *testing.T) {
	var wg sync.WaitGroup
	for late := range int64(2) { // which request of it is late
		cluster := start(t)
		split(cluster, "", 4)
		s := cluster.Store(nil)
		var requests atomic.Int64
		release := make(chan struct{})
		cluster.SetFault(func(_ context.Context, req *tikvrpc.Request) (bool, error) {
			if req.Type == tikvrpc.CmdCommit && requests.Add(1) == late+1 {
				<-release
			}
			return false, nil
		})
		wg.Go(func() {
			defer close(release)
			var w store.WriteSet
			for i := range 16 {
				w.Put(key(fmt.Sprint("p", i), "row"), nil)
			}
			ok(t, s.Commit(ctx, &w))
			for i := range 16 {
				_, err := s.Get(ctx, nil, key(fmt.Sprint("p", i), "row"))
				if err != nil {
					t.Errorf("row %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// Errors of servers that pass are not seen: what is acknowledged is there, and what is not is there
// as a whole or not at all. No commit sees its own write as that of another one.
func TestPassingFaults(t *testing.T) {
	cluster, rnd := start(t), testutil.Rand(t)
	split(cluster, "", 4)
	s := cluster.Store(nil)
	var mu sync.Mutex
	cluster.SetFault(func(context.Context, *tikvrpc.Request) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if rnd.IntN(12) > 0 {
			return false, nil
		}
		return rnd.IntN(2) == 0, errors.New("connection lost")
	})
	acknowledged := map[string]bool{}
	for i := range 20 {
		var w store.WriteSet
		name := fmt.Sprint(i)
		w.PutIf(key("rows", name), []byte("row"), store.Absent())
		w.Put(key("entries", name), nil)
		switch err := s.Commit(ctx, &w); {
		case err == nil:
			acknowledged[name] = true
		case !errors.Is(err, store.ErrUnknown):
			t.Errorf("commit %d: %v", i, err)
		}
	}
	cluster.SetFault(nil)
	there := map[string]int{}
	both := store.Partitions([][]byte{[]byte("entries"), []byte("rows")})
	for it, err := range s.Scan(ctx, both) {
		ok(t, err)
		there[string(it.Key.SK)]++
	}
	for name := range acknowledged {
		if there[name] != 2 {
			t.Errorf("%d of 2 items of commit %s, which was acknowledged", there[name], name)
		}
	}
	for name, n := range there {
		if n != 2 {
			t.Errorf("%d of 2 items of commit %s", n, name)
		}
	}
	t.Logf("%d of 20 commits were acknowledged", len(acknowledged))
}

// A read of what the cluster has dropped ends with ErrStale, at a snapshot and in a scan.
func TestStale(t *testing.T) {
	cluster := start(t)
	s := cluster.Store(nil)
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	_, err = snap.Get(ctx, nil, key("p", "k"))
	ok(t, err)
	now, err := cluster.Client().CurrentTimestamp("global")
	ok(t, err)
	cluster.Client().UpdateSPCache(now, time.Now())
	_, err = snap.Get(ctx, nil, key("p", "k"))
	wantIs(t, err, store.ErrStale)
	wantIs(t, snap.MultiGet(ctx, []store.Key{key("p", "k"), key("p", "l")},
		func(int, store.Item) {}), store.ErrStale)
	_, err = count(ctx, snap, store.Interval(nil, nil))
	wantIs(t, err, store.ErrStale)
	v, err := s.Get(ctx, nil, key("p", "k"))
	if ok(t, err); string(v) != "1" {
		t.Errorf("the present has %q", v)
	}
}

// Calls to a cluster that does not answer end with their context, or with the store's timeout.
func TestSlowCluster(t *testing.T) {
	cluster := start(t)
	s := cluster.Store(&tikv.Options{Timeout: 100 * time.Millisecond})
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	cluster.SetLatency(time.Hour)
	for _, call := range storetest.Calls() {
		t.Run(call.Name, func(t *testing.T) {
			for _, err := range remotetest.Unanswered(t, call, s, snap) {
				if errors.Is(err, store.ErrUnknown) { // nothing but the requests that decide
					t.Errorf("no timestamp: %v", err)
				}
			}
		})
	}
}

// A store that is closed says so.
func TestClosed(t *testing.T) { remotetest.Closed(t, start(t).Store(nil)) }

// What the client would refuse, or a server, is refused before anything is sent.
func TestTooLarge(t *testing.T) {
	cluster := start(t)
	s := cluster.Store(nil)
	cluster.SetFault(func(context.Context, *tikvrpc.Request) (bool, error) {
		return false, errors.New("a request was sent")
	})
	l := s.Limits()
	wantIs(t, s.Commit(ctx, put("p", "k", strings.Repeat("v", l.ValueBytes+1))), store.ErrTooLarge)
	wantIs(t, s.Commit(ctx, put(strings.Repeat("p", l.KeyBytes+1), "k", "")), store.ErrTooLarge)
	wantIs(t, s.SetProperty(ctx, "p", make([]byte, l.PropertyBytes+1)), store.ErrTooLarge)
	zeros := remote.NewLayout("name", true).AppendKey(nil, store.Key{
		PK: make([]byte, l.KeyBytes), SK: make([]byte, l.KeyBytes),
	})
	const maxServerKeyBytes = 8 << 10
	if n := len(zeros)/8*9 + 9 + 8; n > maxServerKeyBytes {
		t.Errorf("the longest key has %d bytes at a server", n)
	}
}
