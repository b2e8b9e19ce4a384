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

// A commit whose answer does not arrive has an unknown outcome, is not tried again, and has been
// written as a whole or not at all.
//
// Promise (reads and writes): A commit to PostgreSQL whose connection breaks is ErrUnknown, and
// written once or not at all.
func TestUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		cut     testutil.Fault
		written string
	}{"request": {testutil.CutRequest, "1-"}, "answer": {testutil.CutAnswer, "2new"}} {
		t.Run(name, func(t *testing.T) {
			p := testutil.NewProxy(t, need(t).Address())
			s, err := openAt(t, p.Addr(), "sslmode=disable")
			ok(t, err)
			defer s.Close()
			a, b := key("p", "a"), key("p", "b")
			put(t, s, a, "1") // statements are prepared
			p.Set(c.cut)
			var w store.WriteSet
			w.PutIf(a, []byte("2"), store.ValueIs([]byte("1")))
			w.PutIf(b, []byte("new"), store.Absent())
			if err := s.Commit(ctx, &w); !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("commit: %v", err)
			}
			p.Set(testutil.Pass)
			if got := value(t, s, a) + value(t, s, b); got != c.written {
				t.Errorf("written: %q, want %q", got, c.written)
			}
			p.Set(c.cut)
			err = s.Update(ctx, func(tx store.Tx) error {
				p.Set(testutil.Pass)
				if err := tx.Commit(ctx, &store.WriteSet{Ops: []store.Op{{Key: b}}}); err != nil {
					return err
				}
				p.Set(c.cut)
				return nil
			})
			if !errors.Is(err, store.ErrUnknown) {
				t.Errorf("end of a transaction: %v", err)
			}
		})
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

// After Close everything is refused.
func TestClosed(t *testing.T) {
	s, err := postgres.Open(ctx, need(t).URL("closed"))
	ok(t, err)
	remotetest.Closed(t, s)
}
