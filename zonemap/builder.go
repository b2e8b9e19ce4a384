package zonemap

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/FastFilter/xorfilter"
)

// Builder collects hashes and builds Filters. The zero Builder is ready; reusing
// one saves its working memory (about 30 bytes per key). A Builder belongs to one
// goroutine at a time.
type Builder struct {
	hashes []uint64
	fuse   xorfilter.BinaryFuseBuilder
}

// Add adds a hash. Duplicates are allowed.
func (b *Builder) Add(hash uint64) { b.hashes = append(b.hashes, hash) }

// Len returns the number of hashes added since the last Reset, duplicates included.
func (b *Builder) Len() int { return len(b.hashes) }

// Reset forgets the hashes and keeps the memory.
func (b *Builder) Reset() { b.hashes = b.hashes[:0] }

// Build appends an encoded filter over the added hashes to dst. Bits is the
// fingerprint width, 8 or 16. The same hashes in the same order give the same
// bytes. Build may reorder the added hashes; call Reset before the next set.
func (b *Builder) Build(dst []byte, bits int) ([]byte, error) {
	if err := checkSize(bits, uint64(len(b.hashes))); err != nil {
		return dst, err
	}
	if len(b.hashes) == 0 {
		return appendFilterHeader(dst, bits, 0, 0, 0, 0), nil
	}
	if bits == 8 {
		f, err := buildFuse[uint8](b)
		if err != nil {
			return dst, err
		}
		dst = appendFilterHeader(dst, bits, f.SegmentLength, f.SegmentCount, len(b.hashes), f.Seed)
		return append(dst, f.Fingerprints...), nil
	}
	f, err := buildFuse[uint16](b)
	if err != nil {
		return dst, err
	}
	dst = appendFilterHeader(dst, bits, f.SegmentLength, f.SegmentCount, len(b.hashes), f.Seed)
	for _, p := range f.Fingerprints {
		dst = binary.LittleEndian.AppendUint16(dst, p)
	}
	return dst, nil
}

// maxKeys keeps the positions in a table within 32 bits.
const maxKeys = math.MaxUint32 / 4

func checkSize(bits int, keys uint64) error {
	if bits != 8 && bits != 16 {
		return fmt.Errorf("zonemap: filter of %d bits; 8 and 16 are supported", bits)
	}
	if keys > maxKeys {
		return fmt.Errorf("zonemap: filter over %d keys is too large", keys)
	}
	return nil
}

// buildFuse builds the table, which belongs to b and lasts until the next build.
func buildFuse[T uint8 | uint16](b *Builder) (xorfilter.BinaryFuse[T], error) {
	f, err := xorfilter.BuildBinaryFuse[T](&b.fuse, b.hashes)
	if err != nil {
		return f, fmt.Errorf("zonemap: build filter of %d keys: %w", len(b.hashes), err)
	}
	return f, nil
}

func appendFilterHeader(dst []byte, bits int, segLen, segs uint32, keys int, seed uint64) []byte {
	dst = append(dst, filterVersion, byte(bits), 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, segLen)
	dst = binary.LittleEndian.AppendUint32(dst, segs)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(keys))
	return binary.LittleEndian.AppendUint64(dst, seed)
}
