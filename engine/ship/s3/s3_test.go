package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/engine/ship/s3"
	"github.com/kstonedb/kstone/engine/ship/s3/s3test"
	"github.com/kstonedb/kstone/engine/ship/shiptest"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) {
	minio.DefaultRetryUnit, minio.DefaultRetryCap = time.Millisecond, 5*time.Millisecond
	os.Exit(m.Run())
}

var ctx = context.Background()

var ok, wantIs = testutil.OK, testutil.WantIs

// open opens a destination by its URL.
func open(t testing.TB, url string) ship.Destination {
	t.Helper()
	d, err := ship.OpenDestination(ctx, url)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.(*s3.Destination).Close()) })
	return d
}

func checks(t *testing.T, addr string) {
	for _, c := range shiptest.Checks() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open(t, s3test.URL(addr, "a/"+c.Name))) })
	}
}

// Promise (shipping): A bucket of an S3-compatible store is a destination as a directory is one.
// Also `TestVersity`.
func TestServer(t *testing.T) { checks(t, s3test.Start(t)) }

func TestVersity(t *testing.T) {
	addr := s3test.StartVersity(t)
	checks(t, addr)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
	_, err := open(t, s3test.URL(addr, "b")).List(ctx, "")
	if err == nil || !strings.Contains(err.Error(), "check the credentials") ||
		strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("error %v", err)
	}
}

// Promise (shipping): Over a connection that loses, repeats, delays, tears and refuses, an object
// that was put is there and whole, of several puts of a name one at most succeeds, and none says
// that another one was first without one.
func TestPutUnderFaults(t *testing.T) {
	rnd := testutil.Rand(t)
	p := s3test.NewProxy(t, s3test.Start(t), rnd, 3)
	const racers = 3
	d := open(t, s3test.URL(p.Addr(), ""))
	good := 0
	for i := range testutil.Effort(150, 5000) {
		name := fmt.Sprintf("log/%010d", i)
		errs := make([]error, racers)
		content := func(r int) []byte { return bytes.Repeat(fmt.Append(nil, name, " ", r), 1+i) }
		var wg sync.WaitGroup
		for r := range racers {
			wg.Go(func() {
				b := content(r)
				errs[r] = d.Put(ctx, name, bytes.NewReader(b), int64(len(b)))
			})
		}
		wg.Wait()
		var got []byte
		var err error
		for range 20 {
			if got, err = read(d, name); err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		exists := err == nil
		whose := -1
		for r := range racers {
			if exists && bytes.Equal(got, content(r)) {
				whose = r
			}
		}
		if exists && whose < 0 {
			t.Fatalf("%s has %d bytes, and is nobody's", name, len(got))
		}
		for r, err := range errs {
			switch {
			case err == nil && whose != r:
				t.Fatalf("%s is put by %d and is that of %d", name, r, whose)
			case errors.Is(err, fs.ErrExist) && (!exists || whose == r):
				t.Fatalf("%s: put %d reports the object of %d", name, r, whose)
			case err == nil:
				good++
			}
		}
	}
	p.Heal()
	t.Log(good, " puts of ", p.Hits())
	if good == 0 {
		t.Error("no put has succeeded")
	}
}

func read(d ship.Destination, name string) ([]byte, error) {
	r, err := d.Get(ctx, name, 0, -1)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// Promise (shipping): A server without conditional writes is found out before anything is shipped
// to it, and named as that.
func TestServerWithoutConditions(t *testing.T) {
	addr := s3test.Start(t)
	for how, change := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"ignores": func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-None-Match")
			return false
		},
		"knows not": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-None-Match") == "" {
				return false
			}
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code></Error>")
			return true
		},
	} {
		p := s3test.NewProxy(t, addr, nil, 0)
		p.Change = change
		d := open(t, s3test.URL(p.Addr(), how))
		for range 2 {
			wantIs(t, d.Put(ctx, "log/1", strings.NewReader("x"), 1), s3.ErrUnconditional)
		}
		_, err := d.Head(ctx, "log/1")
		wantIs(t, err, fs.ErrNotExist)
	}
}

