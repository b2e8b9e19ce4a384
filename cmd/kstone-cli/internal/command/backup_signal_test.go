package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// A backup to another file system that is asked to stop leaves nothing, and the next one
// works. The test runs its own binary as the program, see TestMain.
func TestStoppedBackup(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals between processes")
	}
	self, err := exec.LookPath("kstone-cli")
	ok(t, err)
	there, err := os.MkdirTemp("/dev/shm", "kstone-test-")
	if err != nil {
		t.Skipf("no other file system: %v", err)
	}
	defer func() { _ = os.RemoveAll(there) }()
	db, dest := filepath.Join(t.TempDir(), "a.db"), filepath.Join(there, "copy.db")
	e, err := engine.Open(db, nil)
	ok(t, err)
	ok(t, e.Put(engine.Key{PK: []byte("k")}, make([]byte, 1<<20)))
	ok(t, e.Close())
	if err := os.Link(filepath.Join(db, "CURRENT"), filepath.Join(there, "link")); err == nil {
		t.Skipf("%s is not on another file system", there)
	}
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.Command(self, "backup", db, dest, "--rate", "1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		ok(t, cmd.Start())
		for len(files(dest)) < 2 { // the lock and a file that is being copied
			runtime.Gosched()
		}
		ok(t, cmd.Process.Signal(sig))
		err := cmd.Wait()
		if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(out.String(), "interrupted") {
			t.Errorf("%v: %v\n%s", sig, err, &out)
		}
		if left := files(dest); len(left) > 0 {
			t.Errorf("%v: %v are left", sig, left)
		}
	}
	if out, err := exec.Command(self, "backup", db, dest).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func files(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
