package sst_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// More and Less show what as many calls of Next and Prev would, whatever the sizes of
// batches and blocks, over versions that are too new, and after turning round.
func TestRowsReadAhead(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const rounds = 60
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 3))
		g := generator{
			rnd: rnd, keys: 1 + rnd.IntN(300), versions: 1 + rnd.IntN(8),
			prefix:   []string{"", "tenant01/", "a long prefix of every key/"}[rnd.IntN(3)],
			longKeys: rnd.IntN(2) == 0, valueMax: []int{0, 20, 300}[rnd.IntN(3)],
			hugeValue: []int{0, 20000}[rnd.IntN(2)],
		}
		if rnd.IntN(4) == 0 { // versions of few keys straddle many blocks
			g.keys, g.versions = 1+rnd.IntN(3), 300
		}
		entries := g.entries()
		fs := vfs.NewMem()
		o := sst.WriterOptions{BlockBytes: []int{256, 1024, 16384}[rnd.IntN(3)], Codec: sst.LZ4}
		ro := readerOptions(fs, build(t, fs, o, entries))
		ro.Cache = cache.New([]int64{0, 4000, 1 << 20}[rnd.IntN(3)])
		r := sst.NewReader(ro)
		var c sst.Cursor
		for _, snap := range []base.SeqNum{1, 300, 777, base.MaxSeqNum} {
			want := visible(entries, snap)
			r.InitCursor(&c, snap)
			for range 20 {
				checkRows(t, rnd, &c, want)
			}
		}
		ok(t, r.Close())
	}
}

// checkRows walks from a random key on, in batches, and turns round sometimes.
func checkRows(t *testing.T, rnd *rand.Rand, c *sst.Cursor, want []base.Entry) {
	t.Helper()
	var rows cursor.Batch
	key := []byte{}
	if len(want) > 0 {
		key = want[rnd.IntN(len(want))].Key
	}
	i := sort.Search(len(want), func(i int) bool { return bytes.Compare(want[i].Key, key) >= 0 })
	ok, step := c.SeekGE(key), 1
	for range 40 {
		if ok != (i >= 0 && i < len(want)) {
			t.Fatalf("on an entry: %v, at %d of %d (%v)", ok, i, len(want), c.Err())
		}
		if !ok {
			return
		}
		n := rnd.IntN(30)
		rows.Reset()
		rows.Add(c.Entry())
		if step > 0 {
			c.More(&rows, n, nil)
		} else {
			c.Less(&rows, n, nil)
		}
		if len(rows.Rows) > n+1 {
			t.Fatalf("%d rows, asked for %d", len(rows.Rows), n)
		}
		for j := range rows.Rows {
			if at := i + j*step; at < 0 || at >= len(want) || !sameEntry(&rows.Rows[j], &want[at]) {
				t.Fatalf("row %d of %d, step %d: %v", j, len(rows.Rows), step, rows.Rows[j])
			}
		}
		if i += (len(rows.Rows) - 1) * step; !sameEntry(c.Entry(), &want[i]) {
			t.Fatalf("stands on %v, want %v", c.Entry(), want[i])
		}
		if rnd.IntN(6) == 0 {
			step = -step
		}
		if i += step; step > 0 {
			ok = c.Next()
		} else {
			ok = c.Prev()
		}
	}
}

// A batch reaches to the end of the block, and there is nothing after the end.
func TestRowsEnd(t *testing.T) {
	g := generator{rnd: rand.New(rand.NewPCG(1, 1)), keys: 100, versions: 1, valueMax: 20}
	entries := g.entries()
	fs := vfs.NewMem()
	r := sst.NewReader(readerOptions(fs, build(t, fs, sst.WriterOptions{}, entries)))
	defer r.Close()
	c := r.NewCursor(base.MaxSeqNum)
	if !c.First() {
		t.Fatal(c.Err())
	}
	var rows cursor.Batch
	c.More(&rows, 1000, nil)
	want := len(visible(entries, base.MaxSeqNum)) - 1
	if len(rows.Rows) != want {
		t.Fatalf("%d rows, want %d", len(rows.Rows), want)
	}
	if c.Next() || c.Err() != nil {
		t.Fatalf("goes on after the end, or: %v", c.Err())
	}
	for _, n := range []int{0, 1, 7, want, 1000} {
		var down, up cursor.Batch
		if !c.Last() {
			t.Fatal(c.Err())
		}
		c.Less(&down, n, nil)
		if !c.First() {
			t.Fatal(c.Err())
		}
		c.More(&up, n, nil)
		if n = min(n, want); len(down.Rows) != n || len(up.Rows) != n {
			t.Fatalf("%d rows down, %d up, want %d", len(down.Rows), len(up.Rows), n)
		}
	}
	for c.Next() {
	}
	c.More(&rows, 1, nil)
	c.Less(&rows, 1, nil)
	if len(rows.Rows) != want {
		t.Fatal("reads on after the end")
	}
}

