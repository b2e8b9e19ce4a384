package engine_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// readDir returns the content of all files of a directory.
func readDir(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			b = []byte(err.Error()) // a directory
		}
		files[e.Name()] = string(b)
	}
	return files
}

func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
}

// A directory of something else is refused, the error names what is in it, and not a
// byte changes, whichever way it is opened.
//
// Promise (manners): A directory of something else is refused and left alone. Also
// `TestOpenFileInsteadOfDirectory`.
func TestOpenForeignDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		words []string
	}{
		"photos": {map[string]string{"a.jpg": "x", "b.jpg": "y"}, []string{"a.jpg", "b.jpg"}},
		"leveldb": {map[string]string{"CURRENT": "MANIFEST-000005\n", "000003.log": ""},
			[]string{"CURRENT"}},
		"text":       {map[string]string{"CURRENT": "now"}, []string{"CURRENT"}},
		"empty file": {map[string]string{"CURRENT": ""}, []string{"CURRENT"}},
		"sst only":   {map[string]string{"000-1.sst": "x"}, []string{"000-1.sst"}},
		"many": {map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": ""},
			[]string{"1", "5", "2 more"}},
	} {
		for _, o := range []engine.Options{{}, {ReadOnly: true}, {MustExist: true}} {
			dir := t.TempDir()
			writeFiles(t, dir, c.files)
			_, err := engine.Open(dir, &o)
			if !errors.Is(err, engine.ErrNotDatabase) {
				t.Errorf("%s: %v", name, err)
			}
			for _, w := range c.words {
				if !strings.Contains(fmt.Sprint(err), w) {
					t.Errorf("%s: %v does not name %s", name, err, w)
				}
			}
			if !maps.Equal(readDir(t, dir), c.files) {
				t.Errorf("%s: the directory has changed", name)
			}
		}
	}
}

// A file in place of the directory is not a database either.
func TestOpenFileInsteadOfDirectory(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"file": "content"})
	for _, o := range []engine.Options{{}, {ReadOnly: true}} {
		_, err := engine.Open(filepath.Join(dir, "file"), &o)
		wantIs(t, err, engine.ErrNotDatabase)
		if _, err = engine.Open(filepath.Join(dir, "file", "below"), &o); err == nil {
			t.Error("a database below a file was opened")
		}
	}
	mem := vfs.NewMem()
	ok(t, vfstest.WriteFile(mem, "db", nil))
	_, err := engine.OpenFS(mem, "db", nil)
	wantIs(t, err, engine.ErrNotDatabase)
	if got := readDir(t, dir); got["file"] != "content" {
		t.Error("the file has changed")
	}
}

// No name is not the name of the working directory.
func TestOpenWithoutName(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFiles(t, ".", map[string]string{"mine.txt": "x"})
	_, err := engine.Open("", nil)
	wantIs(t, err, engine.ErrInvalid)
	_, err = engine.Open(".", nil)
	wantIs(t, err, engine.ErrNotDatabase)
	if got := readDir(t, "."); len(got) != 1 {
		t.Errorf("files were made: %d", len(got))
	}
}

func TestOpenWhatDoesNotExist(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, o := range []engine.Options{
		{ReadOnly: true}, {MustExist: true}, {ReadOnly: true, InMemory: true},
	} {
		_, err := engine.Open(dir, &o)
		wantIs(t, err, engine.ErrNotExist)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the directory was made: %v", err)
		}
	}
	// Leftovers of a creation that was interrupted do not exist either.
	ok(t, os.Mkdir(dir, 0o777))
	writeFiles(t, dir, map[string]string{"MANIFEST-000001": "half", "LOCK": ""})
	_, err := engine.Open(dir, &engine.Options{MustExist: true})
	wantIs(t, err, engine.ErrNotExist)
	db, err := engine.Open(filepath.Join(dir), nil) // and are replaced
	ok(t, err)
	mustClose(t, db)
	db = openDir(t, dir, &engine.Options{MustExist: true})
	mustClose(t, db)
}

// Two handles in one process: the error of the second names the first.
//
// Promise (manners): The error of a second writer names the first. Also
// `TestOpenLockedByAnotherProcess`.
func TestOpenTwice(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, nil)
	ok(t, err)
	_, err = engine.Open(dir, nil)
	wantLocked(t, err, dir, os.Getpid())
	ok(t, db.Put(pk("k"), []byte("still here")))
	mustClose(t, db)
	db = openDir(t, dir, nil)
	wantValue(t, db, pk("k"), []byte("still here"))
	mustClose(t, db)
}

