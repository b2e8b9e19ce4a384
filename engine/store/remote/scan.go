package remote

import (
	"bytes"
	"context"
	"slices"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/merge"
)

// How much is read at a time. A wave reads pages of all runs whose pages have been used up, and
// waves grow: a short query reads little, a long one seldom waits. While the caller works on the
// second half of what is at hand, the next wave is under way: see lookAhead.
const (
	firstWavePairs   = 256
	firstLimitPairs  = 4096    // if the number of items is known, of all runs together
	maxWavePairs     = 1 << 15 // of all runs together
	maxHeldPairs     = 1 << 17
	leastWavePairs   = 1024 // if as much is held
	maxPagePairs     = 4096
	minPagePairs     = 16
	waveGrowth       = 4
	wantedWaveBytes  = 16 << 20 // by the mean size of the pairs so far, as what follows
	wantedHeldBytes  = 64 << 20
	leastWaveBytes   = 256 << 10
	maxSegmentsAhead = 8 // segments of a run that a wave reads, after the first one
)

// scan reads a range.
type scan struct {
	r       *Reader
	rg      *store.Range
	view    View
	runs    []run
	left    int   // items until the limit, 0 for no limit
	size    int   // pairs that the next wave wants
	page    int   // of each segment in the last wave
	pairs   int64 // read so far,
	bytes   int64 // and their bytes
	scratch []byte
	err     error // of a wave, which ends all runs
	ahead   ahead
}

// wave is a number of pages that are read together, of segments.
type wave struct {
	runs  []*run // those of the segments
	segs  []*segment
	spans []Span
	pages []Page
	err   error
}

func newScan(r *Reader, rg *store.Range, v View) *scan {
	s := &scan{r: r, rg: rg, view: v, left: rg.Limit, size: firstWavePairs}
	s.runs = r.Layout.runs(rg)
	if rg.Limit > 0 && rg.Filter == nil {
		s.size = firstLimitPairs
	}
	return s
}

// Rows implements cursor.Source: it moves to the next pair, and drops segments that have none.
func (r *run) Rows() []base.Entry {
	for len(r.segs) > 0 {
		seg := &r.segs[0]
		switch {
		case len(seg.pairs) > 0:
			r.pair, seg.pairs = seg.pairs[0], seg.pairs[1:]
			r.entry[0].Key = r.pair.Key
			if r.held--; r.held <= r.low || len(seg.pairs) <= seg.low {
				r.lookAhead()
			}
			return r.entry[:]
		case seg.done:
			r.segs = r.segs[1:]
		default:
			if r.err = r.fill(); r.err != nil {
				return nil
			}
		}
	}
	return nil
}

// Err implements cursor.Source.
func (r *run) Err() error { return r.err }

// fill reads a wave of pages: the one that is under way, or one of each run that has few pairs
// left, from where it is.
func (s *scan) fill(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	w := s.ahead.arrived()
	if w == nil {
		w = s.next(nil)
		w.pages, w.err = s.view.Pages(ctx, w.spans)
	}
	if s.err = w.err; s.err != nil {
		return s.err
	}
	for i := range w.pages {
		s.take(w.segs[i], &w.pages[i])
	}
	for _, r := range w.runs {
		r.watch()
	}
	return nil
}

// next returns the wave of the segments with few pairs left: that of a run which has none left, or
// of one that looks ahead.
//
// The first wave of a scan without a limit reads the beginnings of all segments. Why: little data
// is spread over all stripes, too, and then that is all of it.
func (s *scan) next(ahead *run) *wave {
	most, n, held := maxSegmentsAhead, len(s.runs), 0
	if n == 1 {
		if s.pairs == 0 && s.left == 0 {
			most = len(s.runs[0].segs)
		}
		n = min(most, len(s.runs[0].segs))
	}
	for i := range s.runs {
		held += s.runs[i].held
	}
	w := &wave{}
	for i, page := 0, s.pagePairs(n, held); i < len(s.runs); i++ {
		r := &s.runs[i]
		enough := page / 2
		if ahead != nil {
			enough = page / 4 * 3
		}
		if segs := r.wanted(most, enough, r == ahead); len(segs) > 0 {
			w.runs, w.segs = append(w.runs, r), append(w.segs, segs...)
		}
	}
	if len(w.segs) == 0 {
		return w
	}
	s.page = s.pagePairs(len(w.segs), held)
	w.spans = make([]Span, len(w.segs))
	for i, seg := range w.segs {
		w.spans[i] = Span{seg.start, seg.end, s.rg.Reverse, s.page, s.enough()}
	}
	s.size = min(s.size*waveGrowth, maxWavePairs)
	return w
}

