package plan_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/keycodec"
)

// TestRisingColumns: the rows with the smallest numbers are the last ones in the order of times
// that rises with the numbers, and the first ones against it.
//
// Promise (plans): A limit in an order is not expected to be reached early if the rows that the
// terms leave stand at the other end of that order, and ranges of columns that rise together have
// in common what their parts of the table have.
func TestRisingColumns(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, at INT, v INT, INDEX by_at (at))")
	const rows = 100_000
	ids, times := plan.NewCollector(0, 1), plan.NewCollector(w.tables["t"].Indexes[0].ID, 1)
	for i := range int64(rows) {
		ids.Add(keycodec.AppendInt64(nil, i), []int{8}, false, 50)
		times.Add(keycodec.AppendInt64(nil, 10*i), []int{8}, false, 10)
	}
	s := &plan.TableStats{Epoch: 1, Rows: rows, RowBytes: 60, Monotonic: []int{0, 1},
		Distinct: []float64{rows, rows, 40_000},
		Keys:     []plan.KeyStats{ids.Stats(), times.Stats()}}
	w.stats["t"] = s
	for _, c := range []struct {
		query   string
		byIndex bool
	}{
		{"id < 500 ORDER BY at DESC LIMIT 10", false},
		{"id < 500 ORDER BY at LIMIT 10", true},
		{"id > 99500 ORDER BY at LIMIT 10", false},
		{"id > 99500 ORDER BY at DESC LIMIT 10", true},
		{"id > 99500 OR t.id > 99000 AND t.v = 1 ORDER BY at LIMIT 10", false},
		{"id < 12500 OR t.v = 3 ORDER BY at DESC LIMIT 1", false},
	} {
		sel := w.query("SELECT t.v FROM t WHERE t." + strings.ReplaceAll(c.query, " at", " t.at"))
		e := must(must(plan.Prepare(sel, plan.Options{Stats: w})).Bind(nil)).Explain()
		if byIndex := strings.HasPrefix(indexOfPlan(e), "by_at"); byIndex != c.byIndex {
			t.Errorf("%s\n%s", c.query, e)
		}
	}
	for where, want := range map[string][2]float64{
		"id BETWEEN 20000 AND 40000 AND t.at BETWEEN 600000 AND 605000": {0, 1},
		"id BETWEEN 19000 AND 22000 AND t.at BETWEEN 200000 AND 210000": {400, 1100},
		"id > 99000 AND t.at > 900000":                                  {900, 1100},
	} {
		sel := w.query("SELECT t.v FROM t WHERE t." + where)
		e := must(must(plan.Prepare(sel, plan.Options{Stats: w})).Bind(nil)).Explain()
		if e.Rows < want[0] || e.Rows > want[1] {
			t.Errorf("%s: not %v rows\n%s", where, want, e)
		}
	}
}
