package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/engine/store/tikv/tikvtest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) {
	log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{}) // the client logs each conflict
	os.Exit(m.Run())
}

var ctx = context.Background()

var (
	ok, wantIs      = testutil.OK, testutil.WantIs
	key, put, count = storetest.Key, storetest.Put, storetest.Count
)

// start starts a cluster of three stores.
func start(t testing.TB) *tikvtest.Cluster {
	t.Helper()
	c, err := tikvtest.Start(3)
	ok(t, err)
	t.Cleanup(func() { ok(t, c.Close()) })
	return c
}

// split divides the keys of a database into n regions.
func split(c *tikvtest.Cluster, name string, n int) {
	heads := remote.NewLayout(name, true).Heads()
	for i := 1; i < n; i++ {
		c.SplitAt(heads[i*len(heads)/n])
	}
}

// The store passes all checks, in one region and in several, with every way to commit.
//
// Promise (reads and writes): TiKV, as far as the client's mock cluster shows it, is a store like
// the others, with each way to commit; also run by `make test-stores`.
func TestStore(t *testing.T) {
	for _, c := range []struct {
		regions int
		o       tikv.Options
	}{
		{1, tikv.Options{}},
		{5, tikv.Options{}}, // asynchronous commits, but where all keys are in one region
		{5, tikv.Options{NoAsyncCommit: true, NoOnePhase: true}},
	} {
		name := fmt.Sprintf("regions=%d,async=%v,onePhase=%v", c.regions, !c.o.NoAsyncCommit,
			!c.o.NoOnePhase)
		t.Run(name, func(t *testing.T) {
			for _, check := range storetest.Checks(testutil.Seed(t)) {
				t.Run(check.Name, func(t *testing.T) {
					cluster := start(t)
					split(cluster, c.o.Name, c.regions)
					check.Run(t, cluster.Store(&c.o))
				})
			}
		})
	}
}

// A cluster of KSTONE_TIKV, the URL of a database in which nothing is kept, passes them as well.
func TestRealCluster(t *testing.T) {
	url := os.Getenv("KSTONE_TIKV")
	if url == "" {
		t.Skip("KSTONE_TIKV is the URL of a database of a cluster that may be emptied: not set")
	}
	there, err := tikv.Open(ctx, url)
	ok(t, err) // once, and not for each check
	ok(t, there.Close())
	for _, check := range storetest.Checks(testutil.Seed(t)) {
		t.Run(check.Name, func(t *testing.T) {
			s, err := tikv.Open(ctx, url)
			ok(t, err)
			defer func() { ok(t, s.Close()) }()
			empty(t, s)
			check.Run(t, s)
		})
	}
}

func empty(t *testing.T, s store.Store) {
	t.Helper()
	for {
		r := store.Interval(nil, nil)
		r.Unordered, r.Limit = true, 1000
		var w store.WriteSet
		for it, err := range s.Scan(ctx, r) {
			ok(t, err)
			w.Delete(it.Clone().Key)
		}
		if w.Len() == 0 {
			return
		}
		if err := s.Commit(ctx, &w); !errors.Is(err, store.ErrConflict) {
			ok(t, err)
		}
	}
}
