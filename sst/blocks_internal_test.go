package sst

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
)

// TestCutBytes: fields of every length, and what is too short for one.
func TestCutBytes(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 129, 300, 1 << 14} {
		field := bytes.Repeat([]byte{7}, n)
		whole := append(binary.AppendUvarint(nil, uint64(n)), field...)
		for _, more := range []string{"", "more"} {
			got, rest, ok := cutBytes(append(bytes.Clone(whole), more...))
			if !ok || !bytes.Equal(got, field) || string(rest) != more || cap(got) != len(got) {
				t.Errorf("%d bytes: %d and %q after it, %v", n, len(got), rest, ok)
			}
		}
		for cut := range whole {
			if got, rest, ok := cutBytes(whole[:cut]); ok || got != nil || rest != nil {
				t.Errorf("%d of %d bytes of a field: %d, %v", cut, len(whole), len(got), ok)
			}
		}
	}
	if _, _, ok := cutBytes(bytes.Repeat([]byte{0xff}, 20)); ok {
		t.Error("a length without end")
	}
}

// TestEntryBodies: what follows the key of an entry, up to the highest sequence number.
func TestEntryBodies(t *testing.T) {
	b := dataBlock{minSeq: base.MaxSeqNum - 5}
	body := func(tag uint64, rest ...byte) []byte {
		return append(binary.AppendUvarint(nil, tag), rest...)
	}
	overlong := bytes.Repeat([]byte{0xff}, 12)
	for _, c := range []struct {
		what string
		rest []byte
		ok   bool
		seq  base.SeqNum
	}{
		{"nothing", nil, false, 0},
		{"a tombstone", body(0<<2 | 1), true, base.MaxSeqNum - 5},
		{"a tombstone with a value", body(0<<2|1, 0), false, 0},
		{"the highest number", body(5<<2|2, 0), true, base.MaxSeqNum},
		{"a higher number", body(6<<2|2, 0), false, 0},
		{"no end of the number", overlong, false, 0},
		{"a value", body(1<<2|2, 2, 'a', 'b'), true, base.MaxSeqNum - 4},
		{"a short value", body(1<<2|2, 2, 'a'), false, 0},
		{"a long value", body(1<<2|2, 2, 'a', 'b', 'c'), false, 0},
		{"no value", body(1<<2 | 2), false, 0},
		{"an expiry", body(1<<2|3, 4, 1, 'a'), true, base.MaxSeqNum - 4},
		{"an expiry without a value", body(1<<2|3, 4), false, 0},
		{"no expiry", body(1<<2 | 3), false, 0},
		{"no end of the expiry", body(1<<2|3, overlong...), false, 0},
		{"kind 0", body(1 << 2), false, 0},
	} {
		e := base.Entry{Value: []byte("old"), Expiry: 9}
		if ok := b.body(c.rest, &e); ok != c.ok || ok && e.Seq != c.seq {
			t.Errorf("%s: %v, %+v", c.what, ok, e)
		}
		if e.Kind == base.KindDelete && c.ok && (e.Value != nil || e.Expiry != 0) {
			t.Errorf("%s: %+v", c.what, e)
		}
		if seq, ok := b.seqOf(c.rest); c.ok && seq != c.seq || ok != (len(c.rest) > 0 &&
			c.what != "no end of the number") {
			t.Errorf("%s: number %d, %v", c.what, seq, ok)
		}
	}
}

// blockOf returns a block of keys with the sequence numbers 9 and 5 each, but for a lowest one.
func blockOf(t *testing.T, value []byte, keys ...string) dataBlock {
	t.Helper()
	var w blockBuilder
	for _, key := range keys {
		for _, seq := range []base.SeqNum{9, 5} {
			w.add(&base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindPut, Value: value})
		}
	}
	b, err := openDataBlock(w.appendBlock(nil))
	ok(t, err)
	return b
}

