package keyset_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// patch writes a number of so many bytes at an offset, and computes the checksums again.
func patch(data []byte, at, size int, v uint64) []byte {
	data = bytes.Clone(data)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	copy(data[at:at+size], b[:])
	if at < 60 {
		binary.LittleEndian.PutUint32(data[60:], crcOf(data[:60]))
		return data
	}
	return resum(data, 64+80*int(binary.LittleEndian.Uint32(data[32:])))
}

// checkDamage parses the bytes and reads them on demand: the error is want, "" for none.
func checkDamage(t *testing.T, label string, data []byte, want string) {
	t.Helper()
	for _, err := range []error{verifyParsed(data), verifyAt(data)} {
		got := ""
		if err != nil {
			got = strings.Replace(err.Error(), " in at reader", "", 1)
		}
		if got != want || err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s: %q, want %q", label, got, want)
		}
	}
}

// TestDamagedHeaders: each field of the header is checked, and the error says where.
func TestDamagedHeaders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(71, 1))
	z := [2]uint64{5, 5000}
	one := randomFilter(rnd, 8, 16, 6, z).encode()
	two := randomShards(rnd, 8, 16, 6, z, 2, nil).encode()
	size := uint64(len(one))
	const (
		flags  = "6: want known flags, and zeros, got "
		layout = "32: want a number of parts that fits the layout, got "
		inside = "32: want a directory within the file, got "
	)
	type change struct {
		data     []byte
		at, size int
		v        uint64
		want     string
	}
	changes := []change{
		{one, 0, 1, 'k', "0: want the magic \"KSEG\", got \"kSEG\""},
		{one, 5, 1, 9, "5: want 8 or 16 bits, got 9"},
		{one, 5, 1, 15, "5: want 8 or 16 bits, got 15"},
		{one, 6, 1, 16, flags + "16"}, {one, 6, 1, 129, flags + "129"},
		{two, 6, 1, ints | sharded | blocked, flags + "13"},
		{one, 7, 1, 1, flags + "1"}, {one, 24, 8, size + 1,
			fmt.Sprint("24: want the size of the file, got ", size)},
		{one, 24, 8, size - 1, fmt.Sprint("24: want the size of the file, got ", size)},
		{one, 32, 4, 2, layout + "2"}, {two, 32, 4, 1, layout + "1"}, {two, 32, 4, 3, layout + "3"},
		{two, 32, 4, 0, layout + "0"}, {two, 32, 4, 1 << 12, inside + "4096"},
		{two, 32, 4, 1 << 13, layout + "8192"},
		{one, 36, 4, size - 155, inside + "1"}, {one, 40, 4, size - 155, inside + "1"},
		{one, 36, 4, size - 156, "64: want the checksum of the directory, got another"},
		{one, 16, 8, 95, "16: want as many keys as the parts have, got 95"},
		{one, 16, 8, 97, "16: want as many keys as the parts have, got 97"},
	}
	for at := 44; at < 60; at++ {
		changes = append(changes, change{one, at, 1, 1, flags + "1"})
	}
	for _, c := range changes {
		checkDamage(t, fmt.Sprint(c.v, " at ", c.at), patch(c.data, c.at, c.size, c.v),
			"corrupt segment at offset "+c.want)
	}
	blocks := patch(one, 6, 1, ints|blocked)
	checkDamage(t, "blocks", patch(blocks, 32, 4, 1<<22), "corrupt segment at offset "+inside+
		"4194304")
	checkDamage(t, "blocks", patch(blocks, 32, 4, 1<<22+1), "corrupt segment at offset "+layout+
		"4194305")
	checkDamage(t, "version", patch(one, 4, 1, 2),
		"unknown format version of segment at offset 0: want 1, got 2")
	for at, want := range map[int]string{
		60: "60: want the checksum of the header, got another",
		64: "64: want the checksum of the directory, got another",
	} {
		bad := bytes.Clone(one)
		bad[at] ^= 1
		checkDamage(t, "checksum", bad, "corrupt segment at offset "+want)
	}
	for _, n := range []int{0, 1, 63} {
		checkDamage(t, "short", one[:n],
			fmt.Sprint("corrupt segment at offset 0: want a header of 64 bytes, got ", n))
	}
	checkDamage(t, "without parts", (&crafted{bits: 8, flags: ints}).encode(), "")
	for _, n := range []int{64, 67} {
		checkDamage(t, "header", (&crafted{bits: 8, flags: ints}).encode()[:n],
			fmt.Sprint("corrupt segment at offset 24: want the size of the file, got ", n))
	}
}

