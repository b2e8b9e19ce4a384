package read

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// StripeSpan is a span within one stripe.
type StripeSpan struct {
	base.Span
	Stripe uint8
}

// Extents appends to dst, of each stripe that has items of the span, the span from the first of
// them to right after the last. It notes nothing as read. Requires: all stripes are locked,
// unless the reader has a moment.
func (r *Reader) Extents(dst []StripeSpan, s base.Span) ([]StripeSpan, error) {
	snap := base.MaxSeqNum
	if r.at != nil {
		snap = r.at.node.seq
	}
	var c stripe.Cursor
	defer c.Close()
	for id := range r.stripes() {
		over := r.overlay(uint8(id))
		b := stripe.Bounds{Lo: s.Lo, Hi: s.Hi, Snap: snap, FirstRows: 1, KeysOnly: true}
		first, err := r.firstKey(&c, id, b, over)
		if err != nil {
			return nil, err
		}
		if first == nil {
			continue
		}
		base.Yield()
		b.Reverse = true
		last, err := r.firstKey(&c, id, b, over)
		if err != nil {
			return nil, err
		}
		if last == nil { // all had expired, and a merge dropped it meanwhile
			continue
		}
		dst = append(dst, StripeSpan{base.Span{Lo: first, Hi: append(last, 0)}, uint8(id)})
	}
	return dst, nil
}

// firstKey returns a copy of the first key inside of the bounds, or nil.
func (r *Reader) firstKey(
	c *stripe.Cursor, id int, b stripe.Bounds, over *memtable.Table,
) ([]byte, error) {
	c.Close()
	err := c.Add(&r.stripes()[id], &b, over)
	if err == nil {
		if rows := c.Rows(); len(rows) > 0 {
			return bytes.Clone(rows[0].Key), nil
		}
		err = c.Err()
	}
	if err != nil {
		err = r.state.Error(err)
	}
	return nil, err
}
