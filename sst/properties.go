package sst

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// Format: a decoded properties block is
//
//	u8       format version, 1, or 2 if there are references to value files
//	u8       codec the writer was asked for
//	u8       filter bits, 0 without filters
//	u64      check of the hash seed: Hash("kstone sst", seed)
//	uvarint  block size the writer was asked for
//	uvarint  data blocks, uvarint distinct keys, uvarint end of the last data block
//	zone map of the point entries
//	uvarint  count of range tombstones
//	uvarint  lowest sequence number, highest sequence number, with ranges
//	uvarint  filter partitions, then each: uvarint first data block, uvarint keys,
//	         16 bytes handle
//	uvarint  collectors, then each: uvarint length of name, name, uvarint length of
//	         the file's bytes, bytes
//	uvarint  value files, then each, by number: uvarint number, uvarint bytes of it that
//	         entries refer to   (version 2 only)

const (
	propertiesVersion       = 1
	propertiesVersionValues = 2
)

// maxCollectors bounds the collectors of a file. Why: an empty one is two bytes of a block, which
// may decode to 1 GiB, and twenty times that in memory.
const maxCollectors = 255

// properties describe a file; they stay in memory while its reader is open.
type properties struct {
	codec      Codec
	filterBits int
	seedCheck  uint64
	blockBytes uint64
	blocks     uint64
	keys       uint64 // distinct keys
	dataEnd    uint64

	zone           zonemap.Map // point entries
	ranges         uint64
	minSeq, maxSeq base.SeqNum // with range tombstones

	partitions []filterPartition
	collectors []collected
	values     []base.ValueUse   // without the sizes of the files
	columns    *zone.FileColumns // nil if there are none that can be read
	columnsAt  int               // position of their collector
}

// filterPartition is the filter of the blocks from firstBlock up to the first block
// of the next partition.
type filterPartition struct {
	firstBlock uint64
	keys       uint64
	handle     blockHandle
}

type collected struct {
	name string
	data []byte
}

// seedCheck distinguishes seeds without storing them. Why: a reader with the wrong
// seed would find filters that deny every key.
func seedCheck(seed uint64) uint64 { return base.Hash([]byte("kstone sst"), seed) }

func (p *properties) append(dst []byte) []byte {
	version := byte(propertiesVersion)
	if len(p.values) > 0 {
		version = propertiesVersionValues
	}
	dst = append(dst, version, byte(p.codec), byte(p.filterBits))
	dst = binary.LittleEndian.AppendUint64(dst, p.seedCheck)
	for _, v := range []uint64{p.blockBytes, p.blocks, p.keys, p.dataEnd} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = p.zone.AppendBinary(dst)
	dst = binary.AppendUvarint(dst, p.ranges)
	dst = binary.AppendUvarint(dst, uint64(p.minSeq))
	dst = binary.AppendUvarint(dst, uint64(p.maxSeq))
	dst = binary.AppendUvarint(dst, uint64(len(p.partitions)))
	for _, f := range p.partitions {
		dst = binary.AppendUvarint(dst, f.firstBlock)
		dst = binary.AppendUvarint(dst, f.keys)
		dst = f.handle.append(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.collectors)))
	for _, c := range p.collectors {
		dst = append(binary.AppendUvarint(dst, uint64(len(c.name))), c.name...)
		dst = append(binary.AppendUvarint(dst, uint64(len(c.data))), c.data...)
	}
	if len(p.values) > 0 {
		dst = binary.AppendUvarint(dst, uint64(len(p.values)))
	}
	for _, v := range p.values {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(v.Num)), v.Bytes)
	}
	return dst
}

// propertiesReader cuts fields off the front of a properties block and remembers
// whether one did not fit.
type propertiesReader struct {
	rest []byte
	bad  bool
}

func (r *propertiesReader) uvarint() uint64 {
	v, w := binary.Uvarint(r.rest)
	if w <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.rest = r.rest[w:]
	return v
}

func (r *propertiesReader) bytes() []byte {
	field, rest, ok := cutBytes(r.rest)
	if !ok || r.bad {
		r.bad = true
		return nil
	}
	r.rest = rest
	return field
}

