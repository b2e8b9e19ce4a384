package sst

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
)

// Format: an index block, decoded, is, little-endian,
//
//	 0  u8    format version, 1
//	 1  u8×3  zero
//	 4  u32   count of data blocks
//	 8  u32   length of the prefix that all keys of the file share
//	12  u32   zero
//	16  u64 × count   heads: the first 8 bytes of each block's last key after the
//	                  prefix as a big-endian number, missing bytes zero
//	..  u32 × count   offsets of the records from the start of the block
//	..  prefix
//	..  records, back to back up to the end of the block:
//	      16 bytes  handle of the data block: u64 offset, u32 stored, u32 decoded length
//	      u64       sequence number of the block's last entry
//	      zone map  with keys after the prefix
//	      per collector: uvarint length, bytes
//
// Why the last entry's sequence number: versions of one key may straddle blocks,
// and (last key, last sequence number) finds the one block that decides about a key
// at a snapshot.
//
// Of an index in parts each part is such a block. The block that the footer names has a record
// for each part in place of one for each data block: the handle of the part, the sequence number
// of its last entry, and the zone map of all its data blocks; nothing of collectors. So one search
// finds the part, and the same search the block.

const (
	indexVersion       = 1
	indexHeaderBytes   = 16
	indexRecordMinimum = handleBytes + 8
	zoneMapMinimum     = 9 // bytes of the shortest zone map
)

// indexBuilder gathers the records of the index.
type indexBuilder struct {
	keys  []byte // the first and the last key of each block, back to back
	zones []byte // the encoded zone map of each block, without keys, back to back
	recs  []indexRecord
}

// indexRecord is small, since a merge keeps one for each block that it has written to a file.
type indexRecord struct {
	handle            blockHandle
	lastSeq           base.SeqNum
	firstEnd, lastEnd int // ends in keys
}

// maxKeptRecords bounds those that a reused writer holds on to.
const maxKeptRecords = 8 << 10

// add adds a data block. The keys of zone are copied.
func (x *indexBuilder) add(h blockHandle, zone zonemap.Map, lastSeq base.SeqNum) {
	x.keys = append(x.keys, zone.First...)
	first := len(x.keys)
	x.keys = append(x.keys, zone.Last...)
	zone.First, zone.Last = nil, nil
	x.zones = zone.AppendBinary(x.zones)
	x.recs = append(x.recs, indexRecord{
		handle: h, lastSeq: lastSeq, firstEnd: first, lastEnd: len(x.keys),
	})
}

// sizeBytes estimates the size of the index.
func (x *indexBuilder) sizeBytes() int {
	return indexHeaderBytes + len(x.keys) + len(x.recs)*64
}

func (x *indexBuilder) reset() {
	x.keys, x.zones, x.recs = keep(x.keys), keep(x.zones), x.recs[:0]
	if cap(x.recs) > maxKeptRecords {
		x.recs = nil
	}
}

// indexPart is a range of the data blocks of an index that is being written.
type indexPart struct {
	from, to int
	keys     int         // where the keys of the first block begin
	zones    []byte      // encoded zone maps from the first block on
	zone     zonemap.Map // of all blocks; its keys belong to the builder
}

// next makes p the part of at most n blocks that follows it.
func (p *indexPart) next(x *indexBuilder, n int) {
	p.from, p.to, p.zone = p.to, min(p.to+n, len(x.recs)), zonemap.Map{}
	if p.from == 0 {
		p.zones = x.zones
	} else {
		p.keys = x.recs[p.from-1].lastEnd
	}
}

// appendBlock appends the decoded form of a part of the index to dst, and leaves the zone map of
// all its blocks in p. Requires: dst is empty. ok is false if the part is too large for its u32
// offsets.
func (x *indexBuilder) appendBlock(
	dst []byte, p *indexPart, columns *columnsWriter,
) (_ []byte, ok bool) {
	shared, recs := 0, x.recs[p.from:p.to]
	if len(recs) > 0 {
		last := recs[len(recs)-1]
		shared = commonPrefix(x.keys[p.keys:recs[0].firstEnd], x.keys[last.firstEnd:last.lastEnd])
	}
	if x.sizeBytes()+columns.most-2*len(x.recs)*shared > math.MaxInt32 {
		return dst, false
	}
	dst = append(dst, indexVersion, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(recs)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(shared))
	dst = append(dst, 0, 0, 0, 0)
	for i := range recs {
		r := &recs[i]
		head := base.KeyHead(x.keys[r.firstEnd+shared : r.lastEnd])
		dst = binary.LittleEndian.AppendUint64(dst, head)
	}
	offsets := len(dst)
	dst = append(dst, make([]byte, 4*len(recs))...)
	dst = append(dst, x.keys[p.keys:p.keys+shared]...)
	key := p.keys
	for i := range recs {
		r := &recs[i]
		binary.LittleEndian.PutUint32(dst[offsets+4*i:], uint32(len(dst)))
		dst = r.handle.append(dst)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.lastSeq))
		var zone zonemap.Map
		zone, p.zones, _ = zonemap.Decode(p.zones) // Why unchecked: add has encoded it
		zone.First, zone.Last = x.keys[key:r.firstEnd], x.keys[r.firstEnd:r.lastEnd]
		p.zone.Merge(&zone)
		zone.First, zone.Last = zone.First[shared:], zone.Last[shared:]
		dst = zone.AppendBinary(dst)
		dst = columns.appendBlock(dst, p.from+i)
		key = r.lastEnd
	}
	return dst, true
}

// indexBlock is a decoded index, or a part of it. It is immutable. Its methods count data blocks
// from the first of the file on, but for those that say otherwise.
type indexBlock struct {
	data   []byte
	first  int // number of the first data block
	n      int // data blocks
	shared int

	// The places of the data blocks, and what is in them; nil in a part read past the cache.
	slots []cache.Slot[dataBlock]
	group *cache.Group

	guides []guide
	tails  []uint64 // by block, of those that guides are about
	ranks  *ranks
}

