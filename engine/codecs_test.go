package engine_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

var codecLine = regexp.MustCompile(`(?m)^codec +(\w+)$`)

// inspectCodecs returns the codecs of the SSTs in dir, oldest file first, as inspect shows
// them. Requires: the files are of one stripe and have numbers of one digit.
func inspectCodecs(t testing.TB, dir string) (codecs []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	ok(t, err)
	for _, name := range names {
		var text strings.Builder
		ok(t, engine.InspectFile(name, &text))
		codecs = append(codecs, codecLine.FindStringSubmatch(text.String())[1])
	}
	return codecs
}

// Goal: BottomCompression is for old data: what a merge with the oldest run writes. Method:
// one stripe, its runs as inspect shows them after flushes, a merge of young runs, a merge
// of all.
//
// Promise (manners): Fresh data is written with `Compression`, old data with
// `BottomCompression`, and `Compact` brings files to what the options say. Also
// `TestCompactWritesWhatTheOptionsSay`.
func TestBottomCompressionIsForMergedData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := openDir(t, dir, &engine.Options{
		Compression: engine.LZ4, BottomCompression: engine.Zstd, MaxRuns: 8,
	})
	defer mustClose(t, db)
	flush := func(sk string) {
		t.Helper()
		ok(t, db.Put(pksk("one stripe", sk), []byte(strings.Repeat(sk, 1000))))
		ok(t, db.Flush(ctx))
	}
	want := func(when string, codecs ...string) {
		t.Helper()
		live := filepath.Join(t.TempDir(), "checkpoint") // without files to be recycled
		ok(t, db.Checkpoint(ctx, live, nil))
		if got := inspectCodecs(t, live); !slices.Equal(got, codecs) {
			t.Fatalf("%s: files have codecs %v, want %v", when, got, codecs)
		}
	}
	flush("a")
	want("a first flush", "lz4")
	flush("b")
	want("a second flush", "lz4", "lz4")
	ok(t, db.Compact(ctx))
	want("a merge of all", "zstd")
	flush("c")
	want("a flush of young data", "zstd", "lz4")
	ok(t, db.Compact(ctx))
	want("another merge of all", "zstd")
}

// A run that was flushed and never merged becomes old data with Compact, and one that is
// written as the options say is left alone.
func TestCompactWritesWhatTheOptionsSay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	compact := func(o engine.Options) (merges uint64, codecs []string) {
		t.Helper()
		db := openDir(t, dir, &o)
		ok(t, db.Put(pk("a"), []byte(strings.Repeat("text ", 1000))))
		ok(t, db.Compact(ctx))
		before := db.Metrics().Compactions
		ok(t, db.Compact(ctx))
		merges = db.Metrics().Compactions - before
		mustClose(t, db)
		return merges, inspectCodecs(t, dir)
	}
	for _, o := range []engine.Options{
		{},
		{BottomCompression: engine.Zstd},
		{Compression: engine.NoCompression, BottomCompression: engine.LZ4},
		{Compression: engine.LZ4, BottomCompression: engine.NoCompression},
	} {
		names := map[engine.Compression]string{
			engine.DefaultCompression: "snappy", engine.NoCompression: "none",
			engine.LZ4: "lz4", engine.Zstd: "zstd",
		}
		merges, codecs := compact(o)
		if want := []string{names[o.BottomCompression]}; !slices.Equal(codecs, want) {
			t.Errorf("%v: codecs %v, want %v", o.BottomCompression, codecs, want)
		}
		if merges != 0 {
			t.Errorf("%v: the second Compact merges %d stripes", o.BottomCompression, merges)
		}
	}
	for what, change := range map[string]engine.Options{
		"filters": {FilterBits: 16}, "blocks": {BlockBytes: 16 << 10},
		"codec": {BottomCompression: engine.Snappy},
	} {
		db := openDir(t, dir, &change)
		ok(t, db.Compact(ctx))
		if n := db.Metrics().Compactions; n != 1 {
			t.Errorf("%s have changed, %d stripes are merged", what, n)
		}
		mustClose(t, db)
	}
}
