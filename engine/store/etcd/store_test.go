package etcd_test

import (
	"context"
	"fmt"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kstonedb/kstone/engine/store/etcd"
	"github.com/kstonedb/kstone/engine/store/etcd/etcdtest"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ctx = context.Background()

var (
	ok, wantIs      = testutil.OK, testutil.WantIs
	key, put, count = storetest.Key, storetest.Put, storetest.Count
)

func start(t testing.TB, members int, configure func(*embed.Config)) *etcdtest.Cluster {
	t.Helper()
	c, err := etcdtest.Start(t.TempDir(), members, configure)
	ok(t, err)
	t.Cleanup(c.Close)
	return c
}

func open(t testing.TB, c *etcdtest.Cluster, name string) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(ctx, c.URL(name))
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The store passes all checks, on three members.
//
// Promise (reads and writes): etcd is a store like the others; also run by `make test-stores`.
func TestStore(t *testing.T) {
	cluster := start(t, 3, nil)
	for i, check := range storetest.Checks(testutil.Seed(t)) {
		t.Run(check.Name, func(t *testing.T) {
			check.Run(t, open(t, cluster, fmt.Sprint("check", i)))
		})
	}
}