// end returns the number of the data block after the last.
func (x *indexBlock) end() int { return x.first + x.n }

// slot returns the place of data block i in the cache.
func (x *indexBlock) slot(i int) *cache.Slot[dataBlock] { return &x.slots[i-x.first] }

// sizeBytes returns the memory of the index, with the ranks that it may get.
func (x *indexBlock) sizeBytes() int64 {
	return int64(cap(x.data)) + 8*int64(len(x.tails)+len(x.slots)) + 4*int64(x.n)
}

// openIndex checks a decoded index: header, and that every record lies inside of
// it. Errors have no file name.
func openIndex(data []byte) (indexBlock, error) {
	var x indexBlock
	if len(data) < indexHeaderBytes {
		return x, corrupt.New("", 0, "index", "a header of 16 bytes", len(data))
	}
	if data[0] != indexVersion {
		return x, corrupt.NewVersion("", "index", indexVersion, data[0])
	}
	if data[1]|data[2]|data[3]|data[12]|data[13]|data[14]|data[15] != 0 {
		return x, corrupt.New("", 1, "index", "zeros", "other bytes")
	}
	n := uint64(binary.LittleEndian.Uint32(data[4:]))
	shared := uint64(binary.LittleEndian.Uint32(data[8:]))
	first := indexHeaderBytes + 12*n + shared
	if first > uint64(len(data)) {
		return x, corrupt.New("", 4, "index", "counts that fit its length", n)
	}
	x = indexBlock{data: data, n: int(n), shared: int(shared)}
	at := first
	for i := range x.n {
		if uint64(x.offset(i)) != at {
			return indexBlock{}, corrupt.New("", int64(at), "index", at, x.offset(i))
		}
		end := uint64(len(data))
		if i+1 < x.n {
			end = uint64(x.offset(i + 1))
		}
		if end < at+indexRecordMinimum+zoneMapMinimum || end > uint64(len(data)) {
			return indexBlock{}, corrupt.New("", int64(at), "index", "a whole record", end)
		}
		at = end
	}
	if at != uint64(len(data)) {
		return indexBlock{}, corrupt.New("", int64(at), "index", "no further bytes",
			uint64(len(data))-at)
	}
	x.makeGuides()
	return x, nil
}

// head returns the head of the block with the number i in x.
func (x *indexBlock) head(i int) uint64 {
	return binary.LittleEndian.Uint64(x.data[indexHeaderBytes+8*i:])
}

// offset returns where record i in x begins.
func (x *indexBlock) offset(i int) uint32 {
	return binary.LittleEndian.Uint32(x.data[indexHeaderBytes+8*x.n+4*i:])
}

func (x *indexBlock) prefix() []byte {
	at := indexHeaderBytes + 12*x.n
	return x.data[at : at+x.shared]
}

// record returns the bytes of the record of block i, at least indexRecordMinimum+zoneMapMinimum.
func (x *indexBlock) record(i int) []byte {
	i -= x.first
	end := uint32(len(x.data))
	if i+1 < x.n {
		end = x.offset(i + 1)
	}
	return x.data[x.offset(i):end:end]
}

func (x *indexBlock) handle(i int) blockHandle { return decodeHandle(x.record(i)) }

func (x *indexBlock) lastSeq(i int) base.SeqNum {
	return base.SeqNum(binary.LittleEndian.Uint64(x.record(i)[handleBytes:]))
}

// lastSuffix returns the last key of block i after the prefix.
func (x *indexBlock) lastSuffix(i int) ([]byte, bool) {
	_, rest, ok := cutBytes(x.record(i)[indexRecordMinimum+1:])
	if !ok {
		return nil, false
	}
	last, _, ok := cutBytes(rest)
	return last, ok
}

// zone returns the zone map of block i, with keys after the prefix, and the bytes
// of the collectors.
func (x *indexBlock) zone(i int) (zonemap.Map, []byte, error) {
	return zonemap.Decode(x.record(i)[indexRecordMinimum:])
}

// find returns the first block whose last entry is at or after (key, snap): the
// only one that can hold the newest version of key that snap sees. It returns the end if
// there is none. ok is false if a damaged record was met.
func (x *indexBlock) find(key []byte, snap base.SeqNum) (i int, ok bool) {
	p := x.prefix()
	if len(key) < len(p) || string(key[:len(p)]) != string(p) {
		if bytes.Compare(key, p) < 0 {
			return x.first, true
		}
		return x.end(), true
	}
	suffix := key[len(p):]
	head := base.KeyHead(suffix)
	lo := x.lowerBound(head)
	if lo == x.n || x.head(lo) != head {
		return x.first + lo, true
	}
	hi := x.n
	if g := x.guideAt(lo); g != nil {
		lo, hi = x.narrow(g, suffix)
	} else if head != 1<<64-1 {
		hi = x.lowerBound(head + 1)
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		last, ok := x.lastSuffix(x.first + mid)
		if !ok {
			return x.first + mid, false
		}
		c := bytes.Compare(last, suffix)
		if c < 0 || (c == 0 && x.lastSeq(x.first+mid) > snap) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return x.first + lo, true
}

// lowerBound returns the first block, counted in x, whose head is at least head.
func (x *indexBlock) lowerBound(head uint64) int {
	heads := x.data[indexHeaderBytes : indexHeaderBytes+8*x.n]
	lo, n := 0, x.n
	for n > 0 {
		half := n >> 1
		if binary.LittleEndian.Uint64(heads[8*(lo+half):]) < head {
			lo += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return lo
}
