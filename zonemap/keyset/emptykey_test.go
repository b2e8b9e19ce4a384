package keyset_test

import (
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestEmptyKey: the empty key is a key like others, also if it is given as nil.
//
// Promise (new keys): The empty key, repeated keys, empty and tiny segments, and keys with equal
// hashes are keys like others. Also `TestEmptyFilter`, `TestCraftedKeys`; `TestRepeatedWords` in
// `zonemap/keyset/internal/fuse`.
func TestEmptyKey(t *testing.T) {
	for _, o := range []keyset.SegmentOptions{
		{StoreKeys: true}, {StoreKeys: true, BlockKeys: 2}, {StoreKeys: true, Shards: 4}, {},
	} {
		b, err := keyset.NewSegmentBuilder(&o)
		ok(t, err)
		for _, k := range []string{"", "abc", "abd", "b", "c"} {
			b.AddBytes([]byte(k))
		}
		seg, err := b.Build()
		ok(t, err)
		set := mustSet(t, &keyset.SetOptions{Exact: o.StoreKeys}, seg)
		asked := [][]byte{nil, {}, []byte("abc")}
		found := keyset.NewBitmap(len(asked))
		ok(t, set.ContainsBytesBatch(asked, found))
		for i, k := range asked {
			one, err := set.ContainsBytes(k)
			if err != nil || !one || !found.Get(i) {
				t.Errorf("%+v: key %#v: alone %v, %v; in a batch %v", o, k, one, err, found.Get(i))
			}
		}
	}
}

// TestExactWithoutKeys: a segment that answers exactly by itself needs nothing to check
// with. A segment without keys has no zone.
func TestExactWithoutKeys(t *testing.T) {
	dense := mustBuild(t, nil, []uint64{0, 1, 2, 3})[0]
	set := mustSet(t, &keyset.SetOptions{Exact: true}, dense)
	for key := range uint64(6) {
		if yes, err := set.Contains(key); err != nil || yes != (key < 4) {
			t.Errorf("Contains(%d) = %v, %v", key, yes, err)
		}
	}
	if yes, err := set.ContainsBytes(nil); err != nil || yes {
		t.Errorf("the empty key is taken for 0: %v, %v", yes, err)
	}
	b, err := keyset.NewSegmentBuilder(nil)
	ok(t, err)
	empty, err := b.Build()
	ok(t, err)
	if lo, hi := empty.Zone(); lo != nil || hi != nil {
		t.Errorf("the zone of no keys is %q to %q", lo, hi)
	}
}
