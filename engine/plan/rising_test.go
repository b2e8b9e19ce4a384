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
// terms leave stand at the other end of that order.
func TestRisingColumns(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, at INT, v INT, INDEX by_at (at))")
	const rows = 100_000
	ids, times := plan.NewCollector(0, 1), plan.NewCollector(w.tables["t"].Indexes[0].ID, 1)
	for i := range int64(rows) {
		ids.Add(keycodec.AppendInt64(nil, i), []int{8}, false, 50)
		times.Add(keycodec.AppendInt64(nil, 10*i), []int{8}, false, 10)
	}
	s := &plan.TableStats{Epoch: 1, Rows: rows, RowBytes: 60, Monotonic: []int{0, 1},
		Keys: []plan.KeyStats{ids.Stats(), times.Stats()}}
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
	} {
		sel := w.query("SELECT t.v FROM t WHERE t." + strings.ReplaceAll(c.query, " at", " t.at"))
		e := must(must(plan.Prepare(sel, plan.Options{Stats: w})).Bind(nil)).Explain()
		if byIndex := strings.HasPrefix(indexOfPlan(e), "by_at"); byIndex != c.byIndex {
			t.Errorf("%s\n%s", c.query, e)
		}
	}
}
