package plan_test

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// TestAdvise runs the files of testdata/advise: schema and stats as in testdata/explain, and
// advise with a workload, a count and a query on each line.
//
// Promise (plans): The advisor follows the rules of composite keys.
func TestAdvise(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "advise"), func(t *testing.T, path string) {
		w := newCatalog(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "schema":
				for _, s := range strings.Split(d.Input, ";") {
					if strings.TrimSpace(s) != "" {
						w.exec(s)
					}
				}
				return ""
			case "stats":
				return w.setStats(d.Input)
			}
			return w.advise(d.Input)
		})
	})
}

func (w *catalog) workload(input string) (work []plan.Workload) {
	for _, line := range strings.Split(input, "\n") {
		count, text, _ := strings.Cut(line, " ")
		q := plan.Workload{Query: w.query(text)}
		fmt.Sscan(count, &q.Count)
		work = append(work, q)
	}
	return work
}

func (w *catalog) all() (tables []*schema.Table) {
	for _, t := range w.tables {
		tables = append(tables, t)
	}
	sort.Slice(tables, func(i, j int) bool { return tables[i].ID < tables[j].ID })
	return tables
}

func (w *catalog) advise(input string) string {
	all, err := plan.Advise(w.workload(input), w.all(), plan.Options{Stats: w})
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, a := range all {
		if _, err := syntax.Parse(a.Statement); err != nil {
			w.t.Errorf("%s: %v", a.Statement, err)
		}
		fmt.Fprintf(&b, "%s: %s\n  %s; %.0f KB\n", a.Kind, a.Statement, a.Reason, a.SizeBytes/1024)
	}
	if len(all) == 0 {
		return "nothing\n"
	}
	return b.String()
}
