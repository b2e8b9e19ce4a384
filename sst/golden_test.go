package sst_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
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
	page, err := os.ReadFile(filepath.Join("..", "docs", "format", "sst.md"))
	ok(t, err)
	if want := exampleBytes(t, string(page)); !bytes.Equal(got, want) {
		t.Errorf("the page shows %d bytes, the writer makes %d:\n%s", len(want), len(got),
			hex.Dump(got))
	}
}

// exampleBytes collects the hexadecimal bytes of a page's "hex" block: on each line
// an offset, two spaces, bytes, two spaces, a remark.
func exampleBytes(tb testing.TB, page string) []byte {
	tb.Helper()
	_, block, ok := strings.Cut(page, "```hex\n")
	if !ok {
		tb.Fatal("no example")
	}
	block, _, _ = strings.Cut(block, "```")
	var out []byte
	for line := range strings.Lines(block) {
		off, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if off != fmt.Sprintf("%04x", len(out)) {
			tb.Fatalf("line %q does not start at %04x", line, len(out))
		}
		digits, _, _ := strings.Cut(rest, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			tb.Fatalf("line %q: %v", line, err)
		}
		out = append(out, b...)
	}
	return out
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
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) && *writeGolden {
			text = []byte(hex.Dump(now))
			err = os.WriteFile(path, text, 0o666)
		}
		ok(t, err)
		golden := parseDump(t, string(text))
		if codec == sst.None && !bytes.Equal(now, golden) {
			t.Errorf("the writer makes other bytes than in %s; if that is meant, "+
				"it is a new version", path)
		}
		store(t, fs, meta.Name(), golden)
		if meta, _, err = sst.ReadMeta(fs, meta.Name()); err != nil {
			t.Fatal(err)
		}
		r := sst.NewReader(readerOptions(fs, meta))
		if checkAnswers(t, r, entries, ranges) {
			t.Errorf("%s is damaged", path)
		}
		if err := r.Verify(context.Background()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// parseDump is the inverse of hex.Dump.
func parseDump(tb testing.TB, text string) []byte {
	tb.Helper()
	var out []byte
	for line := range strings.Lines(text) {
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
