package keyset_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// keyLists are sets of integers: none, one, few, dense, with gaps, repeated, at the ends.
func keyLists(rnd *rand.Rand) map[string][]uint64 {
	lists := map[string][]uint64{"none": nil, "one": {77}, "two": {0, math.MaxUint64},
		"random": randomHashes(rnd, 700), "small": {}, "dense": {}, "gaps": {}, "repeated": {}}
	for i := range uint64(300) {
		lists["dense"] = append(lists["dense"], 299-i)
		lists["gaps"] = append(lists["gaps"], math.MaxUint64-3*i)
		lists["repeated"] = append(lists["repeated"], 1<<40+i%10, i%7<<33)
		lists["small"] = append(lists["small"], i*i<<9) // equal upper digits
	}
	return lists
}

// bytesOf is a key of bytes whose head is that of k.
func bytesOf(k uint64) []byte {
	b := be(k)
	switch k % 5 {
	case 0:
		return b[:k>>3%8]
	case 1:
		return append(b, fmt.Sprint(k%1000)...)
	case 2:
		return append(b[:3], "a long key whose head is that of several others"...)
	}
	return b
}

// TestLayouts: every kind of segment has the bytes that its page describes, byte by byte, and
// gives the answers that these bytes mean, however it is opened.
func TestLayouts(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(31, 1))
	name := filepath.Join(t.TempDir(), "segment")
	for kind, list := range keyLists(rnd) {
		for _, o := range []keyset.SegmentOptions{
			{Seed: 9}, {Seed: 9, Bits: 16}, {StoreKeys: true}, {Shards: 2, Workers: 3},
			{Bits: 16, Shards: 64, StoreKeys: true, Workers: 4, Seed: 5}, {BlockKeys: 1},
			{BlockKeys: 100}, {BlockKeys: 37, StoreKeys: true, Bits: 16, Workers: 2},
		} {
			for _, useBytes := range []bool{false, true} {
				label := fmt.Sprintf("%s %+v, bytes %v", kind, o, useBytes)
				keys := make([][]byte, len(list))
				for i, k := range list {
					if keys[i] = be(k); useBytes {
						keys[i] = bytesOf(k)
					}
				}
				seg := buildOf(t, &o, keys, rnd)
				data := binaryOf(t, seg)
				c := readCrafted(data)
				if !bytes.Equal(c.encode(), data) {
					t.Fatalf("%s: the bytes are not those of their fields", label)
				}
				checkParts(t, label, c, &o, keys)
				checkAccessors(t, label, seg, c)
				ok(t, seg.Save(name))
				saved, err := keyset.OpenSegment(name)
				ok(t, err)
				for _, s := range []*keyset.Segment{seg, openBytes(t, data, false),
					openBytes(t, data, true), saved} {
					checkSegment(t, label, s, c, keys)
				}
			}
		}
	}
}

// buildOf builds a segment, of integers where keys have eight bytes, now and then in a row.
func buildOf(t *testing.T, o *keyset.SegmentOptions, keys [][]byte, rnd *rand.Rand,
) *keyset.Segment {
	t.Helper()
	b, err := keyset.NewSegmentBuilder(o)
	ok(t, err)
	b.AddBytes([]byte("forgotten")) // a builder that is reset keeps nothing
	b.Reset()
	for i := 0; i < len(keys); i++ {
		var row []uint64
		for i < len(keys) && len(keys[i]) == 8 && rnd.IntN(3) > 0 {
			row = append(row, binary.BigEndian.Uint64(keys[i]))
			i++
		}
		if len(row) == 1 {
			b.Add(row[0])
		} else {
			b.AddAll(row)
		}
		if i < len(keys) {
			b.AddBytes(keys[i])
		}
	}
	if b.Len() != len(keys) {
		t.Errorf("%d keys are added, not %d", b.Len(), len(keys))
	}
	seg, err := b.Build()
	if err != nil || b.Len() != 0 {
		t.Fatalf("%v; %d keys are left", err, b.Len())
	}
	return seg
}

