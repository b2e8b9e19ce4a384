package engine_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Environment of the child process of TestSmallDatabaseOfManyProcesses and of
// TestOpenLockedByAnotherProcess.
const (
	smallDirEnv = "KSTONE_SMALL_DIR"
	smallRunEnv = "KSTONE_SMALL_RUN"
)

// What a database may take into which less than 64 KiB of commits were written.
const (
	smallFiles = 4
	smallBytes = 100_000
)

func smallItem(run int) (engine.Key, []byte) {
	return pk(fmt.Sprintf("user#%d", run)), fmt.Appendf(nil, "value %d", run)
}

// smallWriter opens, puts and closes. An odd run waits to be killed instead of closing.
func smallWriter() error {
	run, _ := strconv.Atoi(os.Getenv(smallRunEnv))
	db, err := engine.Open(os.Getenv(smallDirEnv), nil)
	if err != nil {
		return err
	}
	k, v := smallItem(run)
	if err := db.Put(k, v); err != nil {
		return err
	}
	if run%2 == 1 {
		fmt.Println("written")
		select {}
	}
	return db.Close()
}

func TestMain(m *testing.M) {
	child := smallWriter
	switch {
	case os.Getenv(besideDirEnv) != "":
		child = besideChild
	case os.Getenv(smallDirEnv) == "":
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// wantSmall checks the files of a directory, and returns what it has found.
func wantSmall(t *testing.T, what string, sizes map[string]int64) {
	t.Helper()
	files, bytes := 0, int64(0)
	for name, n := range sizes {
		if name != "LOCK" && name != "RESERVE" {
			files++
			bytes += n
		}
	}
	if files > smallFiles || bytes > smallBytes {
		t.Fatalf("%s: %d files, %d bytes: %v", what, files, bytes, sizes)
	}
}

// Goal: a command line that puts one item each time it runs leaves a small database,
// however often it runs, and also if it is killed. Method: 41 processes, one after the
// other; every second one is killed after its put.
//
// Promise (manners): A small database takes at most 4 files and 100 KB beside lock and reserve,
// however often it is opened and also if it is killed; opening one that was closed writes and
// syncs nothing. Also `TestSmallDatabaseOfManyOpenings`, `TestOpeningASmallDatabaseIsCheap`;
// `TestManyOpensAreOneSegment` in `wal`.
func TestSmallDatabaseOfManyProcesses(t *testing.T) {
	testutil.SlowUnderRace(t, "starts processes")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "db")
	const runs = 41
	for run := range runs {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), smallDirEnv+"="+dir, smallRunEnv+"="+strconv.Itoa(run))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		if run%2 == 1 {
			if !bufio.NewScanner(out).Scan() {
				t.Fatal("the child has written nothing")
			}
			ok(t, cmd.Process.Kill())
			_ = cmd.Wait()
		} else {
			ok(t, cmd.Wait())
		}
		sizes := map[string]int64{}
		for name, content := range readDir(t, dir) {
			sizes[name] = int64(len(content))
		}
		wantSmall(t, fmt.Sprintf("after run %d", run), sizes)
	}
	db := openDir(t, dir, nil)
	defer mustClose(t, db)
	for run := range runs {
		k, v := smallItem(run)
		wantValue(t, db, k, v)
	}
}

// Goal: the same for any number of openings, with and without writes. Method: many in one process
// on a file system in memory, some of which end with a kill.
func TestSmallDatabaseOfManyOpenings(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	many := testutil.Effort(250, 1000)
	for name, c := range map[string]struct {
		opens, keys, valueBytes int
		kill, idle              bool
	}{
		"new items":           {opens: many, keys: many, valueBytes: 10},
		"forty items":         {opens: many, keys: 40, valueBytes: 10},
		"every second killed": {opens: 150, keys: 150, valueBytes: 150, kill: true},
		"nothing written":     {opens: 2 * many, keys: 1, valueBytes: 10, idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfstest.NewCrash()
			for i := range c.opens {
				db := openOn(t, fsys, engine.Options{})
				if i < c.keys || !c.idle {
					v := fmt.Appendf(nil, "%*d", c.valueBytes, i)
					ok(t, db.Put(pk(fmt.Sprintf("user#%d", i%c.keys)), v))
				}
				killed := fsys
				if c.kill && i%2 == 1 {
					killed = fsys.Kill()
				}
				mustClose(t, db)
				fsys = killed
				if i%50 >= 48 || i == c.opens-1 {
					wantSmall(t, fmt.Sprintf("after opening %d", i), sizesOf(t, fsys, "db"))
				}
			}
			db := openOn(t, fsys, engine.Options{ReadOnly: true})
			if n := len(content(t, db)); n != c.keys {
				t.Errorf("%d items, want %d", n, c.keys)
			}
			mustClose(t, db)
		})
	}
}

func sizesOf(t *testing.T, fsys vfs.FS, dir string) map[string]int64 {
	t.Helper()
	names, err := fsys.List(dir)
	ok(t, err)
	sizes := map[string]int64{}
	for _, name := range names {
		info, err := fsys.Stat(filepath.Join(dir, name))
		ok(t, err)
		sizes[name] = info.SizeBytes
	}
	return sizes
}

// Opening a database that was closed, and closing it again, syncs nothing and writes nothing
// but the owner of the lock; one put makes no file and no directory sync.
func TestOpeningASmallDatabaseIsCheap(t *testing.T) {
	mem := vfs.NewMem()
	db := openOn(t, mem, engine.Options{})
	ok(t, db.Put(pk("a"), []byte("1")))
	mustClose(t, db)
	for _, write := range []bool{false, true} {
		var changes []string
		syncs := 0
		fsys := vfstest.NewFault(mem, func(op vfstest.Op) error {
			switch op.Kind {
			case vfstest.OpCreate, vfstest.OpRename, vfstest.OpRemove, vfstest.OpLink,
				vfstest.OpSyncDir:
				changes = append(changes, fmt.Sprint(op.Kind, " ", op.Name))
			case vfstest.OpSync, vfstest.OpWriteAt, vfstest.OpTruncate, vfstest.OpAllocate:
				syncs++
				if !write {
					changes = append(changes, fmt.Sprint(op.Kind, " ", op.Name))
				}
			}
			return nil
		})
		db := openOn(t, fsys, engine.Options{})
		if syncs > 0 {
			t.Errorf("Open: %q", changes)
		}
		if write {
			ok(t, db.Put(pk("a"), []byte("2")))
		}
		mustClose(t, db)
		if len(changes) > 0 {
			t.Errorf("write %v: %s", write, strings.Join(changes, ", "))
		}
	}
}
