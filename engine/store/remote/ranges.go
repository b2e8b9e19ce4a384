package remote

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// segment is a range of encoded keys that is read page by page.
type segment struct {
	start, end []byte
	pairs      []Pair // read and not yet returned
	low        int    // with so many left the scan looks ahead, -1 for never
	done       bool   // all pages have been read
}

// run is a sequence of segments whose pairs are in order: a source of a merge.
type run struct {
	segs []segment
	pk   []byte // the partition of all its items, nil if there are several
	skip int    // the bytes of its keys that are before what runs are merged by

	fill      func() error // reads pages of this run, at least
	lookAhead func()       // has them read
	held      int          // pairs of all its segments
	low       int          // as that of a segment
	pair      Pair         // the present one
	entry     [1]base.Entry
	err       error
}

// runs divides a range into what is merged. Of equal keys that of the earlier run comes first.
func (l Layout) runs(rg *store.Range) []run {
	var out []run
	if rg.Kind == store.KindPartitions {
		out = l.partitionRuns(rg)
	} else {
		out = l.intervalRuns(rg)
	}
	for i := range out {
		out[i].segs = slices.DeleteFunc(out[i].segs, func(s segment) bool {
			return bytes.Compare(s.start, s.end) >= 0
		})
	}
	if rg.Reverse {
		slices.Reverse(out)
		for i := range out {
			slices.Reverse(out[i].segs)
		}
	}
	if rg.Unordered && len(out) > 1 {
		out = []run{concatenated(out)}
	}
	return slices.DeleteFunc(out, func(r run) bool { return len(r.segs) == 0 })
}

// concatenated returns one run with the segments of all.
func concatenated(runs []run) run {
	var one run
	for i := range runs {
		one.segs = append(one.segs, runs[i].segs...)
	}
	return one
}

// partitionRuns returns a run for each partition, with its spans as segments.
func (l Layout) partitionRuns(rg *store.Range) []run {
	out := make([]run, len(rg.PKs))
	for i, pk := range rg.PKs {
		prefix := l.AppendKey(nil, store.Key{PK: pk})
		out[i] = run{pk: pk, skip: len(prefix)}
		spans := rg.SpansOf(i)
		if len(spans) == 0 {
			end, _ := keycodec.PrefixEnd(nil, prefix)
			out[i].segs = []segment{{start: prefix, end: end}}
		}
		for _, span := range spans {
			out[i].segs = append(out[i].segs, spanSegment(prefix, span))
		}
		if rg.After.PK != nil {
			l.cutPartition(&out[i], rg, prefix)
		}
	}
	return out
}

// spanSegment is about sort keys, so that it leaves out the item without one: the least sort key
// is 00.
func spanSegment(prefix []byte, span store.Span) (s segment) {
	s.start = append(slices.Clip(prefix), span.Start...)
	if len(span.Start) == 0 {
		s.start = append(slices.Clip(prefix), 0)
	}
	if span.End != nil {
		s.end = append(slices.Clip(prefix), span.End...)
	} else {
		s.end, _ = keycodec.PrefixEnd(nil, prefix)
	}
	return s
}

// cutPartition restricts the run of a partition to what is after rg.After.
func (l Layout) cutPartition(r *run, rg *store.Range, prefix []byte) {
	c := bytes.Compare(r.pk, rg.After.PK)
	if rg.Reverse {
		c = -c
	}
	at := append(slices.Clip(prefix), rg.After.SK...)
	switch {
	case rg.Unordered && c < 0: // the partition comes before
		r.segs = nil
	case rg.Unordered && c > 0: // and after
	default:
		// Merged by sort key, then partition: of a later partition the same sort key comes after.
		cut(r, at, rg.Reverse, c > 0)
	}
}

// intervalRuns returns a run for each stripe.
func (l Layout) intervalRuns(rg *store.Range) []run {
	heads := l.Heads()
	out := make([]run, len(heads))
	after := keycodec.Stripe(rg.After.PK)
	for i, head := range heads {
		s := segment{start: head}
		s.end, _ = keycodec.PrefixEnd(nil, head)
		if rg.From != nil {
			s.start = keycodec.AppendOrderedPK(slices.Clip(head), rg.From)
		}
		if rg.To != nil {
			s.end = keycodec.AppendOrderedPK(slices.Clip(head), rg.To)
		}
		out[i] = run{segs: []segment{s}, skip: len(head)}
		if rg.After.PK == nil {
			continue
		}
		c := 0
		if rg.Unordered && l.striped { // stripe after stripe
			if c = i - int(after); rg.Reverse {
				c = -c
			}
		}
		switch {
		case c < 0:
			out[i].segs = nil
		case c == 0:
			cut(&out[i], keycodec.AppendOrdered(slices.Clip(head), rg.After), rg.Reverse, false)
		}
	}
	return out
}

// cut restricts a run to the keys after at, and at itself if it is included.
func cut(r *run, at []byte, reverse, included bool) {
	if reverse == included {
		at = append(at, 0) // what is next
	}
	for i := range r.segs {
		s := &r.segs[i]
		if reverse && bytes.Compare(at, s.end) < 0 {
			s.end = at
		}
		if !reverse && bytes.Compare(at, s.start) > 0 {
			s.start = at
		}
	}
}

// Spans returns the ranges of encoded keys that a range of partitions or an interval covers.
func (l Layout) Spans(rg *store.Range) (spans []Span) {
	for _, r := range l.runs(rg) {
		for i := range r.segs {
			spans = append(spans, Span{Start: r.segs[i].start, End: r.segs[i].end})
		}
	}
	return spans
}
