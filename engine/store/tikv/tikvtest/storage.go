package tikvtest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/log"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
	"github.com/kstonedb/kstone/engine/store/tikv"
)

// realCluster is the URL of a database of a real cluster, whose name begins those of the databases
// that tests make there. Empty is the mock.
var realCluster = os.Getenv("KSTONE_TIKV")

// Of the shared cluster: each database has some regions.
const (
	sharedStores  = 3
	sharedRegions = 3
)

var (
	shared = sync.OnceValues(func() (*Cluster, error) {
		log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{}) // the client logs each conflict
		return Start(sharedStores)
	})
	names atomic.Int64
)

// Storage returns an empty database of a cluster that all tests of the process share, or of
// KSTONE_TIKV: each call of the result is a store of another process.
func Storage(t testing.TB, clock func() time.Time) (next func() store.Store) {
	t.Helper()
	name := fmt.Sprint("storage", names.Add(1))
	if realCluster != "" {
		base, options, _ := strings.Cut(realCluster, "?")
		url := fmt.Sprintf("%s-%x-%s?%s", base, time.Now().UnixNano(), name, options)
		return func() store.Store {
			s, err := tikv.Open(context.Background(), url)
			if err != nil {
				t.Fatal(err)
			}
			s.Now = clock
			return s
		}
	}
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	heads := remote.NewLayout(name, true).Heads()
	for i := 1; i < sharedRegions; i++ {
		c.SplitAt(heads[i*len(heads)/sharedRegions])
	}
	return func() store.Store {
		s := c.Store(&tikv.Options{Name: name})
		s.Now = clock
		return s
	}
}

// Slow returns an empty database, and what makes each request to its cluster take a while, if that
// is no real one.
func Slow(t testing.TB) (s store.Store, latency func(time.Duration)) {
	t.Helper()
	s, latency = Storage(t, time.Now)(), func(time.Duration) {}
	if c, err := shared(); err == nil && realCluster == "" {
		latency = c.SetLatency
	}
	return s, latency
}

// Main runs tests. The cluster ends with the process.
func Main(m *testing.M) (code int) { return m.Run() }
