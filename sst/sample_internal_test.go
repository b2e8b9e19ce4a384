package sst

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
)

// TestBlocksBetween: the blocks between two keys are those whose last key is, and AppendLastKey
// names it; CountBetween has the number of their entries.
func TestBlocksBetween(t *testing.T) {
	meta, entries, b := craftedFile(t)
	r := openBytes(t, meta, b, 1<<20)
	defer r.Close()
	var lasts [][]byte
	var entriesOf []float64
	err := r.Blocks(func(info BlockInfo) bool {
		last, err := r.AppendLastKey([]byte("last "), info.Number)
		if err != nil || string(last) != "last "+string(info.Zone.Last) {
			t.Errorf("block %d ends with %q, %v", info.Number, last, err)
		}
		if _, known := info.Columns.Column(2, 0); !known {
			t.Errorf("block %d: no column zones", info.Number)
		}
		lasts = append(lasts, info.Zone.Last)
		entriesOf = append(entriesOf, float64(info.Zone.Entries))
		return true
	})
	if err != nil || len(lasts) != 2 {
		t.Fatalf("%d blocks, %v", len(lasts), err)
	}
	bounds := [][]byte{nil, {}, []byte("a"), []byte("z")}
	for _, e := range entries {
		bounds = append(bounds, e.Key, append(bytes.Clone(e.Key), 0))
	}
	for _, lower := range bounds {
		for _, upper := range bounds {
			wantFrom, wantTo := 0, 0
			for _, last := range lasts {
				if bytes.Compare(last, lower) < 0 {
					wantFrom++
				}
				if upper == nil || bytes.Compare(last, upper) < 0 {
					wantTo++
				}
			}
			from, to, err := r.BlocksBetween(lower, upper)
			if want := max(wantFrom, wantTo); from != wantFrom || to != want || err != nil {
				t.Errorf("[%q, %q): blocks %d to %d, want %d to %d, %v", lower, upper, from, to,
					wantFrom, want, err)
			}
			between := 0.0 // the entries of these blocks
			for _, n := range entriesOf[min(from, to):to] {
				between += n
			}
			if n, _, err := r.CountBetween(lower, upper); n != between || err != nil {
				t.Errorf("[%q, %q): %.0f entries, want %.0f, %v", lower, upper, n, between, err)
			}
		}
	}
	calls := 0
	if err := r.Blocks(func(BlockInfo) bool { calls++; return false }); err != nil || calls != 1 {
		t.Errorf("%d blocks after the first was enough, %v", calls, err)
	}
}

// TestOptionalParts: a reader works without a cache, a set of files and counters of its owner,
// with another seed on request, and counts what it reads.
func TestOptionalParts(t *testing.T) {
	meta, entries, b := craftedFile(t)
	read := func(change func(o *ReaderOptions)) error {
		mem := memOf(t, meta, b)
		own := meta
		o := ReaderOptions{FS: mem, Meta: &own}
		change(&o)
		r := NewReader(o)
		var e base.Entry
		ok, err := r.Get(entries[0].Key, base.Hash(entries[0].Key, 0), 100, &e)
		if err == nil && (!ok || e.Seq != entries[0].Seq) {
			t.Errorf("found %v, %+v", ok, e)
		}
		c := r.NewCursor(100)
		if err == nil && !c.First() {
			t.Error(c.Err())
		}
		if err := r.Close(); err != nil || mem.OpenFiles() != 0 {
			t.Errorf("%d files are open, %v", mem.OpenFiles(), err)
		}
		return err
	}
	blocks, stats := cache.New(1<<20), &Stats{}
	for what, c := range map[string]struct {
		change func(o *ReaderOptions)
		ok     bool
	}{
		"nothing":           {func(o *ReaderOptions) {}, true},
		"a cache":           {func(o *ReaderOptions) { o.Cache = blocks }, true},
		"counters":          {func(o *ReaderOptions) { o.Stats = stats }, true},
		"another seed":      {func(o *ReaderOptions) { o.Seed = 5 }, false},
		"no seed":           {func(o *ReaderOptions) { o.Seed, o.SeedUnknown = 5, true }, true},
		"another database":  {func(o *ReaderOptions) { o.DBID[15] = 1 }, false},
		"another number":    {func(o *ReaderOptions) { o.Meta.Num++ }, false},
		"fewer range":       {func(o *ReaderOptions) { o.Meta.RangeTombstones-- }, false},
		"fewer tombstones":  {func(o *ReaderOptions) { o.Meta.Tombstones-- }, false},
		"fewer expiries":    {func(o *ReaderOptions) { o.Meta.TTLEntries-- }, false},
		"more entries":      {func(o *ReaderOptions) { o.Meta.Entries++ }, false},
		"a lower sequence":  {func(o *ReaderOptions) { o.Meta.MinSeq-- }, false},
		"a higher sequence": {func(o *ReaderOptions) { o.Meta.MaxSeq++ }, false},
		"a lower key":       {func(o *ReaderOptions) { o.Meta.Smallest = []byte("a") }, false},
		"a higher key":      {func(o *ReaderOptions) { o.Meta.Largest = []byte("z") }, false},
		"a shorter file":    {func(o *ReaderOptions) { o.Meta.SizeBytes-- }, false},
	} {
		if err := read(c.change); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	if m := blocks.Metrics(); m.Inserts == 0 || m.UsedBytes != 0 {
		t.Errorf("the cache was not used: %+v", m)
	}
	n := stats.Snapshot()
	if got := fmt.Sprintf("%+v", n); got != "{FilterChecks:1 FilterNegatives:0 "+
		"FilterFalsePositives:0 BlockHits:0 BlockMisses:2 PrunedBlocks:0 PrunedFiles:0 "+
		"Reads:7 ReadBytes:2623}" {
		t.Errorf("counters %s", got)
	}
}
