package read

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/stripe"
)

// A reader of a generation reads at the seq that became visible with it, if none has since: the
// stripes from before lack what is new, and the new files what was there before.
func TestGenerationsBeginWithTheirSeq(t *testing.T) {
	var gens [8][base.NumStripes]stripe.Stripe
	of := map[*[base.NumStripes]stripe.Stripe]int{}
	for i := range gens {
		of[&gens[i]] = i
	}
	s := New(Env{Stripes: &gens[0], Follows: true})
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				var m Moment
				if err := m.Take(s); err != nil {
					t.Error(err)
				}
				if gen := of[m.node.gen.stripes]; int(m.Seq())%len(gens) != gen {
					t.Errorf("generation %d is read at %d", gen, m.Seq())
				}
				m.Release()
			}
		})
	}
	for seq := range base.SeqNum(testutil.Effort(20_000, 1_000_000)) {
		s.Switch(&gens[int(seq)%len(gens)], seq, func() {})
	}
	done.Store(true)
	readers.Wait()
}
