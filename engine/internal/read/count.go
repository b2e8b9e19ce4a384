package read

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// CountAbout estimates how many items a span has in a stripe, now: see stripe.Stripe.CountAbout.
func (s *State) CountAbout(id uint8, span base.Span, mayHold func(zone.Columns) bool) (float64,
	error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if span.Empty() {
		return 0, nil
	}
	stripes := s.env.Stripes
	if s.env.Follows {
		var n snapNode
		s.take(&n)
		defer s.snaps.release(&n)
		stripes = n.gen.stripes
	}
	n, err := stripes[id].CountAbout(span.Lo, span.Hi, mayHold)
	if err != nil {
		err = s.Error(err)
	}
	return n, err
}
