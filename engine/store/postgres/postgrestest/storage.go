//go:build unix

package postgrestest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/postgres"
	"github.com/kstonedb/kstone/internal/testutil"
)

var (
	shared = sync.OnceValues(Start)
	used   atomic.Bool // there is a shared server
	tables atomic.Int64
)

// Shared returns the server of all tests of the process. Without the programs of a server the test
// is skipped, and says what to install.
func Shared(t testing.TB) *Server {
	t.Helper()
	used.Store(true)
	s, err := shared()
	if err != nil {
		t.Skip("no PostgreSQL server: " + err.Error())
	}
	return s
}

// Table returns the name of a table that is not there yet.
func Table() string { return fmt.Sprintf("t%d", tables.Add(1)) }

// Storage returns an empty table of the shared server: each call of the result is a store of
// another process.
func Storage(t testing.TB, clock func() time.Time) (next func() store.Store) {
	t.Helper()
	url := Shared(t).URL(Table())
	return func() store.Store {
		s, err := postgres.Open(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		s.Now = clock
		return s
	}
}

// Slow returns a store over an empty table, and what makes each request to the server take a while.
func Slow(t testing.TB) (s store.Store, latency func(time.Duration)) {
	t.Helper()
	srv := Shared(t)
	p := testutil.NewProxy(t, srv.Address())
	url := srv.At(p.Addr()) + "?sslmode=disable&table=" + Table()
	s, err := postgres.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s, p.SetLatency
}

// Main runs tests, and ends the shared server.
func Main(m *testing.M) (code int) {
	defer func() {
		if used.Load() {
			if s, err := shared(); err == nil {
				s.Stop()
			}
		}
	}()
	return m.Run()
}
