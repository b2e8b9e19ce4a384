package schema

import (
	"fmt"
	"hash/crc32"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Stripes is the number of stripes of a database.
const Stripes = 256

// Format: the PK of an index entry is 69 ('i'), the id of the table and that of the index
// as 4 bytes each, the bucket as 2 bytes, and two bytes chosen so that the PK belongs to
// the stripe wanted: the lowest byte of its CRC-32 is the stripe. The first of the two is
// the smallest for which there is a second one.
//
// A local bucket is the stripe. A global one of n buckets goes to the stripe
//
//	bucket × 256 / n + rotation    if n <= 256
//	bucket + rotation              otherwise
//
// modulo 256. The rotation follows from the ids, so that indexes with few buckets do not
// all begin at stripe 0.
//
// The PK of a row under a sharded primary key is 74 ('t') and the id of the table instead, and
// then as above; the id of the index is 0 for the rotation.

var crcTable = crc32.MakeTable(crc32.IEEE)

// crcOf has, for each lowest byte of an entry of the CRC table, the position of the entry.
// Why there is one for each: the lowest bytes of the 256 entries are all different.
var crcOf = func() (inverse [256]byte) {
	for i, entry := range crcTable {
		inverse[byte(entry)] = byte(i)
	}
	return inverse
}()

func rotation(table, index uint32) uint8 {
	return uint8((uint64(table)<<32 | uint64(index)) * 0x9e3779b97f4a7c15 >> 56)
}

// Stripe returns the stripe that a bucket lies in.
// Requires: 0 <= bucket < Buckets().
func (x *Index) Stripe(bucket int) uint8 {
	n := x.Buckets()
	switch {
	case x.Placement == Local:
		return uint8(bucket)
	case n <= Stripes:
		return uint8(bucket*Stripes/n) + x.built.rotation
	}
	return uint8(bucket) + x.built.rotation
}

// BucketPK appends the partition key of the entries of a bucket.
// Requires: 0 <= bucket < Buckets().
func (x *Index) BucketPK(dst []byte, bucket int) []byte {
	dst = append(append(dst, x.built.head...), byte(bucket>>8), byte(bucket))
	// The checksum continues with each byte b as table[low byte ^ b] ^ rest >> 8.
	crc := ^x.built.crc
	for _, b := range [...]byte{byte(bucket >> 8), byte(bucket), 0} {
		crc = crcTable[byte(crc)^b] ^ crc>>8
	}
	wanted := ^x.Stripe(bucket) // the checksum is complemented in the end
	last := crcOf[wanted^byte(crc>>8)] ^ byte(crc)
	return append(dst, 0, last)
}

// BucketOf returns the bucket of the entries whose SK begins with the encodings of the
// first ShardColumns columns. It is 0 of a global index that is not sharded. It fails for damaged
// bytes, and for a local index, whose buckets follow from the row's key.
func (x *Index) BucketOf(sk []byte) (int, error) {
	switch {
	case x.Placement == Local:
		return 0, fmt.Errorf("schema: the buckets of the local index %q follow from rows", x.Name)
	case !x.Sharded():
		return 0, nil
	}
	var buf [64]byte
	hashed := buf[:0]
	for i := range x.built.fields[:x.ShardColumns] {
		f := &x.built.fields[i]
		rest, err := f.skip(sk)
		if err != nil {
			return 0, fmt.Errorf("schema: index %q: %w", x.Name, err)
		}
		if x.ShardColumns == 1 && f.integer() {
			return x.bucketOfInteger(f, sk)
		}
		hashed = f.appendHashed(hashed, sk[:len(sk)-len(rest)])
		sk = rest
	}
	bucket, err := x.Shard.Bytes(hashed)
	return int(bucket), err
}

func (f *keyField) integer() bool {
	kind := f.column.elementKind()
	return kind == expr.KindInt || kind == expr.KindUint
}

// bucketOfInteger hashes the 64 bits of an integer, whatever its width. NULL is in
// bucket 0.
func (x *Index) bucketOfInteger(f *keyField, sk []byte) (int, error) {
	v, _, err := f.decode(sk)
	if err != nil || v.IsNull() {
		return 0, err
	}
	if u, ok := v.AsUint(); ok {
		return int(x.Shard.Int64(int64(u))), nil
	}
	i, _ := v.AsInt()
	return int(x.Shard.Int64(i)), nil
}

// appendHashed appends what is hashed of an encoded field: its ascending encoding without
// marker, a zero byte for NULL.
func (f *keyField) appendHashed(dst, field []byte) []byte {
	start := len(dst)
	dst = append(dst, field...)
	if f.Desc {
		keycodec.InvertFrom(dst, start)
	}
	if !f.Nullable {
		return dst
	}
	if dst[start] != 1 {
		dst[start] = 0
		return dst
	}
	return append(dst[:start], dst[start+1:]...)
}
