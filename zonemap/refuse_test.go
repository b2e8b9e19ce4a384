package zonemap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/FastFilter/xorfilter"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap"
)

// filterBytes is a filter by its fields.
func filterBytes(version, bits byte, zero uint16, segLen, segCount, keys uint32, seed uint64,
	table int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16([]byte{version, bits}, zero)
	for _, v := range []uint32{segLen, segCount, keys} {
		b = le.AppendUint32(b, v)
	}
	return append(le.AppendUint64(b, seed), make([]byte, table)...)
}

// TestDamagedFilters: Open names the field that is wrong, and takes what is right.
func TestDamagedFilters(t *testing.T) {
	const size = ": want a table as long as the header says, got "
	for _, c := range []struct {
		data []byte
		want string
	}{
		{filterBytes(1, 8, 0, 4, 1, 9, 7, 12), ""},
		{filterBytes(1, 16, 0, 4, 1, 9, 7, 24), ""},
		{filterBytes(1, 8, 0, 1, 1, 9, 7, 3), ""},
		{filterBytes(1, 8, 0, 0, 0, 0, 7, 0), ""},
		{make([]byte, 23), " at offset 0: want at least 24 bytes of header, got 23"},
		{filterBytes(2, 8, 0, 4, 1, 9, 7, 12), " at offset 0: want 1, got 2"},
		{filterBytes(1, 9, 0, 4, 1, 9, 7, 12), " at offset 1: want 8 or 16 bits, got 9"},
		{filterBytes(1, 24, 0, 4, 1, 9, 7, 36), " at offset 1: want 8 or 16 bits, got 24"},
		{filterBytes(1, 8, 256, 4, 1, 9, 7, 12), " at offset 2: want zero, got 256"},
		{filterBytes(1, 8, 1, 4, 1, 9, 7, 12), " at offset 2: want zero, got 1"},
		{filterBytes(1, 8, 0, 0, 1, 0, 7, 0), " at offset 4: want an empty filter, got 24"},
		{filterBytes(1, 8, 0, 0, 0, 1, 7, 0), " at offset 4: want an empty filter, got 24"},
		{filterBytes(1, 8, 0, 0, 0, 0, 7, 1), " at offset 4: want an empty filter, got 25"},
		{filterBytes(1, 8, 0, 6, 1, 9, 7, 18), " at offset 4: want a power of two, got 6"},
		{filterBytes(1, 8, 0, 4, 0, 9, 7, 8), " at offset 8" + size + "8"},
		{filterBytes(1, 8, 0, 4, 1, 9, 7, 11), " at offset 8" + size + "11"},
		{filterBytes(1, 8, 0, 4, 1, 9, 7, 13), " at offset 8" + size + "13"},
		{filterBytes(1, 16, 0, 4, 1, 9, 7, 25), " at offset 8" + size + "25"},
		{filterBytes(1, 16, 0, 4, 1, 9, 7, 12), " at offset 8" + size + "12"},
		{filterBytes(1, 16, 0, 1<<31, 1<<32-2, 9, 7, 0), " at offset 8" + size + "0"},
	} {
		f, err := zonemap.Open(c.data)
		if c.want == "" {
			if err != nil || f.Keys() != int(binary.LittleEndian.Uint32(c.data[12:])) ||
				f.Bits() != int(c.data[1]) {
				t.Errorf("%x: %d keys, %d bits, %v", c.data, f.Keys(), f.Bits(), err)
			}
			continue
		}
		checkCorrupt(t, err, c.want)
		if f.Keys() != 0 || f.Contains(1) {
			t.Errorf("%x: something is returned beside an error", c.data)
		}
	}
}

func checkCorrupt(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, corrupt.ErrCorrupt) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestFilterOfNoKeys: its bytes are a header whose fields are zero but version and bits.
func TestFilterOfNoKeys(t *testing.T) {
	var b zonemap.Builder
	got, err := b.Build([]byte("x"), 16)
	if want := append([]byte("x"), filterBytes(1, 16, 0, 0, 0, 0, 0, 0)...); err != nil ||
		!bytes.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
}

// TestBuildFails: what the library cannot build is an error, and dst stays as it is.
func TestBuildFails(t *testing.T) {
	defer func(n int) { xorfilter.MaxIterations = n }(xorfilter.MaxIterations)
	xorfilter.MaxIterations = -1
	var b zonemap.Builder
	b.Add(1)
	b.Add(2)
	if b.Len() != 2 {
		t.Errorf("%d hashes", b.Len())
	}
	for _, bits := range []int{8, 16} {
		got, err := b.Build([]byte("x"), bits)
		if err == nil || !strings.HasPrefix(err.Error(), "zonemap: build filter of 2 keys: ") ||
			string(got) != "x" {
			t.Errorf("%d bits: %x, %v", bits, got, err)
		}
	}
}

// wholeMap is a map whose fields take two bytes or more.
func wholeMap() zonemap.Map {
	return zonemap.Map{First: []byte("abc"), Last: []byte("b"), MinSeq: 300, MaxSeq: 900,
		Entries: 1000, Tombstones: 400, TTLEntries: 600, RawBytes: 5000,
		MinExpiry: -70, MaxExpiry: 1000}
}

