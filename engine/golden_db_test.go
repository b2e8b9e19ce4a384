package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// goldenDir holds whole databases of format version 1, each as the archive of its
// directory and the listing of what is in it. They are never written again: they prove
// that what was written once can be read for ever.
const goldenDir = "testdata/golden-db/v1"

// goldenNow is the time at which the listings were made; some items have expired by then.
var goldenNow = time.UnixMilli(1_750_000_000_000)

// listGolden describes all that a reader can find out.
func listGolden(t testing.TB, db *engine.DB) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"schema", "binary", "empty", "removed"} {
		if v, there := db.Property(name); there {
			fmt.Fprintf(&b, "property %s %q\n", name, v)
		}
	}
	if text := chosenSettings(db); text != "" {
		fmt.Fprintf(&b, "settings %s\n", text)
	}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		fmt.Fprintf(&b, "item %s %s version %d expiry %d value %d bytes %08x\n",
			goldenText(it.Key.PK), goldenText(it.Key.SK), it.Version, it.Expiry, len(it.Value),
			crc32.ChecksumIEEE(it.Value))
	}
	return b.String()
}

// goldenText quotes a short key and sums up a long one.
func goldenText(b []byte) string {
	if len(b) > 40 {
		return fmt.Sprintf("%.10q+%d %08x", b, len(b)-10, crc32.ChecksumIEEE(b))
	}
	return fmt.Sprintf("%q", b)
}

// unpackGolden puts an archive into a file system of its own.
func unpackGolden(t testing.TB, name string) *vfs.MemFS {
	t.Helper()
	f, err := os.Open(name)
	ok(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ok(t, err)
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fsys
		}
		ok(t, err)
		content, err := io.ReadAll(r)
		ok(t, err)
		ok(t, vfstest.WriteFile(fsys, filepath.Join("db", h.Name), content))
	}
}

// Goal: databases of format version 1 stay readable, with all that can be in their files:
// every codec, both filters and none, expiries, tombstones, properties, settings, several
// versions of a key, a log that a kill has left, a checkpoint. Method: each is opened for
// reading, opened for writing, changed, merged, opened again and repaired; what it holds
// must be what the listing beside it says.
//
// Promise (damage): Format version 1 stays readable. Also whole databases; `TestGolden` in `sst`
// and `internal/manifest`, `TestFormatPage` in `wal`, `TestCursorBytes`, `TestHashNeverChanges`
// in `internal/base`.
func TestGoldenDatabases(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	archives, err := filepath.Glob(filepath.Join(goldenDir, "*.tar.gz"))
	ok(t, err)
	if len(archives) < 8 {
		t.Fatalf("only %d golden databases", len(archives))
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(archive, ".tar.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name + ".txt")
			ok(t, err)
			checkGolden(t, archive, string(b))
		})
	}
}

func checkGolden(t *testing.T, archive, want string) {
	o := engine.Options{MustExist: true, Clock: func() time.Time { return goldenNow }}
	same := func(what string, db *engine.DB) {
		t.Helper()
		if got := listGolden(t, db); got != want {
			t.Fatalf("%s:\n%s\nwant\n%s", what, got, want)
		}
		ok(t, second(db.Verify(ctx, nil)))
	}
	mem := unpackGolden(t, archive)
	before := snapshotFiles(t, mem, "db")
	reader := o
	reader.ReadOnly = true
	db := openOn(t, mem, reader)
	same("opened for reading", db)
	mustClose(t, db)
	for name, content := range snapshotFiles(t, mem, "db") {
		if content != before[name] && name != "LOCK" {
			t.Errorf("reading has changed %s", name)
		}
	}
	report, err := engine.RepairFS(ctx, mem, "db", "repaired", &o)
	ok(t, err)
	if len(report.Lost) > 0 {
		t.Errorf("repair has lost %v", report.Lost)
	}
	db = openOn(t, mem, o)
	same("opened", db)
	extra := pksk("added by a later program", "x")
	ok(t, db.Put(extra, bytes.Repeat([]byte("new "), 1000)))
	ok(t, db.Delete(extra))
	ok(t, db.Flush(ctx))
	same("flushed", db)
	ok(t, db.Compact(ctx))
	same("merged", db)
	mustClose(t, db)
	db = openOn(t, mem, o)
	same("opened again", db)
	mustClose(t, db)
	db, err = engine.OpenFS(mem, "repaired", &o)
	ok(t, err)
	same("repaired", db)
	mustClose(t, db)
}