// TestDamagedParts: each field of a part is checked against the others.
func TestDamagedParts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(72, 1))
	z := [2]uint64{4000, 4999}
	for i, c := range partChanges() {
		seg := kinds(rnd, z)[c.kind].crafted
		if c.kind == "stored" {
			seg = readCrafted(binaryOf(t, mustBuild(t, &keyset.SegmentOptions{StoreKeys: true},
				[]uint64{1, 1 << 40, 1 << 50})[0]))
		}
		p := &seg.parts[0]
		c.change(seg, p)
		want := ""
		if c.damage {
			want = "corrupt segment at offset 64: want a part that fits the file, got 0"
		}
		checkDamage(t, fmt.Sprint("change ", i, " of ", c.kind), seg.encode(), want)
	}
}

type partChange struct {
	kind   string
	change func(s *crafted, p *craftedPart)
	damage bool
}

func partChanges() []partChange {
	type s = crafted
	type p = craftedPart
	return []partChange{
		{"filter", func(_ *s, p *p) {}, false},
		{"filter", func(_ *s, p *p) { p.lo = p.hi }, false},
		{"filter", func(_ *s, p *p) { p.lo = p.hi + 1 }, true},
		{"filter", func(_ *s, p *p) { p.keys = 1<<27 - 1 }, false},
		{"filter", func(_ *s, p *p) { p.keys = 1 << 27 }, true},
		{"filter", func(_ *s, p *p) { p.keys = 0 }, true},
		{"filter", func(_ *s, p *p) { p.kind = 0 }, true},
		{"filter", func(_ *s, p *p) { p.kind = 4 }, true},
		{"filter", func(_ *s, p *p) { p.segLen = 15 }, true},
		{"filter", func(_ *s, p *p) { p.segCount = 5 }, true},
		{"filter", func(_ *s, p *p) { p.segLen, p.segCount = 0, 6 }, true},
		{"filter", func(_ *s, p *p) { p.segLen, p.segCount = 64, 0 }, true},
		{"filter", func(_ *s, p *p) { p.table = p.table[:127] }, true},
		{"filter", func(_ *s, p *p) { p.stored = 1 }, true},
		{"filter", func(_ *s, p *p) { p.column = be(7) }, true},
		{"filter", func(s *s, p *p) { s.flags |= stored }, true},
		{"filter", func(s *s, p *p) { s.flags |= stored; p.keys = 1 }, true},
		{"filter", func(s *s, p *p) { p.stored, p.column = 1, be(7) }, true},
		{"wide", func(_ *s, p *p) { p.table = p.table[:128] }, true},
		{"stored", func(*s, *p) {}, false},
		{"stored", func(_ *s, p *p) { p.keys = 2 }, true},
		{"stored", func(_ *s, p *p) { p.column = nil }, true},
		{"stored", func(s *s, p *p) { s.flags = ints }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{} }, false},
		{"shards", func(_ *s, p *p) { *p = craftedPart{segLen: 1} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{segCount: 1} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{lo: 1, hi: 1} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{hi: 1} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{table: be(1)} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{keys: 1} }, true},
		{"shards", func(_ *s, p *p) { *p = craftedPart{keys: 1, kind: 1, lo: 5, hi: 5} }, true},
		{"shards", func(_ *s, p *p) {
			*p = craftedPart{keys: 2, kind: 2, lo: 5, hi: 8, table: []byte{9}}
		}, true},
		{"range", func(*s, *p) {}, false},
		{"range", func(s *s, _ *p) { s.flags = 0 }, true},
		{"range", func(_ *s, p *p) { p.segLen = 1 }, true},
		{"range", func(_ *s, p *p) { p.segCount = 1 }, true},
		{"range", func(_ *s, p *p) { p.table = be(1) }, true},
		{"range", func(_ *s, p *p) { p.keys-- }, true},
		{"range", func(_ *s, p *p) { p.keys++ }, true},
		{"bitmap", func(_ *s, p *p) {}, false},
		{"bitmap", func(s *s, _ *p) { s.flags = 0 }, true},
		{"bitmap", func(_ *s, p *p) { p.segLen = 1 }, true},
		{"bitmap", func(_ *s, p *p) { p.segCount = 1 }, true},
		{"bitmap", func(_ *s, p *p) { p.table = p.table[1:] }, true},
		{"bitmap", func(_ *s, p *p) { p.hi++ }, true},
	}
}

