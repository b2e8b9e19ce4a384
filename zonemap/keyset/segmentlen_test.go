package keyset_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestLenCountsDistinctKeys: a key that is added twice counts once in every layout, and the
// saved form says the same number.
//
// Promise (reads and writes): A segment counts distinct keys, in every layout.
func TestLenCountsDistinctKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 7))
	distinct := randomHashes(rnd, 5000)
	twice := slices.Concat(distinct, distinct[:1000], distinct[4000:])
	for _, o := range []keyset.SegmentOptions{
		{}, {Bits: 16}, {Shards: 8}, {StoreKeys: true}, {BlockKeys: 700},
		{Shards: 4, StoreKeys: true},
	} {
		seg := mustBuild(t, &o, twice)[0]
		if seg.Len() != uint64(len(distinct)) {
			t.Errorf("%+v: %d keys, want %d", o, seg.Len(), len(distinct))
		}
		again, err := keyset.ParseSegment(binaryOf(t, seg))
		if err != nil || again.Len() != seg.Len() {
			t.Errorf("%+v: reads back with %d keys, %v", o, again.Len(), err)
		}
		for _, k := range distinct {
			if yes, err := seg.Contains(k); err != nil || !yes {
				t.Fatalf("%+v: %#x is denied, %v", o, k, err)
			}
		}
	}
}

// TestDamageNamesTheFile: the error of a segment that is read on demand names its file.
func TestDamageNamesTheFile(t *testing.T) {
	seg := mustBuild(t, &keyset.SegmentOptions{BlockKeys: 100}, []uint64{1, 1 << 40, 1 << 50})[0]
	name := filepath.Join(t.TempDir(), "keys.seg")
	ok(t, seg.Save(name))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	at, err := keyset.OpenSegmentAt(f, int64(seg.SizeBytes()), nil)
	ok(t, err)
	if _, err := f.WriteAt([]byte{0xff}, int64(seg.SizeBytes())-1); err != nil {
		t.Fatal(err)
	}
	if err := at.Verify(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v does not name %s", err, name)
	}
	if at.Blocks() != 1 || at.Shards() != 1 {
		t.Errorf("%d blocks, %d shards", at.Blocks(), at.Shards())
	}
}
