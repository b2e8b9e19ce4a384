package keyset_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// drawOptions draws a layout.
func drawOptions(t *rapid.T, seed uint64) *keyset.SegmentOptions {
	o := &keyset.SegmentOptions{Seed: seed, Bits: rapid.SampledFrom([]int{8, 16}).Draw(t, "bits"),
		StoreKeys: rapid.Bool().Draw(t, "stored"), Workers: rapid.IntRange(1, 3).Draw(t, "workers")}
	switch rapid.IntRange(0, 2).Draw(t, "layout") {
	case 1:
		o.BlockKeys = rapid.IntRange(1, 300).Draw(t, "blockKeys")
	case 2:
		o.Shards = 1 << rapid.IntRange(1, 5).Draw(t, "shardBits")
	}
	return o
}

// drawKeys draws a key set: random, dense, few, repeated, at the ends of the range.
func drawKeys(t *rapid.T, rnd *rand.Rand) []uint64 {
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 10, 100, 1000, 3000}).Draw(t, "keys")
	base := rapid.SampledFrom([]uint64{0, 1 << 40, ^uint64(0) - 4000}).Draw(t, "base")
	keys := make([]uint64, n)
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); kind {
	case 0:
		for i := range keys {
			keys[i] = rnd.Uint64()
		}
	case 1, 2: // every, or every third
		for i := range keys {
			keys[i] = base + uint64(i)*uint64(2*kind-1)
		}
		rnd.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	case 3: // many times the same few
		for i := range keys {
			keys[i] = base + uint64(rnd.IntN(50))<<30
		}
	}
	return keys
}

// asBytes makes keys of other lengths than eight out of a number: some with one head.
func asBytes(k uint64) []byte {
	switch k % 3 {
	case 0:
		return fmt.Appendf(nil, "user%07d", k)
	case 1:
		return binary.BigEndian.AppendUint64(nil, k)
	}
	return binary.AppendUvarint(nil, k)
}

// TestSetModel builds, saves, maps, appends and drops segments at random and compares
// every answer with a map: present keys are never denied, and exact sets are right.
func TestSetModel(t *testing.T) {
	dir := t.TempDir()
	testutil.Check(t, func(t *rapid.T) { checkModel(t, dir) })
}

func checkModel(t *rapid.T, dir string) {
	seed := rapid.Uint64().Draw(t, "seed")
	rnd := rand.New(rand.NewPCG(seed, 1))
	useBytes := rapid.Bool().Draw(t, "bytes")
	exact := rapid.Bool().Draw(t, "exact")
	contents := map[*keyset.Segment]map[string]bool{}
	has := func(seg *keyset.Segment, key []byte) bool { return contents[seg][string(key)] }
	set := keyset.NewSet(&keyset.SetOptions{Exact: exact,
		CheckKeys: func(seg *keyset.Segment, keys []uint64, present []bool) error {
			for i, k := range keys {
				present[i] = has(seg, binary.BigEndian.AppendUint64(nil, k))
			}
			return nil
		},
		CheckBytes: func(seg *keyset.Segment, keys [][]byte, present []bool) error {
			for i, k := range keys {
				present[i] = has(seg, k)
			}
			return nil
		}})
	cache := keyset.NewCache(2000)
	opts := drawOptions(t, seed)
	var known []uint64
	for range rapid.IntRange(1, 20).Draw(t, "changes") {
		if len(contents) > 0 && rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
			victim := set.Segments()[rnd.IntN(len(contents))]
			if !set.Drop(victim) || set.Drop(victim) {
				t.Fatal("a segment cannot be dropped once")
			}
			delete(contents, victim)
		} else {
			if rapid.IntRange(0, 3).Draw(t, "sameOptions") == 0 {
				opts = drawOptions(t, seed)
			}
			keys := drawKeys(t, rnd)
			seg, content := buildSegment(t, opts, keys, useBytes)
			seg = reopen(t, dir, seg, cache, rapid.IntRange(0, 2).Draw(t, "reopen"))
			contents[seg] = content
			ok(t, set.Append(seg))
			known = append(known, keys...)
		}
		if rapid.Bool().Draw(t, "prepare") {
			set.Prepare()
		}
		checkAnswers(t, set, contents, questions(rnd, known), useBytes, exact)
	}
}

func buildSegment(t *rapid.T, opts *keyset.SegmentOptions, keys []uint64, useBytes bool,
) (*keyset.Segment, map[string]bool) {
	b, err := keyset.NewSegmentBuilder(opts)
	ok(t, err)
	content := map[string]bool{}
	for _, k := range keys {
		key := binary.BigEndian.AppendUint64(nil, k)
		if useBytes {
			key = asBytes(k)
			b.AddBytes(key)
		} else {
			b.Add(k)
		}
		content[string(key)] = true
	}
	seg, err := b.Build()
	ok(t, err)
	ok(t, seg.Verify())
	for key := range content {
		if yes, err := seg.ContainsBytes([]byte(key)); !yes || err != nil {
			t.Fatalf("the segment denies %x: %v", key, err)
		}
	}
	return seg, content
}

