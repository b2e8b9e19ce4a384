package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: a segment file is a header of 64 bytes, then records, each starting at a
// multiple of 8. What lies after the last record is unspecified: zeros, or the
// records of an earlier use of the file. All integers are little-endian. The page
// docs/format/wal.md has the pictures.
//
//	segment header                        record
//	 0  8  magic "kstonwal"                0  4  CRC-32C of payload, then bytes 4..24
//	 8  4  format version                  4  4  payload length, or the marker value
//	12  4  number − previous number        8  4  tag of the segment's use
//	16 16  database id                    12  4  synced lag
//	32  8  segment number                 16  8  sequence number
//	40  8  use id                         24     payload, then up to 7 zero bytes
//	48  8  base: first sequence number
//	56  4  end of the previous / 8
//	60  4  CRC-32C of bytes 0..60
//
// The tag is the CRC-32C of header bytes 16..48. It ties a record to one use of one
// numbered file of one database.

// On disk: never change.
const (
	segmentMagic   = "kstonwal"
	formatVersion  = 1
	segmentHeader  = 64
	recordHeader   = 24
	recordAlign    = 8
	recordTag      = 8              // offset of the tag in a record header
	markerLength   = math.MaxUint32 // payload length that makes a record a sync marker
	noClaim        = math.MaxUint32 // synced lag that is too large to say
	tagFrom, tagTo = 16, 48
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SegmentNum numbers the segments of a log, ascending. Zero means "none".
type SegmentNum uint64

// FileName returns the segment's file name, wal-%010d.log.
func (n SegmentNum) FileName() string { return fmt.Sprintf("wal-%010d.log", uint64(n)) }

// ParseFileName is the inverse of FileName; ok is false for every other name.
func ParseFileName(name string) (n SegmentNum, ok bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, ".log"), "wal-")
	if !ok {
		return 0, false
	}
	v, _ := strconv.ParseUint(digits, 10, 64) // what is no number is not the name of what it gives
	n = SegmentNum(v)
	return n, n > 0 && n.FileName() == name
}

func (o *Options) path(n SegmentNum) string { return filepath.Join(o.Dir, n.FileName()) }

// header is the header of a segment.
type header struct {
	dbid    [16]byte
	num     SegmentNum
	useID   uint64
	base    base.SeqNum
	prev    SegmentNum // 0: the log starts here
	prevEnd int64      // where the records of prev end
}

// encode writes the header into b, which has segmentHeader bytes.
//
// Requires: num-prev fits 32 bits, prevEnd is a multiple of 8 below 32 GiB.
func (h *header) encode(b []byte) {
	le := binary.LittleEndian
	copy(b, segmentMagic)
	le.PutUint32(b[8:], formatVersion)
	var gap uint32
	if h.prev != 0 {
		gap = uint32(h.num - h.prev)
	}
	le.PutUint32(b[12:], gap)
	copy(b[16:], h.dbid[:])
	le.PutUint64(b[32:], uint64(h.num))
	le.PutUint64(b[40:], h.useID)
	le.PutUint64(b[48:], uint64(h.base))
	le.PutUint32(b[56:], uint32(h.prevEnd/recordAlign))
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
}

// decodeHeader checks everything that a header says about itself; whether it
// belongs into this file of this database is checkPlace's business.
func decodeHeader(b []byte) (h header, err error) {
	const what = "log segment header"
	le := binary.LittleEndian
	if len(b) < segmentHeader {
		return h, corrupt.New("", 0, what, "64 bytes", len(b))
	}
	if string(b[:8]) != segmentMagic {
		want := fmt.Sprintf("magic %q", segmentMagic)
		return h, corrupt.New("", 0, what, want, fmt.Sprintf("%q", b[:8]))
	}
	if want, got := crc32.Checksum(b[:60], castagnoli), le.Uint32(b[60:]); want != got {
		want := fmt.Sprintf("checksum %08x", want)
		return h, corrupt.New("", 60, what, want, fmt.Sprintf("%08x", got))
	}
	if v := le.Uint32(b[8:]); v != formatVersion {
		return h, corrupt.NewVersion("", what, formatVersion, v)
	}
	copy(h.dbid[:], b[16:])
	h.num = SegmentNum(le.Uint64(b[32:]))
	h.useID = le.Uint64(b[40:])
	h.base = base.SeqNum(le.Uint64(b[48:]))
	gap := SegmentNum(le.Uint32(b[12:]))
	h.prevEnd = int64(le.Uint32(b[56:])) * recordAlign
	if h.num == 0 || gap > h.num || h.base == 0 || h.base > base.MaxSeqNum {
		return h, corrupt.New("", 12, what, "a number, a link and a base in range",
			fmt.Sprintf("number %d, gap %d, base %d", h.num, gap, h.base))
	}
	if gap > 0 {
		h.prev = h.num - gap
	}
	if (h.prev == 0) != (h.prevEnd == 0) {
		return h, corrupt.New("", 56, what, "an end if there is a previous segment", h.prevEnd)
	}
	return h, nil
}

