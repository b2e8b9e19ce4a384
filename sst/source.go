package sst

import (
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// Source delivers every version in a file once, in order. It implements
// cursor.Source. It reads 256 KiB at a time, if not set otherwise, and does not touch the cache,
// so that a compaction does not push out what readers use. A Source belongs to one goroutine at a
// time; it needs no closing.
type Source struct {
	r *Reader
	t *tail
	x *indexBlock

	b     dataBlock
	block int // the next block to load
	pos   int // the next entry of b
	seq   sequential
	ahead int    // size of a read
	raw   []byte // the decoded block, if it was compressed
	err   error
	pool  *sourceBuffers // where seq.buf and raw came from and go; nil when given back
}

// sourceBuffers are the buffers of a Source. Why a pool: a merge opens a handful of small
// files, and buffers of the size of a file for each would be most of its garbage.
type sourceBuffers struct {
	stored, raw []byte
	batch       cursor.Batch
}

var sourcePool = sync.Pool{New: func() any { return new(sourceBuffers) }}

// borrow takes buffers from the pool.
func (s *Source) borrow() {
	s.pool = sourcePool.Get().(*sourceBuffers)
	s.seq.buf, s.raw = s.pool.stored[:0], s.pool.raw
}

// giveBack returns the buffers at the end: nothing refers to them any more.
func (s *Source) giveBack() {
	if s.pool == nil {
		return
	}
	s.pool.stored, s.pool.raw = keep(s.seq.buf), keep(s.raw)
	s.pool.batch.Release(sourceRows)
	sourcePool.Put(s.pool)
	s.pool, s.raw, s.b, s.pos = nil, nil, dataBlock{}, 0
	s.seq.reset()
	s.seq.buf = nil
}

// NewSource returns a source of the whole file. It does no I/O before Rows.
func (r *Reader) NewSource() *Source { return &Source{r: r, ahead: sourceReadBytes} }

// NewSourceOf is NewSource as one of several sources that are read together: the fewer bytes at a
// time the more there are.
func (r *Reader) NewSourceOf(sources int) *Source {
	ahead := min(max(mergeReadBytes/sources, leastReadBytes), sourceReadBytes)
	return &Source{r: r, ahead: ahead}
}

// Err implements cursor.Source.
func (s *Source) Err() error { return s.err }

// sourceRows is how many entries a Source delivers at a time.
const sourceRows = 32

// Rows implements cursor.Source. The entries of one call are of one block.
func (s *Source) Rows() []base.Entry {
	if s.pos >= s.b.n && !s.nextBlock() {
		return nil
	}
	rows, prefix := &s.pool.batch, s.b.prefix()
	rows.Reset()
	rows.Room(sourceRows)
	n := 0
	for ; n < sourceRows && s.pos < s.b.n; n++ {
		rows.Rows = rows.Rows[:n+1]
		if !s.b.entry(s.pos, &rows.Rows[n]) {
			rows.Cut(n)
			rows.Prefix(0, prefix)
			return s.damaged(rows.Rows)
		}
		s.pos++
	}
	rows.Prefix(0, prefix)
	return rows.Rows
}

// damaged returns the entries before one that is damaged or, if there are none, ends the
// source.
func (s *Source) damaged(before []base.Entry) []base.Entry {
	if len(before) == 0 {
		s.err = s.r.damagedAt(int64(s.x.handle(s.block-1).off), s.pos)
		s.giveBack()
	}
	return before
}

// nextBlock loads the next data block.
func (s *Source) nextBlock() bool {
	if s.err != nil || s.r.meta.Entries == 0 {
		return false
	}
	s.b, s.pos = dataBlock{}, 0
	if s.err = s.open(); s.err == nil && s.block < s.t.blocks {
		s.err = s.load(s.x.handle(s.block))
	} else {
		s.giveBack()
		return false
	}
	if s.err != nil {
		s.giveBack()
		return false
	}
	s.block++
	return true
}

// load reads and decodes the block.
func (s *Source) load(h blockHandle) error {
	if s.pool == nil {
		s.borrow()
	}
	if !s.seq.holds(h) {
		if err := s.seq.fill(s.r, s.t, h, s.ahead); err != nil {
			return err
		}
	}
	raw, err := s.seq.view(s.r, h, &s.raw)
	if err != nil {
		return err
	}
	s.b, err = openDataBlock(raw)
	return s.r.named(err, h.off)
}

// open makes the tail, and the part of the index with the next block, available. The part is
// borrowed from the cache if it is there, and not put into it.
func (s *Source) open() (err error) {
	if s.t == nil {
		if s.t, err = s.r.peekTail(); err != nil {
			return err
		}
	}
	if s.x != nil && s.block < s.x.end() || s.block == s.t.blocks {
		return nil
	}
	p := s.block / s.t.partBlocks
	if s.x = s.t.parts[p].Peek(); s.x == nil {
		own, err := s.r.readPart(s.t, p)
		if err != nil {
			return err
		}
		s.x = &own
	}
	return nil
}
