package sst_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/zonemap/zone"
)

var (
	_ cursor.Cursor = (*sst.Cursor)(nil)
	_ cursor.Source = (*sst.Source)(nil)
)

// TestModel compares files of many shapes with sorted slices.
func TestModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rounds := testutil.Effort(10, 40)
	first := testutil.Seed(t)
	for round := range rounds {
		seed := first + uint64(round)
		rnd := rand.New(rand.NewPCG(seed, 0))
		g := generator{
			rnd: rnd, keys: 1 + rnd.IntN(400), versions: 1 + rnd.IntN(12),
			prefix: []string{"", "tenant01/", "\x00\x00",
				"a long prefix of every key/"}[rnd.IntN(4)],
			longKeys: rnd.IntN(2) == 0, valueMax: []int{0, 20, 200}[rnd.IntN(3)],
			hugeValue: []int{0, 3000, 70000}[rnd.IntN(3)],
		}
		if rnd.IntN(5) == 0 { // versions of few keys straddle many blocks
			g.keys, g.versions = 1+rnd.IntN(3), 300
		}
		o := sst.WriterOptions{
			BlockBytes:          []int{256, 512, 4096, 16384}[rnd.IntN(4)],
			Codec:               sst.Codec(rnd.IntN(4)),
			FilterBits:          []int{0, 8, 16}[rnd.IntN(3)],
			FilterPartitionKeys: []int{1, 40, 0}[rnd.IntN(3)],
			PartBlocks:          []int{1, 3, 0}[rnd.IntN(3)],
		}
		entries := g.entries()
		name := fmt.Sprintf("seed %d, %d entries, %v, blocks of %d, filter %d/%d, parts of %d",
			seed, len(entries), o.Codec, o.BlockBytes, o.FilterBits, o.FilterPartitionKeys,
			o.PartBlocks)
		t.Run(name, func(t *testing.T) { checkModel(t, rnd, o, entries) })
	}
}

func checkModel(t *testing.T, rnd *rand.Rand, o sst.WriterOptions, entries []base.Entry) {
	fs := vfs.NewMem()
	meta := build(t, fs, o, entries)
	ro := readerOptions(fs, meta)
	ro.Cache = cache.New([]int64{0, 4000, 1 << 20}[rnd.IntN(3)])
	r := sst.NewReader(ro)
	defer r.Close()
	ok(t, r.Verify(context.Background()))
	checkMeta(t, &meta, entries)
	checkSource(t, r.NewSource(), entries)
	var c sst.Cursor
	for _, snap := range []base.SeqNum{0, 1, 300, 777, 1000, base.MaxSeqNum} {
		want := visible(entries, snap)
		checkGets(t, r, entries, want, snap)
		checkBatch(t, rnd, r, ro, entries, snap, o.FilterBits != 0)
		r.InitCursor(&c, snap)
		c.LimitReadAhead([]int{0, 4 << 10, 64 << 10}[rnd.IntN(3)])
		checkScans(t, &c, want)
		checkWalk(t, rnd, &c, want)
		checkWalk(t, rnd, r.NewCursor(snap), want)
	}
}

func checkMeta(t *testing.T, m *base.FileMeta, entries []base.Entry) {
	t.Helper()
	want := base.FileMeta{
		Num: m.Num, SizeBytes: m.SizeBytes,
		Smallest: entries[0].Key, Largest: entries[len(entries)-1].Key,
		MinSeq: base.MaxSeqNum, Entries: uint64(len(entries)),
	}
	for _, e := range entries {
		want.MinSeq, want.MaxSeq = min(want.MinSeq, e.Seq), max(want.MaxSeq, e.Seq)
		want.RawBytes += uint64(len(e.Key) + len(e.Value))
		if e.Kind == base.KindDelete {
			want.Tombstones++
		}
		if e.Kind == base.KindPutTTL {
			if want.TTLEntries++; want.TTLEntries == 1 {
				want.MinExpiry, want.MaxExpiry = e.Expiry, e.Expiry
			}
			want.MinExpiry = min(want.MinExpiry, e.Expiry)
			want.MaxExpiry = max(want.MaxExpiry, e.Expiry)
		}
	}
	if got := fmt.Sprintf("%+v", *m); got != fmt.Sprintf("%+v", want) {
		t.Fatalf("meta\n got %v\nwant %+v", got, want)
	}
}

