package sst

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Get is Find, with large values.
func (r *Reader) Get(key []byte, hash uint64, snap base.SeqNum, e *base.Entry) (bool, error) {
	found, err := r.Find(key, hash, snap, e)
	if found && e.Large {
		e.Value, err = r.CachedValue(e.Value)
		e.Large = false
	}
	return found && err == nil, err
}

// TestEveryFailedRead: whichever operation of a way to read fails, alone or with all that
// follow, the way fails with its error, and works when the device does again.
func TestEveryFailedRead(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	broken := errors.New("bad sector")
	meta, entries, b := craftedFile(t)
	for _, budget := range []int64{0, 1 << 20} {
		intact, _ := readAll(t, meta, entries, b, budget)
		for _, way := range waysToRead {
			for n := int64(1); ; n++ {
				mem, failed := memOf(t, meta, b), false
				for _, lasting := range []bool{false, true} {
					p := &vfstest.FailPlan{At: n, Err: broken, Lasting: lasting}
					p.Match = func(op vfstest.Op) bool { return op.Kind != vfstest.OpClose }
					r := NewReader(ReaderOptions{
						FS: vfstest.NewFault(mem, p.Hook), Meta: &meta, Cache: cache.New(budget),
					})
					_, err := readings(r, entries)[way]()
					_, failed = p.Failed()
					again := !lasting && inBatch(way) // smaller pieces are tried
					if failed != errors.Is(err, broken) && !(again && err == nil) ||
						errors.Is(err, corrupt.ErrCorrupt) {
						t.Errorf("%s with a cache of %d, operation %d of %d fails, lasting %v: %v",
							way, budget, n, p.Count(), lasting, err)
					}
					*p = vfstest.FailPlan{}
					if text, err := readings(r, entries)[way](); err != nil ||
						text != intact[way] && !inBatch(way) {
						t.Errorf("%s after the failure: %s, %v", way, text, err)
					}
					ok(t, r.Close())
				}
				if !failed {
					break
				}
			}
		}
	}
}

// inBatch reports whether a way to read is a Batch.
func inBatch(way string) bool {
	return strings.HasPrefix(way, "batch") || strings.HasPrefix(way, "keys") ||
		strings.HasPrefix(way, "unfiltered")
}

// evenKey returns the key of the entry in block i of an evenFile.
func evenKey(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// evenFile has blocks of 4 KiB on disk, one entry each.
func evenFile(t *testing.T, blocks int) (vfs.FS, base.FileMeta) {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create(base.SSTName(0, 7))
	ok(t, err)
	w := NewWriter(f, WriterOptions{FileNum: 7, BlockBytes: 256})
	for i := range blocks {
		key := evenKey(i)
		value := make([]byte, 4096-trailerBytes-blockHeaderBytes-8-len(key)-1-1-2)
		e := base.Entry{Key: key, Seq: 1, Kind: base.KindPut, Value: value}
		ok(t, w.Add(&e))
	}
	meta, err := w.Finish()
	ok(t, err)
	return fs, meta
}

// sizedReading is a way to read an evenFile of 300 blocks.
type sizedReading struct {
	name string
	read func(t *testing.T, r *Reader)
}

// walk calls first, and then step until it has seen n entries.
func walk(first, step func() bool, n int) {
	for ok := first(); ok && n > 1; ok = step() {
		n--
	}
}

func walkFromFirst(c *Cursor, n int) { walk(c.First, c.Next, n) }

func walkFrom(c *Cursor, block, n int) {
	walk(func() bool { return c.SeekGE(evenKey(block)) }, c.Next, n)
}

var sizedScans = []sizedReading{
	{"a scan", func(_ *testing.T, r *Reader) { walkFromFirst(r.NewCursor(1), 1000) }},
	{"a scan of three blocks", func(_ *testing.T, r *Reader) { walkFromFirst(r.NewCursor(1), 3) }},
	{"a scan of four blocks", func(_ *testing.T, r *Reader) { walkFromFirst(r.NewCursor(1), 4) }},
	{"a scan with little read ahead", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		c.LimitReadAhead(20 << 10)
		walkFromFirst(c, 30)
	}},
	{"a scan with some read ahead", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		c.LimitReadAhead(100 << 10)
		walkFromFirst(c, 100)
	}},
	{"a scan as one of many", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		c.LimitReadAhead(4 << 10)
		walkFromFirst(c, 140)
		c.Release()
	}},
	{"a scan back as one of many", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		c.LimitReadAhead(4 << 10)
		walk(c.Last, c.Prev, 60)
		c.Release()
	}},
	{"two scans from the middle", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		walkFrom(c, 100, 20)
		walkFrom(c, 100, 20)
		r.InitCursor(c, 1)
		walkFrom(c, 101, 1)
	}},
	{"a scan back", func(_ *testing.T, r *Reader) {
		c := r.NewCursor(1)
		walk(c.Last, c.Prev, 8)
	}},
	{"a source", func(_ *testing.T, r *Reader) {
		for range cursor.All(r.NewSource()) {
		}
	}},
}