// TestBlockSeeks: seeks of keys and of what lies between them, with heads that are equal, and
// with the highest and the lowest head that there are.
func TestBlockSeeks(t *testing.T) {
	keys := []string{"k", "k\x00", "k\x00\x00\x00\x00\x00", "kaaaa", "kaaaa1", "kaaaa2", "kaaab",
		"k\xff\xff\xff\xff", "k\xff\xff\xff\xff\x00", "k\xff\xff\xff\xff\xff",
		"k\xff\xff\xff\xff\xff1"}
	for first := range keys {
		for last := first + 1; last <= len(keys); last++ {
			part := keys[first:last]
			b := blockOf(t, nil, part...)
			for _, key := range append(slices.Clone(keys), "", "j", "l", "kaaa", "kaaab1",
				"k\xff") {
				at, there := slices.BinarySearch(part, key)
				for snap, want := range map[base.SeqNum]int{9: 2 * at, 5: 2*at + 1, 4: 2*at + 2} {
					if !there {
						want = 2 * at
					}
					pos, exact, ok := b.seek([]byte(key), snap)
					if pos != want || exact != (there && snap > 4) || !ok {
						t.Fatalf("%q at %d in %q: %d, %v, %v, want %d", key, snap, part, pos, exact,
							ok, want)
					}
				}
				newer := b.hasNewer(2*at, []byte(key))
				if newer || there && !b.hasNewer(2*at+1, []byte(key)) {
					t.Fatalf("%q in %q: newer %v", key, part, newer)
				}
			}
		}
	}
	if b := blockOf(t, nil, "k"); b.hasNewer(0, []byte("k")) || b.hasNewer(1, []byte("kk")) ||
		b.hasNewer(1, []byte("j")) {
		t.Error("a newer version of another key")
	}
	var w blockBuilder
	w.add(&base.Entry{Key: []byte("k"), Seq: base.MaxSeqNum, Kind: base.KindDelete})
	if b, err := openDataBlock(w.appendBlock(nil)); err != nil || b.minSeq != base.MaxSeqNum {
		t.Errorf("a block of the highest sequence number: %v", err)
	}
}

// TestIndexSeeks is TestBlockSeeks for the blocks of a file, by their last keys.
func TestIndexSeeks(t *testing.T) {
	f8 := "k\xff\xff\xff\xff\xff\xff\xff\xff"
	keys := []string{"k", "k\x00", "kaaaaaaaa", "kaaaaaaaa1", "kaaaaaaaa2", "kaaaaaaaa22",
		"kaaaaaaaa3",
		"kaaaaaaaa" + f8[1:], "kaaaaaaaa" + f8[1:] + "1", "kaaaaaaab", f8, f8 + "\x00", f8 + "a",
		f8 + "b",
		f8 + f8[1:], f8 + f8[1:] + "1", f8 + f8[1:] + "2"}
	for first := range keys {
		for last := first + 1; last <= len(keys); last++ {
			part := keys[first:last]
			var w indexBuilder
			for i, k := range part {
				zone := zonemap.Map{First: []byte(k), Last: []byte(k)}
				w.add(blockHandle{off: uint64(i), stored: 1, raw: 1}, zone, 5)
			}
			raw, _ := wholeIndex(&w)
			x, err := openIndex(raw)
			ok(t, err)
			for _, key := range append(slices.Clone(keys), "", "j", "l", "kaaa", "kaaaaaaaa20",
				"kb",
				f8+"\xff", "kaaaaaaaa\xff") {
				want, there := slices.BinarySearch(part, key)
				if got, ok := x.find([]byte(key), 5); got != want || !ok {
					t.Fatalf("%q in %q: block %d, %v, want %d", key, part, got, ok, want)
				}
				if there {
					want++
				}
				if got, ok := x.find([]byte(key), 4); got != want || !ok {
					t.Fatalf("%q before its time in %q: block %d, %v, want %d", key, part, got, ok,
						want)
				}
			}
		}
	}
}

