//go:build unix

package postgrestest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/kstonedb/kstone/engine/store/postgres"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Server is a PostgreSQL server in a temporary folder, on a port of this machine.
type Server struct {
	Certificate []byte // that it shows, signed by itself, as PEM

	dir  string
	port int
	cmd  *exec.Cmd
	cred *syscall.SysProcAttr
}

// Password is that of the user tester.
const Password = "secret of the tests"

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

// Start makes a database with encrypted and password-protected connections and starts its
// server. It refuses to run as root, so that then it is another user's.
func Start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kstone-postgres")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, cred: &syscall.SysProcAttr{Setpgid: true}}
	if os.Getuid() == 0 {
		if err := s.become("postgres", "nobody"); err != nil {
			return nil, err
		}
	}
	secret := filepath.Join(dir, "password")
	if err := s.file(secret, []byte(Password)); err != nil {
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
	if s.port, err = FreePort(); err != nil {
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
func (s *Server) become(names ...string) error {
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
func (s *Server) file(path string, content []byte) error {
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	if c := s.cred.Credential; c != nil {
		return os.Chown(path, int(c.Uid), int(c.Gid))
	}
	return nil
}

// certificate writes the certificate of the server and its key.
func (s *Server) certificate(data string) error {
	cert, key, err := testutil.Certificate()
	if err != nil {
		return err
	}
	s.Certificate = cert
	if err := s.file(filepath.Join(data, "server.crt"), cert); err != nil {
		return err
	}
	return s.file(filepath.Join(data, "server.key"), key)
}

// FreePort returns a port of the loopback that nothing listens to.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await waits until the server takes connections.
func (s *Server) await() error {
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		var c *postgres.Store
		if c, err = postgres.Open(context.Background(), s.URL("await")); err == nil {
			return c.Close()
		}
		<-time.After(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	s.Stop()
	return fmt.Errorf("%w; log of the server: %s", err, text)
}

// Stop ends the server and removes its folder.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGQUIT)
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// URL returns the URL of a table.
func (s *Server) URL(table string) string {
	return s.At(s.Address()) + "?sslmode=disable&table=" + table
}

// Address returns HOST:PORT.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// At returns the URL of the database at an address.
func (s *Server) At(address string) string {
	return fmt.Sprintf("postgres://tester:%s@%s/postgres", url.PathEscape(Password), address)
}
