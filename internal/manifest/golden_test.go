package manifest_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// -golden writes the golden files of a format version that has none yet.
var golden = flag.Bool("golden", false, "write testdata/golden files that do not exist")

// exampleDatabase makes the database of the format pages: created, then one flush
// of stripe 154 with the key (user#1, no sort key).
func exampleDatabase(t *testing.T) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	init := &manifest.State{HashSeed: 0x1122334455667788, Settings: []byte("{}")}
	for i := range init.DBID {
		init.DBID[i] = byte(0xa0 + i)
	}
	l, err := makeAndCreate(mem, dir, init)
	ok(t, err)
	f := &base.FileMeta{
		Num: 1, Stripe: 154, SizeBytes: 300, Smallest: []byte("user#1\x00\x00"),
		Largest: []byte("user#1\x00\x00"), MinSeq: 5, MaxSeq: 5, Entries: 1, RawBytes: 20,
	}
	mustCommit(t, l, &manifest.Edit{
		NextFile: 2, NextRun: 2, LastSeq: 5,
		Stripes: []manifest.StripeEdit{{
			Stripe: 154, FlushedSeq: 5, Add: []*manifest.Run{{ID: 1, Files: []*base.FileMeta{f}}},
		}},
	})
	ok(t, l.Close())
	return mem
}

// The writer produces the golden bytes, the reader understands them, and the format
// pages show them.
func TestGolden(t *testing.T) {
	mem := exampleDatabase(t)
	pages := map[string]string{"CURRENT": "directory.md", "MANIFEST-000001": "manifest.md"}
	old := vfs.NewMem()
	for name, page := range pages {
		got := read(t, mem, filepath.Join(dir, name))
		path := filepath.Join("testdata", "golden", "v1", name)
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) && *golden {
			ok(t, os.MkdirAll(filepath.Dir(path), 0o755))
			want, err = got, os.WriteFile(path, got, 0o644)
		}
		ok(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%swant\n%s", name, hex.Dump(got), hex.Dump(want))
		}
		write(t, old, filepath.Join(dir, name), want)
		testutil.PageShows(t, "../../docs/format/"+page, want)
	}
	s, _, err := manifest.Load(old, dir)
	ok(t, err)
	want := "next-file=2 next-run=2 log-start=0 last-seq=5\n" +
		"154 flushed=5 1:1[user#1\x00\x00,user#1\x00\x00]\n"
	if got := renderState(s); got != want || s.HashSeed != 0x1122334455667788 {
		t.Errorf("golden manifest says\n%s", got)
	}
}

// everything returns a CURRENT, a manifest with each kind of edit, and one with the state after
// them as its snapshot.
func everything(t *testing.T) (current, edits, snapshot []byte) {
	t.Helper()
	mem := vfs.NewMem()
	l, err := makeAndCreate(mem, dir, initState())
	ok(t, err)
	mustCommit(t, l, flush(1))
	mustCommit(t, l, &manifest.Edit{Settings: []byte("other"), LogSeq: 7})
	plain := *flush(4)
	plain.Stripes[0].FlushedSeq, plain.Stripes[0].Remove = 0, []uint64{1}
	f := plain.Stripes[0].Add[0].Files[0]
	f.Tombstones, f.RangeTombstones, f.TTLEntries = 1, 0, 1
	mustCommit(t, l, &plain)
	ok(t, l.Close())
	ok(t, mem.MkdirAll("copy"))
	ok(t, manifest.WriteSnapshot(mem, "copy", l.State()))
	return read(t, mem, currentPath), read(t, mem, manifestPath(1)),
		read(t, mem, filepath.Join("copy", manifest.Name(1)))
}

// TestDescribeEverything shows each part of snapshots and edits, and what a writer that fails
// gets: its own error, and no further text.
func TestDescribeEverything(t *testing.T) {
	current, edits, snapshot := everything(t)
	settings := func(b []byte) string { return strings.ToUpper(string(b)) }
	var b strings.Builder
	ok(t, errors.Join(manifest.DescribeCurrent(&b, current),
		manifest.Describe(&b, "M", edits, settings),
		manifest.Describe(&b, "M", snapshot, func([]byte) string { return "" })))
	const head = "format 1, database db0102030405060708090a0b0c0d0e0f, manifest MANIFEST-000001\n"
	want := `       0  format 1, database db0102030405060708090a0b0c0d0e0f, manifest 1
      40  record 0: snapshot, settings of 8 bytes (SETTINGS), next file 1, next run 1
      80  record 1: edit, next file 2, next run 2, log start 1, last seq 10
          stripe 001: flushed 10
            +run 1
              001-1.sst 1000 bytes ["a", "z"] seq 1..10 entries 10 tombstones 2` +
		` range tombstones 1 expiring 3 (-5..1099511627776 ms)
     132  record 2: edit, settings of 5 bytes (OTHER), log seq 7
     162  record 3: edit, next file 5, next run 5, log start 4, last seq 40
          stripe 001: -run 1
            +run 4
              001-4.sst 1000 bytes ["a", "z"] seq 31..40 entries 10 tombstones 1` +
		` expiring 1 (-5..1099511627776 ms)
     215  record 4: seal
       0  format 1, database db0102030405060708090a0b0c0d0e0f, manifest 1
      40  record 0: snapshot, settings of 5 bytes, next file 5, next run 5, log start 4,` +
		` log seq 7, last seq 40
          stripe 001: flushed 10
            run 4
              001-4.sst 1000 bytes ["a", "z"] seq 31..40 entries 10 tombstones 1` +
		` expiring 1 (-5..1099511627776 ms)
     104  record 1: seal
`
	if b.String() != head+want {
		t.Errorf("got\n%s", b.String())
	}
	for n := 0; ; n++ {
		w := &failingWriter{left: n}
		err := manifest.Describe(w, "M", edits, settings)
		if cerr := manifest.DescribeCurrent(&failingWriter{left: n}, current); (cerr == nil) !=
			(n > 0) {
			t.Errorf("after %d writes of CURRENT: %v", n, cerr)
		}
		if !w.failed {
			if err != nil || n < 20 {
				t.Errorf("after %d writes: %v", n, err)
			}
			break
		}
		if !errors.Is(err, errIO) || w.left < 0 || !strings.HasPrefix(want, w.String()) {
			t.Errorf("after %d writes: %v, %d too many", n, err, -w.left)
		}
	}
}

// failingWriter takes some writes, fails, and is not called again.
type failingWriter struct {
	strings.Builder
	left   int
	failed bool
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.failed {
		w.left--
	}
	if w.left <= 0 {
		w.failed = true
		return 0, errIO
	}
	w.left--
	return w.Builder.Write(p)
}
