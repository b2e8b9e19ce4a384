package base

import (
	"fmt"
	"strings"
)

// FileMeta describes one SST file. The writer produces it, the manifest stores
// it, and it never changes afterwards.
type FileMeta struct {
	Num       FileNum
	Stripe    StripeID
	SizeBytes int64

	// Smallest and Largest are the first and the last key of the point entries,
	// both inclusive; empty if there are none. Range tombstones are NOT included:
	// they belong to the run as a whole.
	Smallest, Largest []byte
	MinSeq, MaxSeq    SeqNum

	Entries         uint64 // point entries, tombstones included
	Tombstones      uint64 // point tombstones
	RangeTombstones uint64
	TTLEntries      uint64 // entries with an expiry
	RawBytes        uint64 // key and value bytes before encoding
	MinExpiry       int64  // Unix ms over the TTL entries; 0 if there are none
	MaxExpiry       int64

	// Values are the value files that entries refer to, by number ascending.
	Values []ValueUse
}

// ValueUse is what an SST needs of a value file of its stripe.
type ValueUse struct {
	Num       FileNum
	FileBytes int64  // size of the value file
	Bytes     uint64 // of it, that entries of the SST refer to
}

// Name returns the file's name, {stripe:03}-{id}.sst.
func (m *FileMeta) Name() string { return SSTName(m.Stripe, m.Num) }

// SSTName returns the name of SST num of a stripe, {stripe:03}-{id}.sst.
func SSTName(s StripeID, num FileNum) string { return fmt.Sprintf("%03d-%d.sst", s, num) }

// ValueName returns the name of value file num of a stripe, {stripe:03}-{id}.val.
func ValueName(s StripeID, num FileNum) string { return fmt.Sprintf("%03d-%d.val", s, num) }

// ParseDataName is the inverse of SSTName and ValueName; ok is false for every other name.
func ParseDataName(name string) (s StripeID, num FileNum, ok bool) {
	if front, isValue := strings.CutSuffix(name, ".val"); isValue {
		return ParseSSTName(front + ".sst")
	}
	return ParseSSTName(name)
}

// ParseSSTName is the inverse of SSTName; ok is false for every other name.
func ParseSSTName(name string) (s StripeID, num FileNum, ok bool) {
	var a, b uint64
	if n, err := fmt.Sscanf(name, "%03d-%d.sst", &a, &b); n != 2 || err != nil || a >= NumStripes {
		return 0, 0, false
	}
	s, num = StripeID(a), FileNum(b)
	return s, num, SSTName(s, num) == name
}
