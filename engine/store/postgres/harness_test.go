//go:build unix

package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine/store/postgres"
	"github.com/kstonedb/kstone/engine/store/postgres/postgrestest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) {
	code := postgrestest.Main(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// need skips a test without a server.
func need(t testing.TB) *postgrestest.Server {
	t.Helper()
	return postgrestest.Shared(t)
}

// open opens a store with an empty table.
func open(t testing.TB, options string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), need(t).URL(postgrestest.Table())+options)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	return s
}

var ok = testutil.OK
