package keyset_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// crafted is a segment by its fields. It writes, reads and answers as the page
// docs/format/segments.md says, by itself, so that the package can be compared with it.
type crafted struct {
	bits, flags byte
	seed        uint64
	min, max    []byte
	parts       []craftedPart
}

type craftedPart struct {
	lo, hi                               uint64
	table, column                        []byte
	keys, stored, segLen, segCount, salt uint32
	kind                                 byte
}

const ints, stored, sharded, blocked = 1, 2, 4, 8 // flags

func crcOf(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func be(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }

// encode returns the segment's bytes.
func (c *crafted) encode() []byte {
	le := binary.LittleEndian
	data := make([]byte, 64+80*len(c.parts))
	data = append(append(data, c.min...), c.max...)
	data = append(data, 0, 0, 0, 0)
	directory := len(data)
	keys := uint64(0)
	for i, p := range c.parts {
		e := data[64+80*i:]
		le.PutUint64(e, p.lo)
		le.PutUint64(e[8:], p.hi)
		for j, s := range [][]byte{p.table, p.column} {
			if len(s) > 0 {
				data = append(data, make([]byte, -len(data)&63)...)
				e = data[64+80*i:]
				le.PutUint64(e[16+16*j:], uint64(len(data)))
				le.PutUint64(e[24+16*j:], uint64(len(s)))
				le.PutUint32(e[48+4*j:], crcOf(s))
				data = append(data, s...)
				e = data[64+80*i:]
			}
		}
		for j, v := range []uint32{p.keys, p.stored, p.segLen, p.segCount, p.salt} {
			le.PutUint32(e[56+4*j:], v)
		}
		e[76] = p.kind
		keys += uint64(p.keys)
	}
	copy(data, "KSEG\x01")
	data[5], data[6] = c.bits, c.flags
	for i, v := range []uint64{c.seed, keys, uint64(len(data))} {
		le.PutUint64(data[8+8*i:], v)
	}
	for i, n := range []int{len(c.parts), len(c.min), len(c.max)} {
		le.PutUint32(data[32+4*i:], uint32(n))
	}
	le.PutUint32(data[60:], crcOf(data[:60]))
	le.PutUint32(data[directory-4:], crcOf(data[64:directory-4]))
	return data
}

// readCrafted is the reverse of encode.
func readCrafted(data []byte) *crafted {
	le := binary.LittleEndian
	c := &crafted{bits: data[5], flags: data[6], seed: le.Uint64(data[8:])}
	c.parts = make([]craftedPart, le.Uint32(data[32:]))
	zone := data[64+80*len(c.parts):]
	n := le.Uint32(data[36:])
	c.min, c.max = zone[:n], zone[n:][:le.Uint32(data[40:])]
	for i := range c.parts {
		e := data[64+80*i:]
		c.parts[i] = craftedPart{lo: le.Uint64(e), hi: le.Uint64(e[8:]),
			table:  data[le.Uint64(e[16:]):][:le.Uint64(e[24:])],
			column: data[le.Uint64(e[32:]):][:le.Uint64(e[40:])],
			keys:   le.Uint32(e[56:]), stored: le.Uint32(e[60:]), segLen: le.Uint32(e[64:]),
			segCount: le.Uint32(e[68:]), salt: le.Uint32(e[72:]), kind: e[76]}
	}
	return c
}

// word returns what a key is hashed from.
func (c *crafted) word(key []byte) uint64 {
	if len(key) == 8 {
		return binary.BigEndian.Uint64(key)
	}
	var s [4]uint64
	for i := range s {
		s[i] = base.Mix(c.seed+uint64(i+1)*0x9e3779b97f4a7c15) | 1
	}
	return base.FoldKey(key, s[0]^uint64(len(key)), s[1], s[2], s[3], s[0])
}

func (c *crafted) shardBits() int {
	if c.flags&sharded == 0 {
		return 0
	}
	return bits.Len(uint(len(c.parts))) - 1
}

// shard returns the part of a word.
func (c *crafted) shard(word uint64) *craftedPart {
	return &c.parts[base.Mix(word+c.seed)>>(64-c.shardBits())]
}

// contains is what the segment answers.
func (c *crafted) contains(key []byte) bool {
	head, word := base.KeyHead(key), c.word(key)
	if c.flags&ints != 0 && len(key) != 8 || len(c.parts) == 0 {
		return false
	}
	if c.flags&sharded != 0 {
		p := c.shard(word)
		return p.lo <= head && head <= p.hi && c.passes(p, word)
	}
	for i := range c.parts {
		p := &c.parts[i]
		at := head - p.lo
		if p.lo <= head && head <= p.hi && (p.kind == 1 ||
			p.kind == 2 && p.table[at/8]>>(at%8)&1 != 0 || p.kind == 3 && c.passes(p, word)) {
			return true
		}
	}
	return false
}

// probe returns the fingerprint of a word and its three positions in a plane.
func (c *crafted) probe(p *craftedPart, word uint64) (print uint64, at [3]uint32) {
	h := base.Mix(word + c.seed + uint64(p.salt)*0x9fb21c651e98df25)
	first, _ := bits.Mul64(h<<c.shardBits(), uint64(p.segLen)*uint64(p.segCount))
	at[0] = uint32(first)
	at[1] = (at[0] + p.segLen) ^ uint32(h>>18)&(p.segLen-1)
	at[2] = (at[0] + 2*p.segLen) ^ uint32(h)&(p.segLen-1)
	return h ^ h>>32, at
}

func (c *crafted) passes(p *craftedPart, word uint64) bool {
	if p.kind == 0 {
		return false
	}
	print, at := c.probe(p, word)
	slots := (p.segCount + 2) * p.segLen
	for plane := range uint32(c.bits / 8) {
		t := p.table[plane*slots:]
		if t[at[0]]^t[at[1]]^t[at[2]] != byte(print>>(8*plane)) {
			return false
		}
	}
	return true
}

// plant makes a key pass the filter of one part.
func (c *crafted) plant(key uint64) { c.plantBytes(be(key)) }

func (c *crafted) plantBytes(key []byte) {
	p := &c.parts[0]
	print, at := c.probe(p, c.word(key))
	slots := (p.segCount + 2) * p.segLen
	for plane := range uint32(c.bits / 8) {
		t := p.table[plane*slots:]
		t[at[2]] = t[at[0]] ^ t[at[1]] ^ byte(print>>(8*plane))
	}
}

// randomFilter returns a filter of integers whose table is random: it lets as many keys pass
// as one of about so many keys.
func randomFilter(rnd *rand.Rand, bits byte, segLen, segCount uint32, z [2]uint64) *crafted {
	c := &crafted{bits: bits, flags: ints, seed: 9, min: be(z[0]), max: be(z[1])}
	c.parts = []craftedPart{randomPart(rnd, bits, segLen, segCount, z)}
	return c
}

func randomPart(rnd *rand.Rand, bits byte, segLen, segCount uint32, z [2]uint64) craftedPart {
	p := craftedPart{lo: z[0], hi: z[1], segLen: segLen, segCount: segCount, kind: 3,
		keys: segLen * segCount, table: make([]byte, (segCount+2)*segLen*uint32(bits)/8)}
	for at := 0; at < len(p.table); at += 8 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], rnd.Uint64())
		copy(p.table[at:], b[:])
	}
	return p
}

