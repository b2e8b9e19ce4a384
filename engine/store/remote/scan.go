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
// waves grow: a short query reads little, a long one seldom waits.
const (
	firstWavePairs   = 256
	firstLimitPairs  = 4096    // if the number of items is known, of all runs together
	maxWavePairs     = 1 << 15 // of all runs together
	maxHeldPairs     = 1 << 17
	maxPagePairs     = 4096
	minPagePairs     = 16
	waveGrowth       = 4
	wantedWaveBytes  = 16 << 20 // by the mean size of the pairs so far
	maxSegmentsAhead = 8        // segments of a run that a wave reads, after the first one
)

// scan reads a range.
type scan struct {
	r       *Reader
	rg      *store.Range
	view    View
	runs    []run
	left    int // items until the limit, 0 for no limit
	wave    int // pairs that the next wave wants
	page    int // of each segment in the last wave
	pairs   int // read so far,
	bytes   int // and their bytes
	scratch []byte
	err     error // of a wave, which ends all runs
}

func newScan(r *Reader, rg *store.Range, v View) *scan {
	s := &scan{r: r, rg: rg, view: v, left: rg.Limit, wave: firstWavePairs, runs: r.Layout.runs(rg)}
	if rg.Limit > 0 && rg.Filter == nil {
		s.wave = firstLimitPairs
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

// fill reads a wave of pages: of each run that has few pairs left, from where it is.
//
// The first wave of a scan without a limit reads the beginnings of all segments. Why: little data
// is spread over all stripes, too, and then that is all of it.
func (s *scan) fill(ctx context.Context) error {
	if s.err != nil {
		return s.err
	}
	ahead := maxSegmentsAhead
	if s.pairs == 0 && s.left == 0 && len(s.runs) == 1 {
		ahead = len(s.runs[0].segs)
	}
	segs, held := s.waiting(ahead)
	s.page = s.pagePairs(len(segs), held)
	spans := make([]Span, len(segs))
	for i, seg := range segs {
		spans[i] = Span{seg.start, seg.end, s.rg.Reverse, s.page, s.enough()}
	}
	pages, err := s.view.Pages(ctx, spans)
	if err != nil {
		s.err = err
		return err
	}
	for i := range pages {
		s.take(segs[i], &pages[i])
	}
	s.wave = min(s.wave*waveGrowth, maxWavePairs)
	return nil
}

// waiting returns the segments whose pages a wave reads: those with few pairs left, of each run
// not more than ahead; and how many pairs are at hand.
func (s *scan) waiting(ahead int) (segs []*segment, held int) {
	for k := range s.runs {
		r := &s.runs[k]
		for i := range r.segs[:min(len(r.segs), ahead)] {
			held += len(r.segs[i].pairs)
		}
		for i := range r.segs[:min(len(r.segs), ahead)] {
			seg := &r.segs[i]
			enough := len(seg.pairs) > s.page/2
			if i == 0 && enough {
				break
			}
			if !seg.done && !enough {
				segs = append(segs, seg)
			}
		}
	}
	return segs, held
}

// pagePairs returns how many pairs are read of each of n segments. Runs that are read one after
// the other get large pages, as long as not too much is held.
func (s *scan) pagePairs(n, held int) int {
	wave := min(s.wave, max(maxHeldPairs-held, firstWavePairs))
	if s.pairs > 0 {
		wave = min(wave, wantedWaveBytes*s.pairs/max(s.bytes, 1))
	}
	page := min(max(wave/n, minPagePairs), maxPagePairs)
	if s.pairs > 0 { // large pairs
		page = max(1, min(page, wantedWaveBytes*s.pairs/max(s.bytes, 1)))
	}
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
		s.bytes += len(p.Pairs[i].Key) + len(p.Pairs[i].Value)
	}
	s.pairs += len(p.Pairs)
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
}

// all yields the items.
func (s *scan) all(ctx context.Context, yield func(store.Item, error) bool) error {
	now := s.r.Now()
	var m merge.Merge
	m.Init(merge.Options{Reverse: s.rg.Reverse, Versions: true})
	for i := range s.runs {
		r := &s.runs[i]
		r.fill = func() error { return s.fill(ctx) }
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