func (r *propertiesReader) fixed(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return make([]byte, n)
	}
	field := r.rest[:n:n]
	r.rest = r.rest[n:]
	return field
}

// count reads the length of a list whose elements take at least size bytes each.
func (r *propertiesReader) count(size int) uint64 {
	n := r.uvarint()
	if n > uint64(len(r.rest)/size) {
		r.bad = true
		return 0
	}
	return n
}

// decodeProperties reads a properties block; slices are views into data. Errors
// have no file name.
func decodeProperties(data []byte) (*properties, error) {
	const what = "properties"
	r := &propertiesReader{rest: data}
	version := r.fixed(1)[0]
	if !r.bad && version != propertiesVersion && version != propertiesVersionValues {
		return nil, corrupt.NewVersion("", what, propertiesVersion, version)
	}
	p := &properties{}
	p.codec = Codec(r.fixed(1)[0])
	p.filterBits = int(r.fixed(1)[0])
	p.seedCheck = binary.LittleEndian.Uint64(r.fixed(8))
	p.blockBytes, p.blocks, p.keys, p.dataEnd = r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	if !r.bad {
		var err error
		if p.zone, r.rest, err = zonemap.Decode(r.rest); err != nil {
			return nil, err
		}
	}
	p.ranges = r.uvarint()
	p.minSeq, p.maxSeq = base.SeqNum(r.uvarint()), base.SeqNum(r.uvarint())
	for range r.count(2 + handleBytes) {
		f := filterPartition{firstBlock: r.uvarint(), keys: r.uvarint()}
		f.handle = decodeHandle(r.fixed(handleBytes))
		p.partitions = append(p.partitions, f)
	}
	collectors := r.count(2)
	if collectors > maxCollectors {
		return nil, corrupt.New("", 0, what, "at most 255 collectors", collectors)
	}
	for range collectors {
		p.collectors = append(p.collectors, collected{name: string(r.bytes()), data: r.bytes()})
	}
	if version == propertiesVersionValues {
		for range r.count(2) {
			v := base.ValueUse{Num: base.FileNum(r.uvarint()), Bytes: r.uvarint()}
			if r.bad {
				break
			}
			if n := len(p.values); v.Num == 0 || v.Bytes <= trailerBytes ||
				n > 0 && v.Num <= p.values[n-1].Num {
				return nil, corrupt.New("", 0, what, "ascending value files that are used", v.Num)
			}
			p.values = append(p.values, v)
		}
		r.bad = r.bad || len(p.values) == 0
	}
	if r.bad {
		return nil, corrupt.New("", 0, what, "whole fields", "truncated bytes")
	}
	if len(r.rest) != 0 {
		return nil, corrupt.New("", 0, what, "no further bytes", len(r.rest))
	}
	p.openColumns()
	return p, p.check()
}

// check rejects properties that no writer makes and that would mislead a reader.
func (p *properties) check() error {
	const what = "properties"
	switch {
	case p.codec > lastCodec:
		return corrupt.New("", 1, what, "a known codec", p.codec)
	case p.filterBits != 0 && p.filterBits != 8 && p.filterBits != 16:
		return corrupt.New("", 2, what, "filters of 0, 8 or 16 bits", p.filterBits)
	case (p.filterBits == 0 || p.blocks == 0) != (len(p.partitions) == 0):
		return corrupt.New("", 2, what, "filters as announced", len(p.partitions))
	case p.blocks > p.zone.Entries || p.keys > p.zone.Entries:
		return corrupt.New("", 0, what, "no more blocks and keys than entries", p.zone.Entries)
	case p.blocks == 0 && p.zone.Entries > 0:
		return corrupt.New("", 0, what, "blocks for the entries", p.blocks)
	case p.minSeq > p.maxSeq || p.maxSeq > base.MaxSeqNum:
		return corrupt.New("", 0, what, "an ordered range of sequence numbers", uint64(p.maxSeq))
	}
	for i, f := range p.partitions {
		if f.firstBlock >= p.blocks || (i == 0) != (f.firstBlock == 0) ||
			(i > 0 && f.firstBlock <= p.partitions[i-1].firstBlock) {
			return corrupt.New("", 0, what, "ascending filter partitions", f.firstBlock)
		}
	}
	return nil
}
