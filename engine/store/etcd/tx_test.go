package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// A transaction whose connection breaks in its commit has an unknown outcome, was written once or
// not at all, and is not run again.
//
// Promise (reads and writes): A transaction on etcd whose connection breaks in its commit is
// ErrUnknown, written once or not at all, and not run again. Also `TestTxHistoryWithoutLeaders`.
func TestTxUnknown(t *testing.T) {
	for fault, allowed := range map[testutil.Fault]string{
		testutil.CutRequest: "1",
		testutil.CutAnswer:  "12", // what else the server sends is cut, too
	} {
		s, p := proxied(t, "")
		ok(t, s.Commit(ctx, put("p", "k", "1")))
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		runs := 0
		err := s.Update(short, func(tx store.Tx) error {
			runs++
			_, err := tx.Get(ctx, nil, key("p", "k"))
			p.Set(fault)
			return errors.Join(err, tx.Commit(ctx, put("p", "k", "2")))
		})
		cancel()
		wantIs(t, err, store.ErrUnknown)
		p.Set(testutil.Pass)
		v, err := s.Get(ctx, nil, key("p", "k"))
		if ok(t, err); !strings.Contains(allowed, string(v)) || runs != 1 {
			t.Errorf("fault %d: the item is %s after %d runs", fault, v, runs)
		}
	}
}

// A history of transactions is serializable while leaders are killed.
func TestTxHistoryWithoutLeaders(t *testing.T) {
	const members = 3
	cluster := start(t, members, nil)
	s := open(t, cluster, "history")
	done := make(chan struct{})
	go func() {
		defer close(done)
		storetest.TxHistory(t, s, testutil.Seed(t), true)
	}()
	kills, second := 0, time.NewTicker(time.Second/2)
	defer second.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
			continue
		case <-second.C:
		}
		if leader := cluster.Leader(); leader >= 0 {
			cluster.Kill(leader)
			<-second.C
			ok(t, cluster.Run(leader))
			kills++
		}
	}
	t.Logf("%d leaders were killed", kills)
}

// A transaction waits for its reads and, once, for its commit.
func TestTxRoundTrips(t *testing.T) {
	s := open(t, start(t, 1, nil), "trips")
	for name, read := range map[string]store.Range{
		"item": store.Point(key("rows", "a")), "range": store.Partition([]byte("rows")),
	} {
		counted, trips := store.CountTrips(ctx)
		ok(t, s.Update(counted, func(tx store.Tx) error {
			if _, err := count(counted, tx, read); err != nil {
				return err
			}
			return tx.Commit(counted, put("rows", "b", ""))
		}))
		if trips.Waves() != 2 || trips.Requests() != 2 {
			t.Errorf("%s: %v, want 2", name, trips)
		}
	}
}
