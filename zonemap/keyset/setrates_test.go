package keyset_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

var ok, wantIs = testutil.OK, testutil.WantIs

func mustBuild(tb testing.TB, opts *keyset.SegmentOptions, sets ...[]uint64) []*keyset.Segment {
	tb.Helper()
	segments, err := keyset.BuildSegments(sets, opts, 2)
	ok(tb, err)
	return segments
}

func mustSet(tb testing.TB, opts *keyset.SetOptions, segments ...*keyset.Segment) *keyset.Set {
	tb.Helper()
	set := keyset.NewSet(opts)
	ok(tb, set.Append(segments...))
	return set
}

// TestRatesOfSets: the share of absent keys that pass is that of theory, 1-(1-2^-b)^k,
// within 10 %, with the segments apart and interleaved in rows of every width.
func TestRatesOfSets(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(11, 1))
	const probes = 1 << 20
	keys := randomHashes(rnd, probes)
	found := keyset.NewBitmap(probes)
	for _, k := range []int{1, 2, 3, 8, 10, 16, 18} {
		var sets [][]uint64
		for range k {
			sets = append(sets, randomHashes(rnd, 20_000))
		}
		for _, shards := range []int{1, 16} {
			opts := &keyset.SegmentOptions{Seed: 5, Shards: shards}
			set := mustSet(t, nil, mustBuild(t, opts, sets...)...)
			for _, prepared := range []bool{false, true} {
				if prepared {
					set.Prepare()
				}
				ok(t, set.ContainsBatch(keys[:probes/2], found[:probes/128]))
				want := 1 - math.Pow(1-1.0/256, float64(k))
				got := float64(found[:probes/128].Count()) / (probes / 2)
				if got < 0.9*want || got > 1.1*want {
					t.Errorf("%d segments, %d shards, interleaved %v: %.5f pass, want %.5f",
						k, shards, prepared, got, want)
				}
			}
			checkPresent(t, set, sets)
		}
	}
}

func checkPresent(t *testing.T, set *keyset.Set, sets [][]uint64) {
	t.Helper()
	for _, keys := range sets {
		found := keyset.NewBitmap(len(keys))
		ok(t, set.ContainsBatch(keys, found))
		if n := found.Count(); n != len(keys) {
			t.Fatalf("%d present keys are denied", len(keys)-n)
		}
		fresh, err := set.New(nil, keys)
		if err != nil || len(fresh) != 0 {
			t.Fatalf("%d present keys are new, %v", len(fresh), err)
		}
	}
}

// TestWideFingerprints: 16 bits let at most 0.002 % pass, at 18.1 bits a key.
func TestWideFingerprints(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	rnd := rand.New(rand.NewPCG(12, 1))
	n := testutil.Effort(2_000_000, 6_400_000)
	set := mustSet(t, nil, mustBuild(t, &keyset.SegmentOptions{Bits: 16, Seed: 1},
		randomHashes(rnd, n))...)
	const probes = 4 << 20
	found := keyset.NewBitmap(probes)
	ok(t, set.ContainsBatch(randomHashes(rnd, probes), found))
	// The expectation is 64; 83 is more than two standard deviations above it.
	if rate := float64(found.Count()) / probes; rate > 0.00002 {
		t.Errorf("%.5f %% pass", 100*rate)
	}
	if b := set.Stats().BitsPerKey(); b > 18.1 {
		t.Errorf("%.2f bits a key", b)
	}
}

// TestDenseKeys: integers without gaps need no filter, with few gaps a bitmap, and both
// answer exactly.
//
// Promise (new keys): Integers without gaps are answered exactly. Also `TestExactWithoutKeys`.
func TestDenseKeys(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for step, most := range map[uint64]uint64{1: 0, 3: 40_000} {
		var keys []uint64
		for i := range uint64(100_000) {
			keys = append(keys, 1<<50+i*step)
		}
		rand.New(rand.NewPCG(13, step)).Shuffle(len(keys), func(i, j int) {
			keys[i], keys[j] = keys[j], keys[i]
		})
		seg := mustBuild(t, nil, append(keys, keys[:1000]...))[0]
		if seg.FilterBytes() > most || seg.Len() != 100_000 {
			t.Errorf("step %d: %d bytes, %d keys", step, seg.FilterBytes(), seg.Len())
		}
		set := mustSet(t, &keyset.SetOptions{Exact: true,
			CheckKeys: func(*keyset.Segment, []uint64, []bool) error {
				return errors.New("needs no check")
			}}, seg)
		checkPresent(t, set, [][]uint64{keys})
		for i := range uint64(400_000) {
			k := uint64(1<<50) - 50_000 + i
			want := k >= 1<<50 && (k-1<<50)%step == 0 && (k-1<<50)/step < 100_000
			if got, err := set.Contains(k); err != nil || got != want {
				t.Fatalf("step %d: Contains(%d) = %v, %v", step, k, got, err)
			}
		}
	}
}