// TestHeads: the first bytes of keys as numbers, missing ones zero.
func TestHeads(t *testing.T) {
	key := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for n, want := range map[int][2]uint64{
		0: {0, 0}, 1: {0x01000000, 0x0100000000000000}, 3: {0x01020300, 0x0102030000000000},
		4: {0x01020304, 0x0102030400000000}, 5: {0x01020304, 0x0102030405000000},
		7: {0x01020304, 0x0102030405060700}, 8: {0x01020304, 0x0102030405060708},
		9: {0x01020304, 0x0102030405060708},
	} {
		if got := [2]uint64{uint64(head4(key[:n])), base.KeyHead(key[:n])}; got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
	for n := range 20 {
		a := bytes.Repeat([]byte{5}, 20)
		b := bytes.Clone(a)
		b[n]++
		for _, short := range [][]byte{b, b[:n+1], a[:n]} {
			if x, y := commonPrefix(a, short), commonPrefix(short, a); x != n || y != n {
				t.Errorf("%d and %d bytes are common, want %d", x, y, n)
			}
		}
	}
}

// TestScannedEntries: the fast way to read an entry says what the slow one says, whatever the
// lengths of key, number and value are.
func TestScannedEntries(t *testing.T) {
	for _, keyBytes := range []int{0, 1, 127, 128, 200} {
		for _, valueBytes := range []int{0, 1, 5, 6, 127, 128, 1<<14 - 1, 1 << 14, 1 << 15} {
			for _, seq := range []base.SeqNum{0, 31, 32, 1<<12 - 1, 1 << 12, 1 << 40,
				base.MaxSeqNum} {
				var w blockBuilder
				w.add(&base.Entry{Key: []byte("a"), Kind: base.KindPut})
				e := base.Entry{Key: bytes.Repeat([]byte{'k'}, keyBytes+1), Seq: seq,
					Kind:  base.KindPut,
					Value: bytes.Repeat([]byte{'v'}, valueBytes)}
				w.add(&e)
				w.add(&e) // at the end
				b, err := openDataBlock(w.appendBlock(nil))
				ok(t, err)
				for i := 1; i < 3; i++ {
					got := base.Entry{Expiry: 9}
					if ok := b.entry(i, &got); !ok || got.Seq != seq || got.Kind != base.KindPut ||
						got.Expiry != 0 || !bytes.Equal(got.Key, e.Key) ||
						!bytes.Equal(got.Value, e.Value) ||
						cap(got.Value) != len(got.Value) || cap(got.Key) != len(got.Key) {
						t.Fatalf("key of %d, value of %d bytes at %d: %v, %+v", keyBytes,
							valueBytes, seq, ok, got)
					}
				}
			}
		}
	}
	for shift := range 57 {
		for _, v := range []uint64{1<<shift - 1, 1 << shift} {
			var b [16]byte
			n := binary.PutUvarint(b[:], v)
			got, w := uvarint8(binary.LittleEndian.Uint64(b[:]))
			if n > 8 {
				n, v = 0, 0
			}
			if got != v || w != uint64(n) {
				t.Errorf("%d in %d bytes is read as %d in %d", v, n, got, w)
			}
		}
	}
	// A number beyond the highest one, in the fast form.
	b := dataBlock{data: make([]byte, blockHeaderBytes+8), n: 1, minSeq: base.MaxSeqNum - 3}
	binary.LittleEndian.PutUint32(b.data[blockHeaderBytes+4:], uint32(len(b.data)))
	for tag, want := range map[byte]bool{3<<2 | 2: true, 4<<2 | 2: false} {
		block := b
		block.data = append(bytes.Clone(b.data), 0, tag, 8, 1, 2, 3, 4, 5, 6, 7, 8)
		var e base.Entry
		if ok := block.entry(0, &e); ok != want || ok && (len(e.Value) != 8 ||
			e.Seq != base.MaxSeqNum) {
			t.Errorf("tag %d: %v, %+v", tag, ok, e)
		}
	}
}

// TestOpenBlocks: a trailer under a right checksum is refused where codec and lengths do not fit.
func TestOpenBlocks(t *testing.T) {
	id := newFileID([16]byte{1}, 2)
	for _, c := range []struct {
		codec       Codec
		stored, raw int
		want        string
	}{
		{None, 5, 5, "<nil>"},
		{None, 5, 6, "corrupt block codec at offset 50: want one that fits the length, got none"},
		{LZ4, 5, 5, "corrupt block codec at offset 50: want one that fits the length, got lz4"},
		{Zstd, 5, 5, "corrupt block codec at offset 50: want one that fits the length, got zstd"},
		{4, 5, 6, "corrupt block codec at offset 50: want one that fits the length, got codec(4)"},
		{LZ4, 5, 6, "corrupt block at offset 50: want lz4 data, got "},
		{Snappy, 5, 6, "corrupt block at offset 50: want snappy data, got "},
		{Zstd, 5, 6, "corrupt block at offset 50: want zstd data, got "},
	} {
		payload := bytes.Repeat([]byte{0xf1}, c.stored)
		b := id.appendTrailer(payload, 0, c.codec, c.raw, 50)
		h := blockHandle{off: 50, stored: uint32(c.stored), raw: uint32(c.raw)}
		raw, err := id.decode(nil, b, h, "block")
		if got := fmt.Sprint(err); got != c.want && (c.want == "<nil>" || got[:min(len(got),
			len(c.want))] != c.want) || (raw == nil) != (err != nil) {
			t.Errorf("%v of %d and %d bytes: %d, %v", c.codec, c.stored, c.raw, len(raw), err)
		}
	}
	// A scan takes no longer block than readers do, and no empty one.
	for raw, want := range map[uint32]bool{72 << 20: true, 72<<20 + 1: false, 0: false} {
		payload := make([]byte, 2000)
		if raw == 0 {
			payload = nil
		}
		b := id.appendTrailer(append([]byte{0}, payload...), 1, LZ4, int(raw), 1)
		if raw == 0 {
			b = id.appendTrailer([]byte{0}, 1, None, 0, 1)
		}
		s := blockScan{id: id, b: b, budget: math.MaxInt64}
		if h, ok := s.before(1, 1+len(payload)); ok != want {
			t.Errorf("%d bytes when decoded: %+v, %v", raw, h, ok)
		}
	}
}

// wholeIndex returns an index without parts.
func wholeIndex(w *indexBuilder) ([]byte, bool) {
	var p indexPart
	p.next(w, len(w.recs))
	return w.appendBlock(nil, &p, &columnsWriter{})
}
