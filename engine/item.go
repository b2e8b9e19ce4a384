package engine

import (
	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/keycodec"
)

// Key is a partition key with an optional sort key. PK must not be empty; SK is
// nil for "no sort key" and must not be empty otherwise. Each is at most
// MaxKeyBytes long.
type Key = keycodec.Key

// K returns the key of a partition and, if it is given, a sort key. It copies both. More than
// one sort key is a mistake in the program: K panics.
func K(pk string, sk ...string) Key {
	k := Key{PK: []byte(pk)}
	switch len(sk) {
	case 0:
	case 1:
		k.SK = []byte(sk[0])
	default:
		panic("engine: K with more than one sort key")
	}
	return k
}

// Limits of the stored data.
const (
	// MaxKeyBytes bounds the partition key and the sort key, each.
	MaxKeyBytes = keycodec.MaxKeyBytes
	// MaxValueBytes bounds a value.
	MaxValueBytes = 64 << 20
	// MaxBatchBytes bounds the log record of one commit.
	MaxBatchBytes = 256 << 20
)

// Item is a stored item. In an iteration its slices are valid in the loop body
// only and must not be modified. Its fields are
//
//	Key     Key
//	Value   []byte
//	Expiry  int64  // the moment the item expires, in Unix milliseconds; 0 means never
//	Version uint64 // the sequence number of the commit that wrote the item
//
// The version grows with every write of the key and never changes without one.
type Item = kv.Item