// TestCraftedKeys: keys of bytes that collide under every seed of a hash with public
// constants do not collide here, and a filter of one of them denies the others.
func TestCraftedKeys(t *testing.T) {
	crafted := func(i int) []byte {
		k := append([]byte{0xdb, 0x28, 0xb4, 0xa0, 0xd1, 0x7e, 0x03, 0xe7}, make([]byte, 16)...)
		k[8], k[9] = byte(i), byte(i>>8)
		return k
	}
	b, err := keyset.NewSegmentBuilder(&keyset.SegmentOptions{Seed: 99, Bits: 16})
	ok(t, err)
	b.AddBytes(crafted(0))
	b.AddBytes([]byte("\xdc")) // widens the zone
	seg, err := b.Build()
	ok(t, err)
	for i := range 1000 {
		if yes, err := seg.ContainsBytes(crafted(i)); err != nil || yes != (i == 0) {
			t.Fatalf("key %d: %v, %v", i, yes, err)
		}
	}
}

// TestCacheLimit: filters read on demand stay within the budget, and come back.
//
// Promise (new keys): Filters on disk keep to the memory they are given.
func TestCacheLimit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(14, 1))
	keys := randomHashes(rnd, 50_000)
	seg := mustBuild(t, &keyset.SegmentOptions{BlockKeys: 1000}, keys)[0]
	data, err := seg.AppendBinary(nil)
	ok(t, err)
	const limit = 10_000
	cache := keyset.NewCache(limit)
	cold, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), cache)
	ok(t, err)
	set := mustSet(t, nil, cold)
	if cache.UsedBytes() != 0 {
		t.Error("filters are read before they are asked")
	}
	for range 3 {
		checkPresent(t, set, [][]uint64{keys})
		if used := cache.UsedBytes(); used > limit || used == 0 {
			t.Errorf("%d bytes held, %d allowed", used, limit)
		}
	}
	if loads, evictions := cache.Loads(); loads < 50 || evictions < 40 {
		t.Errorf("%d loads, %d evictions", loads, evictions)
	}
}

// failing is a file whose reads of anything but header and directory fail.
type failing struct {
	bytes.Reader
	from int64
}

var errRead = errors.New("read failed")

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, errRead
	}
	return f.Reader.ReadAt(p, off)
}

// TestErrorsAreNotNew: what cannot be read, checked or mixed is an error.
func TestErrorsAreNotNew(t *testing.T) {
	keys := randomHashes(rand.New(rand.NewPCG(15, 1)), 1000)
	seg := mustBuild(t, nil, keys)[0]
	data, err := seg.AppendBinary(nil)
	ok(t, err)
	cold, err := keyset.OpenSegmentAt(&failing{*bytes.NewReader(data), 192},
		int64(len(data)), nil)
	ok(t, err)
	found := keyset.NewBitmap(len(keys))
	set := mustSet(t, nil, cold)
	wantIs(t, set.ContainsBatch(keys, found), errRead)
	if _, err := set.Contains(keys[0]); !errors.Is(err, errRead) {
		t.Errorf("single: %v", err)
	}
	exact := keyset.NewSet(&keyset.SetOptions{Exact: true})
	wantIs(t, exact.Append(seg), keyset.ErrNoKeys)
	failed := errors.New("disk on fire")
	exact = mustSet(t, &keyset.SetOptions{Exact: true,
		CheckKeys: func(*keyset.Segment, []uint64, []bool) error { return failed }}, seg)
	wantIs(t, exact.ContainsBatch(keys, found), failed)
	other := mustBuild(t, &keyset.SegmentOptions{Seed: 77}, keys)[0]
	wantIs(t, exact.Append(other), keyset.ErrSeed)
	if err := set.ContainsBatch(keys, found[:1]); err == nil {
		t.Error("a short bitmap is accepted")
	}
	for _, o := range []keyset.SegmentOptions{{Bits: 4}, {Shards: 3}, {Shards: 1 << 13},
		{BlockKeys: -1}, {BlockKeys: 5, Shards: 2}} {
		if _, err := keyset.NewSegmentBuilder(&o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// TestCheckFailsInPlanes: single questions to filters that are interleaved return the error of
// the check.
func TestCheckFailsInPlanes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(27, 1))
	var sets [][]uint64
	for range 3 {
		sets = append(sets, randomHashes(rnd, 1000))
	}
	failed := errors.New("disk on fire")
	set := mustSet(t, &keyset.SetOptions{Exact: true,
		CheckKeys: func(*keyset.Segment, []uint64, []bool) error { return failed }},
		mustBuild(t, nil, sets...)...)
	for range 10 { // until interleaving is worth it
		found := keyset.NewBitmap(1000)
		wantIs(t, set.ContainsBatch(sets[0], found), failed)
	}
	if set.Stats().InterleavedBytes == 0 {
		t.Fatal("nothing is interleaved")
	}
	for _, keys := range sets {
		if yes, err := set.Contains(keys[0]); yes || !errors.Is(err, failed) {
			t.Errorf("%v, %v", yes, err)
		}
	}
}

// TestSetConcurrency: an exact set is right for what is never changed, while other
// segments come and go and copies are made.
//
// Promise (new keys): Sets can be asked while segments come and go.
func TestSetConcurrency(t *testing.T) {
	rnd := rand.New(rand.NewPCG(16, 1))
	var sets [][]uint64
	for range 6 {
		sets = append(sets, randomHashes(rnd, 3000))
	}
	segments := mustBuild(t, &keyset.SegmentOptions{StoreKeys: true}, sets...)
	absent := randomHashes(rnd, 3000)
	set := mustSet(t, &keyset.SetOptions{Exact: true}, segments[0])
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			found := keyset.NewBitmap(3000)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := set.ContainsBatch(sets[0], found); err != nil || found.Count() != 3000 {
					t.Errorf("%d of 3000 found, %v", found.Count(), err)
					return
				}
				if err := set.ContainsBatch(absent, found); err != nil || found.Count() != 0 {
					t.Errorf("%d absent keys found, %v", found.Count(), err)
					return
				}
			}
		})
	}
	for range 60 {
		for _, seg := range segments[1:] {
			ok(t, set.Append(seg))
			set.Prepare()
		}
		for _, seg := range segments[1:] {
			set.Drop(seg)
		}
	}
	close(stop)
	readers.Wait()
}

