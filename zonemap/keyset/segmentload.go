package keyset

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// read returns the bytes of a span after its checksum has been compared, and the padding
// in front of it: a view into the mapping, or memory of its own.
func (s *Segment) read(sp span) ([]byte, error) {
	if sp.len == 0 {
		return nil, nil
	}
	var data []byte
	from := sp.off - sp.pad
	if s.data != nil {
		data = s.data[from : sp.off+sp.len]
	} else {
		data = make([]byte, sp.pad+sp.len)
		if n, err := s.source.ReadAt(data, int64(from)); n < len(data) {
			if err == io.EOF {
				return nil, s.damaged(from, fmt.Sprint(len(data), " bytes"), n)
			}
			return nil, fmt.Errorf("keyset: read segment %s at %d: %w", s.name, from, err)
		}
	}
	for i, b := range data[:sp.pad] {
		if b != 0 {
			return nil, s.damaged(from+uint64(i), "padding of zeros", b)
		}
	}
	data = data[sp.pad:]
	if crc := crc32.Checksum(data, castagnoli); crc != sp.crc {
		return nil, s.damaged(sp.off, fmt.Sprintf("checksum %08x", sp.crc),
			fmt.Sprintf("%08x", crc))
	}
	return data, nil
}

func (s *Segment) damaged(off uint64, want, got any) error {
	return corrupt.New(s.name, int64(off), "segment", want, got)
}

// loadTable makes the table of p available: in a mapping it is only checked, otherwise
// it is read, and counts against the budget.
func (s *Segment) loadTable(p *part) (*byte, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	if t := p.tablePtr.Load(); t != nil {
		return t, nil
	}
	data, err := s.read(p.table)
	if err != nil {
		return nil, err
	}
	p.used.Store(true)
	p.tablePtr.Store(&data[0])
	if s.data == nil {
		s.cache.add(cached{p, false, len(data)})
	}
	return &data[0], nil
}

// storedKeys makes the stored keys of p available.
func (s *Segment) storedKeys(p *part) (*column, error) {
	if c := p.keyPtr.Load(); c != nil {
		return c, nil
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	if c := p.keyPtr.Load(); c != nil {
		return c, nil
	}
	c, err := s.readColumn(p)
	if err != nil {
		return nil, err
	}
	p.keyPtr.Store(c)
	if s.data == nil {
		s.cache.add(cached{p, true, int(p.column.len) + c.bytesResident()})
	}
	return c, nil
}

// readColumn returns the stored keys of p, checked. Requires: it stores keys.
func (s *Segment) readColumn(p *part) (*column, error) {
	data, err := s.read(p.column)
	if err != nil {
		return nil, err
	}
	c, ok := openColumn(data, p.stored, s.ints, p.lo, p.hi)
	if !ok {
		return nil, s.damaged(p.column.off, "keys in ascending order", "others")
	}
	return c, nil
}

// load checks every filter, so that no later question meets damage. Parts that are read
// on demand are left alone: their checks happen when they are read.
func (s *Segment) load() error {
	if s.data == nil {
		return nil
	}
	for i := range s.parts {
		if _, err := s.table(&s.parts[i]); err != nil {
			return err
		}
	}
	return nil
}
