package console

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"

	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/overview"
)

// metricsPage is the body of the page of metrics.
type metricsPage struct {
	Sample      *Sample
	Heat, Reads template.HTML
	Metrics     []monitor.Sample
}

// metricsPage has the metrics, and what has changed since the version that the request names.
func (c *Console) metricsPage(r *http.Request) (any, error) {
	s, err := c.sample(r)
	if err != nil {
		return nil, err
	}
	m := c.e.Metrics()
	return metricsPage{s, overview.HeatMap(&s.Changed, "changed items"),
		overview.HeatMap(&s.Reads, "reads"), monitor.Samples(&m)}, monitor.Health(c.e)
}

// advicePage is the body of the page of advice.
type advicePage struct {
	Advice   []plan.Advice
	Workload []*workload // what reads most first
}

// workload is a query that was run.
type workload struct {
	Query                   string
	Runs, Scanned, Returned int64
}

// advicePage recommends indexes for the queries that this process has run.
func (c *Console) advicePage(r *http.Request) (any, error) {
	advice, err := c.db.Advise()
	if err != nil {
		return nil, err
	}
	p := advicePage{Advice: advice}
	byShape := map[string]*workload{} // of different statements, which may have the same
	for _, w := range c.db.Workload() {
		shape := table.Shape(w.Query)
		if byShape[shape] == nil {
			byShape[shape] = &workload{Query: shape}
			p.Workload = append(p.Workload, byShape[shape])
		}
		one := byShape[shape]
		one.Runs += int64(w.Count)
		one.Scanned += int64(w.Scanned)
		one.Returned += int64(w.Returned)
	}
	slices.SortFunc(p.Workload, func(a, b *workload) int {
		return cmp.Or(cmp.Compare(b.Scanned, a.Scanned), cmp.Compare(a.Query, b.Query))
	})
	return p, monitor.Health(c.e)
}
