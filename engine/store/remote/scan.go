package remote

import (
	"bytes"
	"context"
	"slices"

	"github.com/kstonedb/kstone/engine/store"
)

// How much is read at a time. A wave reads pages of all runs whose pages have been used up, and
// waves grow: a short query reads little, a long one seldom waits.
const (
	firstWavePairs   = 256
	firstLimitPairs  = 4096    // if the number of items is known, of all runs together
	maxWavePairs     = 1 << 15 // of all runs together
	maxPagePairs     = 4096
	minPagePairs     = 16
	waveGrowth       = 4
	wantedWaveBytes  = 16 << 20 // by the mean size of the pairs so far
	maxSegmentsAhead = 8        // segments of a run that are read at the same time
)

// scan reads a range.
type scan struct {
	r    *Reader
	rg   *store.Range
	view View
	// runs are all that may have more pairs; once primed, a heap by their next pairs.
	runs    []*run
	left    int // items until the limit, 0 for no limit
	wave    int // pairs that the next wave wants
	pairs   int // read so far,
	bytes   int // and their bytes
	scratch []byte
}

func newScan(r *Reader, rg *store.Range, v View) *scan {
	s := &scan{r: r, rg: rg, view: v, left: rg.Limit, wave: firstWavePairs}
	if rg.Limit > 0 && rg.Filter == nil {
		s.wave = firstLimitPairs
	}
	runs := r.Layout.runs(rg)
	for i := range runs {
		s.runs = append(s.runs, &runs[i])
	}
	return s
}

// ready reports whether the next pair is at hand. It drops segments that have none.
func (r *run) ready() bool {
	for len(r.segs) > 0 && len(r.segs[0].pairs) == 0 && r.segs[0].done {
		r.segs = r.segs[1:]
	}
	return len(r.segs) > 0 && len(r.segs[0].pairs) > 0
}

// head returns the next pair of a run that is ready.
func (r *run) head() *Pair { return &r.segs[0].pairs[0] }

// prime reads until the next pairs of all runs are at hand, drops empty runs, and makes the heap.
func (s *scan) prime(ctx context.Context) error {
	for {
		waiting := false
		s.runs = slices.DeleteFunc(s.runs, func(r *run) bool {
			ready := r.ready()
			waiting = waiting || !ready && len(r.segs) > 0
			return len(r.segs) == 0
		})
		if !waiting {
			break
		}
		if err := s.fill(ctx); err != nil {
			return err
		}
	}
	for i := len(s.runs)/2 - 1; i >= 0; i-- {
		s.sift(i)
	}
	return nil
}

// fill reads a wave of pages: of each run that has few pairs left, from where it is.
func (s *scan) fill(ctx context.Context) error {
	page := s.pagePairs()
	var segs []*segment
	var spans []Span
	for _, r := range s.runs {
		for i := range r.segs[:min(len(r.segs), maxSegmentsAhead)] {
			seg := &r.segs[i]
			if seg.done || i > 0 && seg.begun {
				continue
			}
			if len(seg.pairs) > page/2 {
				break
			}
			segs = append(segs, seg)
			spans = append(spans, Span{seg.start, seg.end, s.rg.Reverse, page})
		}
	}
	pages, err := s.view.Pages(ctx, spans)
	if err != nil {
		return err
	}
	for i := range pages {
		s.take(segs[i], &pages[i])
	}
	s.wave = min(s.wave*waveGrowth, maxWavePairs)
	return nil
}

// pagePairs returns how many pairs are read of each segment.
func (s *scan) pagePairs() int {
	wave := s.wave
	if s.pairs > 0 {
		wave = min(wave, wantedWaveBytes*s.pairs/max(s.bytes, 1))
	}
	page := min(max(wave/len(s.runs), minPagePairs), maxPagePairs)
	if s.pairs > 0 { // large pairs
		page = max(1, min(page, wantedWaveBytes*s.pairs/max(s.bytes, 1)))
	}
	if s.left > 0 && s.rg.Filter == nil {
		page = min(page, s.left)
	}
	return page
}

// take adds a page to its segment.
func (s *scan) take(seg *segment, p *Page) {
	seg.begun, seg.done = true, !p.More
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

// all yields the items. The runs are primed.
func (s *scan) all(ctx context.Context, yield func(store.Item, error) bool) error {
	now := s.r.Now()
	for len(s.runs) > 0 {
		r := s.runs[0]
		it, ok, err := item(*r.head(), now)
		if err == nil && ok {
			err = s.decodeKey(r, &it)
		}
		if err != nil {
			return err
		}
		if ok && (s.rg.Filter == nil || s.rg.Filter(it)) {
			if !yield(it, nil) {
				return nil
			}
			if s.left > 0 {
				if s.left--; s.left == 0 {
					return nil
				}
			}
		}
		if err := s.advance(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// decodeKey sets the key of the item of the run's next pair.
func (s *scan) decodeKey(r *run, it *store.Item) (err error) {
	key := r.head().Key
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

// advance passes over the next pair of the first run.
func (s *scan) advance(ctx context.Context, r *run) error {
	seg := &r.segs[0]
	seg.pairs = seg.pairs[1:]
	for !r.ready() {
		if len(r.segs) == 0 {
			last := len(s.runs) - 1
			s.runs[0] = s.runs[last]
			s.runs = s.runs[:last]
			break
		}
		if err := s.fill(ctx); err != nil {
			return err
		}
	}
	if len(s.runs) > 1 {
		s.sift(0)
	}
	return nil
}

// sift moves the run at place i of the heap down to where it belongs.
func (s *scan) sift(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(s.runs); child++ {
			if s.before(s.runs[child], s.runs[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		s.runs[i], s.runs[least] = s.runs[least], s.runs[i]
		i = least
	}
}

// before reports whether the next pair of a comes before that of b.
func (s *scan) before(a, b *run) bool {
	c := bytes.Compare(a.head().Key[a.skip:], b.head().Key[b.skip:])
	if s.rg.Reverse {
		c = -c
	}
	return c < 0 || c == 0 && a.place < b.place
}
