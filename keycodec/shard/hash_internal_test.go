package shard

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// Vectors of the functions themselves: XXH64 and MurmurHash3 as their authors publish
// them or their reference programs print them, Mix64 as it was first released.
func TestHashVectors(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 6)[:77]
	for _, c := range []struct {
		f    Function
		in   string
		seed uint64
		want uint64
	}{
		{XXHash, "", 0, 0xef46db3751d8e999},
		{XXHash, "a", 0, 0xd24ec4f1a98c6e5b},
		{XXHash, "abc", 0, 0x44bc2cf5ad770999},
		{Murmur3, "", 0, 0},
		{Murmur3, "hello", 0, 0xcbd8a7b341bd9b02},
		{Murmur3, "hello, world", 0, 0x342fac623a5ebc8e},
		{MD5, "", 0, 0xd41d8cd98f00b204},
		{MD5, "abc", 0, 0x900150983cd24fb0},
		{CRC32, "123456789", 0, 0xcbf43926},
		{XXHash, string(long), 7, 0x49d2c261129c1297},
		{Murmur3, string(long), 7, 0x21b4284e20bee201},
		{Mix64, "", 0, 0},
		{Mix64, "USR_12345", 0, 0x5fed6444b6984aa8},
		{Mix64, string(long), 7, 0xdb7676c4021dea5},
	} {
		if got := c.f.hash([]byte(c.in), c.seed); got != c.want {
			t.Errorf("%s(%q, seed %d) = %#x, want %#x", c.f, c.in, c.seed, got, c.want)
		}
	}
}

// The short cut for integers is the general function.
func TestHashInt64IsHashOfBytes(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 1 << 62, -1 << 63, 1<<63 - 1, probe} {
		for f := Tidb; f <= Mix64; f++ {
			var b [8]byte
			binary.BigEndian.PutUint64(b[:], uint64(v))
			s := Spec{Function: f, Count: MaxCount, Seed: 99 & f.maxSeed()}
			if got, want := s.hashInt64(v), f.hash(b[:], s.Seed); got != want {
				t.Errorf("%s of %d: %#x as an integer, %#x as bytes", s, v, got, want)
			}
		}
	}
}