func checkSource(t *testing.T, s *sst.Source, entries []base.Entry) {
	t.Helper()
	i := 0
	for e := range cursor.All(s) {
		if i == len(entries) {
			t.Fatalf("source goes on: %v", e)
		}
		if !sameEntry(e, &entries[i]) {
			t.Fatalf("source entry %d: got %v, want %v", i, e, entries[i])
		}
		i++
	}
	if i < len(entries) || len(s.Rows()) > 0 || s.Err() != nil {
		t.Fatalf("source ended at %d of %d or goes on, err %v", i, len(entries), s.Err())
	}
}

func checkGets(t *testing.T, r *sst.Reader, entries, want []base.Entry, snap base.SeqNum) {
	t.Helper()
	i := 0
	step := 1 + len(entries)/150
	for k := 0; k < len(entries); k += step {
		e := entries[k]
		for i < len(want) && bytes.Compare(want[i].Key, e.Key) < 0 {
			i++
		}
		present := i < len(want) && bytes.Equal(want[i].Key, e.Key)
		hash := base.Hash(e.Key, testSeed)
		var got base.Entry
		found, err := r.Get(e.Key, hash, snap, &got)
		if err != nil || found != present {
			t.Fatalf("Get(%q, %d) = %v, %v; want %v", e.Key, snap, found, err, present)
		}
		if found && !sameVersion(&got, &want[i]) {
			t.Fatalf("Get(%q, %d): got %v, want %v", e.Key, snap, got, want[i])
		}
		absent := append(bytes.Clone(e.Key), "!absent"...)
		found, err = r.Get(absent, base.Hash(absent, testSeed), snap, &got)
		if err != nil || found {
			t.Fatalf("Get(%q) of an absent key = %v, %v", absent, found, err)
		}
	}
}

func checkScans(t *testing.T, c cursor.Cursor, want []base.Entry) {
	t.Helper()
	i := 0
	for ok := c.First(); ok; ok = c.Next() {
		if i >= len(want) || !sameEntry(c.Entry(), &want[i]) {
			t.Fatalf("forward at %d: got %v", i, c.Entry())
		}
		i++
	}
	if i != len(want) || c.Err() != nil {
		t.Fatalf("forward ended after %d of %d: %v", i, len(want), c.Err())
	}
	for ok := c.Last(); ok; ok = c.Prev() {
		if i--; i < 0 || !sameEntry(c.Entry(), &want[i]) {
			t.Fatalf("backward at %d: got %v", i, c.Entry())
		}
	}
	if i != 0 || c.Err() != nil {
		t.Fatalf("backward ended %d before the start: %v", i, c.Err())
	}
}

// checkWalk seeks to random keys and steps in random directions.
func checkWalk(t *testing.T, rnd *rand.Rand, c cursor.Cursor, want []base.Entry) {
	t.Helper()
	for range 60 {
		key := []byte("user")
		if len(want) > 0 {
			key = bytes.Clone(want[rnd.IntN(len(want))].Key)
		}
		switch rnd.IntN(5) {
		case 0:
			key = append(key, 0)
		case 1:
			key = key[:rnd.IntN(len(key)+1)]
		case 2:
			if len(key) > 0 {
				key[rnd.IntN(len(key))] ^= byte(1 << rnd.IntN(8))
			}
		}
		i := sort.Search(len(want), func(i int) bool {
			return bytes.Compare(want[i].Key, key) >= 0
		})
		var ok bool
		if rnd.IntN(2) == 0 {
			ok = c.SeekGE(key)
		} else {
			i--
			ok = c.SeekLT(key)
		}
		for step := 0; ; step++ {
			if inside := i >= 0 && i < len(want); ok != inside {
				t.Fatalf("after seek to %q, step %d: on an entry %v, want %v (%v)",
					key, step, ok, inside, c.Err())
			}
			if !ok || step == 12 {
				break
			}
			if !sameEntry(c.Entry(), &want[i]) {
				t.Fatalf("after seek to %q, step %d: got %v, want %v", key, step, c.Entry(),
					want[i])
			}
			if rnd.IntN(2) == 0 {
				i++
				ok = c.Next()
			} else {
				i--
				ok = c.Prev()
			}
		}
	}
}