func wantLocked(t *testing.T, err error, dir string, pid int) {
	t.Helper()
	wantIs(t, err, engine.ErrLocked)
	var locked *engine.LockedError
	if !errors.As(err, &locked) || locked.Dir != dir ||
		!strings.Contains(locked.Owner, "process "+strconv.Itoa(pid)+" ") {
		t.Errorf("%v does not name process %d and %s", err, pid, dir)
	}
}

// Another process holds the database; its death frees it.
func TestOpenLockedByAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), smallDirEnv+"="+dir, smallRunEnv+"=1")
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the child wrote nothing")
	}
	_, err = engine.Open(dir, nil)
	wantLocked(t, err, dir, cmd.Process.Pid)
	ok(t, cmd.Process.Kill())
	_ = cmd.Wait()
	db := openDir(t, dir, nil)
	mustClose(t, db)
}

// fixture is a closed database with SSTs in some stripes, a log with commits that are
// in no SST, and properties.
func fixture(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	db := openOn(t, fsys, engine.Options{BlockBytes: 1 << 10, Compression: engine.NoCompression})
	ok(t, db.SetProperty("schema", []byte("one")))
	put := func(from, to int) {
		for i := from; i < to; i++ {
			k := pksk(fmt.Sprint(i%5), fmt.Sprintf("%03d", i))
			ok(t, db.Put(k, []byte(strings.Repeat(fmt.Sprint(i), 10))))
		}
	}
	put(0, 120)
	ok(t, db.Flush(ctx))
	ok(t, db.DeleteRange([]byte("1"), engine.SKLess([]byte("030"))))
	put(100, 150)
	ok(t, db.Flush(ctx))
	put(150, 170)
	ok(t, db.Delete(pksk("2", "002")))
	want := content(t, db)
	mustClose(t, db)
	return want
}

// A read-only database issues no operation that could change a file but that with leases, works
// with a log that was never flushed, and refuses writes.
//
// Promise (manners): Read-only writes nothing but leases. Also `TestViewWritesNothing`.
func TestReadOnlyWritesNothing(t *testing.T) {
	mem := vfs.NewMem()
	want := fixture(t, mem)
	strict := vfstest.NewFault(mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen, vfstest.OpList, vfstest.OpStat, vfstest.OpLock, vfstest.OpReadAt,
			vfstest.OpClose, vfstest.OpLink:
			return nil
		}
		if filepath.Base(op.Name) == "READERS" || !strings.HasPrefix(op.Name, "db") {
			return nil // a lease, or the copy of Checkpoint
		}
		t.Errorf("%v %s", op.Kind, op.Name)
		return fs.ErrPermission
	})
	before := snapshotFiles(t, mem, "db")
	db := openOn(t, strict, engine.Options{ReadOnly: true})
	if !maps.Equal(content(t, db), want) {
		t.Error("a read-only database has another content")
	}
	if v, ok := db.Property("schema"); !ok || string(v) != "one" {
		t.Errorf("property %q, %v", v, ok)
	}
	b := engine.NewBatch()
	ok(t, b.Put(pk("x"), nil))
	for name, call := range closedCalls(db, b) {
		switch name {
		case "Get", "AppendGet", "GetItem", "Has", "Count", "View", "Snapshot", "Verify",
			"Checkpoint":
			if err := call(); err != nil && !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		default:
			if err := call(); !errors.Is(err, engine.ErrReadOnly) {
				t.Errorf("%s on a read-only database: %v", name, err)
			}
		}
	}
	wantIs(t, db.Close(), engine.ErrLeaked) // the snapshot above
	if after := snapshotFiles(t, mem, "db"); !maps.Equal(before, after) {
		t.Error("the directory has changed")
	}
}

// snapshotFiles returns the content of all files of a directory of a file system.
//
// Without the leases of readers: they are no part of the database.
func snapshotFiles(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name, b := range filesOf(t, fsys, dir) {
		if name != "READERS" {
			files[name] = string(b)
		}
	}
	return files
}

