package sst_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// columnsFile builds a file of rows with one column: the number that their values begin with.
func columnsFile(tb testing.TB, fs vfs.FS, partBlocks int) (base.FileMeta, []base.Entry) {
	tb.Helper()
	var entries []base.Entry
	for i := range 40 {
		e := base.Entry{Key: fmt.Appendf(nil, "t\x00\x00%03d", i), Seq: base.SeqNum(i + 1)}
		if e.Kind = base.KindDelete; i%10 != 0 {
			e.Kind, e.Value = base.KindPut, fmt.Appendf(nil, "%04d some text", 3*i)
		}
		entries = append(entries, e)
	}
	o := sst.WriterOptions{BlockBytes: 256, FilterBits: 8, PartBlocks: partBlocks}
	o.Describe = func(items *zone.Items, b *zone.ColumnsBuilder) {
		b.Rows(5, items.Len())
		for i := range items.Len() {
			b.Values(2, 1, items.Value(i)[:4], items.Value(i)[:4])
		}
	}
	return build(tb, fs, o, entries), entries
}

// TestGoldenColumns: a file of format version 1 with column zones is readable for ever, and what
// the writer makes today.
func TestGoldenColumns(t *testing.T) {
	fs := vfs.NewMem()
	meta, entries := columnsFile(t, fs, 0)
	now := contents(t, fs, meta.Name())
	path := filepath.Join("testdata", "v1-columns.hex")
	golden := goldenBytes(t, path, now)
	if !bytes.Equal(now, golden) {
		t.Errorf("the writer makes other bytes than in %s", path)
	}
	store(t, fs, meta.Name(), golden)
	r := sst.NewReader(readerOptions(fs, meta))
	if checkAnswers(t, r, entries, nil) {
		t.Errorf("%s is damaged", path)
	}
	ok(t, r.Verify(context.Background()))
	z, known := r.Columns().Column(5, 2)
	if !known || string(z.Min()) != "0003" || string(z.Max()) != "0117" {
		t.Errorf("the file has %q to %q, %v", z.Min(), z.Max(), known)
	}
}

// valuesFrom wants values from a number on.
type valuesFrom string

func (v valuesFrom) Unwanted(_ *zonemap.Map, c zone.Columns) bool {
	z, known := c.Column(5, 2)
	return known && !z.Between([]byte(v), nil)
}

func (valuesFrom) Beneath(_, _ []byte) bool { return false }

func (valuesFrom) Count(_, _ int) {}

// A cursor with a pruner shows the blocks with what is wanted, both ways and from each key on.
func TestPrunedCursor(t *testing.T) {
	for _, partBlocks := range []int{0, 1, 2} {
		checkPrunedCursor(t, partBlocks)
	}
}

func checkPrunedCursor(t *testing.T, partBlocks int) {
	t.Helper()
	fs := vfs.NewMem()
	meta, entries := columnsFile(t, fs, partBlocks)
	var stats sst.Stats
	o := readerOptions(fs, meta)
	o.Stats = &stats
	r := sst.NewReader(o)
	c := r.NewCursor(100)
	c.Prune(valuesFrom("0100"))
	shown := func(ok bool, next func() bool) (n int, last []byte) {
		for ; ok; ok = next() {
			n, last = n+1, bytes.Clone(c.Entry().Key)
		}
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
		return n, last
	}
	all, last := shown(c.First(), c.Next)
	if all < 6 || all > 16 || !bytes.Equal(last, entries[39].Key) {
		t.Errorf("%d of 40 entries are shown, the last one is %q", all, last)
	}
	if n, _ := shown(c.Last(), c.Prev); n != all {
		t.Errorf("%d entries backward, %d forward", n, all)
	}
	for i, e := range entries {
		want := min(all, 40-i)
		if n, _ := shown(c.SeekGE(e.Key), c.Next); n != want {
			t.Errorf("%d entries from %q on, want %d", n, e.Key, want)
		}
		if n, _ := shown(c.SeekLT(e.Key), c.Prev); n != all-want {
			t.Errorf("%d entries before %q, want %d", n, e.Key, all-want)
		}
	}
	if n := stats.Snapshot().PrunedBlocks; n == 0 {
		t.Error("nothing is counted as pruned")
	}
}