// checkPlace reports whether the header belongs to segment num of database dbid.
func (h *header) checkPlace(dbid [16]byte, num SegmentNum) error {
	const what = "log segment header"
	if h.dbid != dbid {
		want := fmt.Sprintf("database %x", dbid)
		return corrupt.New("", 16, what, want, fmt.Sprintf("%x", h.dbid))
	}
	if h.num != num {
		return corrupt.New("", 32, what, fmt.Sprintf("segment %d", num), h.num)
	}
	return nil
}

// decodeUseID reads the use id of a header that need not be valid.
func decodeUseID(b []byte) uint64 { return binary.LittleEndian.Uint64(b[40:]) }

func leUint32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func (h *header) tag() uint32 { return makeTag(h.dbid, h.num, h.useID) }

func makeTag(dbid [16]byte, num SegmentNum, useID uint64) uint32 {
	var b [tagTo - tagFrom]byte
	copy(b[:], dbid[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(num))
	binary.LittleEndian.PutUint64(b[24:], useID)
	return crc32.Checksum(b[:], castagnoli)
}

// recordHead is the header of a record.
type recordHead struct {
	crc    uint32
	length uint32
	tag    uint32
	lag    uint32
	seq    base.SeqNum
}

func decodeRecordHead(b []byte) recordHead {
	le := binary.LittleEndian
	_ = b[recordHeader-1]
	return recordHead{
		crc: le.Uint32(b), length: le.Uint32(b[4:]), tag: le.Uint32(b[8:]),
		lag: le.Uint32(b[12:]), seq: base.SeqNum(le.Uint64(b[16:])),
	}
}

// marker reports whether the record only says how far the log was synced. A marker
// has no payload and repeats the sequence number of the record before it.
func (h *recordHead) marker() bool { return h.length == markerLength }

// payloadBytes returns the length of the payload.
func (h *recordHead) payloadBytes() int64 {
	if h.marker() {
		return 0
	}
	return int64(h.length)
}

// synced returns the highest sequence number that was known durable when the
// record was written, 0 if the record does not say.
func (h *recordHead) synced() base.SeqNum {
	if h.lag == noClaim || base.SeqNum(h.lag) > h.seq {
		return 0
	}
	return h.seq - base.SeqNum(h.lag)
}

// lagOf is the inverse of synced.
func lagOf(seq, synced base.SeqNum) uint32 { return uint32(min(seq-synced, noClaim)) }

// recordBytes returns the space that a record with n bytes of payload takes.
func recordBytes(n int64) int64 { return align(recordHeader + n) }

func align(n int64) int64 { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// encodeRecord writes a record into dst, which has exactly recordBytes of room.
// payloadCRC is the checksum of the payload alone: it is computed outside the log's
// lock, and the 20 bytes of header are added to it here.
func encodeRecord(dst []byte, payloadCRC, length, tag, lag uint32, seq base.SeqNum,
	payload []byte) {
	le := binary.LittleEndian
	le.PutUint64(dst[len(dst)-recordAlign:], 0) // the padding; the rest is overwritten
	copy(dst[recordHeader:], payload)
	le.PutUint32(dst[4:], length)
	// Why one store: the checksum reads both at once, and would wait for two to reach memory.
	le.PutUint64(dst[8:], uint64(tag)|uint64(lag)<<32)
	le.PutUint64(dst[16:], uint64(seq))
	le.PutUint32(dst, crc32.Update(payloadCRC, castagnoli, dst[4:recordHeader]))
}
