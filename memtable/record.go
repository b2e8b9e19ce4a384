package memtable

import (
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
)

// Records in the arena, little-endian, unaligned. Memory only, not a file format.
//
//	node     head u32 | budget u32 | key length u32 | key
//	version  prev u32 | value length u32 | seq<<8|kind u64 | [expiry i64] | value
//
// head is the newest version, prev the next older one, 0 for none. budget counts down
// the overwrites until the next trim of the chain, see Table.push. Only put-ttl
// versions have an expiry.
//
// Invariant: head, budget and prev are the only bytes that change after a record is
// linked. They are read and written under Table.mu (or after Freeze, when they no
// longer change), and no slice handed out covers them.
const (
	nodeHead   = 0
	nodeBudget = 4
	nodeKeyLen = 8
	nodeKey    = 12

	versionPrev     = 0
	versionValueLen = 4
	versionSeqKind  = 8
	versionExpiry   = 16
	versionValue    = 16 // without expiry
	versionTTLValue = 24
)

// version is a version on its way into the arena.
type version struct {
	seq    base.SeqNum
	kind   base.Kind
	expiry int64
	value  []byte
}

// sizeBytes returns the size of the version's record.
func (v *version) sizeBytes() int {
	if v.kind == base.KindPutTTL {
		return versionTTLValue + len(v.value)
	}
	return versionValue + len(v.value)
}

// write encodes the version into b, which has at least sizeBytes bytes.
func (v *version) write(b []byte, prev uint32) {
	binary.LittleEndian.PutUint32(b[versionPrev:], prev)
	binary.LittleEndian.PutUint32(b[versionValueLen:], uint32(len(v.value)))
	binary.LittleEndian.PutUint64(b[versionSeqKind:], uint64(v.seq)<<8|uint64(v.kind))
	if v.kind == base.KindPutTTL {
		binary.LittleEndian.PutUint64(b[versionExpiry:], uint64(v.expiry))
		copy(b[versionTTLValue:], v.value)
		return
	}
	copy(b[versionValue:], v.value)
}

// writeNode encodes a node into b, which has at least nodeKey+len(key) bytes.
func writeNode(b, key []byte, head uint32) {
	binary.LittleEndian.PutUint32(b[nodeHead:], head)
	binary.LittleEndian.PutUint32(b[nodeBudget:], minTrimBudget)
	binary.LittleEndian.PutUint32(b[nodeKeyLen:], uint32(len(key)))
	copy(b[nodeKey:], key)
}

// chunkTable resolves addresses: chunk index in the upper 16 bits, offset in the
// lower. Address 0 stands for "none", chunk 0 does not exist. A copy of the slice
// header is a picture of the arena that stays usable without any lock, except for
// the changing words.
type chunkTable [][]byte

func (c chunkTable) at(addr uint32) []byte { return c[addr>>16][addr&0xffff:] }

func (c chunkTable) word(addr uint32, field int) uint32 {
	return binary.LittleEndian.Uint32(c.at(addr)[field:])
}

func (c chunkTable) setWord(addr uint32, field int, v uint32) {
	binary.LittleEndian.PutUint32(c.at(addr)[field:], v)
}

// key returns the key of a node.
func (c chunkTable) key(node uint32) []byte {
	b := c.at(node)
	end := nodeKey + int(binary.LittleEndian.Uint32(b[nodeKeyLen:]))
	return b[nodeKey:end:end]
}

// seq returns the sequence number of a version.
func (c chunkTable) seq(ver uint32) base.SeqNum {
	return base.SeqNum(binary.LittleEndian.Uint64(c.at(ver)[versionSeqKind:]) >> 8)
}

// kind returns the kind of a version.
func (c chunkTable) kind(ver uint32) base.Kind {
	return base.Kind(c.at(ver)[versionSeqKind])
}

// visible returns the newest version from ver on with a sequence number of at most snap, or 0.
// It is not ok if that is further than maxLooks away: there it goes on from what it returns.
func (c chunkTable) visible(ver uint32, snap base.SeqNum) (_ uint32, ok bool) {
	for range maxLooks {
		if ver == 0 || c.seq(ver) <= snap {
			return ver, true
		}
		ver = c.word(ver, versionPrev)
	}
	return ver, ver == 0
}

// load fills e with a version. It leaves e.Key alone and reads no changing word.
func (c chunkTable) load(ver uint32, e *base.Entry) {
	b := c.at(ver)
	seqKind := binary.LittleEndian.Uint64(b[versionSeqKind:])
	start := versionValue
	e.Seq, e.Kind, e.Expiry, e.Value = base.SeqNum(seqKind>>8), base.Kind(seqKind), 0, nil
	switch e.Kind {
	case base.KindDelete:
		return
	case base.KindPutTTL:
		e.Expiry = int64(binary.LittleEndian.Uint64(b[versionExpiry:]))
		start = versionTTLValue
	}
	end := start + int(binary.LittleEndian.Uint32(b[versionValueLen:]))
	e.Value = b[start:end:end]
}
