package sst

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
)

// Format: a decoded data block is, little-endian,
//
//	 0  u8    format version, 1
//	 1  u8×3  zero
//	 4  u32   count of entries, at least 1
//	 8  u64   lowest sequence number
//	16  u32   length of the prefix that all keys share
//	20  u32 × count   heads: the first 4 bytes of each key after the prefix as a
//	                  big-endian number, missing bytes zero
//	..  u32 × count   offsets of the entries from the start of the block
//	..  prefix
//	..  entries, back to back up to the end of the block:
//	      uvarint  length of the key after the prefix, then those bytes
//	      uvarint  (sequence number − lowest) × 4 + kind (0 to 3)
//	      u8       kind of an entry whose value is a reference, 2 or 3   (kind 0 only)
//	      varint   expiry in Unix milliseconds   (kind 3 only)
//	      uvarint  length of the value, then the value   (kinds 2 and 3 only)
//
// Why flat: a search needs the heads and one or two entries, 3 to 5 cache lines,
// where a chain of restart points needs 10 to 15.

// kindLarge is the kind of entries whose value is a reference.
const kindLarge base.Kind = 0

const (
	blockVersion     = 1
	blockHeaderBytes = 20
	// entryOverheadBytes estimates what an entry takes in addition to key and value: head,
	// offset and the varints.
	entryOverheadBytes = 14
)

// blockBuilder gathers the entries of one data block and encodes them. Why it keeps
// copies: the shared prefix is only known when the last key is.
type blockBuilder struct {
	keys   []byte
	values []byte
	recs   []pendingEntry
	shared int // length of the common prefix of the keys so far
	minSeq base.SeqNum
}

// pendingEntry is an entry whose key and value end at the given places of the
// builder's buffers.
type pendingEntry struct {
	keyEnd, valueEnd int
	seq              base.SeqNum
	expiry           int64
	kind             base.Kind
	large            bool
}

func (b *blockBuilder) empty() bool { return len(b.recs) == 0 }

// sizeBytes estimates the decoded size.
func (b *blockBuilder) sizeBytes() int {
	if b.empty() {
		return 0
	}
	n := len(b.recs)
	return blockHeaderBytes + len(b.keys) - (n-1)*b.shared + len(b.values) + n*entryOverheadBytes
}

// add copies e.
func (b *blockBuilder) add(e *base.Entry) {
	if b.empty() {
		b.shared, b.minSeq = len(e.Key), e.Seq
	} else {
		b.shared = commonPrefix(b.firstKey()[:b.shared], e.Key)
		b.minSeq = min(b.minSeq, e.Seq)
	}
	b.keys = append(b.keys, e.Key...)
	b.values = append(b.values, e.Value...)
	b.recs = append(b.recs, pendingEntry{
		keyEnd: len(b.keys), valueEnd: len(b.values),
		seq: e.Seq, expiry: e.Expiry, kind: e.Kind, large: e.Large,
	})
}

// firstKey returns the first key. Requires: the block is not empty.
func (b *blockBuilder) firstKey() []byte { return b.keys[:b.recs[0].keyEnd] }

// appendBlock appends the decoded form of the block to dst. Requires: the block is
// not empty, dst is empty, and the offsets fit into u32: maxDataBytes is far below that.
func (b *blockBuilder) appendBlock(dst []byte) []byte {
	n := len(b.recs)
	dst = append(dst, blockVersion, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(b.minSeq))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.shared))
	start := 0
	for i := range b.recs {
		end := b.recs[i].keyEnd
		dst = binary.LittleEndian.AppendUint32(dst, head4(b.keys[start+b.shared:end]))
		start = end
	}
	offsets := len(dst)
	dst = append(dst, make([]byte, 4*n)...)
	dst = append(dst, b.keys[:b.shared]...)
	var key, value int
	for i := range b.recs {
		r := &b.recs[i]
		binary.LittleEndian.PutUint32(dst[offsets+4*i:], uint32(len(dst)))
		suffix := b.keys[key+b.shared : r.keyEnd]
		dst = append(binary.AppendUvarint(dst, uint64(len(suffix))), suffix...)
		if r.large {
			dst = binary.AppendUvarint(dst, uint64(r.seq-b.minSeq)<<2|uint64(kindLarge))
			dst = append(dst, byte(r.kind))
		} else {
			dst = binary.AppendUvarint(dst, uint64(r.seq-b.minSeq)<<2|uint64(r.kind))
		}
		if r.kind == base.KindPutTTL {
			dst = binary.AppendVarint(dst, r.expiry)
		}
		if r.kind != base.KindDelete {
			v := b.values[value:r.valueEnd]
			dst = append(binary.AppendUvarint(dst, uint64(len(v))), v...)
		}
		key, value = r.keyEnd, r.valueEnd
	}
	return dst
}

// reset forgets the entries. Buffers are kept unless a huge value blew them up.
func (b *blockBuilder) reset() {
	b.keys, b.values, b.recs = keep(b.keys), keep(b.values), b.recs[:0]
}

// maxKeptBytes bounds the buffers that a reused writer holds on to.
const maxKeptBytes = 2 * maxBlockBytes

// keep empties a buffer for reuse, or drops it if it is too large to hold.
func keep(b []byte) []byte {
	if cap(b) > maxKeptBytes {
		return nil
	}
	return b[:0]
}

// head4 is the upper half of base.KeyHead.
func head4(b []byte) uint32 {
	if len(b) >= 4 {
		return binary.BigEndian.Uint32(b)
	}
	return uint32(base.KeyHead(b) >> 32)
}

// commonPrefix returns the length of the longest common prefix of a and b.
func commonPrefix(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for ; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
