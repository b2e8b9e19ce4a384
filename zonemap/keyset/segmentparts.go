package keyset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

// maxSalts bounds the attempts to build a filter. An attempt fails once in some hundred
// times, most often because two keys share all three positions; every salt is a new
// draw.
const maxSalts = 100

// errTooHard is not seen in practice: the chance is below 1e-100.
var errTooHard = errors.New("keyset: a filter could not be built under any salt")

// cut decides what each part is and where its bytes go.
func (b *SegmentBuilder) cut(s *Segment, in *arranged) error {
	parts := max(len(in.from), 1) - 1
	if parts > maxParts {
		return fmt.Errorf("keyset: %d blocks in a segment", parts)
	}
	s.parts = make([]part, parts)
	largest := 0
	for i := range s.parts {
		largest = max(largest, in.from[i+1]-in.from[i])
	}
	if largest > fuse.MaxKeys {
		return fmt.Errorf("keyset: %d keys for one filter, %d at most", largest, fuse.MaxKeys)
	}
	for i := range s.parts {
		heads := in.heads[in.from[i]:in.from[i+1]]
		p := &s.parts[i]
		if p.keys = len(heads); p.keys == 0 {
			continue
		}
		p.lo, p.hi = in.zone.lo, in.zone.hi
		if len(s.parts) > 1 {
			p.lo, p.hi, _ = bounds(heads)
		}
		n := p.keys
		if s.shardBits > 0 {
			n = largest // shards have one shape, so that runs of shards share positions
		}
		p.shape = fuse.ShapeFor(n)
		p.kind, p.seed = partFuse, s.hash.seed
		p.table.len = uint64(p.shape.Slots() * s.bits / 8)
		if s.ints && s.shardBits == 0 {
			b.tryDense(s, p, heads)
		}
		if s.stored {
			p.stored = p.keys
			p.column.len = uint64(8 * p.keys)
			if !s.ints {
				p.column.len += uint64(4 * p.keys)
				for _, at := range in.order[in.from[i]:in.from[i+1]] {
					p.column.len += uint64(len(b.addedKey(at)))
				}
				if p.column.len > math.MaxUint32 {
					return errors.New("keyset: keys of a part exceed 4 GiB; use blocks or shards")
				}
			}
		}
	}
	s.layOut()
	return nil
}

// tryDense makes p a range or a bitmap if that is smaller than the filter.
func (b *SegmentBuilder) tryDense(s *Segment, p *part, heads []uint64) {
	span := p.hi - p.lo
	if span/8+1 > p.table.len {
		return
	}
	distinct := len(heads)
	if !s.stored && !s.blocked { // not sorted, so keys may repeat
		seen := make([]uint64, span/64+1)
		for _, h := range heads {
			seen[(h-p.lo)>>6] |= 1 << ((h - p.lo) & 63)
		}
		distinct = 0
		for _, w := range seen {
			distinct += bits.OnesCount64(w)
		}
		p.keys = distinct
	}
	p.kind, p.shape, p.table.len = partBitmap, fuse.Shape{}, span/8+1
	if uint64(distinct) == span+1 {
		p.kind, p.table.len = partRange, 0
	}
}

// layOut gives every table and column its place.
func (s *Segment) layOut() {
	at := segmentHeader + s.directoryLen()
	for i := range s.parts {
		for _, sp := range []*span{&s.parts[i].table, &s.parts[i].column} {
			if sp.len > 0 {
				sp.off = alignUp(at)
				at = sp.off + sp.len
			}
		}
	}
	s.size = at
}

