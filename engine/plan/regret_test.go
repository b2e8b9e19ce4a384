package plan_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// collect makes the statistics of a key of integers.
func collect(index uint32, rows int, key func(i int64) []int64) plan.KeyStats {
	c := plan.NewCollector(index, len(key(0)))
	for i := range int64(rows) {
		var b []byte
		var ends []int
		for _, v := range key(i) {
			b = keycodec.AppendInt64(b, v)
			ends = append(ends, len(b))
		}
		c.Add(b, ends, false, 10)
	}
	return c.Stats()
}

// TestMendedRegrets plans queries that have read many times what another plan reads: for each
// the index that is right.
//
// Promise (plans): Combinations of values that do not occur, values beyond all others, lists
// without the wanted value and groups whose first entries are of no use are expected to be so, and
// a group that is sorted is read to its end, however small the first one is.
func TestMendedRegrets(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, region INT, cust INT, vip INT, day INT,
		INDEX by_region (region, cust), INDEX by_vip (vip), INDEX by_day (day),
		INDEX by_cust (cust))`)
	const rows = 100_000
	x := w.tables["t"].Indexes
	// A tenth of the rows have the customer 1; the region follows from the customer.
	cust := func(i int64) int64 {
		if i%10 == 0 {
			return 1
		}
		return i * 7 % 5000
	}
	region := func(i int64) int64 { return cust(i) % 40 }
	vip := func(i int64) int64 { return 1 / (1 + i*31%100) }
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: rows, RowBytes: 60, Monotonic: []int{0, 4},
		Keys: []plan.KeyStats{
			collect(0, rows, func(i int64) []int64 { return []int64{i} }),
			collect(x[0].ID, rows, func(i int64) []int64 { return []int64{region(i), cust(i)} }),
			collect(x[1].ID, rows, func(i int64) []int64 { return []int64{vip(i)} }),
			collect(x[2].ID, rows, func(i int64) []int64 { return []int64{i / 500} }),
			collect(x[3].ID, rows, func(i int64) []int64 { return []int64{cust(i)} })}}
	for _, c := range []struct{ query, index string }{
		// No such combination, and one that has a tenth of the rows.
		{"SELECT t.id FROM t WHERE t.vip = 1 AND t.region = 32 AND t.cust = 1", "by_region"},
		{"SELECT t.id FROM t WHERE t.vip = 1 AND t.region = 1 AND t.cust = 1", "by_vip"},
		// The last day is 199.
		{"SELECT t.vip FROM t WHERE t.day >= 200 AND t.cust = 1 ORDER BY t.id DESC LIMIT 1",
			"by_day"},
		{"SELECT t.vip FROM t WHERE t.cust IN (5, 7) AND t.cust = 1 ORDER BY t.day LIMIT 1",
			"by_cust"},
		// Of each region, rows would be read until one is a VIP's.
		{"SELECT DISTINCT t.region FROM t WHERE t.vip = 1", "by_vip"},
		// Both columns rise: the rows stand in the middle of the order by day.
		{"SELECT t.vip FROM t WHERE t.id BETWEEN 50000 AND 50100 ORDER BY t.day LIMIT 1",
			"row scan"},
		// The first rows of customer 1 in the order of the index have small numbers.
		{"SELECT t.vip FROM t WHERE t.id < 100 OR t.vip = 7 ORDER BY t.day LIMIT 1", "by_day"},
		// So have the first rows of the first customer with many, and there are enough.
		{"SELECT t.vip FROM t WHERE t.day < 1 ORDER BY t.cust LIMIT 10", "by_cust"},
		{"SELECT t.vip FROM t WHERE t.day < 1 ORDER BY t.cust LIMIT 400", "by_day"},
		// All rows of that customer are sorted. The VIPs are a hundredth of all, of two groups.
		{"SELECT t.id FROM t WHERE t.day < 1 ORDER BY t.cust, t.vip LIMIT 10", "by_day"},
		{"SELECT t.id FROM t WHERE t.region = 1 ORDER BY t.vip DESC, t.day LIMIT 10", "by_vip"},
	} {
		p := must(must(plan.Prepare(w.query(c.query), plan.Options{Stats: w})).Bind(nil))
		if e := p.Explain(); !strings.HasPrefix(indexOfPlan(e), c.index) {
			t.Errorf("%s: not %q\n%s", c.query, c.index, e)
		}
	}
}

// grownDays counts ten times as many rows as collect has seen, 2000 of each day.
type grownDays struct{ fewBlocks }

func (grownDays) Range(_ *schema.Table, _ *schema.Index, _, _ []byte, points int) (float64, bool) {
	if points > 0 {
		return 2000, true
	}
	return 1e6, true
}

// TestFirstGroupOfOldStatistics sorts the rows of the first day alone: it has as many as before, of
// ten times as many in all.
func TestFirstGroupOfOldStatistics(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, vip INT, day INT, INDEX by_day (day))")
	const rows = 100_000
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: rows, RowBytes: 60, Monotonic: []int{0, 2},
		Keys: []plan.KeyStats{collect(w.tables["t"].Indexes[0].ID, rows,
			func(i int64) []int64 { return []int64{i / 2000} })}}
	sel := w.query("SELECT t.vip FROM t ORDER BY t.day, t.vip LIMIT 10")
	sel.Hints.Index = map[int]string{0: "by_day"}
	p := must(plan.Prepare(sel, plan.Options{Stats: w, Counter: grownDays{}}))
	if e := must(p.Bind(nil)).Explain(); e.Cost > 5e6 {
		t.Errorf("2000 rows cost more than 5 ms:\n%v", e)
	}
}
