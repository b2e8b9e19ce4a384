//go:build linux || darwin

package engine_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// swapEnv makes TestSwappedDirectoryChild the process whose database is swapped away.
const swapEnv = "KSTONE_SWAP_DIR"

// owner is a process, or a part of this one, that has a database open at root/db and does
// operations by name. copy and checkpoint go to root/copy and root/checkpoint.
type owner interface {
	do(op string) error
	kill()
}

// swaps are what happens to root/db while it is open. A swap leaves nothing at root/db, or
// another closed database, and returns where the old one is now, "" for nowhere.
var swaps = map[string]func(t *testing.T, a owner, root string) (old string){
	"mv": func(t *testing.T, _ owner, root string) string {
		ok(t, os.Rename(root+"/db", root+"/old"))
		return root + "/old"
	},
	"rm -rf": func(t *testing.T, _ owner, root string) string {
		ok(t, os.RemoveAll(root+"/db"))
		return ""
	},
	"rm LOCK": func(t *testing.T, _ owner, root string) string {
		ok(t, os.Remove(root+"/db/LOCK"))
		return root + "/db"
	},
	"restore": func(t *testing.T, a owner, root string) string {
		ok(t, a.do("copy"))
		ok(t, os.Rename(root+"/db", root+"/old"))
		ok(t, os.CopyFS(root+"/db", os.DirFS(root+"/copy")))
		return root + "/old"
	},
	"symlink": func(t *testing.T, _ owner, root string) string {
		ok(t, os.Remove(root+"/db"))
		ok(t, os.Mkdir(root+"/two", 0o777))
		ok(t, os.Symlink("two", root+"/db"))
		return root + "/one"
	},
}

// Goal: an open database does nothing to another one that has come to its path, and the
// other way round. Method: every way to get there, every operation after it, in one process
// and in two. The files of the other database, which is open and has been acknowledged its
// writes, stay as they are, byte for byte; both databases hold everything in the end.
//
// Promise (durability): An open database owns its directory: after a move, a removal, a restore,
// a turned symbolic link or the removal of `LOCK`, no operation changes a byte of the database
// that is now at its path, in one process or in two. Also `TestDirIsNotItsPath`,
// `TestDirRefusesNamesOutside` in `internal/vfs`.
// Promise (durability): One writer, also without `LOCK`, in a copy by hard links, and while
// processes are being started. Also `TestLockFileRemoved`, `TestLockOfALinkedCopy`,
// `TestLockEndsWhileProcessesStart` in `internal/vfs`.
func TestSwappedDirectories(t *testing.T) {
	testutil.SlowUnderRace(t, "starts processes")
	for how, swap := range swaps {
		for _, op := range []string{"put", "flush", "merge", "checkpoint", "close", "kill"} {
			for _, processes := range []int{1, 2} {
				if op == "kill" && processes == 1 {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d", how, op, processes), func(t *testing.T) {
					t.Parallel()
					root := t.TempDir()
					if how == "symlink" {
						ok(t, os.Mkdir(root+"/one", 0o777))
						ok(t, os.Symlink("one", root+"/db"))
					}
					var a owner = &localOwner{root: root}
					if processes == 2 {
						a = startOwner(t, root)
					}
					ok(t, a.do("open"))
					old := swap(t, a, root)
					if how == "rm LOCK" {
						_, err := engine.Open(root+"/db", nil)
						wantIs(t, err, engine.ErrLocked)
						runOp(t, a, op, true)
					} else {
						besideAnother(t, root, func() { runOp(t, a, op, old != "") })
					}
					if old != "" {
						wantSwapped(t, old, op == "put")
					}
					if op == "checkpoint" && old != "" {
						wantSwapped(t, root+"/checkpoint", false)
					}
				})
			}
		}
	}
}

// runOp does an operation and ends the owner. It succeeds if the directory is still there.
func runOp(t *testing.T, a owner, op string, there bool) {
	t.Helper()
	if op == "kill" {
		a.kill()
		return
	}
	check := func(op string) {
		t.Helper()
		err := a.do(op)
		if there && err != nil {
			t.Errorf("%s: %v", op, err)
		}
		if !there && (err == nil || !strings.Contains(err.Error(), "removed while in use")) {
			t.Errorf("%s in a directory that is gone: %v", op, err)
		}
	}
	check(op)
	if op != "close" {
		check("close")
	}
}

