//go:build unix

package postgres_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kstonedb/kstone/engine/store/postgres"
)

// server is a PostgreSQL server in a temporary folder, on a port of this machine.
type server struct {
	dir  string
	port int
	cmd  *exec.Cmd
	cred *syscall.SysProcAttr
}

const password = "secret of the tests"

var (
	running *server // nil: missing says why
	missing string
	tables  atomic.Int64
)

func TestMain(m *testing.M) {
	code := 1
	func() {
		s, err := startServer()
		if err != nil {
			missing = err.Error()
		} else {
			running = s
			defer s.stop()
		}
		code = m.Run()
	}()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// binaries returns the folder of the server's programs.
func binaries() (string, error) {
	var dirs []string
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin",
		"/usr/local/bin", "/opt/homebrew/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		_, noInit := os.Stat(filepath.Join(dir, "initdb"))
		_, noServer := os.Stat(filepath.Join(dir, "postgres"))
		if noInit == nil && noServer == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("initdb and postgres are missing in PATH and %v: "+
		"install the package postgresql of the distribution", dirs)
}

// startServer makes a database with encrypted and password-protected connections and starts its
// server. It refuses to run as root, so that then it is another user's.
func startServer() (*server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kstone-postgres")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, cred: &syscall.SysProcAttr{Setpgid: true}}
	if os.Getuid() == 0 {
		if err := s.become("postgres", "nobody"); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(dir, "password")
	if err := s.file(secret, []byte(password)); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "tester", "-E", "UTF8",
		"--locale=C", "--auth=scram-sha-256", "--pwfile", secret, "--no-sync")
	initdb.SysProcAttr, initdb.Dir = s.cred, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.certificate(data); err != nil {
		return nil, err
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir,
		"-c", "fsync=off", "-c", "ssl=on", "-c", "max_connections=200",
		"-c", "max_pred_locks_per_transaction=256")
	s.cmd.SysProcAttr, s.cmd.Dir = s.cred, dir
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.await()
}

// become makes the server run as the first of some users that exists.
func (s *server) become(names ...string) error {
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.cred.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(s.dir, int(uid), int(gid))
	}
	return fmt.Errorf("the server does not run as root, and there is none of the users %v", names)
}

// file writes a file of the server.
func (s *server) file(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	if c := s.cred.Credential; c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// certificate makes a certificate for localhost, signed by itself.
func (s *server) certificate(data string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	err = s.file(filepath.Join(data, "server.crt"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err != nil {
		return err
	}
	return s.file(filepath.Join(data, "server.key"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await waits until the server takes connections.
func (s *server) await() error {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		var c *postgres.Store
		if c, err = postgres.Open(context.Background(), s.url("await")); err == nil {
			return c.Close()
		}
		<-time.After(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.stop()
	return fmt.Errorf("%w; log of the server: %s", err, text)
}

// stop ends the server and removes its folder.
func (s *server) stop() {
	s.cmd.Process.Signal(syscall.SIGQUIT)
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// url returns the URL of a table.
func (s *server) url(table string) string {
	return s.at(fmt.Sprintf("127.0.0.1:%d", s.port)) + "?sslmode=disable&table=" + table
}

// at returns the URL of the database at an address.
func (s *server) at(address string) string {
	return fmt.Sprintf("postgres://tester:%s@%s/postgres", "secret%20of%20the%20tests", address)
}

// need skips a test without a server.
func need(t testing.TB) *server {
	t.Helper()
	if running == nil {
		t.Skip("no PostgreSQL server: " + missing)
	}
	return running
}

// open opens a store with an empty table.
func open(t testing.TB, options string) *postgres.Store {
	t.Helper()
	url := need(t).url(fmt.Sprintf("t%d", tables.Add(1))) + options
	s, err := postgres.Open(context.Background(), url)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close()) })
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
