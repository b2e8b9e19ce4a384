package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
)

// A lag that does not fit says nothing, rather than too much.
func TestLagSaturates(t *testing.T) {
	for _, c := range []struct{ seq, synced, want base.SeqNum }{
		{7, 7, 7}, {7, 3, 3}, {7, 0, 0},
		{1 << 40, 1<<40 - 5, 1<<40 - 5},
		{1 << 40, 1<<40 - 1<<32 + 2, 1<<40 - 1<<32 + 2},
		{1 << 40, 1<<40 - 1<<32 + 1, 0},
		{1 << 40, 1<<40 - 1<<32, 0},
		{1 << 40, 3, 0},
	} {
		h := recordHead{seq: c.seq, lag: lagOf(c.seq, c.synced)}
		if got := h.synced(); got != c.want {
			t.Errorf("seq %d, synced %d: says %d, want %d", c.seq, c.synced, got, c.want)
		}
	}
	h := recordHead{seq: 5, lag: 6}
	if h.synced() != 0 {
		t.Error("a lag beyond the sequence number must say nothing")
	}
}

// A header with a right checksum is refused, or its fields are those that a writer writes. A
// link to the segment before has an end, and no link has none.
func TestCraftedHeaders(t *testing.T) {
	first := header{dbid: [16]byte{1}, num: 9, useID: 5, base: 7}
	later := first
	later.prev, later.prevEnd = 8, 128
	for _, h := range []header{first, later} {
		var b [segmentHeader]byte
		h.encode(b[:])
		testutil.EachChange(b[:60], func(c []byte) {
			c = binary.LittleEndian.AppendUint32(c, crc32.Checksum(c, castagnoli))
			got, err := decodeHeader(c)
			if err != nil {
				if !errors.Is(err, corrupt.ErrCorrupt) && !errors.Is(err, corrupt.ErrVersion) {
					t.Fatal(err)
				}
				return
			}
			var again [segmentHeader]byte
			got.encode(again[:])
			if !bytes.Equal(again[:], c) || (got.prev == 0) != (got.prevEnd == 0) {
				t.Fatalf("%x is accepted as %+v", c, got)
			}
		})
	}
}

// Only what FileName gives is the name of a segment.
func TestParseFileName(t *testing.T) {
	for name, want := range map[string]SegmentNum{
		"wal-0000000001.log":           1,
		"wal-9999999999.log":           9999999999,
		"wal-10000000000.log":          10000000000,
		"wal-18446744073709551615.log": 1<<64 - 1,
		"wal-18446744073709551616.log": 0,
		"wal-18446744073709551617.log": 0,
		"wal-0000000000.log":           0,
		"wal-000000001.log":            0,
		"wal-00000000001.log":          0,
		"wal-+000000001.log":           0,
		"wal-00000000a1.log":           0,
		"wal-.log":                     0,
		"0000000001.log":               0,
		"wal-0000000001":               0,
		"wal-wal-0000000001.log":       0,
		"":                             0,
	} {
		if n, ok := ParseFileName(name); ok != (want > 0) || ok && n != want {
			t.Errorf("%s: %d, %v, want %d", name, n, ok, want)
		}
	}
}
