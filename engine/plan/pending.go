package plan

import (
	"github.com/kstonedb/kstone/engine/schema"
)

func (q *query) skipRanges(p *path, e *estimator) []*path { return nil }

func (q *query) unions(r *relation, e *estimator, x []*schema.Index) []candidate { return nil }

func (q *query) intersections(r *relation, e *estimator, x []*path) []candidate { return nil }

func (q *query) shortcuts() []candidate { return nil }
