package shard_test

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// The first vectors also stand in the tests of the database that the function is from.
//
// Promise (keys): Shard functions never change, and a stored one proves what it computes. Also
// `TestHashVectors`, `TestSpecBytes`, `TestSpecDamage` in `keycodec/shard`.
func TestTidbVectors(t *testing.T) {
	s := shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}
	for v, want := range map[int64]shard.Bucket{
		3: 156, 5: 122, 200: 161, 300: 227, 400: 85,
		0: 167, 1: 214, 2: 143, 10: 142, 50: 86, 100: 8, -1: 81,
		math.MinInt64: 0, math.MaxInt64: 187,
	} {
		if got := s.Int64(v); got != want {
			t.Errorf("bucket of %d is %d, want %d", v, got, want)
		}
	}
	if _, err := s.Bytes([]byte("text")); !errors.Is(err, shard.ErrIntegersOnly) {
		t.Errorf("text has a bucket: %v", err)
	}
}

// The order-management example of composite keys of version 1 has bucket 16.
func TestMD5Vector(t *testing.T) {
	s := shard.Spec{Function: shard.MD5, Count: 256}
	if got, err := s.Bytes([]byte("USR_12345")); got != 0x10 || err != nil {
		t.Errorf("bucket %d, error %v, want 16", got, err)
	}
}

func specs() []shard.Spec {
	var list []shard.Spec
	for f := shard.Tidb; f <= shard.Mix64; f++ {
		for _, count := range []int{1, 2, 16, 255, 256, 1000, shard.MaxCount} {
			list = append(list, shard.Spec{Function: f, Count: count})
		}
	}
	return append(list, shard.Spec{Function: shard.XXHash, Count: 16, Seed: math.MaxUint64},
		shard.Spec{Function: shard.Murmur3, Count: 16, Seed: math.MaxUint32},
		shard.Spec{Function: shard.Mix64, Count: 16, Seed: 1})
}

// Consecutive integers, the case buckets exist for, spread evenly under every function.
func TestSpread(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, s := range specs() {
		if s.Count > 256 {
			continue
		}
		const each = 1000
		counts := make([]int, s.Count)
		for v := range int64(each * s.Count) {
			counts[s.Int64(1_700_000_000_000+v)]++
		}
		for b, n := range counts {
			// Eight standard deviations of the number of hits.
			if d := math.Abs(float64(n - each)); d > 8*math.Sqrt(each) {
				t.Errorf("%s: bucket %d has %d values, want about %d", s, b, n, each)
			}
		}
	}
}

func TestSpecValidate(t *testing.T) {
	for _, s := range specs() {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []shard.Spec{
		{}, {Function: shard.MD5}, {Function: shard.MD5, Count: -1},
		{Function: shard.MD5, Count: shard.MaxCount + 1},
		{Function: shard.Mix64 + 1, Count: 1},
		{Function: shard.MD5, Count: 1, Seed: 1}, {Function: shard.CRC32, Count: 1, Seed: 1},
		{Function: shard.Tidb, Count: 1, Seed: 1},
		{Function: shard.Murmur3, Count: 1, Seed: 1 << 32},
	} {
		if s.Validate() == nil {
			t.Errorf("%s is accepted", s)
		}
		if out, err := s.Append([]byte("x")); err == nil || string(out) != "x" {
			t.Errorf("%s is stored", s)
		}
	}
}

func TestSpecRoundTrip(t *testing.T) {
	for _, s := range specs() {
		b, err := s.Append(nil)
		if err != nil || len(b) != shard.EncodedBytes {
			t.Fatalf("%s: %x, %v", s, b, err)
		}
		if got, err := shard.DecodeSpec(b); got != s || err != nil {
			t.Errorf("%s was read back as %s, error %v", s, got, err)
		}
		if got, err := shard.ParseSpec(s.String()); got != s || err != nil {
			t.Errorf("%s was parsed as %s, error %v", s, got, err)
		}
	}
}

// A stored spec is never regenerated: if this fails, keys would be looked for in other
// buckets than they were put in.
func TestSpecBytes(t *testing.T) {
	for text, want := range map[string]string{
		"tidb:256":         "0101" + "00000100" + "0000000000000000" + "6dcd35be",
		"md5:256":          "0102" + "00000100" + "0000000000000000" + "ab2270d3",
		"xxhash:16:seed=7": "0103" + "00000010" + "0000000000000007" + "53908244",
		"murmur3:65536":    "0104" + "00010000" + "0000000000000000" + "454c77b9",
		"crc32:256":        "0105" + "00000100" + "0000000000000000" + "677cabf7",
		"mix64:16:seed=7":  "0106" + "00000010" + "0000000000000007" + "bbe18edf",
	} {
		s, err := shard.ParseSpec(text)
		testutil.OK(t, err)
		b, err := s.Append(nil)
		testutil.OK(t, err)
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%s is stored as %s, want %s", text, got, want)
		}
	}
}

func TestParseSpecErrors(t *testing.T) {
	for _, text := range []string{"", "md5", "md5:", "md5:0", "md5:65537", "md5:x", "sha1:4",
		":4", "md5:4:", "md5:4:7", "md5:4:seed=7", "mix64:4:seed=-1", "mix64:4:seed=1:x"} {
		if s, err := shard.ParseSpec(text); err == nil {
			t.Errorf("%q was read as %s", text, s)
		}
	}
}

// Every flipped bit of a stored spec is noticed, and named as damage or version.
func TestSpecDamage(t *testing.T) {
	for _, s := range specs() {
		b, _ := s.Append(nil)
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			_, err := shard.DecodeSpec(b)
			if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("%s with bit %d flipped: error %v", s, bit, err)
			}
			if version := errors.Is(err, corrupt.ErrVersion); bit < 8 && !version {
				t.Errorf("%s with another version: error %v", s, err)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		for n := range b {
			if _, err := shard.DecodeSpec(b[:n]); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Errorf("the first %d bytes of %s: error %v", n, s, err)
			}
		}
		if _, err := shard.DecodeSpec(append(b, 0)); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s with a byte after it: error %v", s, err)
		}
	}
}

func FuzzDecodeSpec(f *testing.F) {
	for _, s := range specs() {
		b, _ := s.Append(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		s, err := shard.DecodeSpec(b)
		if err != nil {
			var c *corrupt.Error
			if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(len(b)) {
				t.Fatalf("error %v for %d bytes", err, len(b))
			}
			return
		}
		again, err := s.Append(nil)
		if err != nil || string(again) != string(b) {
			t.Fatalf("%x came back as %x, error %v", b, again, err)
		}
	})
}
