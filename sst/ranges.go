package sst

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: a decoded range tombstone block is
//
//	u8       format version, 1
//	uvarint  count, at least 1
//	per tombstone, by start ascending, then sequence number descending:
//	  uvarint length of Start, Start, uvarint length of End, End, uvarint Seq

const (
	rangesVersion = 1
	// rangeOverheadBytes bounds what a tombstone takes beside its bounds: two lengths of at
	// most 3 bytes and a sequence number of at most 8; 2 more cover the header of the block.
	rangeOverheadBytes = 3 + 3 + 8 + 2
)

func sortRanges(list []base.RangeTombstone) {
	slices.SortStableFunc(list, func(a, b base.RangeTombstone) int {
		return cmp.Or(bytes.Compare(a.Start, b.Start), cmp.Compare(b.Seq, a.Seq))
	})
}

func appendRanges(dst []byte, list []base.RangeTombstone) []byte {
	dst = binary.AppendUvarint(append(dst, rangesVersion), uint64(len(list)))
	for _, t := range list {
		dst = append(binary.AppendUvarint(dst, uint64(len(t.Start))), t.Start...)
		dst = append(binary.AppendUvarint(dst, uint64(len(t.End))), t.End...)
		dst = binary.AppendUvarint(dst, uint64(t.Seq))
	}
	return dst
}

// decodeRanges reads a range tombstone block; the keys are views into data. Errors
// have no file name.
func decodeRanges(data []byte) ([]base.RangeTombstone, error) {
	const what = "range tombstone block"
	if len(data) == 0 {
		return nil, corrupt.New("", 0, what, "a version byte", "nothing")
	}
	if data[0] != rangesVersion {
		return nil, corrupt.NewVersion("", what, rangesVersion, data[0])
	}
	n, w := binary.Uvarint(data[1:])
	rest := data[1+max(w, 0):]
	if w <= 0 || n == 0 || n > uint64(len(rest)/4) { // 4 bytes: the least a tombstone takes
		return nil, corrupt.New("", 1, what, "a count that fits its length", n)
	}
	list := make([]base.RangeTombstone, 0, n)
	for range n {
		var t base.RangeTombstone
		var ok bool
		at := int64(len(data) - len(rest))
		if t.Start, rest, ok = cutBytes(rest); !ok {
			return nil, corrupt.New("", at, what, "a start key", "truncated bytes")
		}
		if t.End, rest, ok = cutBytes(rest); !ok || bytes.Compare(t.Start, t.End) >= 0 {
			return nil, corrupt.New("", at, what, "an end key after the start", "something else")
		}
		seq, w := binary.Uvarint(rest)
		if w <= 0 || seq > uint64(base.MaxSeqNum) {
			return nil, corrupt.New("", at, what, "a sequence number", seq)
		}
		t.Seq, rest = base.SeqNum(seq), rest[w:]
		list = append(list, t)
	}
	if len(rest) != 0 {
		return nil, corrupt.New("", int64(len(data)-len(rest)), what, "no further bytes", len(rest))
	}
	return list, nil
}
