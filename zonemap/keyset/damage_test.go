package keyset_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

func verifyParsed(data []byte) error {
	seg, err := keyset.ParseSegment(data)
	if err != nil {
		return err
	}
	return seg.Verify()
}

func verifyAt(data []byte) error {
	seg, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), nil)
	if err != nil {
		return err
	}
	return seg.Verify()
}

// TestDamagedPadding: a question to the part after damaged padding is an error, not an
// answer.
func TestDamagedPadding(t *testing.T) {
	keys := randomHashes(rand.New(rand.NewPCG(24, 1)), 50)
	data, err := mustBuild(t, nil, keys)[0].AppendBinary(nil)
	ok(t, err)
	data[191] = 1 // in front of the table, which begins at 192
	found := keyset.NewBitmap(len(keys))
	seg, err := keyset.ParseSegment(data)
	ok(t, err)
	wantIs(t, keyset.NewSet(nil).Append(seg), corrupt.ErrCorrupt)
	cold, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), nil)
	ok(t, err)
	err = mustSet(t, nil, cold).ContainsBatch(keys, found)
	wantIs(t, err, corrupt.ErrCorrupt)
}

// TestNegativeOptions: numbers that make no sense are refused; zero means the default.
func TestNegativeOptions(t *testing.T) {
	for _, o := range []keyset.SegmentOptions{
		{Shards: -1}, {Shards: math.MinInt}, {Workers: -1}, {Workers: math.MinInt}, {BlockKeys: -1},
		{Bits: -8},
	} {
		if _, err := keyset.NewSegmentBuilder(&o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
		if _, err := keyset.BuildSegments([][]uint64{{1}}, &o, 1); err == nil {
			t.Errorf("%+v is accepted for segments", o)
		}
	}
	sets := [][]uint64{{1, 2}, {3}}
	if _, err := keyset.BuildSegments(sets, nil, -1); err == nil {
		t.Error("-1 workers are accepted")
	}
	for _, workers := range []int{0, 1, math.MaxInt} {
		o := keyset.SegmentOptions{Shards: 2, Workers: workers}
		segments, err := keyset.BuildSegments(sets, &o, workers)
		if err != nil || len(segments) != 2 || slices.Contains(segments, nil) {
			t.Errorf("%d workers: %v, %v", workers, segments, err)
		}
	}
}

// TestCraftedSegmentHeaders: a header with a right checksum and any field changed is damage, or
// one of a version, seed or bound that could be written; what is reserved is zero.
func TestCraftedSegmentHeaders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(25, 1))
	good, err := mustBuild(t, nil, randomHashes(rnd, 50))[0].AppendBinary(nil)
	ok(t, err)
	reserved := func(at int) bool { return at == 7 || at >= 44 && at < 60 }
	testutil.EachChange(good[:60], func(b []byte) {
		if len(b) < 60 {
			return // the header has no other length
		}
		data := bytes.Clone(good)
		copy(data, b)
		crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(data[60:], crc)
		wrong := false
		for at := range b {
			wrong = wrong || b[at] != good[at] && reserved(at)
		}
		for how, err := range map[string]error{
			"parsed": verifyParsed(data), "read on demand": verifyAt(data),
		} {
			known := errors.Is(err, corrupt.ErrCorrupt) || errors.Is(err, corrupt.ErrVersion)
			if err != nil && !known || err == nil && wrong {
				t.Fatalf("%x, %s: %v", b, how, err)
			}
		}
	})
}

