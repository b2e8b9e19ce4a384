package tikv_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/store/tikv"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Addresses and options that make no sense are refused at once, with what to do.
func TestBadURLs(t *testing.T) {
	remotetest.BadURLs(t, tikv.Open, map[string]string{
		"tikv://":                                  "tikv://HOST:PORT,.../NAME",
		"etcd://h:1/x":                             "tikv://HOST:PORT,.../NAME",
		"tikv://h/x":                               "is not HOST:PORT",
		"tikv://user:secret@h:1/x":                 "has no users",
		"tikv://h:1/x?colour=red":                  `parameter "colour" is unknown`,
		"tikv://h:1/x?timeout=soon":                "parameter timeout",
		"tikv://h:1/x?timeout=-1s":                 "is negative",
		"tikv://h:1/x?one-phase=maybe":             "neither on nor off",
		"tikv://h:1/x?cert=c":                      "given together",
		"tikv://h:1/x?cert=c&key=k":                "needs ca",
		"tikv://h:1/x?ca=/does/not/exist/ca.pem":   "no such file",
		"tikv://h:1/x?ca=open_test.go":             "",
		"tikv://h:1,h/x":                           "each address is HOST:PORT",
		"tikv://h:1/x?async-commit=off&timeout=1y": "parameter timeout",
	})
	o, err := tikv.ParseURL("tikv://a:1,b:2/cities?timeout=3s&async-commit=off")
	ok(t, err)
	got := fmt.Sprintf("%v %s %v %v %v", o.PD, o.Name, o.Timeout, o.NoAsyncCommit, o.NoOnePhase)
	if got != "[a:1 b:2] cities 3s true false" {
		t.Errorf("options: %s", got)
	}
}

// An address at which nothing listens, at which nothing answers, and at which something else does:
// Open ends with the deadline.
func TestNoCluster(t *testing.T) { remotetest.NoServer(t, tikv.Open, "tikv") }

// A placement driver that uses TLS is met with the authority and the certificate of the URL, and
// refused with another authority.
func TestTLS(t *testing.T) {
	cert, secret, err := testutil.Certificate()
	ok(t, err)
	other, _, err := testutil.Certificate()
	ok(t, err)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, content, 0o600))
		return path
	}
	pair, err := tls.X509KeyPair(cert, secret)
	ok(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert,
	})
	ok(t, err)
	met := make(chan struct{}, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				if conn.(*tls.Conn).Handshake() == nil {
					met <- struct{}{}
				}
				_ = conn.Close()
			})
		}
	})
	right, wrong := file("ca.pem", cert), file("other.pem", other)
	own := "&cert=" + right + "&key=" + file("key.pem", secret)
	for _, c := range []struct {
		options, want string
		meets         bool
	}{
		{"?ca=" + right + own, "check the addresses", true},
		{"?ca=" + wrong + own, "x509", false},
		{"", "if the cluster uses TLS", false},
	} {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := tikv.Open(short, "tikv://"+l.Addr().String()+"/x"+c.options)
		cancel()
		if !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q: %v, want %q", c.options, err, c.want)
		}
		if (len(met) > 0) != c.meets {
			t.Errorf("%q: %d handshakes", c.options, len(met))
		}
		for len(met) > 0 {
			<-met
		}
	}
	ok(t, l.Close())
	wg.Wait()
}
