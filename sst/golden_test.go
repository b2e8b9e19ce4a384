package sst_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

var writeGolden = flag.Bool("golden", false, "write missing golden files, never existing ones")

// exampleFile is the file of the byte example in docs/format/sst.md.
func exampleFile(tb testing.TB, fs vfs.FS) (base.FileMeta, []base.Entry, base.RangeTombstone) {
	tb.Helper()
	entries := []base.Entry{
		{Key: []byte("u1\x00\x00a"), Value: []byte("Ada"), Seq: 9, Kind: base.KindPut},
		{Key: []byte("u1\x00\x00a"), Value: []byte("A."), Seq: 4, Kind: base.KindPutTTL,
			Expiry: 1000},
		{Key: []byte("u1\x00\x00bob"), Seq: 6, Kind: base.KindDelete},
	}
	rt := base.RangeTombstone{Start: []byte("u2"), End: []byte("u3"), Seq: 5}
	o := sst.WriterOptions{FileNum: 3, Stripe: 154, FilterBits: 8, BlockBytes: 16 << 10}
	return build(tb, fs, o, entries, rt), entries, rt
}

// TestDocumentedExample: the bytes in docs/format/sst.md are what the writer makes.
func TestDocumentedExample(t *testing.T) {
	fs := vfs.NewMem()
	meta, _, _ := exampleFile(t, fs)
	got := contents(t, fs, meta.Name())
	want, err := testutil.PageBytes("../docs/format/sst.md", "hex")
	if ok(t, err); !bytes.Equal(got, want) {
		t.Errorf("the page shows %d bytes, the writer makes %d:\n%s", len(want), len(got),
			hex.Dump(got))
	}
}

// TestGolden: files of all format versions are readable for ever. Uncompressed ones
// are also what the writer makes today.
func TestGolden(t *testing.T) {
	for _, c := range smallFiles {
		codec, version := c.codec, "v1-"
		if c.partBlocks > 0 {
			version = "v2-"
		}
		fs := vfs.NewMem()
		meta, entries, ranges := fileOfParts(t, fs, codec, c.partBlocks)
		now := contents(t, fs, meta.Name())
		path := filepath.Join("testdata", version+codec.String()+".hex")
		golden := goldenBytes(t, path, now)
		if codec == sst.None && !bytes.Equal(now, golden) {
			t.Errorf("the writer makes other bytes than in %s; if that is meant, "+
				"it is a new version", path)
		}
		store(t, fs, meta.Name(), golden)
		meta, _, err := sst.ReadMeta(fs, meta.Name())
		ok(t, err)
		r := sst.NewReader(readerOptions(fs, meta))
		if checkAnswers(t, r, entries, ranges) {
			t.Errorf("%s is damaged", path)
		}
		if err := r.Verify(context.Background()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// goldenBytes returns the bytes that a file shows as hex.Dump does. With -golden a missing file is
// made of those that the writer makes now.
func goldenBytes(tb testing.TB, path string, now []byte) (out []byte) {
	tb.Helper()
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && *writeGolden {
		text = []byte(hex.Dump(now))
		err = os.WriteFile(path, text, 0o666)
	}
	ok(tb, err)
	for line := range strings.Lines(string(text)) {
		if len(line) < 60 {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line[10:58], " ", ""))
		ok(tb, err)
		out = append(out, b...)
	}
	return out
}

// TestExampleReads: the documented file holds what the page says.
func TestExampleReads(t *testing.T) {
	fs := vfs.NewMem()
	meta, entries, rt := exampleFile(t, fs)
	r := sst.NewReader(readerOptions(fs, meta))
	checkSource(t, r.NewSource(), entries)
	if checkAnswers(t, r, entries, []base.RangeTombstone{rt}) {
		t.Error("damaged")
	}
}