// lookUp looks the entries of some blocks up in one batch.
func lookUp(t *testing.T, b *Batch, r *Reader, blocks ...int) {
	t.Helper()
	var ls []base.Lookup
	var which []uint32
	for i, n := range blocks {
		key := evenKey(n)
		ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, 0)})
		which = append(which, uint32(i))
	}
	b.Ask(r, ls, which, 1)
	ok(t, b.Answer(ls, 1))
	for _, l := range ls {
		if !l.Found || l.Seq != 1 {
			t.Errorf("%q is not found", l.Key)
		}
	}
}

// lookUpKeys looks each step-th block of [from, to) up, without values.
func lookUpKeys(t *testing.T, r *Reader, from, to, step int) {
	t.Helper()
	lookUp(t, &Batch{KeysOnly: true}, r, every(from, to, step)...)
}

// every returns each step-th number of [from, to).
func every(from, to, step int) (numbers []int) {
	for i := from; i < to; i += step {
		numbers = append(numbers, i)
	}
	return numbers
}

var sizedLookups = []sizedReading{
	{"gets", func(t *testing.T, r *Reader) {
		for _, n := range []int{5, 5, 6, 299} {
			var e base.Entry
			if ok, err := r.Get(evenKey(n), 0, 1, &e); !ok || err != nil {
				t.Error(n, ok, err)
			}
		}
	}},
	{"a batch", func(t *testing.T, r *Reader) { lookUp(t, &Batch{}, r, 9, 2, 3, 9) }},
	{"a batch of keys in a row", func(t *testing.T, r *Reader) { lookUpKeys(t, r, 3, 73, 1) }},
	{"a batch of each second key", func(t *testing.T, r *Reader) { lookUpKeys(t, r, 0, 60, 2) }},
	{"a batch of each third key", func(t *testing.T, r *Reader) { lookUpKeys(t, r, 0, 60, 3) }},
	{"a batch of each fourth key", func(t *testing.T, r *Reader) { lookUpKeys(t, r, 0, 20, 4) }},
	{"batches of keys that are cached", func(t *testing.T, r *Reader) {
		lookUp(t, &Batch{}, r, 4, 6)
		b := Batch{KeysOnly: true}
		lookUp(t, &b, r, every(3, 9, 1)...)
		lookUp(t, &b, r, 5, 5, 4, 7, 7, 8)
	}},
}

// TestReadSizes: which pieces of a file each way reads, and what it leaves in the cache.
func TestReadSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) < 8 {
		t.Skip("the script has what blocks take in memory of 64 bits")
	}
	fs, meta := evenFile(t, 300)
	var text strings.Builder
	var reads []string
	watched := vfstest.NewFault(fs, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt {
			reads = append(reads, pieceText(op, meta.SizeBytes))
		}
		return nil
	})
	for _, c := range slices.Concat(sizedScans, sizedLookups) {
		for _, budget := range []int64{0, 100 << 10, 4 << 20} {
			reads = nil
			blocks, stats := cache.New(budget), &Stats{}
			r := NewReader(ReaderOptions{FS: watched, Meta: &meta, Cache: blocks, Stats: stats})
			c.read(t, r)
			n, m := stats.Snapshot(), blocks.Metrics()
			fmt.Fprintf(&text, "# %s, %d KiB of cache\n%s\n", c.name, budget>>10,
				strings.Join(reads, " "))
			fmt.Fprintf(&text, "%d hits, %d misses, %d reads of %d bytes; cached %d of %d bytes, "+
				"%d inserted, %d rejected, %d evicted\n", n.BlockHits, n.BlockMisses, n.Reads,
				n.ReadBytes, m.Entries, m.UsedBytes, m.Inserts, m.Rejects, m.Evictions)
			ok(t, r.Close())
		}
	}
	checkText(t, "reads.txt", text.String())
}