// checkParts checks the fields that the keys decide.
func checkParts(t *testing.T, label string, c *crafted, o *keyset.SegmentOptions, keys [][]byte) {
	t.Helper()
	sorted := sortedKeys(keys)
	allInts := !slices.ContainsFunc(sorted, func(k []byte) bool { return len(k) != 8 })
	var parts [][][]byte
	switch {
	case o.Shards > 1:
		parts = make([][][]byte, o.Shards)
		if len(c.parts) != o.Shards {
			t.Fatalf("%s: %d shards", label, len(c.parts))
		}
		for _, k := range sorted {
			i := base.Mix(c.word(k)+c.seed) >> (64 - c.shardBits())
			parts[i] = append(parts[i], k)
		}
	case o.BlockKeys > 0:
		parts = slices.Collect(slices.Chunk(sorted, o.BlockKeys))
	case len(keys) > 0:
		parts = [][][]byte{sorted}
	}
	largest, given := 0, keys
	if !allInts || o.StoreKeys || o.BlockKeys > 0 {
		given = sorted
	}
	perShard := make([]int, len(parts))
	for _, k := range given {
		if o.Shards > 1 {
			perShard[base.Mix(c.word(k)+c.seed)>>(64-c.shardBits())]++
			largest = slices.Max(perShard)
		}
	}
	for i, p := range parts {
		n := len(p)
		if o.BlockKeys == 0 && o.Shards <= 1 {
			n = len(given)
		} else if o.Shards > 1 {
			n = largest
		}
		want := partOf(p, n, allInts, o)
		if allInts && len(parts) == 1 && o.StoreKeys == false && o.Shards <= 1 && n > 0 {
			want.keys = uint32(len(p))
		}
		got := c.parts[i]
		want.salt, want.table = got.salt, got.table
		if len(got.table) != want.tableLen(o) || fmt.Sprint(got) != fmt.Sprint(want.craftedPart) {
			t.Fatalf("%s: part %d is\n%v, want\n%v", label, i, got, want.craftedPart)
		}
	}
	if len(c.parts) != len(parts) || len(sorted) > 0 &&
		(!bytes.Equal(c.min, sorted[0]) || !bytes.Equal(c.max, sorted[len(sorted)-1])) {
		t.Fatalf("%s: %d parts, zone %q to %q", label, len(c.parts), c.min, c.max)
	}
}

type wantedPart struct{ craftedPart }

// partOf returns what a part of sorted keys is, its filter made for n keys.
func partOf(keys [][]byte, n int, allInts bool, o *keyset.SegmentOptions) (w wantedPart) {
	if len(keys) == 0 {
		return w
	}
	w.lo, w.hi = base.KeyHead(keys[0]), base.KeyHead(keys[len(keys)-1])
	w.keys, w.kind = uint32(len(keys)), 3
	shape := fuse.ShapeFor(n)
	w.segLen, w.segCount = shape.Segments()
	span := w.hi - w.lo
	if filter := shape.Slots() * max(o.Bits, 8) / 8; allInts && o.Shards <= 1 &&
		span/8 < uint64(filter) {
		w.kind, w.segLen, w.segCount = 2, 0, 0
		if span == uint64(len(keys))-1 {
			w.kind = 1
		}
	}
	if o.StoreKeys {
		w.stored = w.keys
		for _, k := range keys {
			w.column = binary.LittleEndian.AppendUint64(w.column, base.KeyHead(k))
		}
		if !allInts {
			all := bytes.Join(keys, nil)
			end := 0
			for _, k := range keys {
				end += len(k)
				w.column = binary.LittleEndian.AppendUint32(w.column, uint32(end))
			}
			w.column = append(w.column, all...)
		}
	}
	return w
}

