package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	client "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/etcd"
	"github.com/kstonedb/kstone/engine/store/etcd/etcdtest"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/store/storetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// rawClient returns a client of etcd itself.
func rawClient(t testing.TB, c *etcdtest.Cluster) *client.Client {
	t.Helper()
	o, err := etcd.ParseURL(c.URL(""))
	ok(t, err)
	raw, err := client.New(client.Config{Endpoints: o.Endpoints, Logger: zap.NewNop()})
	ok(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	return raw
}

// A read of what the cluster has compacted ends with ErrStale.
func TestStale(t *testing.T) {
	cluster := start(t, 1, nil)
	s := open(t, cluster, "stale")
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	ok(t, s.Commit(ctx, put("p", "k", "2")))
	later, err := s.Snapshot(ctx)
	ok(t, err)
	raw := rawClient(t, cluster)
	newest, err := raw.Get(ctx, "x")
	ok(t, err)
	_, err = raw.Compact(ctx, newest.Header.Revision)
	ok(t, err)
	_, err = snap.Get(ctx, nil, key("p", "k"))
	wantIs(t, err, store.ErrStale)
	_, err = count(ctx, snap, store.Interval(nil, nil))
	wantIs(t, err, store.ErrStale)
	v, err := later.Get(ctx, nil, key("p", "k"))
	if ok(t, err); string(v) != "2" {
		t.Errorf("the later snapshot has %q", v)
	}
}

// Conditions hold or fail by items, whether or not they have an expiry: comparisons of etcd know
// nothing of it.
func TestConditionsOfExpiringItems(t *testing.T) {
	s := open(t, start(t, 1, nil), "expiry")
	set := func(expiry time.Time) uint64 {
		ok(t, s.Commit(ctx, &store.WriteSet{Ops: []store.Op{{Key: key("p", "k"), Value: []byte("v"),
			Expiry: expiry.UnixMilli()}}}))
		it, err := s.GetItem(ctx, key("p", "k"))
		if expiry.After(time.Now()) {
			ok(t, err)
		}
		return it.Version
	}
	is := func(c store.Condition) func(uint64) store.Condition {
		return func(uint64) store.Condition { return c }
	}
	for i, c := range []struct {
		cond                func(version uint64) store.Condition
		holds, holdsExpired bool
	}{
		{is(store.Absent()), false, true},
		{is(store.Present()), true, false},
		{is(store.ValueIs([]byte("v"))), true, false},
		{is(store.ValueIs([]byte("w"))), false, false},
		{store.VersionIs, true, false},
		{func(v uint64) store.Condition { return store.VersionIs(v + 1) }, false, false},
	} {
		for _, expired := range []bool{false, true} {
			version, want := set(time.Now().Add(time.Hour)), c.holds
			if expired {
				set(time.Now().Add(-time.Hour))
				want = c.holdsExpired
			}
			var w store.WriteSet
			w.Require(key("p", "k"), c.cond(version))
			w.Put(key("p", "other"), nil)
			err := s.Commit(ctx, &w)
			if (err == nil) != want || err != nil && !errors.Is(err, store.ErrConditionFailed) {
				t.Errorf("condition %d, expired %v: %v", i, expired, err)
			}
		}
	}
}

// What a server would refuse is refused before, with what to do; and where a server refuses because
// of settings of its own, the error says what to do, too.
func TestLimitsSayWhatToDo(t *testing.T) {
	tight := func(cfg *embed.Config) { cfg.MaxTxnOps, cfg.QuotaBackendBytes = 10, 4<<20 }
	s := open(t, start(t, 1, tight), "tight")
	var w store.WriteSet
	for i := range 11 {
		w.Put(key("p", fmt.Sprint(i)), nil)
	}
	err := s.Commit(ctx, &w)
	wantIs(t, err, store.ErrTooLarge)
	if !strings.Contains(fmt.Sprint(err), "--max-txn-ops") || errors.Is(err, store.ErrUnknown) {
		t.Errorf("error: %v", err)
	}
	w.Reset()
	w.Put(store.Key{PK: make([]byte, 32<<10)}, make([]byte, 1<<20)) // zero bytes: twice as long
	ok(t, s.Commit(ctx, &w))
	w.Reset()
	for i := range 65 {
		w.Require(key("p", fmt.Sprint(i)), store.VersionIs(1))
	}
	wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
	w.Reset()
	for i := range 12 {
		pk := make([]byte, 32<<10)
		pk[0] = byte(i)
		w.PutIf(store.Key{PK: pk, SK: []byte("k")}, nil, store.Absent())
	}
	wantIs(t, s.Commit(ctx, &w), store.ErrTooLarge)
	for i := range 20 {
		err = s.Commit(ctx, put("q", fmt.Sprint(i), strings.Repeat("v", 1<<20)))
		if err != nil {
			break
		}
	}
	if !strings.Contains(fmt.Sprint(err), "--quota-backend-bytes") ||
		errors.Is(err, store.ErrUnknown) {
		t.Errorf("a full store: %v", err)
	}
}

// A wrong user or password is an error at once, which says what to check.
func TestAuthentication(t *testing.T) {
	cluster := start(t, 1, nil)
	raw := rawClient(t, cluster)
	_, err := raw.UserAdd(ctx, "root", "secret")
	ok(t, err)
	_, err = raw.UserGrantRole(ctx, "root", "root")
	ok(t, err)
	_, err = raw.UserAdd(ctx, "nobody", "secret")
	ok(t, err)
	_, err = raw.AuthEnable(ctx)
	ok(t, err)
	as := func(user string) string {
		return strings.Replace(cluster.URL("auth"), "etcd://", "etcd://"+user, 1)
	}
	for _, user := range []string{"", "root:wrong@", "unknown:secret@", "nobody:secret@"} {
		short, cancel := context.WithTimeout(ctx, 30*time.Second)
		_, err := etcd.Open(short, as(user))
		if cancel(); err == nil || !strings.Contains(err.Error(), "check") ||
			strings.Contains(err.Error(), "secret") || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("user %q: %v", user, err)
		}
	}
	s, err := etcd.Open(ctx, as("root:secret@"))
	ok(t, err)
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	ok(t, s.Close())
}

