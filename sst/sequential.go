package sst

import "github.com/kstonedb/kstone/internal/corrupt"

// Tuning of reads in file order.
const (
	// sequentialRun is how many blocks in a row a cursor reads one by one before it
	// reads ahead.
	sequentialRun = 2
	// firstAheadBytes is the size of the first read ahead; each further one is twice
	// as large, up to maxAheadBytes. Why it grows: a short scan should not read what
	// it will not use, and hundreds of cursors may be open at once.
	firstAheadBytes = 32 << 10
	maxAheadBytes   = 256 << 10
	// sourceReadBytes is the size of a Source's reads, if there are few. All that a merge reads
	// from have mergeReadBytes together, but at least leastReadBytes each. Why: a merge of dozens
	// of runs would take more memory than the memtables of a small database.
	sourceReadBytes = 256 << 10
	mergeReadBytes  = 1 << 20
	leastReadBytes  = 32 << 10
)

// sequential reads the stored form of data blocks and notices when they are asked
// for in order.
type sequential struct {
	next  int // the block that would continue the run
	run   int // blocks read in order
	ahead int // size of the next large read
	limit int // of ahead, 0 for maxAheadBytes

	buf   []byte // stored bytes of the file from start
	start uint64
}

// reset forgets file and run and keeps the buffer.
func (s *sequential) reset() {
	*s = sequential{buf: s.buf[:0]}
}

// block reads and decodes data block i, into new memory or, if buf is not nil, as view
// does.
func (s *sequential) block(
	r *Reader, t *tail, i int, h blockHandle, buf *[]byte,
) ([]byte, error) {
	decode := s.decode
	if buf != nil {
		decode = func(r *Reader, h blockHandle) ([]byte, error) { return s.view(r, h, buf) }
	}
	if i == s.next && i > 0 {
		s.run++
	} else {
		s.run, s.ahead = 0, firstAheadBytes
		if s.limit > 0 {
			s.ahead = min(s.ahead, s.limit)
		}
	}
	s.next = i + 1
	if s.holds(h) {
		return decode(r, h)
	}
	if s.run < sequentialRun {
		if buf == nil {
			return r.readBlock(h, maxDataBytes, "data block")
		}
		if err := s.fill(r, t, h, 0); err != nil {
			return nil, err
		}
		return s.view(r, h, buf)
	}
	if err := s.fill(r, t, h, s.ahead); err != nil {
		return nil, err
	}
	limit := maxAheadBytes
	if s.limit > 0 {
		limit = s.limit
	}
	s.ahead = min(2*s.ahead, limit)
	return decode(r, h)
}

// holds reports whether the buffer has all of block h. The handle may be damaged.
func (s *sequential) holds(h blockHandle) bool {
	n := uint64(len(s.buf))
	return h.off >= s.start && h.off-s.start <= n &&
		uint64(h.stored)+trailerBytes <= n-(h.off-s.start)
}

// fill reads size bytes from the start of block h, more if the block is larger and
// less at the end of the data.
func (s *sequential) fill(r *Reader, t *tail, h blockHandle, size int) error {
	const what = "data block"
	s.buf = s.buf[:0]
	if !h.check(r.meta.SizeBytes, maxDataBytes) || h.end() > t.props.dataEnd {
		return corrupt.New(r.path, int64(h.off), what, "a place inside the data", h.end())
	}
	n := max(uint64(size), h.end()-h.off)
	n = min(n, t.props.dataEnd-h.off)
	if uint64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	buf := s.buf[:n]
	if err := r.readAt(buf, int64(h.off), what); err != nil {
		return err
	}
	s.buf, s.start = buf, h.off
	return nil
}

// decode decodes block h out of the buffer into new memory. Requires: holds(h).
func (s *sequential) decode(r *Reader, h blockHandle) ([]byte, error) {
	b, err := s.stored(r, h)
	if err != nil {
		return nil, err
	}
	raw, err := r.id.decode(b, h, "data block")
	return raw, r.named(err, h.off)
}

// view is decode without new memory: the block is in *buf, which grows as needed, or in
// the sequential's own buffer if it is not compressed. It is valid until the next call of
// view or fill. Requires: holds(h).
func (s *sequential) view(r *Reader, h blockHandle, buf *[]byte) ([]byte, error) {
	b, err := s.stored(r, h)
	if err != nil {
		return nil, err
	}
	payload, codec, err := r.id.open(b, h, "data block")
	if err != nil || codec == None {
		return payload, r.named(err, h.off)
	}
	raw, err := decompress(*buf, codec, payload, int(h.raw))
	if err != nil {
		return nil, corrupt.New(r.path, int64(h.off), "data block", codec.String()+" data", err)
	}
	*buf = raw
	return raw, nil
}

// stored returns the bytes of block h in the buffer. Requires: holds(h).
func (s *sequential) stored(r *Reader, h blockHandle) ([]byte, error) {
	if !h.check(r.meta.SizeBytes, maxDataBytes) {
		return nil, corrupt.New(r.path, int64(h.off), "data block", "a place inside the file",
			h.end())
	}
	at := h.off - s.start
	return s.buf[at : at+uint64(h.stored)+trailerBytes], nil
}