// pieceText names the piece of an evenFile of 300 blocks that op reads. Data is counted in blocks.
func pieceText(op vfstest.Op, sizeBytes int64) string {
	switch {
	case op.Offset == 300*4096:
		return "index"
	case op.Offset+op.Len == sizeBytes:
		return fmt.Sprint("tail+", op.Len)
	case op.Offset%4096 != 0 || op.Len%4096 != 0:
		return fmt.Sprintf("at %d %d bytes", op.Offset, op.Len)
	}
	return fmt.Sprintf("%d+%d", op.Offset/4096, op.Len/4096)
}

// noPruner is never asked.
type noPruner struct{ Pruner }

// TestReleasedCursors: a cursor that is released keeps small buffers only, and nothing of the
// file; so does a source that has ended.
func TestReleasedCursors(t *testing.T) {
	for _, c := range []struct{ size, kept int }{{16 << 10, 16 << 10}, {16<<10 + 1, 0}} {
		cur := Cursor{
			r: &Reader{}, t: &tail{}, x: &indexBlock{}, b: &dataBlock{}, near: &Approach{},
			err: fs.ErrClosed, pruner: noPruner{}, raw: make([]byte, c.size),
			own: dataBlock{data: []byte("block")}, entry: base.Entry{Value: []byte("value")},
		}
		cur.seq.buf, cur.key, cur.valid = make([]byte, c.size), []byte("key"), true
		cur.Release()
		if cap(cur.raw) != c.kept || cap(cur.seq.buf) != c.kept || cur.r != nil || cur.b != nil ||
			cur.Next() || cur.Prev() || len(cur.seq.buf) > 0 || cap(cur.key) == 0 {
			t.Errorf("buffers of %d bytes: %d and %d are kept", c.size, cap(cur.raw),
				cap(cur.seq.buf))
		}
		for i, v := 0, reflect.ValueOf(cur); i < v.NumField(); i++ {
			switch f := v.Field(i); f.Kind() {
			case reflect.Pointer, reflect.Interface:
				if !f.IsNil() {
					t.Errorf("%s is kept", v.Type().Field(i).Name)
				}
			}
		}
		if cur.own.data != nil || cur.entry.Value != nil {
			t.Error("the memory of a block is kept")
		}
	}
	if b := keep(make([]byte, 5, maxKeptBytes)); b == nil || len(b) != 0 {
		t.Error("a buffer is not kept")
	}
	if b := keep(make([]byte, 5, maxKeptBytes+1)); b != nil {
		t.Error("a large buffer is kept")
	}
	fs, meta := evenFile(t, 3)
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
	s := r.NewSource()
	for range cursor.All(s) {
	}
	if s.pool != nil || s.b.data != nil || s.raw != nil || s.seq.buf != nil || len(s.Rows()) > 0 {
		t.Error("a source that has ended keeps memory")
	}
}

// Goal: a merge of many runs takes no more memory than one of few. Method: the longest read of a
// source that is one of many.
//
// Promise (manners): The sources of a merge read 1 MiB at a time together, at least 32 KiB each,
// and a merge keeps 40 bytes, keys and zone map of each block that it has written.
func TestMergesKeepLittleInMemory(t *testing.T) {
	mem, meta := evenFile(t, 300)
	for sources, kib := range map[int]int64{1: 256, 4: 256, 16: 64, 64: 32} {
		most := kib << 10
		longest := int64(0)
		fs := vfstest.NewFault(mem, func(op vfstest.Op) error {
			if op.Kind == vfstest.OpReadAt && op.Offset < 64<<10 {
				longest = max(longest, op.Len) // a read of data
			}
			return nil
		})
		n := 0
		for range cursor.All(NewReader(ReaderOptions{FS: fs, Meta: &meta}).NewSourceOf(sources)) {
			n++
		}
		if uint64(n) != meta.Entries || longest > most || longest < most/2 {
			t.Errorf("one of %d: %d entries, reads of up to %d bytes", sources, n, longest)
		}
	}
	if size := unsafe.Sizeof(indexRecord{}); size > 40 {
		t.Errorf("%d bytes for each block", size)
	}
}

