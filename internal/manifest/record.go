package manifest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: after the header a manifest is a sequence of records.
//
//	offset  size  field
//	0       4     CRC-32C of: database identity (16), manifest number (8, little-
//	              endian), then the record from offset 4 to its end
//	4       4     length of the payload
//	8       8     number of the record: 0, 1, 2, ...
//	16      n     payload; its first byte is the record's type
//
// A record is valid only in its own file at its own place: the checksum covers the
// identity of the file, and numbers have no gaps.
//
// Record 0 is a snapshot of the whole state, later ones are edits. A record is
// made durable before the next one is written, so only the last one can be torn.
// Once it is durable a seal is written after it, without a sync of its own, and
// the next record overwrites the seal. The seal distinguishes damage to the last record
// (an error) from a commit that a crash interrupted (and no caller was acknowledged).
const (
	recordHeaderBytes = 16
	sealBytes         = recordHeaderBytes + 1
)

// maxManifestBytes bounds what a reader loads, and so what is written. A million files take
// 100 MiB. Tests make it smaller.
var maxManifestBytes int64 = 1 << 30

// recordType is the first byte of a payload. On disk: never renumber.
type recordType byte

const (
	typeSnapshot recordType = 1
	typeEdit     recordType = 2
	typeSeal     recordType = 3
)

// sum continues a record's checksum over b, which starts at offset 4.
func (id *identity) sum(b []byte) uint32 {
	var place [24]byte
	copy(place[:], id.dbid[:])
	binary.LittleEndian.PutUint64(place[16:], id.num)
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, b)
}

// appendRecord appends a record whose payload is written by body.
func appendRecord(dst []byte, id identity, num uint64, t recordType,
	body func([]byte) []byte,
) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, 8)...) // checksum and length, below
	dst = binary.LittleEndian.AppendUint64(dst, num)
	dst = append(dst, byte(t))
	if body != nil {
		dst = body(dst)
	}
	binary.LittleEndian.PutUint32(dst[at+4:], uint32(len(dst)-at-recordHeaderBytes))
	binary.LittleEndian.PutUint32(dst[at:], id.sum(dst[at+4:]))
	return dst
}

func appendSeal(dst []byte, id identity, num uint64) []byte {
	return appendRecord(dst, id, num, typeSeal, nil)
}

// record is one decoded frame.
type record struct {
	off     int64 // in the file
	num     uint64
	typ     recordType
	payload []byte // after the type byte
}

func (r *record) end() int64 { return r.off + sealBytes + int64(len(r.payload)) }

// decodeRecord decodes the record number num at off of a file's content. The
// error says what is wrong with it, not whether that is damage or a torn tail.
func decodeRecord(file string, content []byte, id identity, off int64, num uint64,
) (record, error) {
	const what = "manifest record"
	b := content[off:]
	if len(b) < sealBytes {
		return record{}, corrupt.New(file, off, what, fmt.Sprintf("at least %d bytes", sealBytes),
			fmt.Sprintf("%d bytes", len(b)))
	}
	n := int64(binary.LittleEndian.Uint32(b[4:]))
	if n == 0 || n > int64(len(b)-recordHeaderBytes) {
		return record{}, corrupt.New(file, off, what,
			fmt.Sprintf("payload of 1 to %d bytes", len(b)-recordHeaderBytes), n)
	}
	b = b[:recordHeaderBytes+n]
	if want, got := binary.LittleEndian.Uint32(b), id.sum(b[4:]); want != got {
		return record{}, corrupt.New(file, off, what, fmt.Sprintf("checksum %08x", want),
			fmt.Sprintf("%08x", got))
	}
	if got := binary.LittleEndian.Uint64(b[8:]); got != num {
		return record{}, corrupt.New(file, off, what, fmt.Sprintf("record %d", num), got)
	}
	return record{off: off, num: num, typ: recordType(b[16]), payload: b[17:]}, nil
}

// laterRecord reports whether a valid edit or seal with a number above num lies
// anywhere from off on. Such a record proves that record num was durable once.
//
// A crafted file could make every offset look worth a checksum; past a bound of
// work the answer is true, the one that loses nothing. Why the type is looked at first:
// the torn edit of files with long keys has a length of 64 KiB at every key, and these
// alone would pass the bound.
func laterRecord(content []byte, id identity, off int64, num uint64) bool {
	budget := 4*int64(len(content)) + 1<<20
	most := num + uint64(len(content))/sealBytes // no more records fit
	for p := off; p+sealBytes <= int64(len(content)); p++ {
		b := content[p:]
		n := int64(binary.LittleEndian.Uint32(b[4:]))
		if got := binary.LittleEndian.Uint64(b[8:]); got <= num || got > most {
			continue
		}
		if n == 0 || n > int64(len(b)-recordHeaderBytes) {
			continue
		}
		if t := recordType(b[recordHeaderBytes]); t != typeEdit && (t != typeSeal || n != 1) {
			continue
		}
		if budget -= n; budget < 0 {
			return true
		}
		if binary.LittleEndian.Uint32(b) == id.sum(b[4:recordHeaderBytes+n]) {
			return true
		}
	}
	return false
}