// TestDamagedMapFields: Decode names the first field that is cut off or too long.
func TestDamagedMapFields(t *testing.T) {
	m := wholeMap()
	good := m.AppendBinary(nil)
	ends := []int{1, 2, 5, 6, 7, 9, 11, 13, 15, 17, 19, 21, 23} // of the fields
	if len(good) != ends[len(ends)-1] {
		t.Fatalf("%x has other fields", good)
	}
	for n := range good {
		field, _ := slices.BinarySearch(ends, n+1)
		at := append([]int{0}, ends...)[field]
		want := "zone map at offset " + [...]string{"0: want a version byte, got nothing",
			"1", "2", "5", "6", "7", "9", "11", "13", "15", "17", "19", "21"}[field]
		if n > 0 {
			want += ": want a whole field, got a truncated or overlong one"
		}
		_, _, err := zonemap.Decode(good[:n])
		checkCorrupt(t, err, want)
		if at == 0 || at == 2 || at == 6 { // the version and the keys are no numbers
			continue
		}
		long := append(bytes.Clone(good[:at]), bytes.Repeat([]byte{0x80}, 10)...)
		_, _, err = zonemap.Decode(append(long, good...))
		checkCorrupt(t, err, want)
	}
}

// TestContradictoryMaps: Decode refuses maps of no set of entries, and takes those at the
// limits.
func TestContradictoryMaps(t *testing.T) {
	const (
		seqs     = ": want an ordered range of sequence numbers, got "
		counts   = ": want counts within the number of entries, got "
		expiries = ": want an ordered range of expiries, got "
	)
	for _, c := range []struct {
		change func(m *zonemap.Map)
		want   string
	}{
		{func(*zonemap.Map) {}, ""},
		{func(m *zonemap.Map) { m.Last = m.First }, ""},
		{func(m *zonemap.Map) { m.First = []byte("c") },
			" at offset 1: want first key <= last key, got the opposite"},
		{func(m *zonemap.Map) { m.MaxSeq = m.MinSeq }, ""},
		{func(m *zonemap.Map) { m.MaxSeq = base.MaxSeqNum }, ""},
		{func(m *zonemap.Map) { m.MaxSeq = base.MaxSeqNum + 1 }, seqs + "72057594037927936"},
		{func(m *zonemap.Map) { m.MaxSeq = m.MinSeq - 1 }, seqs + "299"},
		{func(m *zonemap.Map) { m.Entries, m.Tombstones, m.TTLEntries = 5, 5, 0 }, ""},
		{func(m *zonemap.Map) { m.Entries, m.Tombstones, m.TTLEntries = 5, 0, 5 }, ""},
		{func(m *zonemap.Map) { m.Entries, m.Tombstones, m.TTLEntries = 5, 6, 0 }, counts + "5"},
		{func(m *zonemap.Map) { m.Entries, m.Tombstones, m.TTLEntries = 5, 0, 6 }, counts + "5"},
		{func(m *zonemap.Map) { m.Entries, m.Tombstones, m.TTLEntries = 5, 3, 3 }, counts + "5"},
		{func(m *zonemap.Map) { m.MaxExpiry = m.MinExpiry }, ""},
		{func(m *zonemap.Map) { m.MaxExpiry = m.MinExpiry - 1 }, expiries + "-71"},
	} {
		m := wholeMap()
		c.change(&m)
		_, rest, err := zonemap.Decode(append(m.AppendBinary(nil), "rest"...))
		if c.want != "" {
			checkCorrupt(t, err, c.want)
		} else if err != nil || string(rest) != "rest" {
			t.Errorf("%+v: %q, %v", m, rest, err)
		}
	}
}

// TestResetOfMaps: after Reset a builder has no entry and no keys.
func TestResetOfMaps(t *testing.T) {
	var b zonemap.MapBuilder
	b.Add(&base.Entry{Key: []byte("key"), Seq: 7, Kind: base.KindPut}, 5)
	if m := b.Map(); string(m.First) != "key" || string(m.Last) != "key" || m.RawBytes != 8 {
		t.Errorf("%+v of one entry", m)
	}
	b.Reset()
	m := b.Map()
	if len(m.First) != 0 || len(m.Last) != 0 || m.Entries != 0 || m.RawBytes != 0 ||
		m.MaxSeq != 0 {
		t.Errorf("%+v after Reset", m)
	}
}

// TestGoldenMap: the bytes of a map with every field, as docs/format/sst.md describes them.
func TestGoldenMap(t *testing.T) {
	m := wholeMap()
	want := "\x01\x03abc\x01b\xac\x02\xd8\x04\xe8\x07\x90\x03\xd8\x04\x88\x27\x8b\x01\xae\x08"
	if got := m.AppendBinary(nil); string(got) != want {
		t.Errorf("%x, want %x", got, want)
	}
	m.TTLEntries = 0
	want = want[:15] + "\x00\x88\x27"
	if got := m.AppendBinary(nil); string(got) != want {
		t.Errorf("without expiries %x, want %x", got, want)
	}
}
