package read

import (
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/stripe"
)

// A merge that drops what has expired between the looks for the first and the last item of a stripe
// leaves no extent that ends before it starts: the record of such a range delete cannot be read.
func TestExtentsBesideMerges(t *testing.T) {
	w := newWorld(t)
	w.now.Store(20)
	id, runs := keycodec.Stripe([]byte("a")), uint64(0)
	s := &w.stripes[id]
	var b stripe.Builder
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			r := w.Reader(nil, nil)
			extents, err := r.Extents(nil, base.Span{})
			if err != nil {
				t.Error(err)
			}
			for _, e := range extents {
				if e.Empty() {
					t.Errorf("stripe %d has %q", e.Stripe, e.Span)
					return
				}
			}
		}
	}()
	for range testutil.Effort(4000, 40_000) {
		w.Publish(w.write(base.Entry{
			Key: ordered("a"), Kind: base.KindPutTTL, Value: []byte("short"), Expiry: 10,
		}))
		w.flushStripe(id, &runs)
		if v := s.Acquire(); len(v.Runs) > 0 {
			plan := compaction.Plan{Hi: len(v.Runs), Bottom: true}
			runs++
			out, err := s.Compact(ctx, &b, v, plan, w.Retention(), runs)
			w.ok(err)
			s.Install(out)
			v.Release()
		} else {
			v.Release()
		}
		if t.Failed() {
			break
		}
	}
	over.Store(true)
	<-done
}
