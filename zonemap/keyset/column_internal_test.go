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
}
