package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: CURRENT is one header, a manifest begins with one. Integers are
// little-endian.
//
//	offset  size  field
//	0       8     magic: "KSTONEDB" in CURRENT, "KSTNMANI" in a manifest
//	8       4     format version, 1; 2 of a manifest whose SSTs may refer to value files
//	12      16    identity of the database
//	28      8     number of the manifest (named by CURRENT; the file's own)
//	36      4     CRC-32C of bytes 0 to 36
const (
	headerBytes   = 40
	formatVersion = 1
	valuesVersion = 2

	magicCurrent  = "KSTONEDB"
	magicManifest = "KSTNMANI"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity is what a manifest's records are bound to.
type identity struct {
	dbid   [16]byte
	num    uint64 // number of the manifest file
	values bool   // its records have the value files of SSTs; never of CURRENT
}

// named returns id as CURRENT has it.
func (id identity) named() identity {
	id.values = false
	return id
}

// encodeHeader returns the 40 bytes.
func encodeHeader(magic string, id identity) []byte {
	b := append(make([]byte, 0, headerBytes), magic...)
	version := uint32(formatVersion)
	if id.values && magic == magicManifest {
		version = valuesVersion
	}
	b = binary.LittleEndian.AppendUint32(b, version)
	b = append(b, id.dbid[:]...)
	b = binary.LittleEndian.AppendUint64(b, id.num)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeHeader decodes the header at the start of b, which may be longer. The
// version is judged before the checksum: a later version may well keep its
// checksum elsewhere.
func decodeHeader(file, magic string, b []byte) (identity, error) {
	var id identity
	const what = "header"
	if len(b) < headerBytes {
		return id, corrupt.New(file, 0, what, fmt.Sprintf("%d bytes", headerBytes),
			fmt.Sprintf("%d bytes", len(b)))
	}
	if string(b[:8]) != magic {
		return id, corrupt.New(file, 0, what, fmt.Sprintf("magic %q", magic),
			fmt.Sprintf("%q", b[:8]))
	}
	v := binary.LittleEndian.Uint32(b[8:])
	id.values = v == valuesVersion && magic == magicManifest
	if v != formatVersion && !id.values {
		return id, corrupt.NewVersion(file, what, formatVersion, v)
	}
	want, got := binary.LittleEndian.Uint32(b[36:]), crc32.Checksum(b[:36], castagnoli)
	if want != got {
		return id, corrupt.New(file, 0, what, fmt.Sprintf("checksum %08x", want),
			fmt.Sprintf("%08x", got))
	}
	copy(id.dbid[:], b[12:])
	id.num = binary.LittleEndian.Uint64(b[28:])
	return id, nil
}

// isLater reports whether b begins with an intact header of a version that this program does not
// know, and not with a damaged one.
func isLater(magic string, b []byte) bool {
	if _, err := decodeHeader("", magic, b); !errors.Is(err, corrupt.ErrVersion) {
		return false
	}
	return binary.LittleEndian.Uint32(b[36:]) == crc32.Checksum(b[:36], castagnoli)
}

// decodeCurrent decodes the whole content of CURRENT.
func decodeCurrent(b []byte) (identity, error) {
	id, err := decodeHeader(CurrentName, magicCurrent, b)
	if err == nil && len(b) != headerBytes {
		err = corrupt.New(CurrentName, headerBytes, "end of file", "no more bytes",
			fmt.Sprintf("%d", len(b)-headerBytes))
	}
	return id, err
}
