// Package s3test starts S3-compatible servers on the loopback, for tests, and a proxy that fails.
package s3test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Bucket is a bucket that every server has. AccessKey and SecretKey are its credentials.
const (
	Bucket    = "kstone-test"
	AccessKey = "kstoneaccess"
	SecretKey = "kstone-secret-key-of-tests"
)

// Start starts a server in memory, in this process, until the test ends. It knows conditional
// writes, pages and ranges, and checks the sums of contents, but no signatures.
func Start(tb testing.TB) (addr string) {
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		tb.Fatal(err)
	}
	s := httptest.NewServer(gofakes3.New(backend).Server())
	tb.Cleanup(s.Close)
	setCredentials(tb)
	return s.Listener.Addr().String()
}

// StartVersity starts a Versity gateway, a server of its own that keeps its objects in files and
// checks signatures, until the test ends. It skips the test if the machine has none.
func StartVersity(tb testing.TB) (addr string) {
	program, err := exec.LookPath("versitygw")
	if err != nil {
		tb.Skip("no versitygw in PATH: " +
			"go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	}
	dir := tb.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o755); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	addr = l.Addr().String()
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, "--port", addr, "--quiet", "posix", dir)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if err := answers("http://"+addr, ended); err != nil {
		tb.Fatal("versitygw: ", err)
	}
	setCredentials(tb)
	return addr
}

// answers returns when a server does.
func answers(url string, ended chan error) error {
	for deadline := time.After(30 * time.Second); ; {
		if resp, err := http.Get(url); err == nil {
			return resp.Body.Close()
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("it has ended: %w", err)
		case <-deadline:
			return errors.New("no answer for 30 s")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func setCredentials(tb testing.TB) {
	tb.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	tb.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
}

// URL returns that of a destination on a server of this package.
func URL(addr, prefix string) string {
	return fmt.Sprintf("s3://%s/%s?insecure=true&endpoint=%s", Bucket, prefix,
		url.QueryEscape(addr))
}
