package sst

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// compressor holds the working memory of the codecs, about 140 KB for LZ4 and a
// few hundred more once Zstd is used. It belongs to one goroutine at a time.
type compressor struct {
	lz   lz4.Compressor
	zstd *zstd.Encoder
}

// worthwhile is the largest payload that is stored compressed: an eighth smaller.
func worthwhile(raw int) int { return raw - raw/8 - 1 }

// compress appends the payload for raw to dst. If the codec does not save at least
// an eighth, the payload is raw itself and the codec None.
func (c *compressor) compress(dst, raw []byte, codec Codec) ([]byte, Codec, error) {
	start, limit := len(dst), worthwhile(len(raw))
	if limit < 1 {
		codec = None
	}
	switch codec {
	case LZ4:
		// Why the length: the compressor gives up as soon as dst is full.
		dst = grow(dst, limit)
		n, err := c.lz.CompressBlock(raw, dst[start:start+limit])
		if err == nil && n > 0 {
			return dst[:start+n], LZ4, nil
		}
	case Snappy:
		most := s2.MaxEncodedLen(len(raw)) // negative above 4 GiB, far more than maxRawBytes
		dst = grow(dst, most)
		out := s2.EncodeSnappy(dst[start:start+most], raw)
		if len(out) <= limit {
			return dst[:start+len(out)], Snappy, nil
		}
	case Zstd:
		if err := c.openZstd(); err != nil {
			return dst, None, err
		}
		out := c.zstd.EncodeAll(raw, dst)
		if len(out)-start <= limit {
			return out, Zstd, nil
		}
		dst = out[:start]
	}
	return append(dst, raw...), None, nil
}

// grow makes room for n more bytes without changing the length.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	bigger := make([]byte, len(b), max(2*cap(b), len(b)+n))
	copy(bigger, b)
	return bigger
}

// openZstd makes the encoder. Why the fastest level: higher ones gain 2 % of size for half
// of the speed on small blocks.
func (c *compressor) openZstd() error {
	if c.zstd != nil {
		return nil
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("sst: zstd encoder: %w", err)
	}
	c.zstd = enc
	return nil
}

// zstdDecoder is shared: DecodeAll is safe for concurrent use.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxRawBytes),
		zstd.WithDecodeAllCapLimit(true))
})

const (
	// maxLZ4Ratio is what LZ4 can reach: each further byte of a length adds 255.
	maxLZ4Ratio = 255
	// maxSnappyRatio is what Snappy can reach: three bytes copy 64.
	maxSnappyRatio = 22
)

var errRawLength = errors.New("data of another length than the trailer says")

// decompress decodes the payload, n bytes when decoded, into dst or, if it is too small,
// into new memory of exactly that size. Requires: the caller bounded n.
func decompress(dst []byte, codec Codec, payload []byte, n int) ([]byte, error) {
	switch size := uint64(len(payload)); { // an int has 32 bits on some machines
	case codec == LZ4 && uint64(n) > size*maxLZ4Ratio,
		codec == Snappy && uint64(n) > size*maxSnappyRatio:
		return nil, errRawLength
	}
	raw := dst[:0]
	if cap(raw) < n {
		raw = make([]byte, n)
	}
	raw = raw[:n]
	switch codec {
	case LZ4:
		got, err := lz4.UncompressBlock(payload, raw)
		if err != nil {
			return nil, err
		}
		if got != n {
			return nil, errRawLength
		}
		return raw, nil
	case Snappy:
		if got, err := s2.DecodedLen(payload); err != nil || got != n {
			return nil, errors.Join(errRawLength, err)
		}
		out, err := s2.Decode(raw, payload)
		if err != nil {
			return nil, err
		}
		return out, nil
	case Zstd:
		dec, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		out, err := dec.DecodeAll(payload, raw[:0:n])
		if err != nil {
			return nil, err
		}
		if len(out) != n {
			return nil, errRawLength
		}
		return out, nil
	}
	return nil, fmt.Errorf("unknown %v", codec)
}
