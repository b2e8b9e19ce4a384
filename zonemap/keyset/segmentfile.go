package keyset

import (
	"fmt"
	"io"
	"runtime"

	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// Save writes the segment to the file name, durably, replacing it as a whole.
func (s *Segment) Save(name string) error {
	data := s.data
	if data == nil {
		var err error
		if data, err = s.AppendBinary(nil); err != nil {
			return err
		}
	}
	err := mapping.Save(name, data)
	runtime.KeepAlive(s)
	if err != nil {
		return fmt.Errorf("keyset: save segment: %w", err)
	}
	return nil
}

// AppendBinary appends the saved form of the segment to dst.
func (s *Segment) AppendBinary(dst []byte) ([]byte, error) {
	if s.data != nil {
		dst = append(dst, s.data...)
		runtime.KeepAlive(s)
		return dst, nil
	}
	start := len(dst)
	dst = append(dst, make([]byte, s.size)...)
	if n, err := s.source.ReadAt(dst[start:], 0); n < int(s.size) {
		return dst[:start], fmt.Errorf("keyset: read segment %s: %w", s.name, err)
	}
	return dst, nil
}

// OpenSegment maps the file. It reads header and directory only, copies no filter, and
// takes no time worth mentioning; each filter is checked when it is first used, or when
// the segment becomes part of a Set. A damaged file is a *corrupt.Error.
func OpenSegment(name string) (*Segment, error) {
	data, unmap, err := mapping.Open(name)
	if err != nil {
		return nil, fmt.Errorf("keyset: open segment: %w", err)
	}
	s, err := parseSegment(data, name)
	if err != nil {
		unmap()
		return nil, err
	}
	runtime.AddCleanup(s, func(f func()) { f() }, unmap)
	return s, nil
}

// ParseSegment opens a segment from the bytes of its saved form, which it refers to:
// they must not change.
func ParseSegment(data []byte) (*Segment, error) { return parseSegment(data, "") }

func parseSegment(data []byte, name string) (*Segment, error) {
	s := &Segment{name: name, data: data}
	parts, minLen, maxLen, err := s.decodeHeader(data, uint64(len(data)))
	if err != nil {
		return nil, err
	}
	end := segmentHeader + parts*segmentEntry + minLen + maxLen + 4
	if err := s.decodeDirectory(data[segmentHeader:end], parts, minLen); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenSegmentAt opens a segment with only its directory, which has the zone maps, in
// memory: filters and stored keys are read from r when they are asked, checked, and kept
// as long as the cache has room. R must stay readable and must not change. Errors call it
// by its name if it has one, as an *os.File does.
func OpenSegmentAt(r io.ReaderAt, size int64, cache *Cache) (*Segment, error) {
	s := &Segment{source: r, cache: cache, name: "at reader"}
	if named, ok := r.(interface{ Name() string }); ok {
		s.name = named.Name()
	}
	if size < segmentHeader {
		return nil, s.damaged(0, "a header of 64 bytes", size)
	}
	head := make([]byte, segmentHeader)
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, fmt.Errorf("keyset: read header of a segment: %w", err)
	}
	parts, minLen, maxLen, err := s.decodeHeader(head, uint64(size))
	if err != nil {
		return nil, err
	}
	directory := make([]byte, parts*segmentEntry+minLen+maxLen+4)
	if n, err := r.ReadAt(directory, segmentHeader); n < len(directory) {
		return nil, fmt.Errorf("keyset: read directory of a segment: %w", err)
	}
	if err := s.decodeDirectory(directory, parts, minLen); err != nil {
		return nil, err
	}
	return s, nil
}
