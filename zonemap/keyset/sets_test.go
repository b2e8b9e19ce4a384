package keyset_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestBitmaps: a bitmap has a bit for each key of a batch.
func TestBitmaps(t *testing.T) {
	for n, words := range map[int]int{0: 0, 1: 1, 63: 1, 64: 1, 65: 2, 128: 2, 129: 3} {
		b := keyset.NewBitmap(n)
		if len(b) != words || b.Count() != 0 {
			t.Errorf("%d words for %d keys, %d set", len(b), n, b.Count())
		}
		for i := range n {
			if b.Get(i) {
				t.Errorf("bit %d of %d is set", i, n)
			}
			if b.Set(i); !b.Get(i) || b.Count() != i+1 {
				t.Errorf("bit %d of %d: %v, %d set", i, n, b.Get(i), b.Count())
			}
		}
	}
}

// TestNewOfManyKeys: New answers in their order for more keys than a batch of it has.
func TestNewOfManyKeys(t *testing.T) {
	set := mustSet(t, nil, mustBuild(t, nil, []uint64{1, 2, 3, 4, 5, 6, 7})...)
	keys := make([]uint64, 10_000)
	want := []uint64{9}
	for i := range keys {
		if keys[i] = uint64(i%9) + 1; keys[i] > 7 {
			want = append(want, keys[i])
		}
	}
	if got, err := set.New([]uint64{9}, keys); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d of %d are new, %v", len(got), len(want), err)
	}
}

// overlapping returns two filters of a shape with 128 slots, whose zones share a part of their
// heads, in hundredths; each has keys entries.
func overlapping(percent uint64, keys ...uint32) (members []member) {
	rnd := rand.New(rand.NewPCG(101, 1))
	for i, n := range keys {
		lo := 1<<40 + uint64(i)*(100-percent)*1000
		c := randomFilter(rnd, 8, 16, 6, [2]uint64{lo, lo + 100*1000 - 1})
		c.parts[0].keys = n
		members = append(members, member{c, false})
	}
	return members
}

// interleavedBytes returns the size of the interleaved copies once they are wanted.
func interleavedBytes(t *testing.T, memory int64, members []member) uint64 {
	t.Helper()
	a := newAsked(t, false, memory, members...)
	a.set.Prepare()
	return a.set.Stats().InterleavedBytes
}

// TestWhatIsInterleaved: filters are interleaved if keys lie in 1.5 zones or more on average,
// and if the copies fit into the memory for them.
func TestWhatIsInterleaved(t *testing.T) {
	rnd := rand.New(rand.NewPCG(102, 1))
	aside := func(keys ...uint32) member { // blocks that overlap with nothing
		c := &crafted{bits: 8, flags: ints | blocked, seed: 9, min: be(1), max: be(1 << 30)}
		for i, n := range keys {
			p := randomPart(rnd, 8, 16, 6, [2]uint64{uint64(i+1) << 20, uint64(i+1)<<20 + 9})
			p.keys = n
			c.parts = append(c.parts, p)
		}
		return member{c, false}
	}
	two := overlapping(100, 100, 100)
	for i, c := range []struct {
		memory  int64
		members []member
		want    uint64
	}{
		{0, two, 256}, {0, two[:1], 0}, {0, nil, 0}, {-1, two, 0}, {256, two, 256}, {255, two, 0},
		{1, two, 0},
		{0, overlapping(50, 100, 100), 256}, {0, overlapping(49, 100, 100), 0},
		{0, overlapping(40, 100, 100), 0}, {0, overlapping(60, 1, 100), 256},
		// Keys in overlapping zones and others: 400 times of 200 keys, and 150 or 250 of one.
		{0, append(two[:2:2], aside(50, 100)), 256}, {0, append(two[:2:2], aside(150, 100)), 0},
		{0, append(two[:2:2], aside(100, 100)), 256},
		{0, overlapping(100, make33()...), 33 * 128},
		{11 * 128, overlapping(100, make33()...), 11 * 128},
		{33*128 - 1, overlapping(100, make33()...), 22 * 128},
	} {
		if got := interleavedBytes(t, c.memory, c.members); got != c.want {
			t.Errorf("case %d: %d bytes, want %d", i, got, c.want)
		}
	}
}

func make33() []uint32 { return slices.Repeat([]uint32{100}, 33) }