// TestDamagedPlaces: tables and columns follow one another, with nothing but padding between
// and nothing after them.
func TestDamagedPlaces(t *testing.T) {
	const part = "64: want a part that fits the file, got 0"
	opts := &keyset.SegmentOptions{StoreKeys: true}
	good := binaryOf(t, mustBuild(t, opts, []uint64{1, 1 << 40, 1 << 50})[0])
	for at, want := range map[int]string{77: part, 78: part, 79: part} {
		checkDamage(t, "zero", patch(good, 64+at, 1, 1), "corrupt segment at offset "+want)
	}
	le := binary.LittleEndian
	for _, at := range []int{16, 32} { // table, column
		off, n := le.Uint64(good[64+at:]), le.Uint64(good[64+at+8:])
		for _, v := range []uint64{off - 64, off - 1, off + 1, off + 64, 0, ^uint64(0)} {
			checkDamage(t, fmt.Sprint("place ", v), patch(good, 64+at, 8, v),
				"corrupt segment at offset "+part)
		}
		for _, v := range []uint64{0, n - off, ^uint64(0)} {
			checkDamage(t, fmt.Sprint("length ", v), patch(good, 64+at+8, 8, v),
				"corrupt segment at offset "+part)
		}
	}
	n := le.Uint64(good[64+40:]) // of the column, which ends the file
	checkDamage(t, "column too long", patch(good, 64+40, 8, n+1), "corrupt segment at offset "+part)
	checkDamage(t, "column too short", patch(good, 64+40, 8, n-1),
		"corrupt segment at offset 24: want no bytes after the last part, got 1")
	short := bytes.Clone(good[:le.Uint64(good[64+16:])+le.Uint64(good[64+24:])])
	checkDamage(t, "no column", patch(short, 24, 8, uint64(len(short))),
		"corrupt segment at offset "+part)
	dense := binaryOf(t, mustBuild(t, nil, []uint64{1, 2, 3})[0]) // has neither
	for _, at := range []int{16, 32, 48, 52} {
		checkDamage(t, "nowhere", patch(dense, 64+at, 1, 1), "corrupt segment at offset "+part)
	}
	checkZones(t, good)
}

// checkZones: a segment has a zone if it has keys; the zone of the empty key is empty.
func checkZones(t *testing.T, good []byte) {
	t.Helper()
	const keys = "corrupt segment at offset 16: want as many keys as the parts have, got "
	c := readCrafted(good)
	c.min, c.max = nil, nil
	checkDamage(t, "no zone", c.encode(), keys+"3")
	c.flags &^= ints
	c.parts[0].column = binaryOfColumn(c.parts[0].column)
	checkDamage(t, "the empty key", c.encode(), "")
	checkDamage(t, "zone of nothing", (&crafted{bits: 8, flags: ints, min: []byte("x")}).encode(),
		keys+"0")
	checkDamage(t, "zone of nothing", (&crafted{bits: 8, max: []byte("x")}).encode(), keys+"0")
}

// binaryOfColumn makes a column of integers one of bytes, all of them empty.
func binaryOfColumn(heads []byte) []byte {
	return append(bytes.Clone(heads), make([]byte, len(heads)/2)...)
}

// TestDamagedTables: what a filter, a column or its padding has in place of what the
// directory says is damage at its offset.
func TestDamagedTables(t *testing.T) {
	opts := &keyset.SegmentOptions{StoreKeys: true}
	good := binaryOf(t, mustBuild(t, opts, []uint64{1, 1 << 40, 1 << 50})[0])
	le := binary.LittleEndian
	table, column := int(le.Uint64(good[64+16:])), int(le.Uint64(good[64+32:]))
	for _, at := range []int{table, column} {
		end := len(good)
		crcAt := 64 + 52
		if at == table {
			end, crcAt = table+int(le.Uint64(good[64+24:])), 64+48
		}
		bad := bytes.Clone(good)
		bad[at+3] ^= 1
		checkDamage(t, "content", bad, fmt.Sprintf(
			"corrupt segment at offset %d: want checksum %08x, got %08x", at,
			le.Uint32(good[crcAt:]), crcOf(bad[at:end])))
		bad = bytes.Clone(good)
		bad[at-1] = 3
		checkDamage(t, "padding", bad,
			fmt.Sprintf("corrupt segment at offset %d: want padding of zeros, got 3", at-1))
	}
	c := readCrafted(good)
	c.parts[0].column = bytes.Clone(c.parts[0].column)
	copy(c.parts[0].column, be(0)) // below the zone
	checkDamage(t, "order", c.encode(), fmt.Sprintf(
		"corrupt segment at offset %d: want keys in ascending order, got others", column))
	seg := c.open(t, false)
	set := mustSet(t, &keyset.SetOptions{Exact: true}, seg)
	_, single := set.Contains(1)
	for _, err := range []error{single, set.ContainsBatch([]uint64{1}, keyset.NewBitmap(1))} {
		if !errors.Is(err, corrupt.ErrCorrupt) || !strings.Contains(err.Error(), "ascending") {
			t.Errorf("a question to keys that are out of order: %v", err)
		}
	}
}
