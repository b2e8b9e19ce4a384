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

// load makes block i the current one. Reverse says where the cursor goes from there.
func (c *Cursor) load(i int, reverse bool) bool {
	if c.streak++; c.b == nil || i != c.block+1 {
		c.streak = 0
	}
	x, noted := c.x, c.route.to(i)
	var h blockHandle
	if noted != nil {
		h, x = noted.handle, c.t.parts[i/c.t.partBlocks].Get()
	} else {
		var err error
		if x, err = c.r.partOf(c.t, x, i); err != nil {
			return c.fail(err)
		}
		h = x.handle(i)
	}
	b, err := c.fetch(x, i, h)
	if err != nil {
		return c.fail(err)
	}
	c.x, c.b, c.block = x, b, i
	if c.isOneOfMany() {
		if noted == nil {
			c.note(x, i, reverse)
		}
		c.x = nil
	}
	return true
}

// fetch returns block i, with a record in x; x is nil if the cache has lost it, and the block with
// it. Misses that follow each other forward are served by large reads.
func (c *Cursor) fetch(x *indexBlock, i int, h blockHandle) (*dataBlock, error) {
	c.r.stats.c.Add(statLookups, 1)
	if c.pruner != nil {
		c.pruner.Count(1, 0)
	}
	if x != nil {
		if b := x.slot(i).Get(); b != nil {
			return b, nil
		}
	}
	c.r.stats.c.Add(statBlockMisses, 1)
	if x != nil && x.group.Admits(int64(h.raw), c.streak >= sequentialRun) {
		raw, err := c.seq.block(c.r, c.t, i, h, nil)
		if err != nil {
			return nil, err
		}
		return c.r.keepBlock(x, i, h, raw)
	}
	if c.yields && c.owing == nil {
		c.owing, c.owed = c.r.group, cursorBytes+int64(c.seq.limit)
		c.owing.Owe(c.owed)
	}
	raw, err := c.seq.block(c.r, c.t, i, h, &c.raw)
	if err == nil {
		c.own, err = openDataBlock(raw)
		err = c.r.named(err, h.off)
	}
	return &c.own, err
}

// cursorBytes is about what a cursor of many takes with its block, its rows and the tail of its
// file, without what it reads ahead.
const cursorBytes = 6 << 10

// route is which blocks a cursor comes to next. Why: a merge of a thousand runs, whose cursors
// each kept their part of an index, would have 10 KiB for each beside its block. So they leave the
// parts to the cache, and take note of a few blocks at a time: if the cache loses a part
// at once, it is read for each of these times, which takes less than a tenth of reading the blocks.
type route struct {
	stops   []stop // those from number at on are ahead
	at      int
	reverse bool
}

// maxStops is how many blocks are noted at a time.
const maxStops = 32

// stop is a block: the first from number first on, in the direction, that is not pruned.
type stop struct {
	handle       blockHandle
	first, block uint32
}

func (w *route) reset() { w.stops, w.at = w.stops[:0], 0 }

// from returns the stop at which a cursor goes on from block i, nil if it is not noted.
func (w *route) from(i int, reverse bool) *stop {
	if w.at < len(w.stops) && int(w.stops[w.at].first) == i && w.reverse == reverse {
		return &w.stops[w.at]
	}
	return nil
}

// to returns the next stop if it is block i, else nil, and passes it.
func (w *route) to(i int) *stop {
	if w.at < len(w.stops) && int(w.stops[w.at].block) == i {
		w.at++
		return &w.stops[w.at-1]
	}
	return nil
}

// note takes note of the blocks after number i that x has records of.
func (c *Cursor) note(x *indexBlock, i int, reverse bool) {
	w, step := &c.route, stepOf(reverse)
	w.reset()
	w.reverse = reverse
	within := func(i int) bool { return i >= x.first && i < x.end() }
	for first := i + step; len(w.stops) < maxStops; first = i + step {
		i = first
		for c.pruner != nil && within(i) && c.pruned(i) {
			i += step
		}
		if !within(i) {
			break
		}
		w.stops = append(w.stops, stop{x.handle(i), uint32(first), uint32(i)})
	}
}

// stepOf is the difference from one block to the next in a direction.
func stepOf(reverse bool) int {
	if reverse {
		return -1
	}
	return 1
}

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
	if s.run < sequentialRun || s.limit > 0 && uint64(s.limit) < 2*uint64(h.raw) {
		if err := r.checkData(t, h); err != nil {
			return nil, err
		}
		return r.readInto(buf, h, maxDataBytes, "data block")
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
	s.buf = s.buf[:0]
	if err := r.checkData(t, h); err != nil {
		return err
	}
	n := max(uint64(size), h.end()-h.off)
	n = min(n, t.props.dataEnd-h.off)
	if uint64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	buf := s.buf[:n]
	if err := r.readAt(buf, int64(h.off), "data block"); err != nil {
		return err
	}
	s.buf, s.start = buf, h.off
	return nil
}

// checkData reports that block h does not lie in the data of the file.
func (r *Reader) checkData(t *tail, h blockHandle) error {
	if !h.check(r.meta.SizeBytes, maxDataBytes) || h.end() > t.props.dataEnd {
		return corrupt.New(r.path, int64(h.off), "data block", "a place inside the data", h.end())
	}
	return nil
}

// decode decodes block h out of the buffer into new memory. Requires: holds(h).
func (s *sequential) decode(r *Reader, h blockHandle) ([]byte, error) {
	b, err := s.stored(r, h)
	if err != nil {
		return nil, err
	}
	raw, err := r.id.decode(nil, b, h, "data block")
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
