package sst

import (
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Limits of what a file can hold. A Writer refuses more, a Reader takes a claim of
// more for damage.
const (
	// MaxKeyBytes is the longest key in ordered form: a partition key of 64 KiB in
	// which every byte is escaped, its terminator, and a sort key of 64 KiB.
	MaxKeyBytes = 3*(64<<10) + 2
	// maxBoundBytes is the longest start or end of a range tombstone: the first key after
	// the longest one.
	maxBoundBytes = MaxKeyBytes + 1
	// MaxValueBytes is the longest value.
	MaxValueBytes = 64 << 20

	// maxDataBytes bounds a decoded data block: the largest value with its key, or
	// a block of maxBlockBytes; the rest is room for headers.
	maxDataBytes = MaxValueBytes + 2*maxBlockBytes
	// maxRawBytes bounds every other decoded block: index, range tombstones, filter,
	// properties.
	maxRawBytes = 1 << 30
	// maxRatio bounds how much a block can shrink, so that a few damaged bytes
	// cannot ask for a large allocation. LZ4 cannot pass 255, Zstd of zeros gets
	// about 30,000.
	maxRatio = 1 << 16
)

// Tuning defaults.
const (
	// defaultBlockBytes keeps low what a read of an uncached block costs, which is to
	// decode all of it. Scans would like 16 KiB a little better, files be smaller.
	defaultBlockBytes = 4 << 10
	// minBlockBytes and maxBlockBytes bound WriterOptions.BlockBytes.
	minBlockBytes = 256
	maxBlockBytes = 4 << 20
	// defaultFileBytes is the size at which Writer.Full begins to hold.
	defaultFileBytes = 64 << 20
	// defaultFilterPartitionKeys keeps a filter near 150 KiB and its construction
	// inside a core's cache.
	defaultFilterPartitionKeys = 128 << 10

	// defaultPartBlocks keeps a part of the index, and the filter beside it, at a few KiB: so much
	// a lookup reads that finds neither in the cache.
	defaultPartBlocks = 128

	// writeBytes is how much a Writer collects before it writes.
	writeBytes = 256 << 10
)

// Codec says how blocks are compressed.
type Codec uint8

// The codecs. On disk: never renumber.
const (
	None   Codec = 0
	LZ4    Codec = 1
	Zstd   Codec = 2
	Snappy Codec = 3

	lastCodec = Snappy
)

// String returns the codec's name as options and tools spell it.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	case Snappy:
		return "snappy"
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// WriterOptions describe one file to write.
type WriterOptions struct {
	FileNum base.FileNum
	Stripe  base.StripeID
	// DBID is the identity of the database. With FileNum it goes into every
	// checksum.
	DBID [16]byte
	// Seed is the database's hash seed; readers need the same.
	Seed uint64

	BlockBytes int   // decoded size at which a block is cut; 0: defaultBlockBytes
	FileBytes  int64 // size of the file at which it is full; 0: defaultFileBytes
	Codec      Codec // compression of data and index blocks
	FilterBits int   // fingerprint width: 0 (no filter), 8 or 16
	// FilterPartitionKeys is the most keys one filter covers; 0:
	// defaultFilterPartitionKeys.
	FilterPartitionKeys int
	// PartBlocks is the most data blocks that a part of the index covers, with a filter of its
	// own; 0: defaultPartBlocks.
	PartBlocks int
	// Describe, if not nil, describes the puts of a block for the column zones, which index and
	// properties have then. It must not keep the items.
	Describe func(items *zone.Items, b *zone.ColumnsBuilder)

	// maxRawBytes is smaller in tests than the constant of that name.
	maxRawBytes int
}

func (o *WriterOptions) withDefaults() (WriterOptions, error) {
	c := *o
	if c.BlockBytes == 0 {
		c.BlockBytes = defaultBlockBytes
	}
	if c.FileBytes == 0 {
		c.FileBytes = defaultFileBytes
	}
	if c.maxRawBytes == 0 {
		c.maxRawBytes = maxRawBytes
	}
	if c.FilterPartitionKeys == 0 {
		c.FilterPartitionKeys = defaultFilterPartitionKeys
	}
	if c.PartBlocks == 0 {
		c.PartBlocks = defaultPartBlocks
	}
	switch {
	case c.BlockBytes < minBlockBytes || c.BlockBytes > maxBlockBytes:
		return c, fmt.Errorf("sst: block size %d outside [%d, %d]",
			c.BlockBytes, minBlockBytes, maxBlockBytes)
	case c.Codec > lastCodec:
		return c, fmt.Errorf("sst: unknown %v", c.Codec)
	case c.FilterBits != 0 && c.FilterBits != 8 && c.FilterBits != 16:
		return c, fmt.Errorf("sst: filter of %d bits; 0, 8 and 16 are supported", c.FilterBits)
	case c.FilterPartitionKeys < 1:
		return c, fmt.Errorf("sst: filter partitions of %d keys", c.FilterPartitionKeys)
	case c.PartBlocks < 1:
		return c, fmt.Errorf("sst: parts of %d blocks", c.PartBlocks)
	}
	return c, nil
}

// ReaderOptions describe one file to read.
type ReaderOptions struct {
	FS   vfs.FS         // used only if Files is nil
	Dir  string         // the file is Dir/Meta.Name()
	Meta *base.FileMeta // must not be changed any more
	// Cache holds the decoded blocks; nil caches nothing.
	Cache *cache.Cache
	// Files holds the open files; nil keeps this reader's file open by itself.
	Files *cache.Files
	// Seed and DBID must be those the file was written with.
	Seed uint64
	DBID [16]byte
	// SeedUnknown is for tools that have only the file: Describe and cursors work, Find
	// and Verify, which ask the filters, do not.
	SeedUnknown bool
	// Stats receives the counters; nil drops them. Readers may share one.
	Stats *Stats
	// ValueFile returns a reader of a value file, which it may have open: several SSTs refer to
	// one, and what lookups have read of it stays in the cache as long as it is open. Who closes it
	// is its affair. Nil opens value files for this reader alone.
	ValueFile func(u base.ValueUse, open func() *Reader) *Reader
}