// TestWriterReuse: a writer that was used before makes the same bytes as a new one.
func TestWriterReuse(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	fs := vfs.NewMem()
	rnd := rand.New(rand.NewPCG(9, 9))
	var w sst.Writer
	for i := range 12 {
		g := generator{rnd: rnd, keys: 300, versions: 3, valueMax: 50, hugeValue: 100_000}
		entries := g.entries()
		o := writerOptions(sst.WriterOptions{
			FileNum: base.FileNum(i + 1), Codec: sst.Codec(i % 3), FilterBits: []int{8, 16, 0}[i%3],
			BlockBytes: 1024, FilterPartitionKeys: 100, PartBlocks: []int{0, 7}[i%2],
		})
		fresh := build(t, fs, o, entries)
		name := base.SSTName(o.Stripe, o.FileNum)
		want := contents(t, fs, name)
		f, err := fs.Create(name)
		ok(t, err)
		w.Reset(f, o)
		if i%4 == 3 { // an abandoned file leaves nothing behind
			_ = w.Add(&entries[0])
			_ = w.AddRangeTombstone(base.RangeTombstone{Start: []byte("a"), End: []byte("b"),
				Seq: 1})
			w.Reset(f, o)
		}
		if meta := fill(t, &w, entries); fmt.Sprint(meta) != fmt.Sprint(fresh) {
			t.Fatalf("file %d: meta %v, from a new writer %v", i, meta, fresh)
		}
		if !bytes.Equal(contents(t, fs, name), want) {
			t.Fatalf("file %d differs from a new writer's", i)
		}
	}
}

// TestRangeTombstones: they come back sorted, widen the bounds, and hide nothing.
func TestRangeTombstones(t *testing.T) {
	ranges := []base.RangeTombstone{
		{Start: []byte("m"), End: []byte("p"), Seq: 5},
		{Start: []byte("a"), End: []byte("z"), Seq: 3},
		{Start: []byte("m"), End: []byte("q"), Seq: 90},
	}
	entries := []base.Entry{{Key: []byte("n"), Value: []byte("v"), Seq: 2, Kind: base.KindPut}}
	for _, entries := range [][]base.Entry{entries, nil} {
		fs := vfs.NewMem()
		meta := build(t, fs, sst.WriterOptions{FilterBits: 8, Codec: sst.LZ4}, entries, ranges...)
		r := sst.NewReader(readerOptions(fs, meta))
		ok(t, r.Verify(context.Background()))
		minSeq, only := base.SeqNum(3), "" // bounds are those of point entries
		if len(entries) > 0 {
			minSeq, only = 2, string(entries[0].Key)
		}
		if string(meta.Smallest) != only || string(meta.Largest) != only || meta.MinSeq != minSeq ||
			meta.MaxSeq != 90 || meta.RangeTombstones != 3 {
			t.Fatalf("meta %+v", meta)
		}
		for range 2 { // from the file, then from the cache
			got, err := r.RangeTombstones()
			want := []base.RangeTombstone{ranges[1], ranges[2], ranges[0]}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("got %v, %v, want %v", got, err, want)
			}
		}
		var e base.Entry
		found, err := r.Get([]byte("n"), base.Hash([]byte("n"), testSeed), base.MaxSeqNum, &e)
		if err != nil || found != (len(entries) > 0) {
			t.Fatalf("Get = %v, %v", found, err)
		}
		checkScans(t, r.NewCursor(base.MaxSeqNum), entries)
		checkSource(t, r.NewSource(), entries)
		r.Close()
	}
}

// TestLargeEntries: the largest keys and a value that is larger than any buffer.
func TestLargeEntries(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	key := func(c byte) []byte { return bytes.Repeat([]byte{c}, sst.MaxKeyBytes) }
	entries := []base.Entry{
		{Key: []byte("A"), Value: []byte("small"), Seq: 1, Kind: base.KindPut},
		{Key: key('B'), Value: bytes.Repeat([]byte("8 bytes."), 1<<20), Seq: 9, Kind: base.KindPut},
		{Key: key('B'), Value: []byte("old"), Seq: 8, Kind: base.KindPut},
		{Key: key('C'), Seq: 3, Kind: base.KindDelete},
		{Key: []byte("D"), Value: []byte("small"), Seq: 1, Kind: base.KindPut},
	}
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Zstd, sst.Snappy} {
		fs := vfs.NewMem()
		meta := build(t, fs, sst.WriterOptions{Codec: codec, FilterBits: 8}, entries)
		r := sst.NewReader(readerOptions(fs, meta))
		checkSource(t, r.NewSource(), entries)
		want := visible(entries, 9)
		checkGets(t, r, entries, want, 9)
		checkScans(t, r.NewCursor(9), want)
		ok(t, r.Verify(context.Background()))
	}
}

