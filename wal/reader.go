package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kstonedb/kstone/internal/vfs"
)

// windowBytes is how much of a segment is read at a time. Memory grows beyond it
// only for a longer record whose checksum has been found right.
const windowBytes = 256 << 10

// firstBytes is how much the first read takes, and each that follows four times as much, up to
// a window. Why not a whole window: usually a header is wanted, or a few records before zeros.
const firstBytes = 16 << 10

// segmentReader reads one segment through a window. Its views are valid until the
// next call.
type segmentReader struct {
	file vfs.File
	name string
	size int64
	buf  []byte // the window
	off  int64  // file offset of buf[0]
	most int    // how much the next read takes, at least
	// around, if not nil, is called for places that cannot be read, each once; they are taken
	// for zeros, which are no record.
	around func(error)
	bad    map[int64]bool
}

// openReader opens the file; the buffer of a former reader may be passed on.
func openReader(fsys vfs.FS, path string, buf []byte) (*segmentReader, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open log segment: %w", err)
	}
	r, err := newReader(f, path, buf)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func newReader(f vfs.File, name string, buf []byte) (*segmentReader, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of log segment: %w", err)
	}
	return &segmentReader{file: f, name: name, size: size, buf: buf[:0], most: firstBytes}, nil
}

// close closes the file and hands the buffer on.
func (r *segmentReader) close() ([]byte, error) { return r.buf[:0], r.file.Close() }

// holds reports whether the window has the n bytes at off.
func (r *segmentReader) holds(off int64, n int) bool {
	return off >= r.off && off+int64(n) <= r.off+int64(len(r.buf))
}

// view returns the n bytes at off, fewer at the end of the file.
func (r *segmentReader) view(off int64, n int) ([]byte, error) {
	if in := off - r.off; in >= 0 && in+int64(n) <= int64(len(r.buf)) {
		return r.buf[in : in+int64(n)], nil
	}
	want := int(min(int64(max(n, r.most)), max(r.size-off, 0)))
	r.most = min(4*r.most, windowBytes)
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.off, r.buf = off, r.buf[:want]
	got, err := r.file.ReadAt(r.buf, off)
	r.buf = r.buf[:got]
	if vfs.Unreadable(err) && r.around != nil {
		got, err = want, nil
		r.buf = r.buf[:want]
		r.readAround()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.buf = r.buf[:0]
		return nil, fmt.Errorf("read log segment %s at %d: %w", r.name, off, err)
	}
	return r.buf[:min(n, got)], nil
}

// aroundBytes is what is given up around a place that cannot be read.
const aroundBytes = 4 << 10

// readAround fills the window in small pieces, those aligned in the file.
func (r *segmentReader) readAround() {
	for i := int64(0); i < int64(len(r.buf)); {
		at := r.off + i
		n := min(aroundBytes-at%aroundBytes, int64(len(r.buf))-i)
		piece := r.buf[i : i+n]
		got, err := r.file.ReadAt(piece, at)
		clear(piece[got:])
		if vfs.Unreadable(err) {
			clear(piece)
			if place := at - at%aroundBytes; !r.bad[place] {
				if r.bad == nil {
					r.bad = map[int64]bool{}
				}
				r.bad[place] = true
				r.around(fmt.Errorf("read log segment %s at %d: %w", r.name, place, err))
			}
		}
		i += n
	}
}

// window returns what is buffered from off on, if that can hold a record header, or
// else the next window.
func (r *segmentReader) window(off int64) ([]byte, error) {
	if in := off - r.off; in >= 0 && in+recordHeader <= int64(len(r.buf)) {
		return r.buf[in:], nil
	}
	r.buf = r.buf[:0]
	return r.view(off, windowBytes)
}

// findTag returns the first record header from off on, at a multiple of 8, that has one of
// the tags, one or two, and its offset, -1 if no such header follows.
func (r *segmentReader) findTag(off int64, tags []uint32) (h recordHead, at int64, err error) {
	for off+recordHeader <= r.size {
		b, err := r.window(off)
		if err != nil || len(b) < recordHeader { // the file has become shorter
			return h, -1, err
		}
		if i := indexTag(b, tags[0], tags[len(tags)-1]); i >= 0 {
			return decodeRecordHead(b[i:]), off + int64(i), nil
		}
		off += int64(len(b)-recordHeader)/recordAlign*recordAlign + recordAlign
	}
	return h, -1, nil
}

// indexTag returns the first multiple of 8 at which b has a record header with one of two tags, or
// -1. An Open looks at all that follows the end of the log, so each step looks at four places. Why
// not bytes.Index: it is ten times slower for a tag that begins with a byte which is frequent. Why
// both tags at once: one may be nowhere, the other in every record of an old segment.
func indexTag(b []byte, tag, other uint32) int {
	const step = 4 * recordAlign
	is := func(p []byte) bool {
		t := binary.LittleEndian.Uint32(p)
		return t == tag || t == other
	}
	i := 0
	for ; i+step+recordHeader <= len(b); i += step {
		p := b[i+recordTag : i+recordTag+step]
		if is(p) || is(p[8:]) || is(p[16:]) || is(p[24:]) {
			break
		}
	}
	for ; i+recordHeader <= len(b); i += recordAlign {
		if is(b[i+recordTag:]) {
			return i
		}
	}
	return -1
}

// header decodes the segment header and returns also its bytes. The error of a bad
// header is a *corrupt.Error.
func (r *segmentReader) header() (h header, raw []byte, err error) {
	raw, err = r.view(0, segmentHeader)
	if err != nil {
		return h, nil, err
	}
	h, err = decodeHeader(raw)
	return h, raw, nameError(err, r.name)
}

// record reads the record at off if there is a whole one with this tag and a right
// checksum.
func (r *segmentReader) record(off int64, tag uint32) (h recordHead, payload []byte, ok bool,
	err error) {
	b, err := r.view(off, recordHeader)
	if err != nil || len(b) < recordHeader {
		return h, nil, false, err
	}
	h = decodeRecordHead(b)
	n := h.payloadBytes()
	room := min(r.size-off-recordHeader, maxRecordBytes)
	if h.tag != tag || h.seq == 0 && !h.marker() || n > room {
		return h, nil, false, nil
	}
	if n > windowBytes-recordHeader {
		// Prove a long record before memory is spent on it.
		if ok, err := r.checkLong(off, b); err != nil || !ok {
			return h, nil, false, err
		}
	}
	if b, err = r.view(off, recordHeader+int(n)); err != nil || int64(len(b)) < recordHeader+n {
		return h, nil, false, err
	}
	payload = b[recordHeader:]
	crc := crc32.Update(crc32.Checksum(payload, castagnoli), castagnoli, b[4:recordHeader])
	return h, payload, crc == h.crc, nil
}

// checkLong checks the checksum of the record at off, whose header is b, piece by piece.
func (r *segmentReader) checkLong(off int64, b []byte) (bool, error) {
	head := [recordHeader]byte(b)
	h := decodeRecordHead(b)
	crc := uint32(0)
	for pos, left := off+recordHeader, h.payloadBytes(); left > 0; {
		n := int(min(left, windowBytes))
		b, err := r.view(pos, n)
		if err != nil || len(b) < n {
			return false, err
		}
		crc = crc32.Update(crc, castagnoli, b)
		pos, left = pos+int64(n), left-int64(n)
	}
	return crc32.Update(crc, castagnoli, head[4:]) == h.crc, nil
}
