package keyset

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

// Format: docs/format/segments.md. A header, a directory of parts with the smallest and
// the largest key after it, and the tables and key columns that the directory points
// at, each at a multiple of segmentAlign.
const (
	segmentMagic   = 0x4745534b // "KSEG"
	segmentVersion = 1
	segmentHeader  = 64
	segmentEntry   = 80
	segmentAlign   = 64
)

// The flags of a segment. On disk: never renumber.
const (
	flagInts    = 1 // all keys have eight bytes
	flagStored  = 2 // keys are stored
	flagSharded = 4 // parts are chosen by hash
	flagBlocked = 8 // parts are blocks in the order of keys
	flagsKnown  = 15
)

// maxParts bounds the directory. Shards are at most maxShards.
const (
	maxParts  = 1 << 22
	maxShards = 1 << 12
)

// directoryLen returns the length of directory, keys of the zone and checksum.
func (s *Segment) directoryLen() uint64 {
	return uint64(len(s.parts))*segmentEntry + uint64(len(s.min)+len(s.max)) + 4
}

// appendHead appends the header and the directory.
func (s *Segment) appendHead(dst []byte) []byte {
	flags := byte(0)
	for _, f := range []struct {
		on  bool
		bit byte
	}{{s.ints, flagInts}, {s.stored, flagStored}, {s.shardBits > 0, flagSharded},
		{s.blocked, flagBlocked}} {
		if f.on {
			flags |= f.bit
		}
	}
	le := binary.LittleEndian
	start := len(dst)
	dst = le.AppendUint32(dst, segmentMagic)
	dst = append(dst, segmentVersion, byte(s.bits), flags, 0)
	dst = le.AppendUint64(dst, s.hash.seed)
	dst = le.AppendUint64(dst, s.keys)
	dst = le.AppendUint64(dst, s.size)
	dst = le.AppendUint32(dst, uint32(len(s.parts)))
	dst = le.AppendUint32(dst, uint32(len(s.min)))
	dst = le.AppendUint32(dst, uint32(len(s.max)))
	dst = append(dst, make([]byte, 16)...)
	dst = le.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	directory := len(dst)
	for i := range s.parts {
		dst = s.parts[i].appendEntry(dst)
	}
	dst = append(append(dst, s.min...), s.max...)
	return le.AppendUint32(dst, crc32.Checksum(dst[directory:], castagnoli))
}

func (p *part) appendEntry(dst []byte) []byte {
	le := binary.LittleEndian
	segLen, segCount := p.shape.Segments()
	dst = le.AppendUint64(dst, p.lo)
	dst = le.AppendUint64(dst, p.hi)
	for _, sp := range []span{p.table, p.column} {
		dst = le.AppendUint64(dst, sp.off)
		dst = le.AppendUint64(dst, sp.len)
	}
	dst = le.AppendUint32(dst, p.table.crc)
	dst = le.AppendUint32(dst, p.column.crc)
	dst = le.AppendUint32(dst, uint32(p.keys))
	dst = le.AppendUint32(dst, uint32(p.stored))
	dst = le.AppendUint32(dst, segLen)
	dst = le.AppendUint32(dst, segCount)
	dst = le.AppendUint32(dst, p.salt)
	return append(dst, p.kind, 0, 0, 0)
}

// decodeHeader reads the first segmentHeader bytes of a segment of the given size, and
// returns the number of parts and the lengths of the keys of the zone.
func (s *Segment) decodeHeader(b []byte, size uint64) (parts, minLen, maxLen uint64, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < segmentHeader:
		return 0, 0, 0, s.damaged(0, "a header of 64 bytes", len(b))
	case le.Uint32(b) != segmentMagic:
		return 0, 0, 0, s.damaged(0, `the magic "KSEG"`, fmt.Sprintf("%q", b[:4]))
	case b[4] != segmentVersion:
		return 0, 0, 0, corrupt.NewVersion(s.name, "segment", segmentVersion, b[4])
	case le.Uint32(b[60:]) != crc32.Checksum(b[:60], castagnoli):
		return 0, 0, 0, s.damaged(60, "the checksum of the header", "another")
	}
	flags := b[6]
	s.bits, s.ints = int(b[5]), flags&flagInts != 0
	s.stored, s.blocked = flags&flagStored != 0, flags&flagBlocked != 0
	s.hash, s.keys, s.size = newKeyHash(le.Uint64(b[8:])), le.Uint64(b[16:]), le.Uint64(b[24:])
	parts, minLen, maxLen = uint64(le.Uint32(b[32:])), uint64(le.Uint32(b[36:])),
		uint64(le.Uint32(b[40:]))
	sharded := flags&flagSharded != 0
	switch {
	case s.bits != 8 && s.bits != 16:
		err = s.damaged(5, "8 or 16 bits", s.bits)
	case flags > flagsKnown || sharded && s.blocked || b[7] != 0 ||
		!bytes.Equal(b[44:60], make([]byte, 16)):
		err = s.damaged(6, "known flags, and zeros", flags)
	case s.size != size:
		err = s.damaged(24, "the size of the file", size)
	case parts > maxParts || sharded && (parts < 2 || parts > maxShards || parts&(parts-1) != 0),
		!sharded && !s.blocked && parts > 1:
		err = s.damaged(32, "a number of parts that fits the layout", parts)
	case segmentHeader+parts*segmentEntry+minLen+maxLen+4 > size:
		err = s.damaged(32, "a directory within the file", parts)
	}
	if sharded {
		s.shardBits = uint(bits.TrailingZeros64(parts))
	}
	return parts, minLen, maxLen, err
}

