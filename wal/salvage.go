package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// SalvageReport says what Salvage has found.
type SalvageReport struct {
	// Records is the number of intact records, each counted once.
	Records int64
	// LastSeq is the highest sequence number of a record; Synced the highest that one of
	// them says was durable.
	LastSeq, Synced base.SeqNum
	// Damage names segments that cannot be read, and places in segments that are not
	// records although intact ones follow.
	Damage []error
	// DBIDs counts the segments by the database that their headers name.
	DBIDs map[[16]byte]int
}

// Salvage hands every intact record of every segment in the directory to apply, whatever
// is missing between them: in the order of the files, which is that of the sequence
// numbers unless files have been exchanged. A record that is there twice is handed over
// once. It changes nothing. Options.DBID is the database; zero takes all segments. Payload
// is valid during the call.
//
// It is for rescue alone: unlike Recover it does not tell what was never promised from
// what was.
func Salvage(o Options, apply func(seq base.SeqNum, payload []byte) error) (SalvageReport, error) {
	rep := SalvageReport{DBIDs: map[[16]byte]int{}}
	seen := map[base.SeqNum]bool{}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return rep, fmt.Errorf("list log segments: %w", err)
	}
	var nums []SegmentNum
	for _, name := range names {
		if n, ok := ParseFileName(name); ok {
			nums = append(nums, n)
		}
	}
	slices.Sort(nums)
	for _, n := range nums {
		s := salvage{o: o, rep: &rep, seen: seen, apply: apply}
		if err := s.segment(n); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// salvage reads one segment.
type salvage struct {
	o     Options
	rep   *SalvageReport
	seen  map[base.SeqNum]bool
	apply func(base.SeqNum, []byte) error

	r    *segmentReader
	tags []uint32
}

func (s *salvage) segment(n SegmentNum) (err error) {
	if s.r, err = openReader(s.o.FS, s.o.path(n), nil); vfs.Unreadable(err) {
		s.rep.Damage = append(s.rep.Damage, err)
		return nil
	} else if err != nil {
		return err
	}
	s.r.around = func(err error) { s.rep.Damage = append(s.rep.Damage, err) }
	defer func() {
		_, cerr := s.r.close()
		err = errors.Join(err, cerr)
	}()
	if err := s.identify(n); err != nil || len(s.tags) == 0 {
		return err
	}
	off := int64(segmentHeader)
	for off+recordHeader <= s.r.size {
		end, err := s.records(off)
		if err != nil {
			return err
		}
		next, err := s.next(end)
		if err != nil || next < 0 {
			return err
		}
		s.rep.Damage = append(s.rep.Damage, corrupt.New(s.r.name, end, "log record", "a record",
			fmt.Sprintf("other bytes, up to offset %d", next)))
		off = next
	}
	return nil
}

// identify finds the tags that records of the segment have.
func (s *salvage) identify(n SegmentNum) error {
	h, raw, herr := s.r.header()
	if herr != nil && !errors.Is(herr, corrupt.ErrCorrupt) {
		return herr
	}
	if herr == nil {
		s.rep.DBIDs[h.dbid]++
		if s.o.DBID != [16]byte{} && h.dbid != s.o.DBID {
			s.rep.Damage = append(s.rep.Damage, nameError(h.checkPlace(s.o.DBID, n), s.r.name))
			return nil
		}
		s.tags = []uint32{h.tag()}
		return nil
	}
	if len(bytes.TrimLeft(raw, "\x00")) == 0 {
		// Created or prepared, and not used, unless something follows.
		if b, err := s.r.view(segmentHeader, recordHeader); err != nil || len(b) < recordHeader ||
			leUint32(b) == 0 && leUint32(b[4:]) == 0 {
			return err
		}
	}
	s.rep.Damage = append(s.rep.Damage, herr)
	b, err := s.r.view(segmentHeader, recordHeader)
	if err != nil || len(b) < recordHeader {
		return err
	}
	tag := decodeRecordHead(b).tag
	if _, _, ok, err := s.r.record(segmentHeader, tag); err != nil || !ok {
		return err
	}
	s.tags = []uint32{tag}
	return nil
}

// records hands over the records from off on and returns where they end.
func (s *salvage) records(off int64) (int64, error) {
	for {
		h, payload, ok, err := s.r.record(off, s.tags[0])
		if err != nil || !ok {
			return off, err
		}
		off += recordBytes(h.payloadBytes())
		s.rep.Synced = max(s.rep.Synced, h.synced())
		if h.marker() || s.seen[h.seq] {
			continue
		}
		s.seen[h.seq] = true
		s.rep.Records++
		s.rep.LastSeq = max(s.rep.LastSeq, h.seq)
		if err := s.apply(h.seq, payload); err != nil {
			return off, err
		}
	}
}

// next returns the offset of the first record after off, or -1.
func (s *salvage) next(off int64) (int64, error) {
	for {
		_, at, err := s.r.findTag(off+recordAlign, s.tags)
		if err != nil || at < 0 {
			return -1, err
		}
		if _, _, ok, err := s.r.record(at, s.tags[0]); err != nil || ok {
			return at, err
		}
		off = at
	}
}
