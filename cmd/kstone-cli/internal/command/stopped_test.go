package command_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// TestStoppedDedup: a dedup that is asked to stop removes its temporary directory and says
// that it was interrupted.
func TestStoppedDedup(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	dir := stopped(t, []string{"dedup", "none.db", "-", "--format", "jsonl", "--pk", "id"}, 1)
	if names := filesIn(t, dir); len(names) > 0 {
		t.Errorf("left over: %v", names)
	}
}

// TestStoppedSegmentBuild: a build that is asked to stop leaves no file, and with --force the
// old one.
func TestStoppedSegmentBuild(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	args := []string{"segment", "build", "keys.seg", "-", "--key", "id"}
	dir := stopped(t, args, 0)
	if names := filesIn(t, dir); len(names) > 0 {
		t.Errorf("left over: %v", names)
	}
	name := filepath.Join(dir, "keys.seg")
	ok(t, os.WriteFile(name, []byte("old"), 0o600))
	stop(t, dir, append(args, "--force"), os.Interrupt, 1)
	if text, err := os.ReadFile(name); err != nil || string(text) != "old" {
		t.Errorf("the old segment is %q, %v", text, err)
	}
	if names := filesIn(t, dir); len(names) != 1 {
		t.Errorf("in the directory: %v", names)
	}
}

// TestStoppedDemo: a demo that is asked to stop takes no other step.
func TestStoppedDemo(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	self, err := exec.LookPath("kstone-cli")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	demo := exec.Command(self, "demo")
	dir := t.TempDir()
	demo.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := demo.StdoutPipe()
	ok(t, err)
	ok(t, demo.Start())
	text, lines := "", bufio.NewScanner(out)
	for lines.Scan() {
		if text += lines.Text() + "\n"; strings.Contains(lines.Text(), "kill -9") {
			ok(t, demo.Process.Signal(os.Interrupt))
		}
	}
	_ = demo.Wait()
	if code := demo.ProcessState.ExitCode(); code != 130 || strings.Contains(text, "Killed") {
		t.Errorf("exit code %d\n%s", code, text)
	}
	if names := filesIn(t, dir); len(names) > 0 {
		t.Errorf("left over: %v", names)
	}
}

// TestStoppedChanges: changes follows until Ctrl-C, after which nothing is lost that was committed.
func TestStoppedChanges(t *testing.T) {
	self, err := exec.LookPath("kstone-cli")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	dir := t.TempDir()
	put := exec.Command(self, "put", "c.db", "a", "x", "--set", "retain-bytes=1MiB")
	follow := exec.Command(self, "changes", "c.db")
	put.Dir, follow.Dir = dir, dir
	ok(t, put.Run())
	out, err := follow.StdoutPipe()
	ok(t, err)
	ok(t, follow.Start())
	lines := bufio.NewScanner(out)
	for range 2 { // the second one is of a process that begins later
		if !lines.Scan() || !strings.Contains(lines.Text(), `"kind":"put"`) {
			t.Errorf("got %q, %v", lines.Text(), lines.Err())
		}
		put := exec.Command(self, "put", "c.db", "a", "y")
		put.Dir = dir
		ok(t, put.Run())
	}
	ok(t, follow.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	if _ = follow.Wait(); follow.ProcessState.ExitCode() != 130 {
		t.Errorf("ended with %v", follow.ProcessState)
	}
}

// stopped starts the program in an empty directory, asks it to stop in every way, and
// returns the directory. While it runs there are so many files in it.
func stopped(t *testing.T, args []string, files int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if sig == syscall.SIGHUP && signal.Ignored(sig) {
			continue // the test runs under nohup, which the program inherits and respects
		}
		stop(t, dir, args, sig, files)
	}
	return dir
}

// stop runs its own binary as the program, see TestMain, and sends the signal when it reads.
func stop(t *testing.T, dir string, args []string, sig os.Signal, files int) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	self, err := exec.LookPath("kstone-cli")
	ok(t, err)
	cmd := exec.Command(self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	// It reads only when it has its directory, and a pipe holds less than this.
	if _, err := in.Write(bytes.Repeat([]byte(`{"id":"a"}`+"\n"), 100_000)); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if names := filesIn(t, dir); len(names) != files {
		t.Fatalf("in the directory while it runs: %v", names)
	}
	ok(t, cmd.Process.Signal(sig))
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(out.String(), "interrupted") {
		t.Errorf("%v: %v\n%s", sig, err, &out)
	}
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	ok(t, err)
	return names
}

// TestShipBesideAWriter: ship works while another process writes, once or until Ctrl-C.
func TestShipBesideAWriter(t *testing.T) {
	self, err := exec.LookPath("kstone-cli")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	dir := t.TempDir()
	db, err := engine.Open(filepath.Join(dir, "s.db"), &engine.Options{RetainBytes: 16 << 20})
	ok(t, err)
	defer db.Close()
	put := func() uint64 {
		t.Helper()
		ok(t, db.Put(engine.K("k", "s"), []byte("v"), engine.Sync))
		return db.Metrics().LastVersion
	}
	put()
	once, follow := exec.Command(self, "ship", "s.db", "dest"),
		exec.Command(self, "ship", "s.db", "dest", "--follow")
	once.Dir, follow.Dir = dir, dir
	first, err := once.CombinedOutput()
	if err != nil || !bytes.Contains(first, []byte("version 1 in")) {
		t.Fatalf("%v: %s", err, first)
	}
	var out bytes.Buffer
	follow.Stdout = &out
	ok(t, follow.Start())
	dest := ship.Directory(filepath.Join(dir, "dest"))
	for last, until := uint64(0), put(); last < until; {
		c, err := ship.List(t.Context(), dest)
		ok(t, err)
		last = c.Ranges[0].Last.Version
	}
	put()
	ok(t, follow.Process.Signal(os.Interrupt))
	if err := follow.Wait(); err != nil || !strings.Contains(out.String(), "version 3 in") {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestStoppedScript: Ctrl-C ends a script, in a command, between two, and where it waits for input
// or for the other end of a pipe.
func TestStoppedScript(t *testing.T) {
	self, err := exec.LookPath("kstone-cli")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	for script, at := range map[string]string{ // what it has printed when the signal comes
		"": "x", "changes\nput late x\n": `"early"`, ".read more\nput late x\n": `"early"`,
		"import pipe\nput late x\n": "x", "export --to pipe\nput late x\n": "x", // no other end
		".output pipe\nput late x\n": "x",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		sh := exec.CommandContext(ctx, self, "shell", "c.db", "--create",
			"--set", "retain-bytes=1MiB")
		sh.Dir = t.TempDir()
		ok(t, exec.Command("mkfifo", filepath.Join(sh.Dir, "pipe")).Run())
		ok(t, os.WriteFile(filepath.Join(sh.Dir, "more"), []byte("changes\nput late x\n"), 0o600))
		in, err := sh.StdinPipe()
		ok(t, err)
		out, err := sh.StdoutPipe()
		ok(t, err)
		ok(t, sh.Start())
		_, err = in.Write([]byte("put early x\nget early\n" + script))
		ok(t, err)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == at || at != "x" && strings.Contains(lines.Text(), at) {
				ok(t, sh.Process.Signal(os.Interrupt))
			}
		}
		_ = sh.Wait()
		get := exec.Command(self, "get", "c.db", "late")
		get.Dir = sh.Dir
		if code := sh.ProcessState.ExitCode(); code != 130 || get.Run() == nil {
			t.Errorf("%q: exit code %d", script, code)
		}
	}
}