// Without the right to write, opening for writing fails and says so; read-only works.
func TestOpenWithoutPermission(t *testing.T) {
	mem := vfs.NewMem()
	want := fixture(t, mem)
	frozen := vfstest.NewFault(mem, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpOpen, vfstest.OpList, vfstest.OpStat, vfstest.OpLock, vfstest.OpReadAt,
			vfstest.OpClose:
			return nil
		}
		return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: fs.ErrPermission}
	})
	before := snapshotFiles(t, mem, "db")
	_, err := engine.OpenFS(frozen, "db", nil)
	wantIs(t, err, fs.ErrPermission)
	_, err = engine.OpenFS(frozen, "other", nil)
	wantIs(t, err, fs.ErrPermission)
	if !maps.Equal(before, snapshotFiles(t, mem, "db")) {
		t.Error("the directory has changed")
	}
	db := openOn(t, frozen, engine.Options{ReadOnly: true})
	if !maps.Equal(content(t, db), want) {
		t.Error("other content")
	}
	mustClose(t, db)
	_, err = engine.OpenFS(vfstest.NewFault(mem, func(op vfstest.Op) error {
		return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: fs.ErrPermission}
	}), "db", &engine.Options{ReadOnly: true})
	wantIs(t, err, fs.ErrPermission)
}

// Files of a format version from the future are refused by name.
//
// Promise (damage): Unknown versions are refused by name, and opening changes no file then.
func TestUnknownFormatVersions(t *testing.T) {
	mem := vfs.NewMem()
	fixture(t, mem)
	files := snapshotFiles(t, mem, "db")
	for name, content := range files {
		at := 8
		switch {
		case name == "LOCK" || isPrepared(content):
			continue
		case strings.HasSuffix(name, ".sst"):
			at = len(content) - 12
		}
		b := []byte(content)
		binary.LittleEndian.PutUint32(b[at:], 9)
		if strings.HasPrefix(name, "wal-") { // where only whole headers are judged
			sum := crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli))
			binary.LittleEndian.PutUint32(b[60:], sum)
		}
		changed := maps.Clone(files)
		changed[name] = string(b)
		for _, o := range []engine.Options{{ReadOnly: true}, {}} {
			fsys := stored(t, changed)
			db, err := engine.OpenFS(fsys, "db", &o)
			if err == nil { // an SST is looked into when it is needed
				_, err = db.Verify(ctx, nil)
				_ = db.Close()
			} else if !maps.Equal(snapshotFiles(t, fsys, "db"), changed) {
				t.Errorf("%s: opening with %+v has changed files", name, o)
			}
			if !errors.Is(err, engine.ErrVersion) || !errors.Is(err, engine.ErrCorrupt) ||
				!strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A file that is missing is noticed by Open and named, and what is left stays.
func TestMissingFiles(t *testing.T) {
	mem := vfs.NewMem()
	fixture(t, mem)
	files := snapshotFiles(t, mem, "db")
	for name, content := range files {
		if name == "LOCK" || isPrepared(content) {
			continue
		}
		less := maps.Clone(files)
		delete(less, name)
		for _, o := range []engine.Options{{}, {ReadOnly: true}} {
			fsys := stored(t, less)
			db, err := engine.OpenFS(fsys, "db", &o)
			if name == "CURRENT" {
				wantIs(t, err, engine.ErrNotDatabase)
				continue
			}
			if err == nil {
				_ = db.Close()
			}
			if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s is missing, read-only %v: %v", name, o.ReadOnly, err)
			}
			if !maps.Equal(less, snapshotFiles(t, fsys, "db")) {
				t.Errorf("%s is missing: Open changed the directory", name)
			}
		}
	}
}

// isPrepared reports whether a log segment was prepared and never used.
func isPrepared(content string) bool { return strings.Trim(content, "\x00") == "" }

// Many open the same new directory at once: one creates it, the others get an error.
func TestOpenRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	dbs := make([]*engine.DB, 8)
	var wg sync.WaitGroup
	for i := range dbs {
		wg.Go(func() {
			var err error
			dbs[i], err = engine.Open(dir, nil)
			if err != nil && !errors.Is(err, engine.ErrLocked) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	opened := 0
	for i, db := range dbs {
		if db != nil {
			opened++
			ok(t, db.Put(pk(fmt.Sprint(i)), nil))
			mustClose(t, db)
		}
	}
	if opened != 1 {
		t.Errorf("%d have opened the directory", opened)
	}
	db := openDir(t, dir, &engine.Options{ReadOnly: true})
	if n := len(content(t, db)); n != 1 {
		t.Errorf("%d items", n)
	}
	mustClose(t, db)
}