// pagePairs returns how many pairs are read of each of n segments. Runs that are read one after
// the other get large pages, as long as not too much is held.
func (s *scan) pagePairs(n, held int) int {
	wave, most := s.size, maxHeldPairs
	least, page := leastWavePairs, maxPagePairs
	if s.pairs > 0 {
		pairs := func(bytes int64) int {
			return int(min(max(1, bytes*s.pairs/max(s.bytes, 1)), maxHeldPairs))
		}
		wave, page = min(wave, pairs(wantedWaveBytes)), min(page, pairs(wantedWaveBytes))
		most, least = min(most, pairs(wantedHeldBytes)), min(least, pairs(leastWaveBytes))
	}
	wave = min(wave, max(most-held, least))
	page = min(page, max(wave/n, minPagePairs))
	if s.left > 0 && s.rg.Filter == nil {
		page = min(page, s.left)
	}
	return page
}

// enough reports whether a page has all items that the scan returns, unless some have expired.
func (s *scan) enough() bool {
	return s.left > 0 && s.rg.Filter == nil && len(s.runs) == 1 && s.page >= s.left
}

// take adds a page to its segment.
func (s *scan) take(seg *segment, p *Page) {
	seg.done = !p.More
	for i := range p.Pairs {
		s.bytes += int64(len(p.Pairs[i].Key) + len(p.Pairs[i].Value))
	}
	s.pairs += int64(len(p.Pairs))
	if n := len(p.Pairs); n > 0 {
		last := p.Pairs[n-1].Key
		if s.rg.Reverse {
			seg.end = last
		} else {
			seg.start = append(slices.Clip(last), 0)
		}
		seg.done = seg.done || bytes.Compare(seg.start, seg.end) >= 0
	}
	if len(seg.pairs) == 0 {
		seg.pairs = p.Pairs
	} else {
		seg.pairs = append(seg.pairs, p.Pairs...)
	}
	if seg.low = len(seg.pairs) / 2; seg.done {
		seg.low = -1
	}
}

// all yields the items.
func (s *scan) all(ctx context.Context, yield func(store.Item, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.ahead.end(s.r.Ahead, cancel)
	now := s.r.Now()
	var m merge.Merge
	m.Init(merge.Options{Reverse: s.rg.Reverse, Versions: true})
	for i := range s.runs {
		r := &s.runs[i]
		r.fill = func() error { return s.fill(ctx) }
		r.lookAhead = func() { s.lookAhead(ctx, r) }
		*m.Add() = merge.Input{Source: r, Skip: int32(r.skip), Age: int32(i)}
	}
	for len(m.Rows()) > 0 {
		_, i := m.From()
		r := &s.runs[i]
		it, ok, err := item(r.pair, now)
		if err == nil && ok {
			err = s.decodeKey(r, &it)
		}
		if err != nil {
			return err
		}
		if !ok || s.rg.Filter != nil && !s.rg.Filter(it) {
			continue
		}
		if !yield(it, nil) {
			return nil
		}
		if s.left > 0 {
			if s.left--; s.left == 0 {
				return nil
			}
		}
	}
	return m.Err()
}

// decodeKey sets the key of the item of the run's pair.
func (s *scan) decodeKey(r *run, it *store.Item) (err error) {
	key := r.pair.Key
	if r.pk == nil {
		it.Key, s.scratch, err = s.r.Layout.DecodeKey(key, s.scratch)
		return err
	}
	it.Key.PK = r.pk
	if len(key) > r.skip {
		it.Key.SK = key[r.skip:]
	}
	return nil
}