// Members that use TLS are reached with their authority, and only so.
func TestTLS(t *testing.T) {
	info, err := transport.SelfCert(zap.NewNop(), t.TempDir(), []string{"127.0.0.1:0"}, 1)
	ok(t, err)
	cluster := start(t, 1, func(cfg *embed.Config) {
		cfg.ListenClientUrls[0].Scheme, cfg.AdvertiseClientUrls[0].Scheme = "https", "https"
		cfg.ClientTLSInfo = info
	})
	s, err := etcd.Open(ctx, cluster.URL("tls")+"?ca="+info.CertFile)
	ok(t, err)
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	ok(t, s.Close())
	other, _, err := testutil.Certificate()
	ok(t, err)
	wrong := filepath.Join(t.TempDir(), "other.pem")
	ok(t, os.WriteFile(wrong, other, 0o600))
	for query, want := range map[string]string{
		"": "if the members use TLS", "?tls=on": "certificate signed by unknown authority",
		"?ca=" + wrong: "certificate signed by unknown authority",
	} {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := etcd.Open(short, cluster.URL("tls")+query)
		if cancel(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", query, err, want)
		}
	}
}

// Without a majority of members calls end with their context, or with the store's timeout.
func TestNoMajority(t *testing.T) {
	cluster := start(t, 3, nil)
	s, err := etcd.Open(ctx, cluster.URL("lost")+"?timeout=5s")
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	cluster.Kill(0)
	cluster.Kill(1)
	for _, call := range storetest.Calls() {
		t.Run(call.Name, func(t *testing.T) {
			t.Parallel()
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			begun := time.Now()
			err := call.Do(short, s, snap)
			if err == nil || !errors.Is(err, context.DeadlineExceeded) &&
				!strings.Contains(err.Error(), "etcdserver:") {
				t.Errorf("error: %v", err)
			}
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			if call.Writes != errors.Is(err, store.ErrUnknown) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

// proxied returns a store that reaches its only member through a proxy.
func proxied(t *testing.T, options string) (*etcd.Store, *testutil.Proxy) {
	t.Helper()
	p := testutil.NewProxy(t, start(t, 1, nil).Address(0))
	s, err := etcd.Open(ctx, "etcd://"+p.Addr()+"/proxied"+options)
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, p
}

// Calls to a member that does not answer any more end with their context, or with the timeout of
// the store, and a commit says then that its outcome is unknown.
func TestSlowMember(t *testing.T) {
	s, p := proxied(t, "?timeout=400ms")
	ok(t, s.Commit(ctx, put("p", "k", "1")))
	snap, err := s.Snapshot(ctx)
	ok(t, err)
	p.Set(testutil.Stall)
	for _, call := range storetest.Calls() {
		t.Run(call.Name, func(t *testing.T) {
			t.Parallel()
			for _, err := range remotetest.Unanswered(t, call, s, snap) {
				if call.Writes != errors.Is(err, store.ErrUnknown) {
					t.Errorf("error: %v", err)
				}
			}
		})
	}
}

// A commit whose connection breaks has an unknown outcome, and was written once or not at all: the
// client does not send it again.
//
// Promise (reads and writes): A commit on etcd whose connection breaks is ErrUnknown, and written
// once or not at all.
func TestUnknownOutcome(t *testing.T) {
	// What is cut at the answer may be one of the connection itself, before the member has begun.
	for fault, most := range map[testutil.Fault]uint64{
		testutil.CutRequest: 0, testutil.CutAnswer: 1,
	} {
		s, p := proxied(t, "")
		ok(t, s.Commit(ctx, put("p", "k", "1")))
		before, err := s.GetItem(ctx, key("p", "k"))
		ok(t, err)
		p.Set(fault)
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		err = s.Commit(short, put("p", "k", "2"))
		cancel()
		wantIs(t, err, store.ErrUnknown)
		p.Set(testutil.Pass)
		after, err := s.GetItem(ctx, key("p", "k"))
		ok(t, err)
		n := after.Version - before.Version // revisions of the cluster
		if n > most || (string(after.Value) == "2") != (n == 1) {
			t.Errorf("fault %d: it was written %d times, %q is there", fault, n, after.Value)
		}
	}
}

// A store that is closed says so.
func TestClosed(t *testing.T) { remotetest.Closed(t, open(t, start(t, 1, nil), "closed")) }

// Addresses and options that make no sense are refused at once, with what to do.
func TestBadURLs(t *testing.T) {
	remotetest.BadURLs(t, etcd.Open, map[string]string{
		"etcd://":                         "etcd://HOST:PORT,.../NAME",
		"tikv://h:1/x":                    "etcd://HOST:PORT,.../NAME",
		"etcd://h/x":                      "is not HOST:PORT",
		"etcd://u:secret@h:1,h/x":         "each address is HOST:PORT",
		"etcd://u:secret@h/x":             "is not HOST:PORT",
		"etcd://u@h:1/x":                  "given together",
		"etcd://h:1/x?colour=red":         `parameter "colour" is unknown`,
		"etcd://h:1/x?timeout=soon":       "parameter timeout",
		"etcd://h:1/x?timeout=-1s":        "is negative",
		"etcd://h:1/x?tls=maybe":          "neither on nor off",
		"etcd://h:1/x?cert=c":             "given together",
		"etcd://h:1/x?cert=/no&key=/no":   "no such file",
		"etcd://h:1/x?ca=/does/not/exist": "no such file",
	})
}

// Where nothing listens, or nothing answers, Open ends with the deadline.
func TestNoCluster(t *testing.T) {
	remotetest.NoServer(t, etcd.Open, "etcd")
	remotetest.NoServer(t, func(ctx context.Context, url string) (*etcd.Store, error) {
		return etcd.Open(ctx, strings.Replace(url, "//", "//u:p@", 1))
	}, "etcd")
}
