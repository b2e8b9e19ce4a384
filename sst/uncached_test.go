package sst_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// lookupsOf returns lookups of keys, and their numbers.
func lookupsOf(keys ...[]byte) (ls []base.Lookup, which []uint32) {
	for i, key := range keys {
		ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, testSeed), Index: uint32(i)})
		which = append(which, uint32(i))
	}
	return ls, which
}

// answer asks a batch for keys and returns how many of them it has found.
func answer(t *testing.T, b *sst.Batch, r *sst.Reader, keys ...[]byte) (found int) {
	t.Helper()
	ls, which := lookupsOf(keys...)
	b.Ask(r, ls, which, base.MaxSeqNum)
	ok(t, b.Answer(ls, base.MaxSeqNum))
	for i := range ls {
		if ls[i].Found {
			found++
		}
	}
	return found
}

// TestFiltersOfPresentKeys: after 64 lookups in a row that have found their keys the filters of a
// file are left alone until a key is absent; not by batches that look for new keys.
func TestFiltersOfPresentKeys(t *testing.T) {
	for _, partitionKeys := range []int{0, 100} { // a filter per part, and several
		fsys, entries := vfs.NewMem(), plainEntries(1000)
		o := sst.WriterOptions{FilterBits: 16, FilterPartitionKeys: partitionKeys}
		ro := readerOptions(fsys, build(t, fsys, o, entries))
		r := sst.NewReader(ro)
		checks := func() uint64 { return ro.Stats.Snapshot().FilterChecks }
		want := func(n uint64, what string) {
			t.Helper()
			if got := checks(); got != n {
				t.Fatalf("%d keys a filter, %s: %d questions, want %d", partitionKeys, what, got, n)
			}
		}
		absent := func(i int) []byte { return append(entries[i].Key[:len(entries[i].Key):13], '!') }
		get := func(key []byte, want bool) {
			t.Helper()
			var e base.Entry
			found, err := r.Get(key, base.Hash(key, testSeed), base.MaxSeqNum, &e)
			if ok(t, err); found != want {
				t.Fatalf("%s is found: %v", key, found)
			}
		}
		for i := range 100 {
			get(entries[7*i].Key, true)
		}
		want(64, "a hundred keys that are there")
		get(absent(500), false)
		want(64, "an absent one")
		get(absent(500), false)
		want(65, "it once more")

		var keys [][]byte
		for i := range 70 {
			keys = append(keys, entries[11*i].Key)
		}
		var b sst.Batch
		for _, n := range []uint64{135, 135} {
			if found := answer(t, &b, r, keys...); found != 70 {
				t.Fatalf("%d keys are found", found)
			}
			want(n, "a batch of 70")
		}
		answer(t, &sst.Batch{NoValues: true}, r, absent(1))
		want(136, "a search for new keys")
		keys[3] = absent(33)
		answer(t, &b, r, keys...)
		want(206, "a batch with an absent key")
		answer(t, &b, r, keys...)
		want(276, "it once more")
		ok(t, r.Close())
	}
}

// TestValuesOfUncachedBlocks: values that were found in blocks that the cache does not take stay as
// they are, whatever is read afterwards.
func TestValuesOfUncachedBlocks(t *testing.T) {
	for _, codec := range []sst.Codec{sst.None, sst.Snappy} {
		fsys, entries := vfs.NewMem(), plainEntries(3000)
		o := sst.WriterOptions{FilterBits: 8, Codec: codec}
		ro := readerOptions(fsys, build(t, fsys, o, entries))
		ro.Cache = cache.New(8 << 10) // for the tail and a few blocks
		r := sst.NewReader(ro)
		var values [2][][]byte
		var keys [][]byte
		for i := 0; i < len(entries); i += 37 {
			got := mustGet(t, r, &entries[i])
			values[0] = append(values[0], got.Value)
			keys = append(keys, entries[i].Key)
		}
		var b sst.Batch
		for _, half := range [][][]byte{keys[:40], keys[40:]} {
			ls, which := lookupsOf(half...)
			b.Ask(r, ls, which, base.MaxSeqNum)
			ok(t, b.Answer(ls, base.MaxSeqNum))
			for i := range ls {
				values[1] = append(values[1], ls[i].Value)
			}
		}
		for way, list := range values {
			for i, v := range list {
				if want := entries[37*i].Value; string(v) != string(want) {
					t.Fatalf("%v, way %d: value %d became %q, was %q", codec, way, i, v, want)
				}
			}
		}
		if s := ro.Stats.Snapshot(); s.BlockMisses < uint64(len(keys)) {
			t.Errorf("only %d misses", s.BlockMisses)
		}
		ok(t, r.Close())
	}
}

// TestFullCacheTakesSome: of the blocks that lookups read, a full cache takes a fourth. What is
// looked up over and over gets in.
func TestFullCacheTakesSome(t *testing.T) {
	fsys, entries := vfs.NewMem(), plainEntries(8000) // 126 blocks
	ro := readerOptions(fsys, build(t, fsys, sst.WriterOptions{}, entries))
	ro.Cache = cache.New(160 << 10)
	r := sst.NewReader(ro)
	defer r.Close()
	for i := 0; i < len(entries); i += 61 {
		mustGet(t, r, &entries[i])
	}
	taken, missed := ro.Cache.Metrics().Inserts, ro.Stats.Snapshot().BlockMisses
	for i := range 4 * len(entries) / 61 {
		mustGet(t, r, &entries[61*i%len(entries)])
	}
	taken = ro.Cache.Metrics().Inserts - taken
	missed = ro.Stats.Snapshot().BlockMisses - missed
	if missed < 200 || taken < missed/5 || taken > missed/3 {
		t.Errorf("%d of %d blocks are taken", taken, missed)
	}
	var b sst.Batch
	read := func() uint64 {
		before := ro.Stats.Snapshot().BlockMisses
		for i := range 10 {
			mustGet(t, r, &entries[200*i])
			if key := entries[4000+200*i].Key; answer(t, &b, r, key) != 1 {
				t.Fatalf("%s is not found", key)
			}
		}
		return ro.Stats.Snapshot().BlockMisses - before
	}
	for range 30 {
		read()
	}
	if n := read(); n > 2 {
		t.Errorf("%d misses of 20 keys that are read over and over", n)
	}
}
