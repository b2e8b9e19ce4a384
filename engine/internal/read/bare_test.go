package read

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// Scans of a span pass over the stripes that have nothing of it, and show each key that comes
// later, whether the stripes write, freeze or flush meanwhile.
func TestScansFindWhatComesToBareStripes(t *testing.T) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	span := base.Span{Lo: ordered("b"), Hi: ordered("c")}
	var want []string
	const stripes = 24 // that have keys
	runs := uint64(1)
	for range 1000 {
		for range rnd.IntN(3) {
			pk := fmt.Sprintf("%c%04d", 'a'+rnd.IntN(3), rnd.IntN(2000))
			if keycodec.Stripe([]byte(pk)) >= stripes {
				continue
			}
			if w.put(pk, "v"); pk[0] == 'b' && !slices.Contains(want, pk) {
				want = append(want, pk)
			}
		}
		if s := &w.stripes[rnd.IntN(stripes)]; rnd.IntN(4) == 0 {
			s.Lock()
			s.Freeze()
			s.Unlock()
			if rnd.IntN(2) == 0 {
				runs++
				out, err := s.Flush(ctx, new(stripe.Builder), w.Retention(), runs)
				if w.ok(err); out != nil {
					s.Install(out)
				}
			}
		}
		slices.Sort(want)
		it := begun(t, w.Reader(nil, nil), 0)
		it.Stripes(everyStripe, span)
		if rnd.IntN(3) == 0 {
			if n := it.Count(span); n != int64(len(want)) {
				t.Fatalf("%d are counted, want %d", n, len(want))
			}
			it.Close()
			continue
		}
		if rnd.IntN(2) == 0 {
			it.Walk(span, false)
		} else {
			it.Read(span, false)
		}
		got := names(t, it)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	full := map[uint8]bool{}
	for _, pk := range want {
		full[keycodec.Stripe([]byte(pk))] = true
	}
	known := w.snaps.gen.bare.of(span)
	for id := range known {
		s := &w.stripes[id]
		if got, err := known.has(uint8(id), s, span); err != nil || got == full[uint8(id)] {
			t.Errorf("stripe %d has something: %v, known to be bare: %v", id, full[uint8(id)], got)
		}
	}
}
