//go:build unix

package main_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
	"github.com/kstonedb/kstone/engine/ship/s3/s3test"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/etcd/etcdtest"
	"github.com/kstonedb/kstone/engine/store/postgres/postgrestest"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/engine/store/tikv/tikvtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kstone-cli":    func() { os.Exit(command.Main(os.Args[1:])) },
		"kstone-write":  child(write),
		"kstone-define": child(define),
	})
}

// cities returns n rows of CSV.
func cities(n int) []byte {
	text := []byte("n,name,people\n")
	for i := range n {
		text = fmt.Appendf(text, "%d,name %d,%d\n", i, i*7919%n, i*i)
	}
	return text
}

// mock makes a cluster of TiKV known as mock://NAME, to this process alone.
func mock(t *testing.T) {
	c, err := tikvtest.Start(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	store.Register("mock", func(_ context.Context, url string) (store.Store, error) {
		return c.Store(&tikv.Options{Name: url}), nil
	})
}

// The commands on tables do over each back end what they do over a directory, and a database moves
// to it and back. Those of etcd and PostgreSQL run as processes of their own, and one is killed in
// the middle of a copy.
//
// Promise (manners): Commands on tables take URLs of stores on other machines; copy moves tables
// either way, is finished after a kill by the same command, and compares checksums in the end.
func TestCommandsOverStores(t *testing.T) {
	dir := t.TempDir()
	cluster, err := etcdtest.Start(dir, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	urls := map[string]string{"etcd": cluster.URL("cli")}
	if s, err := postgrestest.Start(); err == nil {
		t.Cleanup(s.Stop)
		urls["postgres"] = s.URL("cli")
	} else {
		t.Log("no PostgreSQL server: ", err)
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Files: []string{filepath.Join("testdata", "commands.txtar")},
				Setup: func(env *testscript.Env) error {
					env.Setenv("URL", url)
					file := filepath.Join(env.WorkDir, "cities.csv")
					return os.WriteFile(file, cities(3000), 0o600)
				},
			})
		})
	}
}

// A database moves to TiKV and back, as far as the client's mock cluster shows it.
func TestCopyOverTiKV(t *testing.T) {
	mock(t)
	dir := filepath.Join(t.TempDir(), "a.db")
	back := filepath.Join(t.TempDir(), "b.db")
	run := func(args ...string) {
		t.Helper()
		if code := command.Main(args); code != 0 {
			t.Fatalf("%q: exit %d", args, code)
		}
	}
	run("sql", dir, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, INDEX by_b (b))")
	for i := range 20 {
		text := "INSERT INTO t VALUES "
		for j := range 50 {
			text += fmt.Sprintf("(%d, 'b%d'),", i*50+j, j%9)
		}
		run("sql", dir, text[:len(text)-1])
	}
	run("copy", dir, "mock://shop")
	run("index", "verify", "mock://shop")
	run("copy", "mock://shop", back)
	run("index", "verify", back)
}

// Promise (manners): ship, restore and restore --list take s3:// URLs.
func TestShipToS3(t *testing.T) {
	addr := s3test.Start(t)
	testscript.Run(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "ship.txtar")},
		Setup: func(env *testscript.Env) error {
			env.Setenv("URL", s3test.URL(addr, "cli"))
			env.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
			env.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
			return nil
		},
	})
}
