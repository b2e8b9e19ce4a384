//go:build linux || darwin

package engine_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// descriptorsEnv makes TestFewDescriptorsChild do its work, in a directory.
const descriptorsEnv = "KSTONE_DESCRIPTORS_DIR"

// Everything works with default options where a process may have 64 files open.
//
// Promise (disks): Reads, flushes, merges and checkpoints work where a process may have 64 files
// open. Also `TestDirAsksForMoreFiles` in `internal/vfs`, `TestEvict` in `internal/cache`.
func TestFewDescriptors(t *testing.T) {
	testutil.SlowUnderRace(t, "starts processes")
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^TestFewDescriptorsChild$")
	cmd.Env = append(os.Environ(), descriptorsEnv+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestFewDescriptorsChild is the process of TestFewDescriptors. Why both limits: Go raises
// the soft one to the hard one.
func TestFewDescriptorsChild(t *testing.T) {
	root := os.Getenv(descriptorsEnv)
	if root == "" {
		t.Skip("the other process of TestFewDescriptors")
	}
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: 64}))
	db, err := engine.Open(root+"/db", nil)
	ok(t, err)
	const n = 2000
	for round := range 3 {
		for i := range n {
			ok(t, db.Put(pk(fmt.Sprint(i)), fmt.Append(nil, round), engine.Process))
		}
		ok(t, db.Flush(ctx))
	}
	read := func() {
		for i := range n {
			wantValue(t, db, pk(fmt.Sprint(i)), []byte("2"))
		}
		if got := len(content(t, db)); got != n {
			t.Errorf("%d items, want %d", got, n)
		}
	}
	read()
	ok(t, db.Compact(ctx))
	read()
	ok(t, second(db.Verify(ctx, nil)))
	ok(t, db.Checkpoint(ctx, root+"/copy", nil))
	mustClose(t, db)
	db = openDir(t, root+"/copy", nil)
	release := hogDescriptors(t) // the program takes what is left
	read()
	ok(t, db.Put(pk("0"), []byte("2")))
	release()
	mustClose(t, db)
}

// hogDescriptors opens files until no more can be, gives four back, and returns how to give
// back the others.
func hogDescriptors(t *testing.T) (release func()) {
	t.Helper()
	var fds []int
	for {
		fd, err := unix.Dup(0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds[:4] {
		ok(t, unix.Close(fd))
	}
	return func() {
		for _, fd := range fds[4:] {
			ok(t, unix.Close(fd))
		}
	}
}