// TestEntries: entries below a bound are those that steps show, of blocks that are cached or not.
func TestEntries(t *testing.T) {
	for round := range 40 {
		rnd := rand.New(rand.NewPCG(uint64(round), 5))
		g := generator{rnd: rnd, keys: 1 + rnd.IntN(600), versions: 1, longKeys: rnd.IntN(2) == 0,
			prefix:   []string{"", "tenant01/"}[rnd.IntN(2)],
			valueMax: []int{0, 20, 300}[rnd.IntN(3)]}
		entries := slices.CompactFunc(g.entries(), func(a, b base.Entry) bool {
			return bytes.Equal(a.Key, b.Key)
		})
		for i := range entries {
			entries[i].Kind, entries[i].Expiry = base.KindPut, 0
		}
		fs := vfs.NewMem()
		ro := readerOptions(fs, build(t, fs, sst.WriterOptions{BlockBytes: 1024}, entries))
		ro.Cache = cache.New([]int64{0, 1 << 20}[rnd.IntN(2)])
		r := sst.NewReader(ro)
		if !r.Plain(base.MaxSeqNum) || r.Plain(ro.Meta.MaxSeq-1) {
			t.Fatal("the file is not plain, or before its last version")
		}
		bound := func() []byte { return entries[rnd.IntN(len(entries))].Key }
		for range 20 {
			lo, hi := bound(), bound()
			if rnd.IntN(4) == 0 {
				hi = nil
			}
			checkEntries(t, r, entries, lo, hi)
		}
		checkEntries(t, r, entries, nil, nil)
		ok(t, r.Close())
	}
}

// checkEntries compares the entries in bounds with those of a file.
func checkEntries(t *testing.T, r *sst.Reader, entries []base.Entry, lo, hi []byte) {
	t.Helper()
	c, x := r.NewCursor(base.MaxSeqNum), &sst.Entries{}
	i := sort.Search(len(entries), func(i int) bool {
		return bytes.Compare(entries[i].Key, lo) >= 0
	})
	more := c.FirstEntries
	if lo != nil {
		more = func(x *sst.Entries, hi []byte) bool { return c.SeekEntries(x, lo, hi) }
	}
	for ; more(x, hi); more = c.NextEntries {
		values, prefix := x.Values(), x.AppendPrefix(nil)
		for j := range x.Len() {
			e := base.Entry{Key: slices.Concat(prefix, x.Suffix(j)), Value: values.At(j),
				Seq: x.Seq(j), Kind: base.KindPut}
			if i == len(entries) || !sameEntry(&e, &entries[i]) || x.KeyBytes(j) != len(e.Key) {
				t.Fatalf("entry %d: %v", i, e)
			}
			i++
		}
	}
	ok(t, c.Err())
	if i < len(entries) && (hi == nil || bytes.Compare(entries[i].Key, hi) < 0) {
		t.Fatalf("entries from %q to %q end before %q", lo, hi, entries[i].Key)
	}
}

// A scan of a file that the cache has no room for pushes next to nothing out, shows the
// same, and hands out values that are right as long as the cursor does not move.
func TestScanLeavesTheCacheAlone(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, codec := range []sst.Codec{sst.None, sst.LZ4, sst.Snappy} {
		fs := vfs.NewMem()
		entries := plainEntries(20_000)
		ro := readerOptions(fs, build(t, fs, sst.WriterOptions{Codec: codec}, entries))
		ro.Cache = cache.New(100 << 10)
		r := sst.NewReader(ro)
		c := r.NewCursor(base.MaxSeqNum)
		for range 3 {
			checkScans(t, c, entries)
		}
		before := ro.Cache.Metrics()
		var rows cursor.Batch
		i := 0
		for ok := c.First(); ok; ok = c.Next() {
			rows.Reset()
			rows.Add(c.Entry())
			c.More(&rows, 1000, nil)
			for j := range rows.Rows {
				if !sameEntry(&rows.Rows[j], &entries[i]) {
					t.Fatalf("entry %d: %v", i, rows.Rows[j])
				}
				i++
			}
		}
		if i != len(entries) || c.Err() != nil {
			t.Fatalf("%d rows: %v", i, c.Err())
		}
		if n := ro.Cache.Metrics().Evictions - before.Evictions; n > 3 {
			t.Errorf("%v: a scan evicts %d blocks", codec, n)
		}
		ok(t, r.Close())
	}
}
