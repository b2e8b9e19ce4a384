package engine

import (
	"bytes"
	"time"

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
// only and must not be modified.
type Item struct {
	Key   Key
	Value []byte
	// Expiry is the moment the item expires, in Unix milliseconds; 0 means never.
	Expiry int64
	// Version is the sequence number of the commit that wrote the item. It grows
	// with every write of the key and never changes without one.
	Version uint64
}

// Clone returns a copy that the caller owns.
func (it Item) Clone() Item {
	it.Key.PK = bytes.Clone(it.Key.PK)
	it.Key.SK = bytes.Clone(it.Key.SK)
	it.Value = bytes.Clone(it.Value)
	return it
}

// ExpiresAt returns the moment the item expires; ok is false if it never does.
func (it Item) ExpiresAt() (t time.Time, ok bool) {
	if it.Expiry == 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(it.Expiry), true
}