// TestWhenIsInterleaved: filters are interleaved once batches have asked for a quarter as many
// keys as the copies have rows, and dropped with the view that they belong to.
func TestWhenIsInterleaved(t *testing.T) {
	for _, c := range []struct {
		members []member
		worth   int
		size    uint64
	}{
		{overlapping(100, 100, 100), 32, 256},
		{overlapping(100, make33()...), 96, 33 * 128},
		{lanesOfShards(3), 8 * 32 / 4, 8 * 32 * 4},
	} {
		a := newAsked(t, false, 0, c.members...)
		for n := range c.worth {
			if got := a.set.Stats().InterleavedBytes; got != 0 {
				t.Fatalf("%d bytes after %d keys of %d", got, n, c.worth)
			}
			ask := func() error { return a.set.ContainsBatch([]uint64{1}, keyset.NewBitmap(1)) }
			if n%2 == 1 {
				ask = func() error {
					return a.set.ContainsBytesBatch([][]byte{be(1)}, keyset.NewBitmap(1))
				}
			}
			ok(t, ask())
		}
		if got := a.set.Stats().InterleavedBytes; got != c.size {
			t.Errorf("%d bytes after %d keys, want %d", got, c.worth, c.size)
		}
		if !a.set.Drop(a.segs[0]) || a.set.Stats().InterleavedBytes != 0 {
			t.Error("the copies outlive their view")
		}
	}
}

func lanesOfShards(n int) (members []member) {
	rnd := rand.New(rand.NewPCG(103, 1))
	for range n {
		c := randomShards(rnd, 8, 8, 2, [2]uint64{1, 1 << 60}, 8, nil)
		members = append(members, member{c, false})
	}
	return members
}

// TestStatsOfBatches: a probe of an interleaved copy counts once a key, as one of a filter.
func TestStatsOfBatches(t *testing.T) {
	a := newAsked(t, true, 0, lanes(rand.New(rand.NewPCG(104, 1)), 18, true, 16, 6)...)
	a.set.Prepare()
	keys := make([]uint64, 1000)
	for i := range keys {
		keys[i] = 1<<60 + 3000 + uint64(i)
	}
	for i := range 2 {
		ok(t, a.set.ContainsBatch(keys, keyset.NewBitmap(len(keys))))
		s := a.set.Stats()
		if s.Probes != int64(i+1)*2000 || s.Positives != s.Checked || s.Positives == 0 ||
			s.Confirmed == 0 || s.Confirmed >= s.Checked {
			t.Errorf("%+v after %d batches over two groups", s, i+1)
		}
	}
	checkCountsOfFailures(t)
	before := a.set.Stats()
	outside := make([]uint64, 1000)
	ok(t, a.set.ContainsBatch(outside, keyset.NewBitmap(1000)))
	if s := a.set.Stats(); s != before {
		t.Errorf("%+v after a batch outside of all zones, %+v before", s, before)
	}
	if got := (keyset.Stats{Keys: 16, FilterBytes: 18}).BitsPerKey(); got != 9 {
		t.Errorf("%v bits a key", got)
	}
	if got := (keyset.Stats{Keys: 1, FilterBytes: 1}).BitsPerKey(); got != 8 {
		t.Errorf("%v bits a key", got)
	}
	if got := (keyset.Stats{FilterBytes: 18}).BitsPerKey(); got != 0 {
		t.Errorf("%v bits a key of none", got)
	}
}

// checkCountsOfFailures: what a batch that fails has asked counts, in its own set only.
func checkCountsOfFailures(t *testing.T) {
	t.Helper()
	keys := []uint64{1, 1 << 40, 1 << 50}
	segs := mustBuild(t, nil, keys)
	failing := mustSet(t, &keyset.SetOptions{Exact: true,
		CheckKeys: func(*keyset.Segment, []uint64, []bool) error { return errRead }}, segs...)
	other := mustSet(t, nil, segs...)
	for n := range int64(3) {
		wantIs(t, failing.ContainsBatch(keys, keyset.NewBitmap(3)), errRead)
		ok(t, other.ContainsBatch(keys, keyset.NewBitmap(3)))
		s := failing.Stats()
		if o := other.Stats(); s.Probes != 3*n+3 || s.Checked != 3*n+3 || s.Confirmed != 0 ||
			o.Probes != 3*n+3 || o.Checked != 0 {
			t.Errorf("%+v of a set that fails, %+v of another", s, o)
		}
	}
}

