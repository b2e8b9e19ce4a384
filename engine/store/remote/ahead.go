package remote

import "context"

// Ahead says whether a scan asks for its next pages while its caller works on those at hand, and
// what happens to them if the iteration ends before they are there.
type Ahead uint8

const (
	// AheadCanceled reads ahead; the end of the iteration cancels that, and waits until it has
	// ended.
	AheadCanceled Ahead = iota
	// AheadAwaited reads ahead; the end of the iteration waits for the answer. It is for views
	// that a read whose context ends makes useless, as it breaks their connection.
	AheadAwaited
	// NoAhead reads when it must. It is for views whose reads see writes that come in between.
	NoAhead
)

// ahead is the wave of a scan that is under way: at most one, read by a goroutine of its own. What
// a scan holds is bounded as without it: see pagePairs.
type ahead struct {
	wave chan *wave // or nil; it has room for one
}

// arrived waits for the wave under way and returns it, or nil.
func (a *ahead) arrived() *wave {
	if a.wave == nil {
		return nil
	}
	w := <-a.wave
	a.wave = nil
	return w
}

// end ends the wave under way. Cancel ends the context that it is read with.
func (a *ahead) end(how Ahead, cancel context.CancelFunc) {
	if how == AheadAwaited {
		a.arrived()
	}
	cancel()
	a.arrived()
}

// lookAhead sends the next wave if run r has use for it: half of what it held is used up. An error
// of the wave is returned where its pairs would be.
func (s *scan) lookAhead(ctx context.Context, r *run) {
	switch {
	case s.ahead.wave != nil, s.err != nil, s.r.Ahead == NoAhead:
		return
	case s.left > 0 && s.rg.Filter == nil && r.held+1 >= s.left:
		return // with the present pair there are enough
	}
	w := s.next(r)
	if len(w.segs) == 0 {
		r.low = r.held / 2
		return
	}
	arrived := make(chan *wave, 1)
	s.ahead.wave = arrived
	go func() {
		w.pages, w.err = s.view.Pages(ctx, w.spans)
		arrived <- w
	}()
}

// watch sets what the run holds, and what it looks ahead at.
func (r *run) watch() {
	r.held = 0
	for i := range r.segs {
		if r.held += len(r.segs[i].pairs); i < maxSegmentsAhead {
			r.low = r.held
		}
	}
	r.low = r.held - r.low/2
}

// wanted returns the segments that get a page with the next wave: those of the first ones, as many
// as most, that do not have more than enough pairs. The first one is wanted if the run looks ahead
// because of it.
func (r *run) wanted(most, enough int, ahead bool) (segs []*segment) {
	for i := range r.segs[:min(len(r.segs), most)] {
		seg := &r.segs[i]
		if !seg.done && (len(seg.pairs) <= enough || ahead && len(seg.pairs) <= seg.low) {
			segs = append(segs, seg)
		}
	}
	return segs
}
