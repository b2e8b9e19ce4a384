package engine

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Query selects items of one partition, in sort key order.
type Query struct {
	// PK is the partition.
	PK []byte
	// SK restricts the sort keys. The zero value accepts all.
	SK SKCondition
	// Reverse returns the highest sort key first.
	Reverse bool
	// Since, if not 0, selects the items whose last change has a greater version, see Scan.
	Since uint64
	// Limit ends the iteration after that many items. 0 means no limit.
	Limit int
	// After resumes after an earlier item: see CursorAfter. Nil starts at the
	// beginning.
	After Cursor
	// KeysOnly returns items without their values; see Options.LargeValue.
	KeysOnly bool
	// Filter, if not nil, decides which items are returned; Limit counts returned
	// items. It is called in the reader's goroutine with an item as valid as in a
	// loop body.
	Filter func(Item) bool
	// MayHold, if not nil, reports whether a block or file with that zone may have an item that
	// Filter, which is needed, accepts: see [DB.Describe]. Where it cannot, nothing is read.
	// It is called in the reader's goroutine. What it has denied once it denies each time.
	MayHold func(Zone) bool
	// Blocks, if not nil, counts the blocks of the runs that were tested.
	Blocks *BlockCounts
}

// CursorAfter returns the cursor that resumes the query exactly after item, which
// must come from an iteration of the same query. Items written or deleted in
// between do not disturb it. It is safe to hand to other processes.
func (q *Query) CursorAfter(item Item) Cursor {
	return newCursor(q.fingerprint(), item.Key)
}

// fingerprint identifies everything a cursor of this query depends on.
func (q *Query) fingerprint() uint32 {
	f := newFingerprint("query")
	f.bytes(q.PK)
	f.byte(byte(q.SK.op))
	f.bytes(q.SK.a)
	f.bytes(q.SK.b)
	if q.SK.op == skRange {
		f.bool(q.SK.b != nil) // an empty bound is not an absent one
	}
	if q.SK.orNone {
		f.bool(true)
	}
	f.bool(q.Reverse)
	f.since(q.Since)
	return f.sum()
}

// span validates the query and returns the ordered keys it covers, with After
// applied, in buf if it is large enough, and the length of what those of the partition begin
// with.
func (q *Query) span(buf []byte) (s base.Span, prefix int, err error) {
	if q.Limit < 0 {
		return s, 0, invalid("query: limit %d is negative", q.Limit)
	}
	if err := checkMayHold("query", q.MayHold, q.Filter); err != nil {
		return s, 0, err
	}
	s, prefix, err = q.SK.span("query", buf, q.PK)
	if err != nil || len(q.After) == 0 {
		return s, prefix, err
	}
	key, err := q.After.position(q.fingerprint())
	if err != nil {
		return base.Span{}, 0, err
	}
	return resume(s, key, q.Reverse), prefix, nil
}

// Scan selects items of all partitions.
type Scan struct {
	// Unordered returns the items stripe by stripe (in key order within each),
	// which is about twice as fast as the global key order.
	Unordered bool
	// Segment and Segments divide the scan into disjoint parts for parallel
	// readers: part Segment of Segments, counted from 0. A partition key always
	// belongs to the same part. Segments 0 means the whole; at most 256.
	Segment, Segments int
	// Share, if not nil, divides an unordered scan among all scans with it, which must read one
	// snapshot: each stripe is read by the first that comes to it. Not together with Segments,
	// Limit or After.
	Share *Share
	// Reverse returns the highest key first (with Unordered: in each stripe).
	Reverse bool
	// From and To restrict the keys, whatever the direction: From is included and To is
	// not, unless FromExcluded and ToIncluded say otherwise. A zero Key is no bound. A key
	// without SK stands for the item without sort key, the first of its partition: as From
	// it selects the whole partition, as To nothing of it. A bound need not exist, and may
	// be longer than a key. Of each stripe only the part inside is read.
	From, To                 Key
	FromExcluded, ToIncluded bool
	// Since, if not 0, selects the items whose last change has a greater version: what was
	// put after a commit or snapshot of that version. A transaction's own writes are selected
	// too. What was deleted or has expired is not shown. Files and blocks without greater
	// versions are not read, so the cost follows what has changed since the last merges.
	Since uint64
	// Limit ends the iteration after that many items. 0 means no limit.
	Limit int
	// After resumes after an earlier item: see CursorAfter.
	After Cursor
	// StartAfter starts after (with Reverse: before) this key, which need not
	// exist. Only for ordered scans; After takes precedence.
	StartAfter Key
	// KeysOnly, Filter, MayHold and Blocks are as in Query.
	KeysOnly bool
	Filter   func(Item) bool
	MayHold  func(Zone) bool
	Blocks   *BlockCounts
}

// CursorAfter returns the cursor that resumes the scan exactly after item.
func (s *Scan) CursorAfter(item Item) Cursor {
	return newCursor(s.fingerprint(), item.Key)
}