// reopen returns the segment as built, mapped from a file, or read on demand.
func reopen(t *rapid.T, dir string, seg *keyset.Segment, cache *keyset.Cache, how int,
) *keyset.Segment {
	var err error
	switch how {
	case 1:
		name := filepath.Join(dir, "segment")
		if err = seg.Save(name); err == nil {
			seg, err = keyset.OpenSegment(name)
		}
	case 2:
		var data []byte
		if data, err = seg.AppendBinary(nil); err == nil {
			seg, err = keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), cache)
		}
	}
	ok(t, err)
	return seg
}

// questions are keys that were added, neighbours of them, and others.
func questions(rnd *rand.Rand, known []uint64) []uint64 {
	keys := make([]uint64, rnd.IntN(700)+1)
	for i := range keys {
		keys[i] = rnd.Uint64()
		if len(known) > 0 && i%4 != 0 {
			keys[i] = known[rnd.IntN(len(known))] + uint64(i%4/2)
		}
	}
	if rnd.IntN(2) == 0 {
		slices.Sort(keys)
	}
	return keys
}

func checkAnswers(t *rapid.T, set *keyset.Set, contents map[*keyset.Segment]map[string]bool,
	keys []uint64, useBytes, exact bool) {
	found := keyset.NewBitmap(len(keys))
	asked := make([][]byte, len(keys))
	for i, k := range keys {
		asked[i] = binary.BigEndian.AppendUint64(nil, k)
		if useBytes {
			asked[i] = asBytes(k)
		}
	}
	var err error
	if useBytes {
		err = set.ContainsBytesBatch(asked, found)
	} else {
		err = set.ContainsBatch(keys, found)
	}
	ok(t, err)
	for i, key := range asked {
		want := false
		for _, content := range contents {
			want = want || content[string(key)]
		}
		var one bool
		if useBytes {
			one, err = set.ContainsBytes(key)
		} else {
			one, err = set.Contains(keys[i])
		}
		ok(t, err)
		if want && (!found.Get(i) || !one) {
			t.Fatalf("present key %x: batch %v, single %v", key, found.Get(i), one)
		}
		if exact && !want && (found.Get(i) || one) {
			t.Fatalf("absent key %x, exact: batch %v, single %v", key, found.Get(i), one)
		}
	}
}

// TestDamagedSegments flips every bit, one at a time, of files of every layout, padding included,
// and cuts them off everywhere: Verify finds it, and an answer is an error or right.
//
// Promise (new keys): A segment with any byte changed or cut off is an error or answers rightly;
// what cannot be read or checked is an error, never "new". Also `TestErrorsAreNotNew`,
// `TestOpenRefuses`, `FuzzSegment`, `FuzzFilter`, `FuzzZoneMap`.
func TestDamagedSegments(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(3, 4))
	keys := randomHashes(rnd, 60)
	dense := []uint64{5, 6, 7, 9, 11, 12}
	for _, c := range []struct {
		opts keyset.SegmentOptions
		keys []uint64
	}{
		{keyset.SegmentOptions{Seed: 9}, keys},
		{keyset.SegmentOptions{Seed: 9, Bits: 16, StoreKeys: true}, keys},
		{keyset.SegmentOptions{Seed: 9, BlockKeys: 20, StoreKeys: true}, keys},
		{keyset.SegmentOptions{Seed: 9, Shards: 4}, keys},
		{keyset.SegmentOptions{Seed: 9}, dense},
	} {
		b, err := keyset.NewSegmentBuilder(&c.opts)
		ok(t, err)
		b.AddAll(c.keys)
		seg, err := b.Build()
		ok(t, err)
		good, err := seg.AppendBinary(nil)
		ok(t, err)
		for n := range good {
			if _, err := keyset.ParseSegment(good[:n:n]); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%+v cut to %d: %v", c.opts, n, err)
			}
		}
		for at := range good {
			for bit := range 8 {
				bad := bytes.Clone(good)
				bad[at] ^= 1 << bit
				wantIs(t, verifyParsed(bad), corrupt.ErrCorrupt)
				wantIs(t, verifyAt(bad), corrupt.ErrCorrupt)
				checkDamaged(t, bad, c.keys, c.opts.StoreKeys)
			}
		}
	}
}

// checkDamaged opens the bytes in both ways; no key may be called new without an error.
func checkDamaged(t *testing.T, data []byte, keys []uint64, exact bool) {
	t.Helper()
	for _, open := range []func() (*keyset.Segment, error){
		func() (*keyset.Segment, error) { return keyset.ParseSegment(data) },
		func() (*keyset.Segment, error) {
			return keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), nil)
		},
	} {
		seg, err := open()
		set := keyset.NewSet(&keyset.SetOptions{Exact: exact})
		found := keyset.NewBitmap(len(keys))
		if err == nil {
			err = set.Append(seg)
		}
		if err == nil {
			err = set.ContainsBatch(keys, found)
		}
		if err != nil {
			wantIs(t, err, corrupt.ErrCorrupt)
			continue
		}
		if found.Count() != len(keys) {
			t.Fatalf("a damaged file denies %d keys", len(keys)-found.Count())
		}
	}
}
