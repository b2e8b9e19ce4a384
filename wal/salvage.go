package wal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Rescue of a damaged log
//
// Salvage takes what is intact. It must not take what has been undone, nor bring back what a
// later commit has deleted.
//
// The naive way: every record of every segment that checks out.
//
// Why it fails: a segment whose end was torn by a power cut may hold intact records after the
// tear. Open goes on in a new segment, with the same sequence numbers. And released segments wait
// for their next use, or are retained: some of them hold puts whose deletes are in segments that
// are gone, and which merges have dropped.
//
// The way taken: each header names the segment before it and the first sequence number of its own.
// A record of an earlier segment with that number or a higher one is left out. If the first
// segment that recovery needs is not known, the segments are followed backwards from the newest,
// and end where one is missing. What is older is left out as well. A damaged header is followed by
// any segment.

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
	// Apart is the number of segments that do not lead up to the newest, and were left out.
	Apart int
}

// Databases counts the segments in a directory by the database that their headers name.
func Databases(o Options) (map[[16]byte]int, error) {
	count := map[[16]byte]int{}
	s := salvage{o: o, rep: &SalvageReport{}}
	parts, err := s.list(0)
	for i := range parts {
		if parts[i].known {
			count[parts[i].h.dbid]++
		}
	}
	return count, err
}

// Salvage hands every intact record of the segments from one on to apply, whatever is missing
// between them: in the order of the segments, which is that of the sequence numbers. From is the
// first segment that recovery needs, 0 if that is not known. A record that is there twice is
// handed over once. It changes nothing. Options.DBID is the database. Payload is valid during the
// call.
//
// It is for rescue alone: unlike Recover it does not tell what was never promised from
// what was.
func Salvage(o Options, from SegmentNum, apply func(seq base.SeqNum, payload []byte) error,
) (SalvageReport, error) {
	rep := SalvageReport{}
	s := salvage{o: o, rep: &rep, seen: map[base.SeqNum]bool{}, apply: apply}
	parts, err := s.list(from)
	if err != nil {
		return rep, err
	}
	for _, p := range s.chain(parts, from == 0) {
		s.below = p.below
		if err := s.segment(&p); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// salvagePart is a segment that Salvage may read.
type salvagePart struct {
	file  SegmentNum // that names the file
	num   SegmentNum // its own number, that of the file if the header is damaged
	known bool       // the header is intact
	h     header
	below base.SeqNum // what later segments begin with
}

// salvage reads segments.
type salvage struct {
	o     Options
	rep   *SalvageReport
	seen  map[base.SeqNum]bool
	apply func(base.SeqNum, []byte) error

	r     *segmentReader
	tags  []uint32
	below base.SeqNum
}

// list finds the segments from one on, by number, without those that were never used.
func (s *salvage) list(from SegmentNum) (parts []salvagePart, err error) {
	names, err := s.o.FS.List(s.o.Dir)
	if err != nil {
		return nil, fmt.Errorf("list log segments: %w", err)
	}
	for _, name := range names {
		n, ok := ParseFileName(name)
		if !ok {
			continue
		}
		p, err := s.place(n)
		if err != nil {
			return nil, err
		}
		if p.num >= from {
			parts = append(parts, p)
		}
	}
	slices.SortStableFunc(parts, func(a, b salvagePart) int { return cmp.Compare(a.num, b.num) })
	return parts, nil
}

// place reads the header of a file.
func (s *salvage) place(n SegmentNum) (p salvagePart, err error) {
	p.file, p.num = n, n
	r, err := openReader(s.o.FS, s.o.path(n), nil)
	if vfs.Unreadable(err) {
		s.damage(err)
		return p, nil
	} else if err != nil {
		return p, err
	}
	r.around, r.most = s.damage, windowBytes
	h, _, err := r.header()
	if err == nil {
		p.known, p.num, p.h = true, h.num, h
	} else if errors.Is(err, corrupt.ErrCorrupt) {
		err = nil // segment reports it
	}
	_, cerr := r.close()
	return p, errors.Join(err, cerr)
}

// damage adds to the report what is not in it.
func (s *salvage) damage(err error) {
	if !slices.ContainsFunc(s.rep.Damage, func(e error) bool { return e.Error() == err.Error() }) {
		s.rep.Damage = append(s.rep.Damage, err)
	}
}

// chain returns the segments to read, oldest first. Whole leaves out those that do not lead up to
// the newest.
func (s *salvage) chain(parts []salvagePart, whole bool) (chain []salvagePart) {
	after := base.MaxSeqNum + 1 // the first seq of the segment after
	var at header               // of the last that is part of the log
	known := false              // its previous one is
	for i := len(parts) - 1; i >= 0; i-- {
		p := parts[i]
		switch {
		case !p.known || s.o.DBID != [16]byte{} && p.h.dbid != s.o.DBID: // it may be any
			known = known && p.num != at.prev
		case p.num == at.num: // a copy
		case known && (whole && p.num < at.prev || at.prev == 0):
			s.rep.Apart += i + 1
			slices.Reverse(chain)
			return chain
		case known && p.num > at.prev:
			s.rep.Apart++
			continue
		default:
			if at.num != 0 {
				after = at.base
			}
			at, known = p.h, true
		}
		p.below = after
		chain = append(chain, p)
	}
	slices.Reverse(chain)
	return chain
}

func (s *salvage) segment(p *salvagePart) (err error) {
	n := p.file
	s.tags = nil
	if s.r, err = openReader(s.o.FS, s.o.path(n), nil); vfs.Unreadable(err) {
		s.damage(err)
		return nil
	} else if err != nil {
		return err
	}
	s.r.around, s.r.most = s.damage, windowBytes
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
		if h.seq >= s.below {
			continue // undone before the next segment began
		}
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
		h, _, ok, err := s.r.record(at, s.tags[0])
		if err != nil || ok && h.seq < s.below {
			return at, err
		}
		off = at
	}
}
