//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/postgres"
	"github.com/kstonedb/kstone/engine/store/postgres/postgrestest"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// openAt opens a store at an address, with one connection.
func openAt(t *testing.T, address, options string) (*postgres.Store, error) {
	t.Helper()
	table := "?table=" + postgrestest.Table() + "&pool_max_conns=1&"
	return postgres.Open(ctx, need(t).At(address)+table+options)
}

// A connection breaks after each number of bytes. What is acknowledged is there, what is refused is
// not, and an unknown outcome is as a whole or not at all, and is not tried again.
//
// Promise (reads and writes): A commit to PostgreSQL whose connection breaks is ErrUnknown, and
// written once or not at all.
func TestUnknownOutcome(t *testing.T) {
	for name, write := range map[string]func(s *postgres.Store, w *store.WriteSet) error{
		"commit": func(s *postgres.Store, w *store.WriteSet) error { return s.Commit(ctx, w) },
		"transaction": func(s *postgres.Store, w *store.WriteSet) error {
			return s.Update(ctx, func(tx store.Tx) error { return tx.Commit(ctx, w) })
		},
		"load": func(s *postgres.Store, w *store.WriteSet) error {
			_, err := s.Load(ctx, func(yield func(store.Item, error) bool) {
				for _, op := range w.Ops {
					if !yield(store.Item{Key: op.Key, Value: op.Value}, nil) {
						return
					}
				}
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, table := testutil.NewProxy(t, need(t).Address()), postgrestest.Table()
			s, err := postgres.Open(ctx, need(t).At(p.Addr())+
				"?sslmode=disable&pool_max_conns=1&table="+table)
			ok(t, err)
			defer s.Close()
			beside, err := postgres.Open(ctx, need(t).URL(table))
			ok(t, err)
			defer beside.Close()
			for _, cut := range []testutil.Fault{testutil.CutRequest, testutil.CutAnswer} {
				cutEverywhere(t, p, cut, s, beside, write)
			}
		})
	}
}

// cutEverywhere writes again and again, and cuts each time some bytes later, until all have passed.
func cutEverywhere(t *testing.T, p *testutil.Proxy, cut testutil.Fault, s, beside *postgres.Store,
	write func(*postgres.Store, *store.WriteSet) error) {
	const step = 41
	a, b, unknown := key("p", "a"), key("p", "b"), 0
	for n := 0; ; n += step {
		old, want := fmt.Sprint("old", cut, n), fmt.Sprint("new", cut, n)
		put(t, beside, a, old) // which waits for what the server is still about to commit
		var w store.WriteSet
		w.PutIf(a, []byte(want), store.ValueIs([]byte(old)))
		w.Put(b, []byte(want))
		_, _ = s.Get(ctx, nil, a) // the connection before is given up
		p.CutAfter(cut, n)
		err := write(s, &w)
		passed := p.CutAfter(testutil.Pass, 0)
		var have []string
		ok(t, beside.MultiGet(ctx, []store.Key{a, b}, func(_ int, it store.Item) {
			have = append(have, string(it.Value))
		}))
		written := slices.Equal(have, []string{want, want})
		switch {
		case !written && have[0] != old:
			t.Fatalf("cut %d after %d: %v, and there is %q", cut, n, err, have)
		case errors.Is(err, store.ErrUnknown):
			unknown++
		case written != (err == nil):
			t.Errorf("cut %d after %d: %v, written is %v", cut, n, err, written)
		}
		if passed {
			break
		}
	}
	if unknown == 0 {
		t.Errorf("cut %d: no outcome is unknown", cut)
	}
}

// A deadline that passes while the server works leaves the outcome unknown, or the commit undone;
// both say which deadline.
func TestDeadlineOfACommit(t *testing.T) {
	s := open(t, "")
	k := key("p", "k")
	put(t, s, k, "1")
	blocker, err := s.Begin(ctx, nil)
	ok(t, err)
	put(t, blocker, k, "2")
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	var w store.WriteSet
	w.Put(k, []byte("3"))
	begun := time.Now()
	err = s.Commit(short, &w)
	if !errors.Is(err, store.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) ||
		time.Since(begun) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	blocker.Rollback()
}

// What cannot be opened says where, why and what to do, in time.
func TestOpenErrors(t *testing.T) {
	srv := need(t)
	here := srv.Address()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	ok(t, err)
	defer silent.Close()
	plain, err := net.Listen("tcp", "127.0.0.1:0") // has no TLS
	ok(t, err)
	defer plain.Close()
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			io.CopyN(io.Discard, c, 8)
			c.Write([]byte("N"))
			c.Close()
		}
	}()
	closed, err := postgrestest.FreePort()
	ok(t, err)
	for name, c := range map[string]struct{ url, want string }{
		"closed": {srv.At(fmt.Sprintf("127.0.0.1:%d", closed)) + "?sslmode=disable",
			"see that the server runs"},
		"silent":   {srv.At(silent.Addr().String()) + "?sslmode=disable", "deadline"},
		"password": {"postgres://tester:wrong@" + here + "/postgres?sslmode=disable", "password"},
		"user":     {"postgres://nobody@" + here + "/postgres?sslmode=disable", "pg_hba.conf"},
		"database": {strings.Replace(srv.At(here), "/postgres", "/none", 1) + "?sslmode=disable",
			"create the database"},
		"schema":      {srv.URL("none.t"), "create the schema"},
		"no TLS":      {srv.At(plain.Addr().String()) + "?sslmode=require", "check sslmode"},
		"certificate": {srv.At(here) + "?sslmode=verify-full", "x509"},
		"parameter":   {srv.At(here) + "?timeout=soon", "timeout=soon"},
		"scheme":      {"mysql://h/d", "is not postgres://"},
		"table":       {srv.URL("a.b.c"), "SCHEMA.NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			limited, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			begun := time.Now()
			s, err := postgres.Open(limited, c.url)
			if err == nil {
				s.Close()
				t.Fatal("it is open")
			}
			if d := time.Since(begun); d > 4*time.Second {
				t.Errorf("after %v", d)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

// With TLS the store works: unverified, or with the server's authority, and with no other one.
func TestTLS(t *testing.T) {
	other, _, err := testutil.Certificate()
	ok(t, err)
	dir := t.TempDir()
	right, wrong := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "other.pem")
	ok(t, os.WriteFile(right, need(t).Certificate, 0o600))
	ok(t, os.WriteFile(wrong, other, 0o600))
	for _, options := range []string{
		"sslmode=require", "sslmode=verify-ca&sslrootcert=" + right,
		"sslmode=verify-full&sslrootcert=" + right,
	} {
		s, err := openAt(t, need(t).Address(), options)
		ok(t, err)
		put(t, s, key("p", "k"), "1")
		if got := value(t, s, key("p", "k")); got != "1" {
			t.Errorf("%s: it has %q", options, got)
		}
		ok(t, s.Close())
	}
	s, err := openAt(t, need(t).Address(), "sslmode=verify-full&sslrootcert="+wrong)
	if err == nil {
		s.Close()
	}
	if !strings.Contains(fmt.Sprint(err), "x509") ||
		!strings.Contains(fmt.Sprint(err), "check sslmode, sslrootcert") {
		t.Errorf("another authority: %v", err)
	}
}

// Calls to a server that does not answer any more end with their context, or with the timeout of
// the store, and a commit says then that its outcome is unknown.
func TestSlowServer(t *testing.T) {
	calls := append(storetest.Calls(), storetest.Call{Name: "transaction",
		Do: func(ctx context.Context, s store.Store, _ store.Reader) error {
			return s.(store.Transactor).Update(ctx, func(tx store.Tx) error {
				_, err := tx.Get(ctx, nil, key("p", "k"))
				return err
			})
		}})
	for _, call := range calls {
		t.Run(call.Name, func(t *testing.T) {
			t.Parallel()
			p := testutil.NewProxy(t, need(t).Address())
			s, err := postgres.Open(ctx, need(t).At(p.Addr())+
				"?sslmode=disable&timeout=300ms&table="+postgrestest.Table())
			ok(t, err)
			defer s.Close()
			put(t, s, key("p", "k"), "1")
			p.Set(testutil.Stall)
			// In this order: the first call has the connection of the put, so that a commit is sent
			// and its outcome is unknown. After it, connecting is what does not end.
			errs := remotetest.Unanswered(t, call, s, s)
			if call.Writes != errors.Is(errs[0], store.ErrUnknown) {
				t.Error(errs[0])
			}
			p.Set(testutil.Pass)
			if got := value(t, s, key("p", "k")); got != "1" && got != "2" {
				t.Errorf("it has %q", got)
			}
		})
	}
}

// A snapshot whose connection the server ends is stale; one more than there are connections waits
// for its context and says so.
func TestSnapshotsEnd(t *testing.T) {
	s := open(t, "&pool_max_conns=1")
	put(t, s, key("p", "k"), "1")
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = s.Snapshot(short)
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "pool_max_conns") {
		t.Errorf("a second snapshot: %v", err)
	}
	admin, err := pgx.Connect(ctx, need(t).At(need(t).Address())+
		"?sslmode=disable")
	ok(t, err)
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE state = 'idle in transaction'`)
	ok(t, err)
	for range 2 {
		if _, err := snap.Get(ctx, nil, key("p", "k")); !errors.Is(err, store.ErrStale) {
			t.Errorf("a snapshot that the server has ended: %v", err)
		}
	}
	ok(t, snap.Close())
	if got := value(t, s, key("p", "k")); got != "1" { // on a new connection
		t.Errorf("it has %q", got)
	}
}

// A transaction whose first statement the server does not prepare, as another one has locked the
// table, is still a transaction: what it writes then is rolled back with it. After another error it
// goes on from a savepoint, with any statement.
func TestRefusedStatements(t *testing.T) {
	table := postgrestest.Table()
	s, err := postgres.Open(ctx, need(t).URL(table)+"&pool_max_conns=1&lock_timeout=50")
	ok(t, err)
	defer s.Close()
	admin, err := pgx.Connect(ctx, need(t).At(need(t).Address())+"?sslmode=disable")
	ok(t, err)
	defer admin.Close(ctx)
	_, err = admin.Exec(ctx, "BEGIN; LOCK TABLE "+table)
	ok(t, err)
	a, b := key("p", "a"), key("p", "b")
	tx, err := s.Begin(ctx, nil)
	ok(t, err)
	if err := tx.Commit(ctx, storetest.Put("p", "a", "1")); err == nil {
		t.Fatal("a statement was prepared")
	}
	_, err = admin.Exec(ctx, "ROLLBACK")
	ok(t, err)
	put(t, tx, a, "1")
	tx.Rollback()
	if got := value(t, s, a); got != "-" {
		t.Errorf("after the rollback: %s", got)
	}

	tx, err = s.Begin(ctx, nil)
	ok(t, err)
	put(t, tx, a, "2")
	mark := tx.Savepoint()
	beside, err := postgres.Open(ctx, need(t).URL(table))
	ok(t, err)
	defer beside.Close()
	other, err := beside.Begin(ctx, nil)
	ok(t, err)
	put(t, other, b, "3")
	if err := tx.Commit(ctx, storetest.Put("p", "b", "2")); err == nil {
		t.Fatal("a locked row was written")
	}
	other.Rollback()
	ok(t, tx.RollbackTo(mark))
	n, err := tx.(store.Counter).Count(ctx, store.Partition([]byte("p"))) // not prepared yet
	if ok(t, err); n != 1 {
		t.Errorf("%d rows after the savepoint", n)
	}
	ok(t, tx.End(ctx))
	if got := value(t, s, a) + value(t, s, b); got != "2-" {
		t.Errorf("stored: %s", got)
	}
}

// After Close everything is refused.
func TestClosed(t *testing.T) {
	s, err := postgres.Open(ctx, need(t).URL("closed"))
	ok(t, err)
	remotetest.Closed(t, s)
}
