package dedup

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/report"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// contestant asks about keys and returns how many it calls present.
type contestant struct {
	name string
	ask  func(keys []uint64) (int, error)
}

// comparison is one case: what is asked in each round, and of whom. The first contestant
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
		for j := range c.contestants {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			i := (round + j) % len(c.contestants)
			start := threadTime()
			n, err := c.contestants[i].ask(keys)
			took := threadTime() - start
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, c.contestants[i].name, err)
			}
			times[i] = append(times[i], float64(took)/float64(len(keys)))
			positive[i] = float64(n) / float64(len(keys))
		}
	}
	ratios := make([]float64, len(times))
	for i := range times {
		ratios[i] = ratio(times[0], times[i])
	}
	for i, who := range c.contestants {
		r := record(c.table, c.name, who.name, result.Figures{nsPerKey: report.Middle(times[i]),
			figRatio: ratios[i], figPositive: positive[i]})
		if c.document > 0 && i == 0 {
			r.Figures[figStudy] = c.document
		}
		if err := b.finish(r, c.rows); err != nil {
			return err
		}
	}
	return nil
}