// write fills the parts, several at a time, and opens the result.
func (b *SegmentBuilder) write(s *Segment, in *arranged) (*Segment, error) {
	data := make([]byte, s.size)
	mapping.AdviseHuge(data)
	workers := max(1, min(b.opts.Workers, len(s.parts)))
	for len(b.fuse) < workers {
		b.fuse = append(b.fuse, fuse.Builder{})
	}
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, workers)
	work := func(w int) {
		for errs[w] == nil {
			i := int(next.Add(1)) - 1
			if i >= len(s.parts) {
				return
			}
			errs[w] = b.fill(data, s, in, i, &b.fuse[w])
		}
	}
	for w := 1; w < workers; w++ {
		group.Go(func() { work(w) })
	}
	work(0) // the caller is one of the workers
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.keys = 0 // repeated ones were counted until now
	for i := range s.parts {
		s.keys += uint64(s.parts[i].keys)
	}
	s.appendHead(data[:0])
	built, err := ParseSegment(data)
	if err != nil {
		return nil, err
	}
	for i := range built.parts { // has just been computed, needs no check
		if p := &built.parts[i]; p.table.len > 0 {
			p.tablePtr.Store(&data[p.table.off])
		}
	}
	return built, nil
}

// fill writes the table and the keys of part i.
func (b *SegmentBuilder) fill(data []byte, s *Segment, in *arranged, i int,
	fuse *fuse.Builder) error {
	p := &s.parts[i]
	from, to := in.from[i], in.from[i+1]
	table := data[p.table.off : p.table.off+p.table.len]
	switch p.kind {
	case partBitmap:
		for _, h := range in.heads[from:to] {
			table[(h-p.lo)>>3] |= 1 << ((h - p.lo) & 7)
		}
	case partFuse:
		if err := p.buildFuse(table, s, in.words[from:to], fuse); err != nil {
			return err
		}
	}
	p.table.crc = crc32.Checksum(table, castagnoli)
	if p.stored > 0 {
		column := data[p.column.off : p.column.off+p.column.len]
		b.fillColumn(column, in, from, to)
		p.column.crc = crc32.Checksum(column, castagnoli)
	}
	return nil
}

// buildFuse builds the filter under the first salt that will do, and leaves the number of
// distinct keys in p.
func (p *part) buildFuse(table []byte, s *Segment, words []uint64, b *fuse.Builder) error {
	for p.salt = 0; p.salt < maxSalts; p.salt++ {
		p.seed = salted(s.hash.seed, p.salt)
		distinct, err := b.Build(table, p.shape, words, p.seed, s.shardBits)
		if err == nil && s.ints {
			p.keys = distinct // keys of bytes are distinct, their words perhaps not
		}
		if !errors.Is(err, fuse.ErrUnlucky) {
			return err
		}
	}
	return errTooHard
}

func (b *SegmentBuilder) fillColumn(column []byte, in *arranged, from, to int) {
	le := binary.LittleEndian
	dst := column[:0]
	for _, h := range in.heads[from:to] {
		dst = le.AppendUint64(dst, h)
	}
	if in.order == nil {
		return
	}
	end := 0
	for _, at := range in.order[from:to] {
		end += len(b.addedKey(at))
		dst = le.AppendUint32(dst, uint32(end))
	}
	for _, at := range in.order[from:to] {
		dst = append(dst, b.addedKey(at)...)
	}
}

// BuildSegments builds one segment of every key set, workers at a time, 0 means 1, each
// with a builder that is reused. The segments are in the order of the sets.
func BuildSegments(sets [][]uint64, opts *SegmentOptions, workers int) ([]*Segment, error) {
	if workers < 0 {
		return nil, fmt.Errorf("keyset: %d workers", workers)
	}
	segments := make([]*Segment, len(sets))
	errs := make([]error, max(1, min(workers, len(sets))))
	var next atomic.Int64
	var group sync.WaitGroup
	for w := range errs {
		group.Go(func() {
			b, err := NewSegmentBuilder(opts)
			for errs[w] = err; errs[w] == nil; {
				i := int(next.Add(1)) - 1
				if i >= len(sets) {
					return
				}
				segments[i], errs[w] = b.buildOf(sets[i])
			}
		})
	}
	group.Wait()
	return segments, errors.Join(errs...)
}