// Absent buckets, and gateways without a server, are errors, not absent objects.
func TestAbsentIsNotUnreachable(t *testing.T) {
	addr := s3test.Start(t)
	p := s3test.NewProxy(t, addr, nil, 0)
	p.Change = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html>no such site</html>")
		return true
	}
	for _, url := range []string{"s3://other-bucket?insecure=true&endpoint=" + addr,
		s3test.URL(p.Addr(), "")} {
		d := open(t, url)
		_, herr := d.Head(ctx, "log/1")
		_, gerr := read(d, "log/1")
		_, lerr := d.List(ctx, "log/")
		for _, err := range []error{herr, gerr, lerr} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: error %v", url, err)
			}
		}
	}
}

// A call whose server does not answer ends with its context.
func TestNoAnswer(t *testing.T) {
	p := s3test.NewProxy(t, s3test.Start(t), nil, 0)
	p.Change = func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return true
	}
	d := open(t, s3test.URL(p.Addr(), ""))
	cause := errors.New("no patience")
	short, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, cause)
	defer cancel()
	_, herr := d.Head(short, "log/1")
	_, lerr := d.List(short, "log/")
	for _, err := range []error{herr, lerr, d.Delete(short, "log/1"),
		d.Put(short, "log/1", strings.NewReader("x"), 1)} {
		wantIs(t, err, cause)
	}
}

// slowContent is a content. The second read for a request, after those for its sum, lasts until Put
// has returned, or for longer than the transport waits.
type slowContent struct {
	passes   int
	inside   atomic.Bool
	returned chan struct{}
}

func (c *slowContent) ReadAt(p []byte, off int64) (int, error) {
	if off == 0 {
		c.passes++
	}
	if c.passes == 2 && off > 0 {
		c.passes++
		c.inside.Store(true)
		select {
		case <-c.returned:
		case <-time.After(300 * time.Millisecond):
		}
		c.inside.Store(false)
	}
	return len(p), nil
}

// A content is not read when its Put has returned, also if the server answers before it has it.
func TestContentAfterPut(t *testing.T) {
	p := s3test.NewProxy(t, s3test.Start(t), nil, 0)
	p.Change = func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength < 1<<20 { // the probe
			return false
		}
		ok(t, http.NewResponseController(w).EnableFullDuplex())
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	c := &slowContent{returned: make(chan struct{})}
	err := open(t, s3test.URL(p.Addr(), "")).Put(ctx, "log/1", c, 1<<20)
	if inside := c.inside.Load(); err == nil || inside {
		t.Errorf("error %v, and it is being read: %v", err, inside)
	}
	close(c.returned)
}

// Promise (shipping): Credentials come from the environment or a file, and are in no error and no
// URL that is printed.
func TestCredentials(t *testing.T) {
	for _, url := range []string{"s3://", "s3:///x", "s3://b", "s3://bucket?x=y",
		"s3://a:hush@bucket", "s3://bucket?endpoint=http://h", "s3://bucket?insecure=hush",
		"s3://bucket/%zz?k=hush",
		"s3://bucket?endpoint=a:hush@host"} {
		_, err := s3.Open(url)
		wantIs(t, err, engine.ErrInvalid)
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("error %v", err)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "credentials")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
		"AWS_ACCESS_KEY", "AWS_SECRET_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	const url = "s3://bucket/x?endpoint=127.0.0.1:1&insecure=true"
	_, err := s3.Open(url)
	wantIs(t, err, engine.ErrInvalid)
	if !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("error %v", err)
	}
	ok(t, os.WriteFile(file, []byte("[default]\naws_access_key_id = id\n"+
		"aws_secret_access_key = hush\n"), 0o600))
	d, err := s3.Open(url)
	ok(t, err)
	_, err = d.Head(ctx, "log/1")
	if err == nil || strings.Contains(fmt.Sprint(err, d), "hush") ||
		!strings.Contains(err.Error(), "s3://bucket/x/log/1") {
		t.Errorf("error %v of %v", err, d)
	}
}
