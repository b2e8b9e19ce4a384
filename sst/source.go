package sst

import (
	"github.com/kstonedb/kstone/internal/base"
)

// Source delivers every version in a file once, in order. It implements
// cursor.Source. It reads 256 KiB at a time and does not touch the cache, so that a
// compaction does not push out what readers use. A Source belongs to one goroutine
// at a time; it needs no closing.
type Source struct {
	r *Reader
	t *tail
	x *indexBlock

	b     dataBlock
	block int // the next block to load
	pos   int // the next entry of b
	seq   sequential
	key   []byte
	entry base.Entry
	err   error
}

// NewSource returns a source of the whole file. It does no I/O before Next.
func (r *Reader) NewSource() *Source { return &Source{r: r} }

// Entry implements cursor.Source.
func (s *Source) Entry() *base.Entry { return &s.entry }

// Err implements cursor.Source.
func (s *Source) Err() error { return s.err }

// Next implements cursor.Source.
func (s *Source) Next() bool {
	if s.pos >= s.b.n && !s.nextBlock() {
		return false
	}
	var e blockEntry
	if !s.b.entry(s.pos, &e) {
		s.err = s.r.damagedEntry(s.t, s.block-1, s.pos)
		s.b, s.pos = dataBlock{}, 0
		return false
	}
	s.pos++
	s.key = append(s.key[:s.b.shared], e.suffix...)
	s.entry = base.Entry{Key: s.key, Value: e.value, Seq: e.seq, Expiry: e.expiry, Kind: e.kind}
	return true
}

// nextBlock loads the next data block.
func (s *Source) nextBlock() bool {
	if s.err != nil || s.r.meta.Entries == 0 {
		return false
	}
	s.b, s.pos = dataBlock{}, 0
	if s.err = s.open(); s.err != nil || s.block >= s.x.n {
		return false
	}
	h := s.x.handle(s.block)
	if !s.seq.holds(h) {
		if s.err = s.seq.fill(s.r, s.t, h, sourceReadBytes); s.err != nil {
			return false
		}
	}
	raw, err := s.seq.decode(s.r, h)
	if err == nil {
		s.b, err = openDataBlock(raw)
		err = s.r.named(err, h.off)
	}
	if err != nil {
		s.err, s.b = err, dataBlock{}
		return false
	}
	s.block++
	s.key = append(s.key[:0], s.b.prefix()...)
	return true
}

// open makes tail and index available. The index is borrowed from the cache if it
// is there, and not put into it.
func (s *Source) open() error {
	if s.x != nil {
		return nil
	}
	t, err := s.r.loadTail()
	if err != nil {
		return err
	}
	x := t.index.Peek()
	if x == nil {
		own, err := s.r.readIndex(t)
		if err != nil {
			return err
		}
		x = &own
	}
	s.t, s.x = t, x
	return nil
}