// randomShards is randomFilter with shards, the salts of some of them given by number, and
// those with salt ^0 empty.
func randomShards(rnd *rand.Rand, bits byte, segLen, segCount uint32, z [2]uint64, n int,
	salts map[int]uint32) *crafted {
	c := &crafted{bits: bits, flags: ints | sharded, seed: 9, min: be(z[0]), max: be(z[1])}
	for i := range n {
		p := randomPart(rnd, bits, segLen, segCount, z)
		if p.salt = salts[i]; p.salt == ^uint32(0) {
			p = craftedPart{}
		}
		c.parts = append(c.parts, p)
	}
	return c
}

// open parses the segment's bytes, or opens them to be read on demand.
func (c *crafted) open(t *testing.T, cold bool) *keyset.Segment {
	t.Helper()
	return openBytes(t, c.encode(), cold)
}

func openBytes(t *testing.T, data []byte, cold bool) *keyset.Segment {
	t.Helper()
	seg, err := keyset.ParseSegment(data)
	if cold {
		seg, err = keyset.OpenSegmentAt(bytes.NewReader(data), int64(len(data)), nil)
	}
	ok(t, err)
	return seg
}

// sortedKeys returns the keys in order without repetition.
func sortedKeys(keys [][]byte) [][]byte {
	keys = slices.SortedFunc(slices.Values(keys), bytes.Compare)
	return slices.CompactFunc(keys, bytes.Equal)
}
