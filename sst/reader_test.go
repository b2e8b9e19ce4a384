package sst_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/sst"
)

// plainEntries returns n entries with keys in order, the even numbers.
func plainEntries(n int) []base.Entry {
	list := make([]base.Entry, n)
	for i := range list {
		list[i] = base.Entry{
			Key: fmt.Appendf(nil, "user#%08d", 2*i), Seq: base.SeqNum(i + 1), Kind: base.KindPut,
			Value: fmt.Appendf(nil, `{"id":%d,"name":"user number %d","score":%d}`, i, i, i*7%1000),
		}
	}
	return list
}

func mustGet(t *testing.T, r *sst.Reader, e *base.Entry) base.Entry {
	t.Helper()
	var got base.Entry
	found, err := r.Get(e.Key, base.Hash(e.Key, testSeed), base.MaxSeqNum, &got)
	if err != nil || !found || !sameVersion(&got, e) {
		t.Fatalf("Get(%q) = %v, %v, %v", e.Key, found, err, got)
	}
	return got
}

// TestLazy: making a reader, asking outside of the file's range and asking for
// range tombstones that do not exist cost no I/O.
func TestLazy(t *testing.T) {
	mem := vfs.NewMem()
	entries := plainEntries(100)
	meta := build(t, mem, sst.WriterOptions{FilterBits: 8}, entries)
	var ops atomic.Int64
	counted := vfstest.NewFault(mem, func(vfstest.Op) error { ops.Add(1); return nil })
	r := sst.NewReader(readerOptions(counted, meta))
	var e base.Entry
	for _, key := range []string{"a", "user#00000199", "z"} {
		if found, err := r.Get([]byte(key), 0, base.MaxSeqNum, &e); found || err != nil {
			t.Errorf("Get(%q) = %v, %v", key, found, err)
		}
	}
	if list, err := r.RangeTombstones(); list != nil || err != nil {
		t.Error(list, err)
	}
	if found, err := r.Get(entries[50].Key, 0, 0, &e); found || err != nil { // before every write
		t.Error(found, err)
	}
	if n := ops.Load(); n != 0 {
		t.Errorf("%d file operations", n)
	}
	mustGet(t, r, &entries[50])
	if ops.Load() == 0 {
		t.Error("a value out of nowhere")
	}
	if err := r.Close(); err != nil || mem.OpenFiles() != 0 {
		t.Errorf("%v, %d files stay open", err, mem.OpenFiles())
	}
}

// TestClosed: after Close what is not in memory fails with fs.ErrClosed, values
// stay, and the cache is empty.
func TestClosed(t *testing.T) {
	fsys := vfs.NewMem()
	entries := plainEntries(2000)
	meta := build(t, fsys, sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8}, entries)
	ro := readerOptions(fsys, meta)
	r := sst.NewReader(ro)
	held := mustGet(t, r, &entries[0])
	c := r.NewCursor(base.MaxSeqNum)
	s := r.NewSource()
	if !c.First() || len(s.Rows()) == 0 {
		t.Fatal(c.Err(), s.Err())
	}
	ok(t, r.Close())
	if !bytes.Equal(held.Value, entries[0].Value) || !sameEntry(c.Entry(), &entries[0]) {
		t.Error("a value changed with Close")
	}
	if m := ro.Cache.Metrics(); m.UsedBytes != 0 || m.Entries != 0 {
		t.Errorf("the cache still holds %+v", m)
	}
	var e base.Entry
	_, err := r.Get(entries[0].Key, base.Hash(entries[0].Key, testSeed), base.MaxSeqNum, &e)
	wantIs(t, err, fs.ErrClosed)
	for c.Next() {
		continue
	}
	for range cursor.All(s) {
		continue
	}
	for _, err := range []error{c.Err(), r.Verify(context.Background())} {
		wantIs(t, err, fs.ErrClosed)
	}
	if err := s.Err(); err != nil && !errors.Is(err, fs.ErrClosed) {
		t.Errorf("source: %v", err)
	}
	if m := ro.Cache.Metrics(); m.UsedBytes != 0 {
		t.Errorf("a closed reader fills the cache: %+v", m)
	}
}

