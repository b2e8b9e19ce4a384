package stripe_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

// checkRun checks what must hold of the files of a run.
func (w *world) checkRun(r *stripe.Run) {
	w.t.Helper()
	var last []byte
	for i, f := range r.Files {
		m := f.Meta
		if i > 0 && m.RangeTombstones > 0 && r.Files[i-1].Meta.Entries > 0 {
			w.t.Fatalf("file %d of the run holds range tombstones, and comes after entries", i)
		}
		if m.Entries > 0 {
			if bytes.Compare(m.Smallest, last) <= 0 {
				w.t.Fatalf("file %d starts at %q, the one before ends at %q", i, m.Smallest, last)
			}
			last = m.Largest
		}
		info, err := w.fs.Stat(filepath.Join("db", m.Name()))
		ok(w.t, err)
		if info.SizeBytes != m.SizeBytes {
			w.t.Fatalf("%s has %d bytes, want %d", m.Name(), info.SizeBytes, m.SizeBytes)
		}
		ok(w.t, f.Reader.Verify(ctx))
	}
}

// Many versions of a key stay in one file however small files shall be.
func TestVersionsOfAKeyShareAFile(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.FileBytes = 1
	for i := range 100 {
		w.commit(put("a", "x"), put("b", fmt.Sprintf("%0300d", i)), put("c", "y"))
		w.snapshot()
	}
	w.commit(delRange("0", "1"))
	w.flush()
	r := w.s.View().Runs[0]
	w.checkRun(r)
	if len(r.Files) != 3 && len(r.Files) != 4 {
		t.Fatalf("%d files, want one for each of 3 keys and perhaps one of range tombstones",
			len(r.Files))
	}
	for _, f := range r.Files {
		if f.Meta.Entries != 0 && f.Meta.Entries != 100 {
			t.Fatalf("%s has %d versions, want 100", f.Meta.Name(), f.Meta.Entries)
		}
	}
	for _, snap := range []base.SeqNum{1, 50, 100} {
		w.checkGets(snap)
		w.checkScan("", "", snap, false)
		w.checkScan("", "", snap, true)
	}
	w.reopen()
	w.checkAll()
}

// noise is a value that does not compress to nothing.
func noise(i int) string { return fmt.Sprintf("%064x", uint64(i)*0x9e3779b97f4a7c15) }

// Files end at about FileBytes, in flushes and merges, also when they are recycled
// ones that were longer.
func TestFilesEndAtFileBytes(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.junk = bytes.Repeat([]byte("old content "), 10_000)
	w.env.FileBytes, w.reason = 8<<10, compaction.ReasonManual
	for i := range 2000 {
		w.commit(put(fmt.Sprintf("k%05d", i*7919%2000), noise(i)))
	}
	w.commit(delRange("k00500", "k00510"), delRange("x", "y"))
	w.flush()
	w.fill(100, "v")
	w.compact(0, 2)
	r := w.s.View().Runs[0]
	w.checkRun(r)
	for i, f := range r.Files {
		size := f.Meta.SizeBytes
		if size > 12<<10 || (i < len(r.Files)-1 && size < 4<<10) {
			t.Errorf("file %d of %d has %d bytes, want about %d",
				i, len(r.Files), size, w.env.FileBytes)
		}
	}
	w.checkAll()
	w.checkFiles()
}

// Range tombstones that are too many for one file begin the next one. All files of them
// can be read, before entries and alone.
func TestRangeTombstonesFillFiles(t *testing.T) {
	const fileBytes, n = 16 << 10, 200
	w := newWorld(t, vfs.NewMem())
	w.env.FileBytes = fileBytes
	w.fill(n, "v")
	w.snapshot()
	long := strings.Repeat("x", 500)
	check := func(when string, entries bool) {
		t.Helper()
		r := w.s.View().Runs[0]
		w.checkRun(r)
		ranges, with := uint64(0), 0
		for i, f := range r.Files {
			m := f.Meta
			if m.SizeBytes > fileBytes+2<<10 || i+1 < len(r.Files) && m.SizeBytes < fileBytes/2 {
				t.Errorf("%s: file %d has %d bytes, want about %d", when, i, m.SizeBytes, fileBytes)
			}
			if ranges += m.RangeTombstones; m.RangeTombstones > 0 {
				with++
			}
		}
		if ranges != n || with < 4 || (r.Files[len(r.Files)-1].Meta.Entries > 0) != entries {
			t.Errorf("%s: %d range tombstones in %d files, want %d in several\n%s", when, ranges,
				with, n, w.shape())
		}
		w.checkAll()
		w.reopen()
		w.checkAll()
	}
	w.env.UpperCodec, w.env.BottomCodec = sst.None, sst.None
	for i := range n {
		w.commit(delRange(fmt.Sprintf("k%04d", i), fmt.Sprintf("k%04d%s", i, long)))
	}
	w.flush()
	check("flushed", false)
	w.compact(0, 2)
	check("merged", true)
	w.checkFiles()
}

