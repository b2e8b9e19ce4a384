package sst

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: the footer is the last 104 bytes of a file, little-endian:
//
//	  0  16 bytes  database id
//	 16  u64       file number
//	 24  u64       length of the file
//	 32  handle    range tombstone block; all zero without range tombstones
//	 48  handle    index
//	 64  handle    properties
//	 80  u8        stripe
//	 81  u8×3      zero
//	 84  u32       data blocks of a part of the index; zero in version 1: it has no parts
//	 88  u32       CRC-32C of the bytes 0..88 and 92..104
//	 92  u32       format version, 1, or 2 if the index is in parts
//	 96  8 bytes   magic "kstn\xf0SST"
//
// Magic and version stay at the end in every later version.

const (
	footerBytes        = 104
	footerVersion      = 1
	footerVersionParts = 2
	footerMagic        = "kstn\xf0SST"
)

type footer struct {
	dbid       [16]byte
	num        base.FileNum
	stripe     base.StripeID
	size       uint64
	ranges     blockHandle // zero: none
	index      blockHandle
	properties blockHandle
	partBlocks uint32 // data blocks of a part of the index, 0: it has no parts
}

func (f *footer) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, f.dbid[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.num))
	dst = binary.LittleEndian.AppendUint64(dst, f.size)
	dst = f.ranges.append(dst)
	dst = f.index.append(dst)
	dst = f.properties.append(dst)
	dst = append(dst, byte(f.stripe), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, f.partBlocks)
	crc := dst[start:]
	dst = append(dst, 0, 0, 0, 0)
	version := uint32(footerVersion)
	if f.partBlocks > 0 {
		version = footerVersionParts
	}
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = append(dst, footerMagic...)
	sum := footerChecksum(crc, dst[start+92:])
	binary.LittleEndian.PutUint32(dst[start+88:], sum)
	return dst
}

func footerChecksum(front, back []byte) uint32 {
	return crc32.Update(crc32.Checksum(front, castagnoli), castagnoli, back)
}

// decodeFooter reads the footer of a file of size bytes. Errors have no file name
// and offsets in the file.
func decodeFooter(b []byte, size int64) (footer, error) {
	var f footer
	at := size - footerBytes
	if len(b) != footerBytes || at < 0 {
		return f, corrupt.New("", 0, "footer", "104 bytes", len(b))
	}
	if got := string(b[96:]); got != footerMagic {
		return f, corrupt.New("", at+96, "footer magic", hexBytes(footerMagic), hexBytes(got))
	}
	version := binary.LittleEndian.Uint32(b[92:])
	if version != footerVersion && version != footerVersionParts {
		return f, corrupt.NewVersion("", "sst", footerVersionParts, version)
	}
	want := binary.LittleEndian.Uint32(b[88:])
	if got := footerChecksum(b[:88], b[92:]); got != want {
		return f, corrupt.New("", at, "footer checksum", hex32(want), hex32(got))
	}
	copy(f.dbid[:], b)
	f.num = base.FileNum(binary.LittleEndian.Uint64(b[16:]))
	f.size = binary.LittleEndian.Uint64(b[24:])
	f.ranges = decodeHandle(b[32:])
	f.index = decodeHandle(b[48:])
	f.properties = decodeHandle(b[64:])
	f.stripe = base.StripeID(b[80])
	if f.size != uint64(size) {
		return f, corrupt.New("", at+24, "file length", f.size, size)
	}
	for i, c := range b[81:84] {
		if c != 0 {
			return f, corrupt.New("", at+81+int64(i), "footer", "zero", c)
		}
	}
	f.partBlocks = binary.LittleEndian.Uint32(b[84:])
	if (f.partBlocks > 0) != (version == footerVersionParts) {
		return f, corrupt.New("", at+84, "footer", "parts as the version says", f.partBlocks)
	}
	return f, nil
}

// hexBytes prints bytes in hexadecimal.
func hexBytes(s string) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		b = append(b, digits[s[i]>>4], digits[s[i]&15])
	}
	return string(b)
}
