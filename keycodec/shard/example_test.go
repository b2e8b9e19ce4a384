package shard_test

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec/shard"
)

// A counter spread over sixteen buckets: neighbours lie apart, and each value is found again
// without asking all of them.
func Example() {
	s := shard.Spec{Function: shard.Mix64, Count: 16}
	var buckets []shard.Bucket
	for v := int64(1000); v < 1006; v++ {
		buckets = append(buckets, s.Int64(v))
	}
	fmt.Println(buckets)

	// The spec is stored beside the data, and proves itself when it is read.
	stored, _ := s.Append(nil)
	back, err := shard.DecodeSpec(stored)
	fmt.Println(back, err)
	stored[5]++ // 17 buckets
	_, err = shard.DecodeSpec(stored)
	fmt.Println(err)
	// Output:
	// [12 9 2 15 12 1]
	// mix64:16 <nil>
	// corrupt shard spec at offset 14: want check aafb2139, got f51ffd66
}