func (s *Scan) fingerprint() uint32 {
	f := newFingerprint("scan")
	f.bool(s.Unordered)
	f.int(s.Segment)
	f.int(s.Segments)
	f.bool(s.Reverse)
	if s.From.PK != nil || s.To.PK != nil {
		f.bytes(s.From.PK)
		f.bool(s.To.PK != nil)
		f.bytes(s.To.PK)
		if s.From.SK != nil || s.To.SK != nil || s.FromExcluded || s.ToIncluded {
			f.bytes(s.From.SK)
			f.bytes(s.To.SK)
			f.bool(s.FromExcluded)
			f.bool(s.ToIncluded)
		}
	}
	f.since(s.Since)
	return f.sum()
}

func (f *fingerprinter) since(version uint64) {
	if version > 0 {
		f.bytes(binary.BigEndian.AppendUint64(nil, version))
	}
}

// above returns the lowest version that Since selects.
func above(since uint64) base.SeqNum {
	if since == 0 {
		return 0
	}
	return base.SeqNum(min(since, math.MaxUint64-1)) + 1
}

// bounds validates From and To of an operation and returns the ordered keys between them.
func (s *Scan) bounds(op string) (b base.Span, err error) {
	for _, k := range [...]Key{s.From, s.To} {
		if k.SK != nil && len(k.PK) == 0 {
			return b, keyError(op, ErrEmptyPK)
		}
		if k.SK != nil && len(k.SK) == 0 {
			return b, keyError(op, ErrEmptySK)
		}
	}
	if len(s.From.PK) > 0 {
		b.Lo = keycodec.AppendOrdered(nil, s.From)
		if s.FromExcluded {
			b.Lo = append(b.Lo, 0)
		}
	}
	if s.To.PK != nil {
		b.Hi = keycodec.AppendOrdered(nil, s.To)
		if s.ToIncluded {
			b.Hi = append(b.Hi, 0)
		}
	}
	return b, nil
}

// scanPlan is a validated Scan.
type scanPlan struct {
	span base.Span
	// stripes to read, in reading order.
	stripes []uint8
	// first is the part of span that an unordered scan reads of the first of stripes.
	first base.Span
}

// allStripes are the numbers of all stripes.
var allStripes = func() (ids [base.NumStripes]uint8) {
	for i := range ids {
		ids[i] = uint8(i)
	}
	return ids
}()

// all reports whether every item between From and To is selected.
func (s *Scan) all() bool {
	return s.Filter == nil && s.MayHold == nil && s.Since == 0 && s.Limit == 0 &&
		len(s.After) == 0 && !s.startsAfter() && s.Share == nil
}

// startsAfter reports whether StartAfter is set, rightly or not.
func (s *Scan) startsAfter() bool { return s.StartAfter.PK != nil || s.StartAfter.SK != nil }

// plan validates the scan.
func (s *Scan) plan() (p scanPlan, err error) {
	if err = checkMayHold("scan", s.MayHold, s.Filter); err != nil {
		return p, err
	}
	p.span, err = s.bounds("scan")
	switch {
	case err != nil:
		return p, err
	case s.Limit < 0:
		return p, invalid("scan: limit %d is negative", s.Limit)
	case s.Segments < 0 || s.Segments > 256:
		return p, invalid("scan: %d segments are outside 0 to 256", s.Segments)
	case s.Segment < 0 || s.Segment >= max(1, s.Segments):
		return p, invalid("scan: segment %d of %d", s.Segment, s.Segments)
	case s.Share != nil && (!s.Unordered || s.Segments != 0 || s.Limit != 0 || len(s.After) > 0):
		return p, invalid("scan: only all of an unordered scan can be shared")
	case s.Unordered && s.startsAfter():
		return p, invalid("scan: StartAfter needs an ordered scan; use After")
	}
	p.first = p.span
	p.stripes = allStripes[:]
	if s.Segments > 1 {
		p.stripes = nil
		for i := s.Segment; i < len(allStripes); i += s.Segments {
			p.stripes = append(p.stripes, uint8(i))
		}
	}
	var from Key
	switch {
	case len(s.After) > 0:
		key, err := s.After.position(s.fingerprint())
		if err != nil {
			return p, err
		}
		from = key
	case s.startsAfter():
		from = s.StartAfter
		if err := from.Validate(); err != nil {
			return p, keyError("scan", err)
		}
	default:
		return p, nil
	}
	p.first = resume(p.span, from, s.Reverse)
	if !s.Unordered {
		p.span = p.first
		return p, nil
	}
	at := keycodec.Stripe(from.PK)
	for len(p.stripes) > 0 && p.stripes[0] != at {
		p.stripes = p.stripes[1:]
	}
	return p, nil
}

// resume cuts the span down to what lies after key in the given direction.
func resume(s base.Span, key Key, reverse bool) base.Span {
	k := keycodec.AppendOrdered(nil, key)
	if !reverse {
		s.Lo = maxKey(s.Lo, append(k, 0))
	} else if s.Hi == nil || bytes.Compare(k, s.Hi) < 0 {
		s.Hi = k
	}
	return s
}
