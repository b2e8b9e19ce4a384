package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestStoppedDedup: a dedup that is asked to stop removes its temporary directory and says
// that it was interrupted. The test runs its own binary as the program, see TestMain.
func TestStoppedDedup(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	self, err := exec.LookPath("kstone-cli")
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if sig == syscall.SIGHUP && signal.Ignored(sig) {
			continue // the test runs under nohup, which the program inherits and respects
		}
		tmp := t.TempDir()
		cmd := exec.Command(self, "dedup", filepath.Join(tmp, "none.db"), "-", "--format", "jsonl",
			"--pk", "id")
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It reads only when it has its directory, and a pipe holds less than this.
		if _, err := in.Write(bytes.Repeat([]byte(`{"id":"a"}`+"\n"), 100_000)); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if n := leftovers(t, tmp); n != 1 {
			t.Fatalf("%d temporary directories while it runs", n)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "interrupted") {
			t.Errorf("%v: %v\n%s", sig, err, &out)
		}
		if n := leftovers(t, tmp); n != 0 {
			t.Errorf("%v: %d temporary directories are left", sig, n)
		}
	}
}

func leftovers(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "kstone-dedup-*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
