package etcdtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/etcd"
	"github.com/kstonedb/kstone/internal/testutil"
)

// sharedMembers is one: for what a database answers, more add nothing but time. It takes
// transactions of sharedTxnOps, so that statements of the size of other stores' can be compared.
const (
	sharedMembers = 1
	sharedTxnOps  = 4096
)

var (
	shared = sync.OnceValues(func() (*Cluster, error) {
		dir, err := os.MkdirTemp("", "kstone-etcd")
		if err != nil {
			return nil, err
		}
		return Start(dir, sharedMembers, func(cfg *embed.Config) { cfg.MaxTxnOps = sharedTxnOps })
	})
	used  atomic.Bool // there is a shared cluster
	names atomic.Int64
)

// Storage returns an empty database of a cluster that all tests of the process share: each call of
// the result is a store of another process.
func Storage(t testing.TB, clock func() time.Time) (next func() store.Store) {
	t.Helper()
	used.Store(true)
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("%s?txn-ops=%d", c.URL(fmt.Sprint("storage", names.Add(1))), sharedTxnOps)
	return func() store.Store {
		s, err := etcd.Open(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		s.Now = clock
		return s
	}
}

// Slow returns an empty database of the shared cluster, and what makes each request to it take a
// while.
func Slow(t testing.TB) (s store.Store, latency func(time.Duration)) {
	t.Helper()
	used.Store(true)
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	p := testutil.NewProxy(t, c.Address(0))
	url := fmt.Sprintf("etcd://%s/slow%d", p.Addr(), names.Add(1))
	s, err = etcd.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s, p.SetLatency
}

// Main runs tests, and ends the shared cluster.
func Main(m *testing.M) (code int) {
	defer func() {
		if used.Load() {
			if c, err := shared(); err == nil {
				c.Close()
				os.RemoveAll(c.dir)
			}
		}
	}()
	return m.Run()
}
