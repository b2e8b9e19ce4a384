package keyset

import (
	"encoding/binary"
	"io"
	"runtime"
	"sync"

	"github.com/kstonedb/kstone/internal/base"
)

// A Segment is an immutable set of keys, summarised by zone maps and filters, and if its
// options say so stored as well. SegmentBuilder makes segments, Save stores one in a
// file, OpenSegment maps it back. The format is described in docs/format/segments.md.
//
// A Segment is safe for concurrent use. A mapping lasts as long as the Segment is
// referenced; the file must not be changed meanwhile, only renamed or removed.
type Segment struct {
	hash      keyHash
	bits      int
	shardBits uint
	ints      bool // all keys have eight bytes
	stored    bool // the keys are stored
	blocked   bool // parts are blocks in the order of keys
	keys      uint64
	size      uint64
	min, max  []byte
	parts     []part

	data   []byte // all bytes, mapped or built; nil if parts are read on demand
	source io.ReaderAt
	cache  *Cache
	name   string // of the file, for errors

	loading sync.Mutex // one part is loaded at a time
}

// Len returns the number of distinct keys.
func (s *Segment) Len() uint64 { return s.keys }

// Bits returns the width of a fingerprint, 8 or 16.
func (s *Segment) Bits() int { return s.bits }

// Seed returns the seed of the hash. The segments of a Set have the same.
func (s *Segment) Seed() uint64 { return s.hash.seed }

// Zone returns the smallest and the largest key, integers as eight bytes, big-endian;
// nil for a segment without keys. The caller must not change them.
func (s *Segment) Zone() (smallest, largest []byte) {
	if s.keys == 0 {
		return nil, nil
	}
	return s.min, s.max
}

// Blocks returns the number of blocks, 0 if the segment is not cut into blocks.
func (s *Segment) Blocks() int {
	if !s.blocked {
		return 0
	}
	return len(s.parts)
}

// Shards returns the number of shards, 1 if the keys are not split by hash.
func (s *Segment) Shards() int { return 1 << s.shardBits }

// StoresKeys reports whether positives can be checked against the segment itself.
func (s *Segment) StoresKeys() bool { return s.stored }

// SizeBytes returns the size of the saved form.
func (s *Segment) SizeBytes() uint64 { return s.size }

// FilterBytes returns the size of the filters alone.
func (s *Segment) FilterBytes() uint64 {
	n := uint64(0)
	for i := range s.parts {
		n += s.parts[i].table.len
	}
	return n
}

// Contains reports whether key may be in the segment: false is always right, true is
// wrong for about one absent key of 256 or 65536, unless the segment answers exactly.
// The error is that of loading a filter; *corrupt.Error if it is damaged.
func (s *Segment) Contains(key uint64) (bool, error) { return s.ask(key, key) }

// ContainsBytes is Contains for a key of bytes.
func (s *Segment) ContainsBytes(key []byte) (bool, error) {
	if s.ints && len(key) != 8 {
		return false, nil
	}
	return s.ask(base.KeyHead(key), s.hash.word(key))
}

func (s *Segment) ask(head, word uint64) (bool, error) {
	if len(s.parts) == 0 {
		return false, nil
	}
	if !s.blocked {
		p := &s.parts[0]
		if s.shardBits > 0 {
			p = &s.parts[base.Mix(word+s.hash.seed)>>(64-s.shardBits)]
		}
		return s.askPart(p, head, word)
	}
	for i := s.firstBlock(head); i < len(s.parts) && s.parts[i].lo <= head; i++ {
		if yes, err := s.askPart(&s.parts[i], head, word); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

// firstBlock returns the first block whose zone does not end before head.
func (s *Segment) firstBlock(head uint64) int {
	from, to := 0, len(s.parts)
	for from < to {
		if mid := (from + to) / 2; s.parts[mid].hi < head {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

func (s *Segment) askPart(p *part, head, word uint64) (bool, error) {
	if !p.covers(head) {
		return false, nil
	}
	table, err := s.table(p)
	if err != nil {
		return false, err
	}
	yes := false
	if p.exact() {
		yes = p.dense(table, head)
	} else {
		yes = p.probe(table, word, s.shardBits, p.wide(s.bits))
	}
	runtime.KeepAlive(s)
	return yes, nil
}

// table returns the loaded and checked table of p; nil for a part that has none.
func (s *Segment) table(p *part) (*byte, error) {
	if t := p.tablePtr.Load(); t != nil {
		if s.cache != nil && !p.used.Load() {
			p.used.Store(true)
		}
		return t, nil
	}
	if p.table.len == 0 {
		return nil, nil
	}
	return s.loadTable(p)
}

// Verify reads everything and checks every checksum. It loads nothing that is not
// loaded already.
func (s *Segment) Verify() error {
	for i := range s.parts {
		p := &s.parts[i]
		if _, err := s.read(p.table); err != nil {
			return err
		}
		if p.stored > 0 {
			if _, err := s.readColumn(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyBytes returns the eight bytes of an integer key.
func keyBytes(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }
