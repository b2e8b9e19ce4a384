package read

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
)

// TestReadSetStaysSmall: what is read again and again is noted a bounded number of times, and
// spans that are joined cover what they did.
func TestReadSetStaysSmall(t *testing.T) {
	var o Overlay
	span := func(i int) base.Span {
		return base.Span{Lo: fmt.Appendf(nil, "%04d", 3*i), Hi: fmt.Appendf(nil, "%04d", 3*i+1)}
	}
	for i := range 4 * minFull {
		o.answer(uint8(i%2), &base.Lookup{Key: fmt.Appendf(nil, "%d", i%2000)})
		o.note(uint8(i%2), span(i%2000))
	}
	if len(o.keys) > minFull || len(o.spans) > minFull {
		t.Errorf("%d keys, %d spans", len(o.keys), len(o.spans))
	}
	o.compactSpans()
	if len(o.spans) != 2000 {
		t.Errorf("%d spans of 2000", len(o.spans))
	}
	o.note(1, base.Span{Lo: []byte("0001"), Hi: []byte("0009")})
	o.note(1, base.Span{Lo: []byte("5990")})
	o.compactSpans()
	last := o.spans[len(o.spans)-1]
	for _, r := range o.spans {
		if r.stripe == 1 && string(r.span.Lo) == "0001" && string(r.span.Hi) != "0010" {
			t.Errorf("what was joined ends at %s", r.span.Hi)
		}
	}
	// Of stripe 1, three become one, and so do those from 5990 on.
	if len(o.spans) != 2000-2 || last.span.Hi != nil {
		t.Errorf("%d spans, the last is %+v", len(o.spans), last)
	}
}