// TestSourceBatches: a source delivers 32 entries at a time, of one block.
func TestSourceBatches(t *testing.T) {
	fs := vfs.NewMem()
	f, err := fs.Create(base.SSTName(0, 7))
	ok(t, err)
	w := NewWriter(f, WriterOptions{FileNum: 7, BlockBytes: 2048})
	for i := range 200 {
		e := base.Entry{Key: fmt.Appendf(nil, "%04d", i), Kind: base.KindDelete}
		ok(t, w.Add(&e))
	}
	meta, err := w.Finish()
	ok(t, err)
	r := NewReader(ReaderOptions{FS: fs, Meta: &meta})
	var got []int
	s := r.NewSource()
	for rows := s.Rows(); len(rows) > 0; rows = s.Rows() {
		got = append(got, len(rows))
		for i := 1; i < len(rows); i++ {
			if bytes.Compare(rows[i-1].Key, rows[i].Key) >= 0 {
				t.Fatal("keys are not in order")
			}
		}
	}
	if want := "[32 32 32 23 32 32 17]"; fmt.Sprint(got) != want {
		t.Errorf("entries at a time %v, want %s", got, want)
	}
}

// TestMemoryOfManyCursors: a cursor of many has its block in memory, and little beside it. The
// cache has less room meanwhile.
func TestMemoryOfManyCursors(t *testing.T) {
	const n, budget = 200, 1 << 20
	fs, meta := evenFile(t, 300)
	blocks, cursors, last := cache.New(budget), make([]Cursor, n), (*Reader)(nil)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range cursors {
		last = NewReader(ReaderOptions{FS: fs, Meta: &meta, Cache: blocks})
		last.InitCursor(&cursors[i], 1)
		cursors[i].LimitReadAhead(4 << 10)
		cursors[i].MakeRoom()
	}
	before := used()
	for step := range 50 {
		for i := range cursors {
			if c := &cursors[i]; step == 0 && !c.First() || step > 0 && !c.Next() {
				t.Fatal(c.Err())
			}
		}
	}
	room := blocks.Metrics().UsedBytes
	each := (int64(used()-before) - room) / n
	if each > 8<<10 || room > budget/2 {
		t.Errorf("%d bytes for each cursor, %d in the cache", each, room)
	}
	for i := range cursors {
		cursors[i].Release()
	}
	walkFromFirst(last.NewCursor(1), 300)
	if m := blocks.Metrics(); m.UsedBytes < budget*3/4 {
		t.Errorf("later %d in the cache", m.UsedBytes)
	}
}

// What readers of many files keep is in the cache, all of it, and there is nothing of a file whose
// properties are not.
//
// Promise (manners): The places of blocks and the properties of files are within the budget of the
// cache, however many files there are. Also `TestOwedBytes` in `internal/cache`.
func TestManyFilesInASmallCache(t *testing.T) {
	fs, meta := evenFile(t, 300)
	blocks, readers := cache.New(144<<10), make([]*Reader, 100)
	budget := int64(144<<10 - 100*readerBytes)
	for i := range readers {
		readers[i] = NewReader(ReaderOptions{FS: fs, Meta: &meta, Cache: blocks})
	}
	rng := testutil.Rand(t)
	for range 2000 {
		r := readers[rng.IntN(len(readers))]
		var e base.Entry
		if _, err := r.Get(meta.Smallest, base.Hash(meta.Smallest, r.seed), base.MaxSeqNum,
			&e); err != nil {
			t.Fatal(err)
		}
		entries, bytes := 0, int64(0)
		for _, r := range readers {
			if p := r.tail.Peek(); p != nil {
				n, size := inCache(*p)
				entries, bytes = entries+n, bytes+size
			}
		}
		if m := blocks.Metrics(); m.Entries != entries || bytes > m.UsedBytes ||
			m.UsedBytes > budget {
			t.Fatalf("%d values of %d bytes are found, %+v", entries, bytes, m)
		}
	}
	if m := blocks.Metrics(); m.Evictions < 1000 {
		t.Errorf("%+v", m)
	}
}

// inCache counts the values that a tail leads to, itself included; bytes are those of the tail.
func inCache(t *tail) (n int, bytes int64) {
	n = 1
	count := func(there bool) {
		if there {
			n++
		}
	}
	for i := range t.parts {
		x := t.parts[i].Peek()
		if count(x != nil); x == nil {
			continue
		}
		for i := range x.slots {
			count(x.slots[i].Touch())
		}
	}
	count(t.ranges.Touch())
	for i := range t.filters {
		count(t.filters[i].Touch())
	}
	return n, t.sizeBytes()
}