// besideAnother opens another database at root/db, writes to it, and runs fn. It must not
// notice.
func besideAnother(t *testing.T, root string, fn func()) {
	t.Helper()
	dir := root + "/db"
	b, err := engine.Open(dir, swapOptions)
	ok(t, err)
	ok(t, fillSwap(b))
	for i := range 20 {
		ok(t, b.Put(pk(fmt.Sprint("b", i)), []byte("b")))
	}
	want := content(t, b)
	var before map[string]string
	eventually(t, "it has prepared its log", func() bool {
		last := before
		before = readDir(t, dir)
		return maps.Equal(before, last)
	})
	fn()
	after := readDir(t, dir)
	for name := range maps.Keys(before) {
		if after[name] != before[name] {
			t.Errorf("%s has changed: %d bytes, were %d", name, len(after[name]), len(before[name]))
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, were %d", len(after), len(before))
	}
	ok(t, second(b.Verify(ctx, nil)))
	mustClose(t, b)
	b = openDir(t, dir, swapOptions)
	if !maps.Equal(content(t, b), want) {
		t.Error("the other database has another content when it is opened again")
	}
	mustClose(t, b)
}

// wantSwapped checks the content of the database that was swapped away.
func wantSwapped(t *testing.T, dir string, put bool) {
	t.Helper()
	db := openDir(t, dir, swapOptions)
	defer db.Close()
	ok(t, second(db.Verify(ctx, nil)))
	n := 12
	if put {
		n++
	}
	if got := content(t, db); len(got) != n {
		t.Errorf("%s has %d items, want %d", filepath.Base(dir), len(got), n)
	}
}

// swapOptions let no merge start by itself: the files of an idle database stay as they are.
var swapOptions = &engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20, MaxRuns: 20}

// fillSwap makes SSTs in several runs, and a log.
func fillSwap(db *engine.DB) error {
	for round := range 3 {
		for i := range 4 {
			k := pksk(fmt.Sprint(i), fmt.Sprint(round))
			if err := db.Put(k, []byte("old")); err != nil {
				return err
			}
		}
		if round < 2 {
			if err := db.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// localOwner is an owner in this process.
type localOwner struct {
	root string
	db   *engine.DB
}

func (o *localOwner) do(op string) (err error) {
	switch op {
	case "open":
		if o.db, err = engine.Open(o.root+"/db", swapOptions); err == nil {
			err = fillSwap(o.db)
		}
		return err
	case "put":
		return o.db.Put(pk("after"), []byte("the swap"))
	case "flush":
		return o.db.Flush(ctx)
	case "merge":
		return o.db.Compact(ctx)
	case "copy", "checkpoint":
		return o.db.Checkpoint(ctx, filepath.Join(o.root, op), nil)
	}
	return o.db.Close()
}

func (o *localOwner) kill() {}

// childOwner is an owner in a process of its own.
type childOwner struct {
	cmd     *exec.Cmd
	in      io.Writer
	answers *bufio.Scanner
}

func startOwner(t *testing.T, root string) *childOwner {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSwappedDirectoryChild$")
	cmd.Env = append(os.Environ(), swapEnv+"="+root)
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	o := &childOwner{cmd, in, bufio.NewScanner(out)}
	t.Cleanup(o.kill)
	return o
}

func (o *childOwner) do(op string) error {
	if _, err := fmt.Fprintln(o.in, op); err != nil {
		return err
	}
	for o.answers.Scan() {
		if answer, ok := strings.CutPrefix(o.answers.Text(), "answer: "); ok {
			if answer == "<nil>" {
				return nil
			}
			return errors.New(answer)
		}
	}
	return errors.New("the child has ended")
}

func (o *childOwner) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
}

// TestSwappedDirectoryChild is the other process of TestSwappedDirectories.
func TestSwappedDirectoryChild(t *testing.T) {
	root := os.Getenv(swapEnv)
	if root == "" {
		t.Skip("the other process of TestSwappedDirectories")
	}
	time.AfterFunc(time.Minute, func() { os.Exit(1) }) // whatever becomes of the parent
	o := &localOwner{root: root}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Printf("answer: %s\n", strings.ReplaceAll(fmt.Sprint(o.do(lines.Text())), "\n", "; "))
	}
	os.Exit(0)
}
