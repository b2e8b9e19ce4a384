package keyset

import (
	"encoding/binary"
	"testing"
)

// TestColumnsOfAnyLength: stored keys of every length but the right one are refused.
func TestColumnsOfAnyLength(t *testing.T) {
	data := binary.LittleEndian.AppendUint64(nil, 7)
	data = binary.LittleEndian.AppendUint64(data, 9)
	for n := range len(data) + 8 {
		b := append(data[:min(n, len(data)):len(data)], make([]byte, max(0, n-len(data)))...)
		if _, ok := openColumn(b, 2, true, 7, 9); ok != (n == len(data)) {
			t.Errorf("%d bytes of %d: accepted %t", n, len(data), ok)
		}
	}
	if _, ok := openColumn(nil, 0, true, 0, 0); ok {
		t.Error("a column of no key is accepted")
	}
	if _, ok := openColumn(nil, 1, true, 0, 0); ok {
		t.Error("a column without its key is accepted")
	}
}

// TestDisorderedColumns: heads ascend within the zone, and the keys of bytes end in order, the
// last at the end of the column.
func TestDisorderedColumns(t *testing.T) {
	for _, c := range []struct {
		heads []uint64
		ends  []uint32 // nil for integers
		bytes int
		want  bool
	}{
		{[]uint64{10, 15, 20}, nil, 0, true}, {[]uint64{12, 12, 12}, nil, 0, true},
		{[]uint64{9, 15, 20}, nil, 0, false}, {[]uint64{10, 15, 21}, nil, 0, false},
		{[]uint64{10, 16, 15}, nil, 0, false}, {[]uint64{20}, nil, 0, true},
		{[]uint64{10, 15}, []uint32{3, 7}, 7, true}, {[]uint64{10, 10}, []uint32{0, 0}, 0, true},
		{[]uint64{10, 15}, []uint32{7, 7}, 7, true}, {[]uint64{15, 10}, []uint32{3, 7}, 7, false},
		{[]uint64{10, 15}, []uint32{3, 6}, 7, false}, {[]uint64{10, 15}, []uint32{3, 8}, 7, false},
		{[]uint64{10, 15}, []uint32{8, 7}, 7, false}, {[]uint64{10, 15}, []uint32{4, 3}, 7, false},
		{[]uint64{10, 15}, []uint32{4, 3}, 3, false}, {[]uint64{10, 15}, []uint32{3}, 0, false},
		{[]uint64{10}, []uint32{}, 3, false}, {[]uint64{10}, []uint32{1 << 31}, 3, false},
	} {
		var data []byte
		for _, h := range c.heads {
			data = binary.LittleEndian.AppendUint64(data, h)
		}
		for _, e := range c.ends {
			data = binary.LittleEndian.AppendUint32(data, e)
		}
		data = append(data, make([]byte, c.bytes)...)
		_, ok := openColumn(data, len(c.heads), c.ends == nil, 10, 20)
		if ok != c.want {
			t.Errorf("heads %v, ends %v of %d bytes: accepted %v", c.heads, c.ends, c.bytes, ok)
		}
	}
}
