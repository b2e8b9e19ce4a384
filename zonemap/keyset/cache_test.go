package keyset_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// blocksAt opens a segment of n blocks, with filters of 128 bytes, that are read on demand.
// Block i is asked by key i<<32.
func blocksAt(t *testing.T, n int, cache *keyset.Cache) *keyset.Segment {
	t.Helper()
	rnd := rand.New(rand.NewPCG(91, 1))
	c := &crafted{bits: 8, flags: ints | blocked, seed: 9, min: be(0), max: be(uint64(n) << 32)}
	for i := range uint64(n) {
		c.parts = append(c.parts, randomPart(rnd, 8, 16, 6, [2]uint64{i << 32, i<<32 + 9}))
	}
	data := c.encode()
	seg, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), cache)
	ok(t, err)
	return seg
}

// TestCacheOrder: a cache lets go of what has not been used since it looked last, as far as
// its limit needs it, and keeps what was read last.
func TestCacheOrder(t *testing.T) {
	for _, c := range []struct {
		limit int64
		asks  string // blocks, one after the other
		want  string // loads, evictions and bytes held after each
	}{
		{384, "0123", "1/0/128 2/0/256 3/0/384 4/1/384"},
		{383, "012", "1/0/128 2/0/256 3/1/256"},
		{0, "0010", "1/0/128 1/0/128 2/1/128 3/2/128"},
		{-1, "01", "1/0/128 2/1/128"},
		// Block 3 makes all lose their marks and takes the place of block 0; then block 2,
		// moved there, is the next.
		{384, "0123010", "1/0/128 2/0/256 3/0/384 4/1/384 5/2/384 5/2/384 5/2/384"},
		{384, "01231421", "1/0/128 2/0/256 3/0/384 4/1/384 4/1/384 5/2/384 6/3/384 6/3/384"},
	} {
		cache := keyset.NewCache(c.limit)
		seg := blocksAt(t, 6, cache)
		var got []string
		for _, block := range c.asks {
			if _, err := seg.Contains(uint64(block-'0') << 32); err != nil {
				t.Fatal(err)
			}
			loads, evictions := cache.Loads()
			got = append(got, fmt.Sprintf("%d/%d/%d", loads, evictions, cache.UsedBytes()))
		}
		if trace := strings.Join(got, " "); trace != c.want {
			t.Errorf("limit %d, blocks %s:\n%s, want\n%s", c.limit, c.asks, trace, c.want)
		}
	}
}

// TestCacheOfStoredKeys: columns of keys count with the index that is made of them, and are
// let go apart from their filters.
func TestCacheOfStoredKeys(t *testing.T) {
	var keys []uint64
	for i := range uint64(40) {
		keys = append(keys, i<<50|i*i)
	}
	seg := mustBuild(t, &keyset.SegmentOptions{StoreKeys: true, BlockKeys: 20}, keys)[0]
	data := binaryOf(t, seg)
	for _, c := range []struct {
		limit int64
		want  string
	}{
		{1 << 20, "2/0/220 2/0/220 4/0/440"},
		{440, "2/0/220 2/0/220 4/0/440"},
		{439, "2/0/220 2/0/220 4/1/268"},
		{1, "2/1/172 4/3/172 6/5/172"},
	} {
		cache := keyset.NewCache(c.limit)
		cold, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), cache)
		ok(t, err)
		set := mustSet(t, &keyset.SetOptions{Exact: true}, cold)
		var got []string
		for _, i := range []int{0, 1, 39} {
			if yes, err := set.Contains(keys[i]); !yes || err != nil {
				t.Fatal(yes, err)
			}
			loads, evictions := cache.Loads()
			got = append(got, fmt.Sprintf("%d/%d/%d", loads, evictions, cache.UsedBytes()))
		}
		if trace := strings.Join(got, " "); trace != c.want {
			t.Errorf("limit %d: %s, want %s", c.limit, trace, c.want)
		}
	}
}