// TestCraftedDirectories: with right checksums, a change of any byte of a directory entry is
// damage, but of its bounds and its salt, which other keys could have.
func TestCraftedDirectories(t *testing.T) {
	const header, entry = 64, 80
	rnd := rand.New(rand.NewPCG(26, 1))
	hashes := randomHashes(rnd, 60)
	for _, c := range []struct {
		opts  keyset.SegmentOptions
		keys  []uint64
		parts int
	}{
		{keyset.SegmentOptions{}, hashes, 1},
		{keyset.SegmentOptions{Bits: 16, StoreKeys: true}, hashes, 1},
		{keyset.SegmentOptions{BlockKeys: 20, StoreKeys: true}, hashes, 3},
		{keyset.SegmentOptions{Shards: 16}, hashes[:5], 16},            // some are empty
		{keyset.SegmentOptions{}, []uint64{5, 6, 7, 8}, 1},             // a range
		{keyset.SegmentOptions{}, []uint64{5, 6, 7, 9, 11, 12}, 1},     // a bitmap
		{keyset.SegmentOptions{BlockKeys: 2}, []uint64{5, 6, 8, 9}, 2}, // ranges
	} {
		good, err := mustBuild(t, &c.opts, c.keys)[0].AppendBinary(nil)
		ok(t, err)
		end := header + c.parts*entry
		testutil.EachChange(good[header:end], func(b []byte) {
			if len(b) < end-header {
				return
			}
			free := false
			for at := range b {
				field := at % entry
				free = free || b[at] != good[header+at] &&
					(field < 16 || field >= 72 && field < 76)
			}
			data := bytes.Clone(good)
			copy(data[header:], b)
			if err := verifyParsed(resum(data, end)); !free && !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%+v: %x: %v", c.opts, b, err)
			}
		})
	}
}

// TestBlocksInOrder: the blocks of a segment ascend, and each begins before it ends. Two of
// them may share a head, which different keys of bytes have.
func TestBlocksInOrder(t *testing.T) {
	const header, entry = 64, 80
	le := binary.LittleEndian
	keys := randomHashes(rand.New(rand.NewPCG(27, 1)), 60)
	good, err := mustBuild(t, &keyset.SegmentOptions{BlockKeys: 20}, keys)[0].AppendBinary(nil)
	ok(t, err)
	for i := range 3 {
		lo := header + i*entry
		hi := lo + 8
		type change struct {
			at     int
			bound  uint64
			damage bool
		}
		changes := []change{
			{lo, le.Uint64(good[hi:]), false}, {lo, le.Uint64(good[hi:]) + 1, true},
		}
		if i > 0 {
			before := le.Uint64(good[hi-entry:])
			changes = append(changes, change{lo, before, false}, change{lo, before - 1, true})
		}
		for _, c := range changes {
			data := bytes.Clone(good)
			le.PutUint64(data[c.at:], c.bound)
			err := verifyParsed(resum(data, header+3*entry))
			if errors.Is(err, corrupt.ErrCorrupt) != c.damage {
				t.Errorf("block %d from %x: %v", i, c.bound, err)
			}
		}
	}
}

// resum computes the checksum of a segment's directory, whose entries end at end.
func resum(data []byte, end int) []byte {
	le := binary.LittleEndian
	end += int(le.Uint32(data[36:]) + le.Uint32(data[40:])) // the zone
	crc := crc32.Checksum(data[64:end], crc32.MakeTable(crc32.Castagnoli))
	le.PutUint32(data[end:], crc)
	return data
}

// TestBitmapOfABatch: a batch takes a bitmap with a bit for every key, and no shorter one.
func TestBitmapOfABatch(t *testing.T) {
	keys := randomHashes(rand.New(rand.NewPCG(28, 1)), 200)
	set := mustSet(t, nil, mustBuild(t, nil, keys)...)
	for _, n := range []int{1, 63, 64, 65, 128, 129} {
		asked := make([][]byte, n)
		for i, k := range keys[:n] {
			asked[i] = binary.BigEndian.AppendUint64(nil, k)
		}
		for _, words := range []int{(n - 1) / 64, (n + 63) / 64} {
			found := make(keyset.Bitmap, words)
			short := words*64 < n
			if err := set.ContainsBatch(keys[:n], found); (err != nil) != short {
				t.Errorf("%d keys, %d words: %v", n, words, err)
			}
			if !short && found.Count() != n {
				t.Errorf("%d of %d keys are found", found.Count(), n)
			}
			found = make(keyset.Bitmap, words)
			if err := set.ContainsBytesBatch(asked, found); (err != nil) != short {
				t.Errorf("%d keys of bytes, %d words: %v", n, words, err)
			}
			if !short && found.Count() != n {
				t.Errorf("%d of %d keys of bytes are found", found.Count(), n)
			}
		}
	}
}