// TestWriterRefuses: what a file cannot hold is an error, and stays one.
func TestWriterRefuses(t *testing.T) {
	put := func(key string, seq base.SeqNum) base.Entry {
		return base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindPut, Value: []byte{}}
	}
	long := base.Entry{Key: make([]byte, sst.MaxKeyBytes+1), Kind: base.KindPut}
	big := base.Entry{Key: []byte("k"), Value: make([]byte, sst.MaxValueBytes+1),
		Kind: base.KindPut}
	cases := map[string][]base.Entry{
		"key order":      {put("b", 1), put("a", 1)},
		"sequence order": {put("a", 1), put("a", 2)},
		"kind":           {{Key: []byte("a"), Kind: base.KindDeleteRange}},
		"zero kind":      {{Key: []byte("a")}},
		"tombstone":      {{Key: []byte("a"), Value: []byte("v"), Kind: base.KindDelete}},
		"seq":            {put("a", base.MaxSeqNum+1)},
		"long key":       {long},
		"big value":      {big},
		"nothing":        nil,
	}
	for name, entries := range cases {
		f, err := vfs.NewMem().Create("x")
		ok(t, err)
		w := sst.NewWriter(f, writerOptions(sst.WriterOptions{}))
		var failed error
		for i := range entries {
			failed = w.Add(&entries[i])
		}
		if len(entries) > 0 && failed == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := w.Finish(); err == nil || (failed != nil && err != failed) {
			t.Errorf("%s: Finish after %v gives %v", name, failed, err)
		}
	}
	// The same version twice: the first one shows.
	fs := vfs.NewMem()
	first := base.Entry{Key: []byte("a"), Seq: 4, Kind: base.KindPut, Value: []byte("first")}
	meta := build(t, fs, sst.WriterOptions{}, []base.Entry{first, put("a", 4), put("a", 3)})
	if meta.Entries != 2 {
		t.Errorf("%d entries, want 2", meta.Entries)
	}
	r := sst.NewReader(readerOptions(fs, meta))
	checkSource(t, r.NewSource(), []base.Entry{first, put("a", 3)})
}

// lengths describes values by their lengths.
func lengths(items *zone.Items, b *zone.ColumnsBuilder) {
	b.Rows(1, items.Len())
	for i := range items.Len() {
		n := []byte{byte(len(items.Value(i)))}
		b.Values(2, 1, n, n)
	}
}

// TestColumnsOfBlocks: what is described comes back per block and per file.
func TestColumnsOfBlocks(t *testing.T) {
	fs := vfs.NewMem()
	g := generator{rnd: rand.New(rand.NewPCG(3, 3)), keys: 300, versions: 1, valueMax: 100}
	entries := g.entries()
	o := sst.WriterOptions{BlockBytes: 512, Codec: sst.LZ4, Describe: lengths}
	meta := build(t, fs, o, entries)
	r := sst.NewReader(readerOptions(fs, meta))
	next := 0
	check := func(columns zone.Columns, from, to int) {
		t.Helper()
		least, greatest := 255, 0
		for _, e := range entries[from:to] {
			if e.Kind != base.KindDelete {
				least, greatest = min(least, len(e.Value)), max(greatest, len(e.Value))
			}
		}
		z, known := columns.Column(1, 2)
		if !known || z.Values != (least <= greatest) {
			t.Errorf("entries %d to %d: %v, %+v", from, to, known, z)
		} else if z.Values && (z.Min()[0] != byte(least) || z.Max()[0] != byte(greatest)) {
			t.Errorf("entries %d to %d: %+v, want %d to %d", from, to, z, least, greatest)
		}
	}
	err := r.Blocks(func(b sst.BlockInfo) bool {
		end := next + int(b.Zone.Entries)
		check(b.Columns, next, end)
		first, last := entries[next].Key, entries[end-1].Key
		if !bytes.Equal(b.Zone.First, first) || !bytes.Equal(b.Zone.Last, last) {
			t.Errorf("block %d: zone of [%q, %q]", b.Number, b.Zone.First, b.Zone.Last)
		}
		next = end
		return true
	})
	if err != nil || next != len(entries) {
		t.Errorf("blocks end at entry %d of %d: %v", next, len(entries), err)
	}
	check(r.Columns(), 0, len(entries))
	ok(t, r.Verify(context.Background()))
}