// Promise (new keys): Lookups in a set allocate nothing. Also `TestFilterAllocations`.
func TestSetAllocations(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	rnd := rand.New(rand.NewPCG(17, 1))
	sets := [][]uint64{randomHashes(rnd, 20_000), randomHashes(rnd, 20_000)}
	few := [][]byte{be(sets[0][0]), be(sets[1][1]), []byte("other")}
	for _, o := range []keyset.SegmentOptions{{StoreKeys: true}, {StoreKeys: true, Bits: 16},
		{StoreKeys: true, BlockKeys: 3000}, {StoreKeys: true, Shards: 8}} {
		for _, exact := range []bool{false, true} {
			set := mustSet(t, &keyset.SetOptions{Exact: exact}, mustBuild(t, &o, sets...)...)
			set.Prepare()
			found := keyset.NewBitmap(20_000)
			ask := func() {
				ok(t, set.ContainsBatch(sets[0], found))
				if _, err := set.Contains(sets[1][0]); err != nil {
					t.Fatal(err)
				}
				ok(t, set.ContainsBytesBatch(few, found))
			}
			ask()
			if n := testutil.AllocsPerRun(20, ask); n >= 1 {
				t.Errorf("%+v, exact %v: %v allocations", o, exact, n)
			}
		}
	}
}

// FuzzSegment: bytes are refused as corrupt or answer without leaving the table.
func FuzzSegment(f *testing.F) {
	for _, o := range []keyset.SegmentOptions{{}, {Bits: 16, StoreKeys: true}, {Shards: 2},
		{BlockKeys: 3, StoreKeys: true}} {
		data, err := mustBuild(f, &o, []uint64{1, 5, 1 << 60, 77, 99, 12345})[0].AppendBinary(nil)
		ok(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer testutil.Watch(data)()
		seg, err := keyset.ParseSegment(slices.Clip(data))
		if err != nil {
			wantIs(t, err, corrupt.ErrCorrupt)
			return
		}
		_ = seg.Verify()
		set := keyset.NewSet(&keyset.SetOptions{Exact: seg.StoresKeys()})
		if set.Append(seg) != nil {
			return
		}
		found := keyset.NewBitmap(300)
		keys := make([]uint64, 300)
		for i := range keys {
			keys[i] = uint64(i) << (i % 64)
		}
		err = set.ContainsBatch(keys, found)
		if err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

func ExampleSet() {
	b, err := keyset.NewSegmentBuilder(&keyset.SegmentOptions{StoreKeys: true,
		Seed: keyset.NewSeed()})
	if err != nil {
		panic(err)
	}
	set := keyset.NewSet(&keyset.SetOptions{Exact: true})
	for first := range uint64(3) {
		for i := range uint64(1000) {
			b.Add(first + 1_000_003*i)
		}
		segment, err := b.Build()
		if err != nil {
			panic(err)
		}
		if err := set.Append(segment); err != nil {
			panic(err)
		}
	}
	fresh, err := set.New(nil, []uint64{0, 7, 1_000_004, 2_000_006, 2_000_009})
	fmt.Println(fresh, err)
	// Output: [7 2000009] <nil>
}