func (w *wantedPart) tableLen(o *keyset.SegmentOptions) int {
	switch w.kind {
	case 2:
		return int((w.hi-w.lo)/8) + 1
	case 3:
		return int((w.segCount + 2) * w.segLen * uint32(max(o.Bits, 8)) / 8)
	}
	return 0
}

func checkAccessors(t *testing.T, label string, seg *keyset.Segment, c *crafted) {
	t.Helper()
	keys, tables := uint64(0), uint64(0)
	for _, p := range c.parts {
		keys += uint64(p.keys)
		tables += uint64(len(p.table))
	}
	blocks := 0
	if c.flags&blocked != 0 {
		blocks = len(c.parts)
	}
	lo, hi := seg.Zone()
	if seg.Len() != keys || seg.Bits() != int(c.bits) || seg.Seed() != c.seed ||
		seg.Blocks() != blocks || seg.Shards() != 1<<c.shardBits() ||
		seg.StoresKeys() != (c.flags&stored != 0) || seg.FilterBytes() != tables ||
		seg.SizeBytes() != uint64(len(c.encode())) || !bytes.Equal(lo, c.min) ||
		!bytes.Equal(hi, c.max) || (lo == nil) != (keys == 0) {
		t.Errorf("%s: %d keys, %d bits, seed %d, %d blocks, %d shards, stores %v, %d bytes of %d, "+
			"zone %q to %q", label, seg.Len(), seg.Bits(), seg.Seed(), seg.Blocks(), seg.Shards(),
			seg.StoresKeys(), seg.FilterBytes(), seg.SizeBytes(), lo, hi)
	}
}

// checkSegment asks about all keys, their neighbours and others.
func checkSegment(t *testing.T, label string, seg *keyset.Segment, c *crafted, keys [][]byte) {
	t.Helper()
	for i, k := range keys {
		near := base.KeyHead(k)
		for _, other := range [][]byte{be(near + 1), be(near - 1), be(near), bytesOf(near),
			append(bytes.Clone(k), 0), be(near * 0x9e3779b97f4a7c15)} {
			if got, err := seg.ContainsBytes(other); err != nil || got != c.contains(other) {
				t.Fatalf("%s: ContainsBytes(%x) = %v, %v", label, other, got, err)
			}
			if len(other) != 8 {
				continue
			}
			got, err := seg.Contains(binary.BigEndian.Uint64(other))
			if err != nil || got != c.contains(other) {
				t.Fatalf("%s: Contains(%x) = %v, %v", label, other, got, err)
			}
		}
		if got, err := seg.ContainsBytes(k); err != nil || !got || !c.contains(k) {
			t.Fatalf("%s: key %d, %x, is denied, %v", label, i, k, err)
		}
	}
	if err := seg.Verify(); err != nil {
		t.Errorf("%s: %v", label, err)
	}
	if got, err := seg.AppendBinary([]byte("x")); err != nil ||
		string(got) != "x"+string(c.encode()) {
		t.Errorf("%s: the bytes are appended as others, %v", label, err)
	}
	if got, err := seg.Contains(0); err != nil || got != c.contains(be(0)) {
		t.Errorf("%s: Contains(0) = %v, %v", label, got, err)
	}
}

// TestBitmapOrFilter: a bitmap is chosen as long as it is not larger than the filter.
func TestBitmapOrFilter(t *testing.T) {
	keys := randomHashes(rand.New(rand.NewPCG(32, 1)), 100)
	filter := mustBuild(t, nil, keys)[0].FilterBytes()
	for i := range keys {
		keys[i] = uint64(i) + 1000
	}
	for span, kind := range map[uint64]byte{8*filter - 1: 2, 8 * filter: 3} {
		keys[99] = 1000 + span
		if c := readCrafted(binaryOf(t, mustBuild(t, nil, keys)[0])); c.parts[0].kind != kind {
			t.Errorf("span %d, filter of %d bytes: kind %d", span, filter, c.parts[0].kind)
		}
	}
}
