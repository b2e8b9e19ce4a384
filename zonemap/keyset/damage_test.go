package keyset_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestEveryByteIsChecked: no byte of a file, padding included, can change without Verify
// saying so, mapped or read on demand; and a Set that asks every part meets the damage, or
// answers right where it is in what no answer needs.
func TestEveryByteIsChecked(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 1))
	keys := randomHashes(rnd, 50)
	for _, o := range []keyset.SegmentOptions{
		{}, {Bits: 16, StoreKeys: true}, {BlockKeys: 20, StoreKeys: true}, {Shards: 4},
	} {
		good, err := mustBuild(t, &o, keys)[0].AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << rnd.IntN(8)
			for how, err := range map[string]error{
				"parsed": verifyParsed(bad), "read on demand": verifyAt(bad),
			} {
				if !errors.Is(err, corrupt.ErrCorrupt) {
					t.Fatalf("%+v, byte %d of %d, %s: %v", o, at, len(good), how, err)
				}
			}
		}
	}
}

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

// TestDamagedPadding: a question to the part behind damaged padding is an error, not an
// answer.
func TestDamagedPadding(t *testing.T) {
	keys := randomHashes(rand.New(rand.NewPCG(24, 1)), 50)
	data, err := mustBuild(t, nil, keys)[0].AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	data[191] = 1 // in front of the table, which begins at 192
	found := keyset.NewBitmap(len(keys))
	seg, err := keyset.ParseSegment(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := keyset.NewSet(nil).Append(seg); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("append: %v", err)
	}
	cold, err := keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = mustSet(t, nil, cold).ContainsBatch(keys, found)
	if !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("question: %v", err)
	}
}

// TestNegativeOptions: numbers that make no sense are refused; zero means the default.
func TestNegativeOptions(t *testing.T) {
	for _, o := range []keyset.SegmentOptions{
		{Shards: -1}, {Shards: -1 << 63}, {Workers: -1}, {Workers: -1 << 63}, {BlockKeys: -1},
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
	for _, workers := range []int{0, 1, 1 << 40} {
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
	if err != nil {
		t.Fatal(err)
	}
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
