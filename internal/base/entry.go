package base

import (
	"math"
	"time"
)

// NumStripes is the number of independent LSM trees. It is part of the on-disk
// format: a partition key belongs to stripe CRC-32(PK) mod NumStripes for ever.
const NumStripes = 256

// StripeID names one of the NumStripes stripes.
type StripeID uint8

// SeqNum is a global sequence number. Every commit (a single write or a whole
// batch) takes exactly one, in log order, without gaps. Zero means "before every
// commit".
type SeqNum uint64

// MaxSeqNum is larger than every sequence number a commit can get. A read at
// MaxSeqNum sees the newest version. 56 bits leave room for a kind in one word.
const MaxSeqNum SeqNum = 1<<56 - 1

// FileNum numbers the files of a database. Numbers are never reused.
type FileNum uint64

// Kind says what an entry does to its key.
type Kind uint8

// The kinds. On disk: never renumber.
const (
	KindDelete      Kind = 1 // tombstone of one key
	KindPut         Kind = 2 // value without expiry
	KindPutTTL      Kind = 3 // value that expires at Entry.Expiry
	KindDeleteRange Kind = 4 // range tombstone; appears in the log only
)

// String returns the kind's name as the inspection tools print it.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "delete"
	case KindPut:
		return "put"
	case KindPutTTL:
		return "put-ttl"
	case KindDeleteRange:
		return "delete-range"
	}
	return "unknown"
}

// Entry is one version of one key.
//
// Ownership: the slices belong to the producer of the entry; the producer says
// how long they live. Value slices handed out by memtables and SST readers stay
// valid (and unchanged) for as long as they are referenced; Key slices of cursors
// only until the next move.
type Entry struct {
	Key    []byte // ordered form, see keycodec
	Value  []byte // nil for tombstones
	Seq    SeqNum
	Expiry int64 // Unix milliseconds; 0 unless Kind is KindPutTTL
	Kind   Kind
	// Large says that Value is not the value but a reference to it, see sst.Reader.Value. Files
	// have such entries; the reads of a stripe resolve them.
	Large bool
}

// ExpiryOf returns the Expiry at a time: above zero also before 1970, and the last one there is
// after the times that have one.
func ExpiryOf(t time.Time) int64 {
	switch seconds := t.Unix(); {
	case seconds < 0:
		return 1
	case seconds >= math.MaxInt64/1000:
		return math.MaxInt64
	}
	return max(1, t.UnixMilli())
}

// Live reports whether the entry shows a value at the given time (Unix
// milliseconds): it is not a tombstone and has not expired. An entry expires at
// the very millisecond of its Expiry.
func (e *Entry) Live(nowMs int64) bool {
	switch e.Kind {
	case KindPut:
		return true
	case KindPutTTL:
		return nowMs < e.Expiry
	}
	return false
}

// RangeTombstone deletes every version with a sequence number below Seq of the
// keys in [Start, End). Versions of the same commit (equal Seq) survive: a batch
// drops by itself the operations that precede its range deletes.
type RangeTombstone struct {
	Start, End []byte // ordered form, half-open, Start < End
	Seq        SeqNum
}
