package record

import (
	"bufio"
	"bytes"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// maxZstdWindowBytes bounds what a zstd stream may make the reader allocate.
const maxZstdWindowBytes = 128 << 20

// Decompress returns the content of r. Whether it is gzip, zstd or plain is seen from
// its first bytes, not from a name. Closing the result does not close r.
func Decompress(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, gzipMagic):
		return gzip.NewReader(in)
	case bytes.HasPrefix(head, zstdMagic):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(math.MaxUint64>>1),
			zstd.WithDecoderMaxWindow(maxZstdWindowBytes), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}
