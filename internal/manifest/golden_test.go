package manifest_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
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
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			want, err = got, os.WriteFile(path, got, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got\n%swant\n%s", name, hex.Dump(got), hex.Dump(want))
		}
		write(t, old, filepath.Join(dir, name), want)
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ReplaceAll(string(text), "\r\n", "\n"), hex.Dump(want)) {
			t.Errorf("docs/format/%s does not show\n%s", page, hex.Dump(want))
		}
	}
	s, _, err := manifest.Load(old, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "next-file=2 next-run=2 log-start=0 last-seq=5\n" +
		"154 flushed=5 1:1[user#1\x00\x00,user#1\x00\x00]\n"
	if got := renderState(s); got != want || s.HashSeed != 0x1122334455667788 {
		t.Errorf("golden manifest says\n%s", got)
	}
}

func TestDescribe(t *testing.T) {
	mem := exampleDatabase(t)
	var b strings.Builder
	if err := manifest.DescribeCurrent(&b, read(t, mem, currentPath)); err != nil {
		t.Fatal(err)
	}
	content := read(t, mem, manifestPath(1))
	if err := manifest.Describe(&b, "MANIFEST-000001", content, nil); err != nil {
		t.Fatal(err)
	}
	want := `format 1, database a0a1a2a3a4a5a6a7a8a9aaabacadaeaf, manifest MANIFEST-000001
       0  format 1, database a0a1a2a3a4a5a6a7a8a9aaabacadaeaf, manifest 1
      40  record 0: snapshot, settings of 2 bytes, next file 1, next run 1
      74  record 1: edit, next file 2, next run 2, last seq 5
          stripe 154: flushed 5
            +run 1
              154-1.sst 300 bytes ["user#1\x00\x00", "user#1\x00\x00"] seq 5..5 entries 1
     134  record 2: seal
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