// TestCachedReadsDoNotAllocate, for hits, misses, cursor moves and seeks.
func TestCachedReadsDoNotAllocate(t *testing.T) {
	fsys := vfs.NewMem()
	entries := plainEntries(5000)
	meta := build(t, fsys, sst.WriterOptions{Codec: sst.LZ4, FilterBits: 8}, entries)
	r := sst.NewReader(readerOptions(fsys, meta))
	c := r.NewCursor(base.MaxSeqNum)
	for ok := c.First(); ok; ok = c.Next() {
		continue
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	absent := []byte("user#00000001")
	var e base.Entry
	cases := map[string]func(){
		"hit": func() {
			k := entries[rnd.IntN(len(entries))].Key
			_, _ = r.Get(k, base.Hash(k, testSeed), base.MaxSeqNum, &e)
		},
		"miss": func() { _, _ = r.Get(absent, base.Hash(absent, testSeed), base.MaxSeqNum, &e) },
		"seek": func() { c.SeekGE(entries[rnd.IntN(len(entries))].Key) },
		"scan": func() {
			r.InitCursor(c, base.MaxSeqNum)
			for ok := c.First(); ok; ok = c.Next() {
				continue
			}
		},
		"back": func() {
			for ok := c.Last(); ok; ok = c.Prev() {
				continue
			}
		},
	}
	for name, f := range cases {
		f()
		if n := testutil.AllocsPerRun(50, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestWriterAllocations: a reused writer allocates nothing per entry.
func TestWriterAllocations(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	entries := plainEntries(20_000)
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Zstd, sst.Snappy} {
		var w sst.Writer
		o := writerOptions(sst.WriterOptions{Codec: codec, FilterBits: 8})
		n := testutil.AllocsPerRun(3, func() {
			f, err := vfs.NewMem().Create("x")
			ok(t, err)
			w.Reset(f, o)
			fill(t, &w, entries)
		})
		// What is left: the file system's chunks, one-time growth, and under the race
		// detector a pool that forgets at random.
		if n > 1000 {
			t.Errorf("%v: %v allocations for %d entries", codec, n, len(entries))
		}
	}
}

// TestVersionsAreNoFalsePositives: a filter that lets a key through whose versions
// are all newer than the read was right.
func TestVersionsAreNoFalsePositives(t *testing.T) {
	fsys := vfs.NewMem()
	entries := plainEntries(100)
	meta := build(t, fsys, sst.WriterOptions{FilterBits: 8, BlockBytes: 16 << 10}, entries)
	ro := readerOptions(fsys, meta)
	r := sst.NewReader(ro)
	var e base.Entry
	for i := 10; i < len(entries); i++ {
		key := entries[i].Key
		if found, err := r.Get(key, base.Hash(key, testSeed), 10, &e); found || err != nil {
			t.Fatal(found, err)
		}
	}
	if s := ro.Stats.Snapshot(); s.FilterFalsePositives != 0 || s.FilterChecks != 90 {
		t.Errorf("%+v", s)
	}
	var ls []base.Lookup
	var which []uint32
	for i, e := range entries[10:] {
		ls = append(ls, base.Lookup{Key: e.Key, Hash: base.Hash(e.Key, testSeed)})
		which = append(which, uint32(i))
	}
	var b sst.Batch
	b.Ask(r, ls, which, 10)
	ok(t, b.Answer(ls, 10))
	if s := ro.Stats.Snapshot(); s.FilterFalsePositives != 0 || s.FilterChecks != 180 {
		t.Errorf("in a batch: %+v", s)
	}
}

// TestConcurrentReads: many readers of several files with a cache and handles for
// almost nothing, while files are closed and opened again.
func TestConcurrentReads(t *testing.T) {
	fsys := vfs.NewMem()
	shared := cache.New(100_000)
	files := cache.NewFiles(func(name string) (cache.File, error) { return fsys.Open(name) }, 2)
	entries := plainEntries(4000)
	var readers [5]atomic.Pointer[sst.Reader]
	var options [5]sst.ReaderOptions
	for i := range readers {
		o := sst.WriterOptions{
			FileNum: base.FileNum(i + 1), Codec: sst.Codec(i % 3), FilterBits: 8,
			BlockBytes: 4096, FilterPartitionKeys: 1500,
		}
		options[i] = readerOptions(fsys, build(t, fsys, o, entries))
		options[i].Cache, options[i].Files = shared, files
		readers[i].Store(sst.NewReader(options[i]))
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 7))
			var c sst.Cursor
			for step := range 1500 {
				i := rnd.IntN(len(readers))
				r := readers[i].Load()
				k := rnd.IntN(len(entries))
				var err error
				if step%10 == 0 {
					err = walk(t, r, &c, entries[k:min(k+100, len(entries))])
				} else {
					var e base.Entry
					var found bool
					key := entries[k].Key
					found, err = r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
					if err == nil && (!found || !sameVersion(&e, &entries[k])) {
						t.Errorf("wrong answer for %q", entries[k].Key)
					}
				}
				if err != nil && !errors.Is(err, fs.ErrClosed) {
					t.Error(err)
					return
				}
				if rnd.IntN(300) == 0 {
					readers[i].Store(sst.NewReader(options[i]))
					r.Close()
				}
			}
		})
	}
	wg.Wait()
	for i := range readers {
		readers[i].Load().Close()
	}
	if m := shared.Metrics(); m.UsedBytes != 0 || m.Evictions == 0 {
		t.Errorf("%+v", m)
	}
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files stay open", n)
	}
}

// walk compares a cursor's way with want.
func walk(t *testing.T, r *sst.Reader, c *sst.Cursor, want []base.Entry) error {
	r.InitCursor(c, base.MaxSeqNum)
	ok := c.SeekGE(want[0].Key)
	for i := range want {
		if !ok {
			if c.Err() == nil {
				t.Errorf("the cursor ends at %q", want[i].Key)
			}
			return c.Err()
		}
		if !sameEntry(c.Entry(), &want[i]) {
			t.Errorf("got %v, want %v", c.Entry(), want[i])
		}
		ok = c.Next()
	}
	return c.Err()
}

// TestVerifyStops: a cancelled context ends Verify.
func TestVerifyStops(t *testing.T) {
	fsys := vfs.NewMem()
	meta, _, _ := smallFile(t, fsys, sst.None)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := sst.NewReader(readerOptions(fsys, meta)).Verify(ctx)
	wantIs(t, err, context.Canceled)
}
