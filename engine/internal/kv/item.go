package kv

import (
	"bytes"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Key is a partition key with an optional sort key.
type Key = keycodec.Key

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

// OwnWrites is the first sequence number of what a transaction itself has written: above every
// real commit.
const OwnWrites base.SeqNum = 1 << 55

// Version returns the version of an item, 0 of what the transaction itself has written.
func Version(e *base.Entry) uint64 {
	if e.Seq >= OwnWrites {
		return 0
	}
	return uint64(e.Seq)
}
