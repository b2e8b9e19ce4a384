package sst

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Format: a block on disk is its payload and a trailer of 9 bytes:
//
//	u8   codec of the payload
//	u32  length of the decoded block
//	u32  CRC-32C over payload, codec and decoded length, started from a seed that
//	     depends on database, file number and offset
//
// A payload is as long as its decoded block if and only if its codec is None.

const trailerBytes = 9

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileID makes the checksum seeds of one file. Why: a block that is intact but in
// the wrong place (a swapped file, a misdirected write) must not pass.
type fileID uint32

func newFileID(dbid [16]byte, num base.FileNum) fileID {
	b := binary.LittleEndian.AppendUint64(dbid[:], uint64(num))
	return fileID(crc32.Checksum(b, castagnoli))
}

// checksum returns the checksum of b, a payload with codec and decoded length,
// stored at off. Two blocks of one file at different offsets below 4 GiB never
// share a seed.
func (id fileID) checksum(b []byte, off uint64) uint32 {
	hi := uint32(off >> 32)
	seed := uint32(id) ^ uint32(off) ^ (hi<<16 | hi>>16)
	return crc32.Update(seed, castagnoli, b)
}

// blockHandle says where a block is.
type blockHandle struct {
	off    uint64
	stored uint32 // payload bytes, without the trailer
	raw    uint32 // bytes when decoded
}

// end returns the offset after the trailer.
func (h blockHandle) end() uint64 { return h.off + uint64(h.stored) + trailerBytes }

// check reports whether the block can be inside a file of size bytes and decode to
// at most maxRaw bytes.
func (h blockHandle) check(size int64, maxRaw uint32) bool {
	return h.off <= uint64(size) && h.end() <= uint64(size) &&
		h.stored <= h.raw && h.raw <= maxRaw && uint64(h.raw) <= uint64(h.stored)*maxRatio
}

func (h blockHandle) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, h.off)
	dst = binary.LittleEndian.AppendUint32(dst, h.stored)
	return binary.LittleEndian.AppendUint32(dst, h.raw)
}

// handleBytes is the size of an encoded handle.
const handleBytes = 16

// decodeHandle reads a handle. Requires: len(b) >= handleBytes.
func decodeHandle(b []byte) blockHandle {
	return blockHandle{
		off:    binary.LittleEndian.Uint64(b),
		stored: binary.LittleEndian.Uint32(b[8:]),
		raw:    binary.LittleEndian.Uint32(b[12:]),
	}
}

// appendTrailer completes the block that starts at dst[start:] with its trailer.
func (id fileID) appendTrailer(dst []byte, start int, codec Codec, raw int, off uint64) []byte {
	dst = append(dst, byte(codec))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(raw))
	return binary.LittleEndian.AppendUint32(dst, id.checksum(dst[start:], off))
}

// open checks the trailer of b, the stored bytes of block h, and returns payload
// and codec. Errors have no file name. Requires: b is as long as h says.
func (id fileID) open(b []byte, h blockHandle, what string) ([]byte, Codec, error) {
	n := int(h.stored)
	want := binary.LittleEndian.Uint32(b[n+5:])
	if got := id.checksum(b[:n+5], h.off); got != want {
		return nil, 0, corrupt.New("", int64(h.off), what+" checksum", hex32(want), hex32(got))
	}
	codec, raw := Codec(b[n]), binary.LittleEndian.Uint32(b[n+1:])
	if raw != h.raw {
		return nil, 0, corrupt.New("", int64(h.off), what+" length", h.raw, raw)
	}
	if codec > lastCodec || (codec == None) != (h.stored == h.raw) {
		return nil, 0, corrupt.New("", int64(h.off), what+" codec", "one that fits the length",
			codec)
	}
	return b[:n:n], codec, nil
}

// decode is open followed by decompression into dst or, if it is too small, into new, exactly
// sized memory. It shares nothing with b.
func (id fileID) decode(dst, b []byte, h blockHandle, what string) ([]byte, error) {
	payload, codec, err := id.open(b, h, what)
	if err != nil {
		return nil, err
	}
	if codec == None {
		if cap(dst) < len(payload) {
			dst = make([]byte, 0, len(payload))
		}
		return append(dst[:0], payload...), nil
	}
	raw, err := decompress(dst, codec, payload, int(h.raw))
	if err != nil {
		return nil, corrupt.New("", int64(h.off), what, codec.String()+" data", err)
	}
	return raw, nil
}

// hex32 prints a checksum the way hex dumps show it.
type hex32 uint32

// String implements fmt.Stringer.
func (h hex32) String() string {
	const digits = "0123456789abcdef"
	b := [8]byte{}
	for i := range b {
		b[i] = digits[h>>(28-4*i)&15]
	}
	return string(b[:])
}

// blockFile writes the blocks of a file, front to back. After an error nothing more is written.
type blockFile struct {
	f    vfs.File
	id   fileID
	out  []byte // encoded, not yet written
	off  uint64 // in the file, of out's first byte
	comp compressor
	err  error
}

// offset returns where the next block starts.
func (w *blockFile) offset() uint64 { return w.off + uint64(len(w.out)) }

// writeBlock compresses a decoded block and appends it to the file, unless it has more than
// maxRaw bytes.
//
// Invariant: what is written passes the check that a reader makes of its handle.
func (w *blockFile) writeBlock(what string, raw []byte, codec Codec, maxRaw int,
) (blockHandle, error) {
	off, start := w.offset(), len(w.out)
	if len(raw) > maxRaw {
		w.err = tooLarge(what, len(raw), maxRaw)
		return blockHandle{}, w.err
	}
	out, codec, err := w.comp.compress(w.out, raw, codec)
	if err != nil {
		w.err = err
		return blockHandle{}, err
	}
	h := blockHandle{off: off, stored: uint32(len(out) - start), raw: uint32(len(raw))}
	if size := int64(min(h.end(), math.MaxInt64)); !h.check(size, uint32(maxRaw)) {
		w.err = fmt.Errorf("sst: %s at %d of %d bytes, %d when decoded, fails the check of readers",
			what, off, h.stored, h.raw)
		return blockHandle{}, w.err
	}
	w.out = w.id.appendTrailer(out, start, codec, len(raw), off)
	if len(w.out) >= writeBytes {
		return h, w.flush()
	}
	return h, nil
}

// flush writes what is collected.
func (w *blockFile) flush() error {
	n, err := w.f.Write(w.out)
	w.off += uint64(n)
	if err != nil {
		w.err = fmt.Errorf("sst: write %s: %w", w.f.Name(), err)
		return w.err
	}
	w.out = keep(w.out)
	return nil
}