// decodeDirectory reads what follows the header.
func (s *Segment) decodeDirectory(b []byte, parts, minLen uint64) error {
	body := b[:len(b)-4]
	if binary.LittleEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(body, castagnoli) {
		return s.damaged(segmentHeader, "the checksum of the directory", "another")
	}
	zone := body[parts*segmentEntry:]
	s.min, s.max = bytes.Clone(zone[:minLen]), bytes.Clone(zone[minLen:])
	s.parts = make([]part, parts)
	from, keys := segmentHeader+uint64(len(b)), uint64(0)
	for i := range s.parts {
		p := &s.parts[i]
		off := segmentHeader + uint64(i)*segmentEntry
		if !p.decodeEntry(body[uint64(i)*segmentEntry:], s, &from) {
			return s.damaged(off, "a part that fits the file", i)
		}
		if s.blocked && i > 0 && p.lo < s.parts[i-1].hi {
			return s.damaged(off, "blocks in ascending order", p.lo)
		}
		keys += uint64(p.keys)
	}
	// Without integers the only key may be the empty one, whose zone is empty.
	if keys != s.keys || keys == 0 && len(zone) > 0 || keys > 0 && len(zone) == 0 && s.ints {
		return s.damaged(16, "as many keys as the parts have", s.keys)
	}
	if from != s.size {
		return s.damaged(24, "no bytes after the last part", s.size-from)
	}
	return nil
}

// decodeEntry reads one entry of the directory. From is where the spans of the parts
// before it end; spans follow each other without more than padding between them.
func (p *part) decodeEntry(b []byte, s *Segment, from *uint64) bool {
	le := binary.LittleEndian
	p.lo, p.hi = le.Uint64(b), le.Uint64(b[8:])
	p.table = span{off: le.Uint64(b[16:]), len: le.Uint64(b[24:]), crc: le.Uint32(b[48:])}
	p.column = span{off: le.Uint64(b[32:]), len: le.Uint64(b[40:]), crc: le.Uint32(b[52:])}
	keys, stored := le.Uint32(b[56:]), le.Uint32(b[60:])
	if keys > fuse.MaxKeys || stored > keys { // as an int of 32 bits it could be negative
		return false
	}
	p.keys, p.stored = int(keys), int(stored)
	segLen, segCount := le.Uint32(b[64:]), le.Uint32(b[68:])
	p.salt, p.kind = le.Uint32(b[72:]), b[76]
	p.seed = salted(s.hash.seed, p.salt)
	for _, sp := range []*span{&p.table, &p.column} {
		if sp.len == 0 {
			if sp.off != 0 || sp.crc != 0 {
				return false
			}
			continue
		}
		if sp.off != alignUp(*from) || sp.off > s.size || sp.len > s.size-sp.off {
			return false
		}
		sp.pad = sp.off - *from
		*from = sp.off + sp.len
	}
	if b[77]|b[78]|b[79] != 0 || p.lo > p.hi ||
		(p.kind == partEmpty) != (p.keys == 0) ||
		s.stored != (p.stored > 0) && p.keys > 0 || (p.stored > 0) != (p.column.len > 0) {
		return false
	}
	shape, ok := fuse.NewShape(segLen, segCount)
	p.shape = shape
	switch span := p.hi - p.lo; p.kind {
	case partEmpty:
		return segLen|segCount == 0 && p.lo|p.hi == 0 && p.table.len == 0
	case partRange:
		return segLen|segCount == 0 && p.table.len == 0 && s.ints && s.shardBits == 0 &&
			span == uint64(p.keys)-1
	case partBitmap:
		return segLen|segCount == 0 && s.ints && s.shardBits == 0 && p.table.len == span/8+1
	case partFuse:
		return ok && p.table.len == uint64(shape.Slots())*uint64(s.bits/8)
	}
	return false
}

func alignUp(n uint64) uint64 { return (n + segmentAlign - 1) &^ (segmentAlign - 1) }
