package sst_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/sst"
)

// checkBatch compares a Batch, for a random choice of keys that are there and that are
// not, with Get: what it finds, and what the reader counts.
func checkBatch(
	t *testing.T, rnd *rand.Rand, r *sst.Reader, ro sst.ReaderOptions, entries []base.Entry,
	snap base.SeqNum, filters bool,
) {
	t.Helper()
	var ls []base.Lookup
	for range rnd.IntN(60) {
		key := bytes.Clone(entries[rnd.IntN(len(entries))].Key)
		switch rnd.IntN(6) {
		case 0:
			key = append(key, 1)
		case 1:
			key = append([]byte{0}, key...)
		case 2:
			key = append(key, 0)
			key[rnd.IntN(len(key))]++
		}
		ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, testSeed)})
	}
	var which []uint32
	for i := range ls {
		if rnd.IntN(8) > 0 {
			which = append(which, uint32(i))
		}
	}
	rnd.Shuffle(len(which), func(i, j int) { which[i], which[j] = which[j], which[i] })
	// Two new readers count: one that has found many keys in a row asks no filters.
	alone, one := newReader(ro)
	defer alone.Close()
	together, both := newReader(ro)
	defer together.Close()
	wanted := make([]base.Entry, len(ls))
	for _, i := range which {
		if _, err := alone.Get(ls[i].Key, ls[i].Hash, snap, &wanted[i]); err != nil {
			t.Fatal(err)
		}
	}
	falses := checkLookups(t, together, ls, which, wanted, snap)
	want, got := one.Snapshot(), both.Snapshot()
	if got.FilterChecks != want.FilterChecks {
		t.Fatalf("%d questions to filters, one by one %d", got.FilterChecks, want.FilterChecks)
	}
	if got.FilterNegatives != want.FilterNegatives {
		t.Fatalf("%d negative answers, one by one %d", got.FilterNegatives, want.FilterNegatives)
	}
	if n := got.FilterFalsePositives; n != want.FilterFalsePositives || n != falses {
		t.Fatalf("%d false positives, %d counted, one by one %d", n, falses,
			want.FilterFalsePositives)
	}
	checkLookups(t, r, ls, which, wanted, snap)
	checkKeysOnly(t, r, ls, which, wanted, snap)
	if filters {
		checkFiltersOnly(t, r, ls, which, wanted, ro.Stats)
	} else {
		checkFiltersOnlyWithout(t, r, ls, which, entries)
	}
}

// newReader returns a reader with statistics of its own.
func newReader(ro sst.ReaderOptions) (*sst.Reader, *sst.Stats) {
	ro.Stats, ro.Cache = &sst.Stats{}, cache.New(1<<20)
	return sst.NewReader(ro), ro.Stats
}

// checkLookups checks what a batch finds and returns its number of false positives.
func checkLookups(
	t *testing.T, r *sst.Reader, ls []base.Lookup, which []uint32, wanted []base.Entry,
	snap base.SeqNum,
) uint64 {
	t.Helper()
	for i := range ls {
		ls[i] = base.Lookup{Key: ls[i].Key, Hash: ls[i].Hash, Index: 99}
	}
	var b sst.Batch
	b.Ask(r, ls, which, snap)
	ok(t, b.Answer(ls, snap))
	for i := range ls {
		l, e := &ls[i], &wanted[i]
		found := e.Kind != 0
		if l.Found != found || l.Done != found || l.Index != 99 {
			t.Fatalf("%q at %d: found %v, done %v, want %v", l.Key, snap, l.Found, l.Done, found)
		}
		if l.Kind != e.Kind || l.Seq != e.Seq || l.Expiry != e.Expiry ||
			!bytes.Equal(l.Value, e.Value) {
			t.Fatalf("%q at %d: %+v, want %v", l.Key, snap, l, e)
		}
	}
	return b.Stats.FalsePositives
}

// checkKeysOnly checks that without values the same is found, whatever is cached.
func checkKeysOnly(
	t *testing.T, r *sst.Reader, ls []base.Lookup, which []uint32, wanted []base.Entry,
	snap base.SeqNum,
) {
	t.Helper()
	b := sst.Batch{KeysOnly: true}
	for range 2 {
		for i := range ls {
			ls[i] = base.Lookup{Key: ls[i].Key, Hash: ls[i].Hash}
		}
		b.Ask(r, ls, which, snap)
		ok(t, b.Answer(ls, snap))
		for i := range ls {
			l, e := &ls[i], &wanted[i]
			if l.Found != (e.Kind != 0) || l.Done != l.Found || l.Kind != e.Kind ||
				l.Seq != e.Seq || l.Expiry != e.Expiry ||
				l.Value != nil && !bytes.Equal(l.Value, e.Value) {
				t.Fatalf("%q at %d, keys only: %+v, want %v", l.Key, snap, l, e)
			}
		}
	}
}

// checkFiltersOnly checks that filters alone deny no key that is there and read no data.
func checkFiltersOnly(
	t *testing.T, r *sst.Reader, ls []base.Lookup, which []uint32, wanted []base.Entry,
	stats *sst.Stats,
) {
	t.Helper()
	start := stats.Snapshot()
	for i := range ls {
		ls[i] = base.Lookup{Key: ls[i].Key, Hash: ls[i].Hash}
	}
	b := sst.Batch{FiltersOnly: true}
	b.Ask(r, ls, which, base.MaxSeqNum)
	ok(t, b.Answer(ls, base.MaxSeqNum))
	for i := range wanted {
		if wanted[i].Kind != 0 && !ls[i].Found {
			t.Fatalf("filters deny %q", ls[i].Key)
		}
	}
	end := stats.Snapshot()
	if end.BlockHits != start.BlockHits || end.BlockMisses != start.BlockMisses ||
		b.Stats.DataReads != 0 {
		t.Fatal("a data block was read for an answer of filters alone")
	}
}

// checkFiltersOnlyWithout checks that a file without filters answers from its data: it
// denies no key that is there, and every key that is not.
func checkFiltersOnlyWithout(
	t *testing.T, r *sst.Reader, ls []base.Lookup, which []uint32, entries []base.Entry,
) {
	t.Helper()
	for i := range ls {
		ls[i] = base.Lookup{Key: ls[i].Key, Hash: ls[i].Hash}
	}
	b := sst.Batch{FiltersOnly: true}
	b.Ask(r, ls, which, base.MaxSeqNum)
	ok(t, b.Answer(ls, base.MaxSeqNum))
	for _, i := range which {
		there := slices.ContainsFunc(entries, func(e base.Entry) bool {
			return bytes.Equal(e.Key, ls[i].Key)
		})
		if ls[i].Found != there {
			t.Fatalf("without filters, %q: found %t, there %t", ls[i].Key, ls[i].Found, there)
		}
	}
}
