package dedup

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// contestant asks about keys and returns how many it calls present.
type contestant struct {
	name string
	ask  func(keys []uint64) (int, error)
}

// comparison is one case: what is asked in each round, and the contestants. The first contestant
// is what ratios are to.
type comparison struct {
	table, name string
	rows        int
	questions   func() []uint64
	contestants []contestant
	document    float64 // the figure of the first
}

// compare lets the contestants take turns; each round begins with another one.
func (b *bench) compare(c comparison) error {
	times := make([][]float64, len(c.contestants))
	positive := make([]float64, len(c.contestants))
	for round := range b.Repeat {
		keys := c.questions()
		err := measure.Rotate(b.ctx, round, len(c.contestants), func(i int) error {
			start := measure.ThreadTime()
			n, err := c.contestants[i].ask(keys)
			took := measure.ThreadTime() - start
			times[i] = append(times[i], float64(took)/float64(len(keys)))
			positive[i] = float64(n) / float64(len(keys))
			return err
		})
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.table, c.name, err)
		}
	}
	ratios := make([]float64, len(times))
	for i := range times {
		ratios[i] = ratio(times[0], times[i])
	}
	for i, contestant := range c.contestants {
		f := result.Figures{nsPerKey: report.Middle(times[i]), figRatio: ratios[i],
			figPositive: positive[i]}
		if c.document > 0 && i == 0 {
			f[figStudy] = c.document
		}
		if err := b.finish(record(c.table, c.name, contestant.name, f), c.rows); err != nil {
			return err
		}
	}
	return nil
}