// When everything is deleted the stripe has no files.
func TestNothingLeft(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.fill(20, "v")
	w.commit(delRange("k", "l"))
	w.flush()
	w.compact(0, 2)
	w.checkAll()
	if names := w.onDisk(); len(names) > 0 || len(w.s.View().Runs) > 0 {
		t.Fatalf("left are %v, %s", names, w.shape())
	}
	w.commit(del("k0001"), delRange("a", "b"))
	w.flush() // tombstones with nothing below
	w.checkFiles()
	if len(w.s.View().Runs) > 0 {
		t.Fatalf("tombstones over nothing were written:\n%s", w.shape())
	}
}

// Output's numbers are those of the files.
func TestOutputCounts(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.FileBytes, w.reason = 4<<10, compaction.ReasonManual
	for i := range 500 {
		w.commit(put(fmt.Sprintf("k%05d", i), noise(i)))
	}
	last := w.seq
	w.freeze()
	w.commit(put("later", "x"))
	var paced int64
	w.b.Pace = func(_ context.Context, n int64) error { paced += n; return nil }
	out, err := w.startFlush()
	ok(t, err)
	size := int64(0)
	for _, name := range w.onDisk() {
		info, err := w.fs.Stat(filepath.Join("db", name))
		ok(t, err)
		size += info.SizeBytes
	}
	if out.FlushedSeq != last || out.BytesWritten != size || paced != size || out.BytesRead != 0 {
		t.Errorf("flushed up to %d, %d bytes, paced %d; want %d, %d, %d",
			out.FlushedSeq, out.BytesWritten, paced, last, size, size)
	}
	if low, held := w.s.MinSeq(nil); low != 1 || !held {
		t.Errorf("MinSeq is %d, %v, want 1", low, held)
	}
	if low, held := w.s.MinSeq(out); low != last+1 || !held {
		t.Errorf("MinSeq without the output is %d, %v, want %d", low, held, last+1)
	}
	if got, want := out.TableBytes(), w.s.View().Frozen[0].Bytes(); got != want {
		t.Errorf("TableBytes is %d, want %d", got, want)
	}
	ok(t, w.install(out))
	out, err = w.startCompaction(0, 1)
	ok(t, err)
	if out.BytesRead != size || out.FlushedSeq != 0 {
		t.Errorf("merge read %d bytes, flushed up to %d; want %d, 0",
			out.BytesRead, out.FlushedSeq, size)
	}
	ok(t, w.install(out))
	w.flush()
	if _, held := w.s.MinSeq(nil); held {
		t.Error("MinSeq: something is said to be in memory")
	}
}

// Merges with the oldest run have a codec of their own, flushes and other merges another.
func TestCodecs(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.env.UpperCodec, w.env.BottomCodec = sst.None, sst.LZ4
	const n, large = 100, 100 * 200
	value := strings.Repeat("v", 200)
	check := func(when string, want ...bool) {
		t.Helper()
		runs := w.s.View().Runs
		for i, r := range runs {
			if len(runs) != len(want) || (r.Bytes() > large) != want[i] {
				t.Fatalf("%s: run %d of %d has %d bytes", when, i, len(runs), r.Bytes())
			}
		}
	}
	w.fill(n, value)
	check("the first flush", true)
	w.fill(n, value)
	w.fill(n, value)
	check("three", true, true, true)
	w.compact(0, 2)
	check("a merge of the young", true, true)
	w.compact(0, 2)
	check("a merge with the oldest", false)
	w.fill(n, value)
	check("one more", true, false)
}
