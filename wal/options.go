package wal

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/vfs"
)

// Tuning.
const (
	// defaultSegmentBytes is the size of a segment: large enough that a rotation is
	// rare, small enough that little is replayed and that a cold stripe pins little.
	defaultSegmentBytes = 8 << 20

	// defaultMaxRecordBytes bounds one commit.
	defaultMaxRecordBytes = 256 << 20

	// defaultRecycleSegments is how many released segments wait for their next use.
	defaultRecycleSegments = 4

	// maxRecordBytes is the most that the format can hold in one record.
	maxRecordBytes = 1 << 30

	minSegmentBytes = 256

	// smallSegmentBytes and leastSegmentBytes are the sizes that are tried when the disk
	// has no room for a whole segment. The segment of Open grows to the former.
	smallSegmentBytes = 256 << 10
	leastSegmentBytes = 32 << 10

	// growBytes is the first size of the segment of Open, and the least that it grows by.
	growBytes = 16 << 10

	// growAlign is a block of most file systems: the least that is worth allocating.
	growAlign = 4 << 10
)

// Options says where the log lives and how it behaves. Recover uses FS, Dir and
// DBID only.
type Options struct {
	FS   vfs.FS   // required
	Dir  string   // required; must exist
	DBID [16]byte // identifies the database; segments of others are never replayed

	SegmentBytes    int64 // size of a segment; 0 means defaultSegmentBytes
	MaxRecordBytes  int64 // largest payload; 0 means defaultMaxRecordBytes, at most 1 GiB
	RecycleSegments int   // released segments to keep; 0 means the default, < 0 none

	// Mapped stores records through a mapping where the files implement vfs.Mapper.
	// Otherwise, or if mapping fails, every record is one write.
	Mapped bool

	// Retain keeps released segments until Forget, and makes Open begin a new segment: see
	// retain.go.
	Retain bool

	// Floor, if not nil, returns the lowest segment that processes which read the log need. What is
	// released from there on is retained, also by the next Open. It is called without locks held,
	// by Open and after Release.
	Floor func() SegmentNum

	// Beside is for Recover of a log that another process may append to. Then the error of damage
	// comes with the Tail before it, see Follow.
	Beside bool

	// MoreSpace, if not nil, is asked when the disk has no room for a segment. If it returns
	// true it has given up n bytes elsewhere, and a segment of that size is tried. It is
	// called without locks held, by Open or one goroutine at a time.
	MoreSpace func(n int64) bool

	// OnFailure, if not nil, is called once, without locks held, when the log fails
	// for good: from then on Append and Sync return that error. It must not call
	// Close, which may be waiting for it.
	OnFailure func(error)

	// UseID returns the random identity of a segment's use; nil means crypto/rand.
	UseID func() uint64
}

// withDefaults validates o and fills in what is zero.
func (o Options) withDefaults() (Options, error) {
	o.SegmentBytes = cmp.Or(o.SegmentBytes, defaultSegmentBytes)
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, defaultMaxRecordBytes)
	o.RecycleSegments = cmp.Or(o.RecycleSegments, defaultRecycleSegments)
	if o.UseID == nil {
		o.UseID = randomUseID
	}
	var errs []error
	if o.FS == nil {
		errs = append(errs, errors.New("wal: no file system"))
	}
	if o.SegmentBytes < minSegmentBytes || o.SegmentBytes%recordAlign != 0 {
		errs = append(errs, fmt.Errorf("wal: SegmentBytes %d: want a multiple of %d, at least %d",
			o.SegmentBytes, recordAlign, minSegmentBytes))
	}
	if o.MaxRecordBytes < 0 || o.MaxRecordBytes > maxRecordBytes {
		errs = append(errs, fmt.Errorf("wal: MaxRecordBytes %d: want at most %d",
			o.MaxRecordBytes, maxRecordBytes))
	}
	return o, errors.Join(errs...)
}

func randomUseID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return binary.LittleEndian.Uint64(b[:])
}