// TestAppendAndDrop: segments are appended all or none, once each, and dropped once.
func TestAppendAndDrop(t *testing.T) {
	a := mustBuild(t, nil, []uint64{1, 1 << 30, 1 << 50}, []uint64{2, 1 << 40, 1 << 50})
	other := mustBuild(t, &keyset.SegmentOptions{Seed: 1}, []uint64{7})[0]
	data := binaryOf(t, a[0])
	data[len(data)-1] ^= 1
	damaged := openBytes(t, data, false)
	set := keyset.NewSet(nil)
	for i, c := range []struct {
		add  []*keyset.Segment
		err  error
		want []*keyset.Segment
	}{
		{nil, nil, nil},
		{[]*keyset.Segment{a[0], other}, keyset.ErrSeed, nil},
		{[]*keyset.Segment{a[0], damaged}, corrupt.ErrCorrupt, nil},
		{[]*keyset.Segment{a[0], a[0]}, nil, a[:1]},
		{[]*keyset.Segment{other}, keyset.ErrSeed, a[:1]},
		{[]*keyset.Segment{a[1], a[0]}, nil, a},
	} {
		if err := set.Append(c.add...); !errors.Is(err, c.err) {
			t.Errorf("append %d: %v", i, err)
		}
		if got := set.Segments(); !slices.Equal(got, c.want) {
			t.Errorf("%d segments after append %d", len(got), i)
		}
	}
	if set.Drop(other) || !set.Drop(a[0]) || set.Drop(a[0]) ||
		!slices.Equal(set.Segments(), a[1:]) {
		t.Error("a segment is dropped that is not there, or not dropped")
	}
	err := keyset.NewSet(nil).Append(damaged)
	if want := "keyset: append segment: corrupt segment at offset 192: "; err == nil ||
		!bytes.HasPrefix([]byte(err.Error()), []byte(want)) {
		t.Errorf("%v, want %s", err, want)
	}
	if one, two := keyset.NewSeed(), keyset.NewSeed(); one == two || one == 0 || two == 0 {
		t.Errorf("seeds %x and %x", one, two)
	}
}

// TestChecksByFunctions: integers are checked as bytes where there is only a function for
// those, and keys of eight bytes as integers; other keys then cannot be checked.
func TestChecksByFunctions(t *testing.T) {
	numbers := func(_ *keyset.Segment, keys []uint64, present []bool) error {
		for i, k := range keys {
			present[i] = k&1 == 1
		}
		return nil
	}
	c := randomFilter(rand.New(rand.NewPCG(105, 1)), 8, 4096, 6, [2]uint64{0, math.MaxUint64})
	strings := func(_ *keyset.Segment, keys [][]byte, present []bool) error {
		for i, k := range keys {
			present[i] = (len(k) == 0 || k[len(k)-1]&1 == 1) && (c.flags == 0 || len(k) == 8)
		}
		return nil
	}
	failing := errors.New("no check")
	for _, flags := range []byte{0, ints} {
		c.flags = flags
		asked := [][]byte{be(4), be(5), be(6), be(7), []byte("a"), []byte("b"), nil}
		for _, k := range asked {
			c.plantBytes(k)
		}
		for i, o := range []keyset.SetOptions{{CheckKeys: numbers}, {CheckBytes: strings},
			{CheckKeys: numbers, CheckBytes: strings},
			{CheckKeys: func(*keyset.Segment, []uint64, []bool) error { return failing }},
			{CheckBytes: func(*keyset.Segment, [][]byte, []bool) error { return failing }}} {
			o.Exact = true
			for _, copies := range []int{1, 3} {
				set := keyset.NewSet(&o)
				for range copies {
					ok(t, set.Append(c.open(t, false)))
				}
				set.Prepare()
				label := fmt.Sprintf("flags %d, options %d, %d segments", flags, i, copies)
				checkFunctions(t, label, set, asked, i, flags == ints, failing)
			}
		}
	}
}

func checkFunctions(t *testing.T, label string, set *keyset.Set, asked [][]byte, option int,
	onlyInts bool, failing error) {
	t.Helper()
	for n := range asked {
		for _, batch := range [][][]byte{asked[n : n+1], asked[:n+1]} {
			found := keyset.NewBitmap(len(batch))
			err := set.ContainsBytesBatch(batch, found)
			last := batch[len(batch)-1]
			one, oneErr := set.ContainsBytes(last)
			var want error
			switch {
			case option%3 == 0 && len(last) != 8 && !onlyInts:
				want = keyset.ErrNoKeys
			case option >= 3 && onlyInts && len(last) != 8:
				continue // whether there is anything to check depends on the layout
			case option >= 3:
				want = failing
			}
			if !errors.Is(err, want) || len(batch) == 1 && !errors.Is(oneErr, want) {
				t.Fatalf("%s: %q: %v in a batch, %v alone, want %v", label, batch, err, oneErr,
					want)
			}
			if want != nil {
				continue
			}
			for i, k := range batch {
				yes := (len(k) == 0 || k[len(k)-1]&1 == 1) && (len(k) == 8 || !onlyInts)
				if found.Get(i) != yes || i == len(batch)-1 && one != yes {
					t.Fatalf("%s: %q: %v in a batch, %v alone", label, k, found.Get(i), one)
				}
			}
		}
		if len(asked[n]) != 8 {
			continue
		}
		key := []uint64{uint64(asked[n][7])}
		found := keyset.NewBitmap(1)
		err := set.ContainsBatch(key, found)
		one, oneErr := set.Contains(key[0])
		if yes := key[0]&1 == 1; option >= 3 && (!errors.Is(err, failing) ||
			!errors.Is(oneErr, failing)) || option < 3 && (err != nil || oneErr != nil ||
			one != yes || found.Get(0) != yes) {
			t.Fatalf("%s: %d: %v, %v; %v, %v", label, key, found.Get(0), err, one, oneErr)
		}
	}
}
