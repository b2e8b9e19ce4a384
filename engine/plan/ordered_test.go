package plan_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// TestOrderWithoutSort runs queries whose order comes from streams alone: the plan has no
// sort, and the rows are those of the oracle in its order.
//
// Promise (plans): Where the order comes from an index there is no sort, and it is the right
// order: merged buckets, lists of values, rows, backwards.
func TestOrderWithoutSort(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT, n INT, a INT NULL, b INT, c INT,
		PARTITION KEY (id), SORT KEY (n),
		INDEX kab (a, b) SHARD (4), INDEX kba (b DESC, a NULLS LAST), INDEX kl (c) LOCAL)`,
		"CREATE TABLE u (id INT PRIMARY KEY)")
	r := rand.New(rand.NewPCG(3, 3))
	m := newMemory(t)
	var rows [][]expr.Value
	for range 120 {
		row := []expr.Value{expr.Int(int64(r.IntN(12))), expr.Int(int64(r.IntN(9))), {},
			expr.Int(int64(r.IntN(7))), expr.Int(int64(r.IntN(5)))}
		if r.IntN(5) > 0 {
			row[2] = expr.Int(int64(r.IntN(6)))
		}
		rows = append(rows, row)
	}
	m.load(w.tables["t"], rows)
	costs := plan.DefaultCosts
	costs.Sort *= 1e6
	for _, rest := range []string{
		"WHERE a IN (1, 2, 3) ORDER BY b, id, n",
		"WHERE a IN (1, 2, 3) ORDER BY b DESC, id DESC, n DESC LIMIT 7",
		"WHERE a IN (1, 2, 3) AND b > 2 ORDER BY b, id, n LIMIT 3",
		"WHERE a = 4 ORDER BY b DESC, id DESC, n DESC",
		"WHERE a IS NULL ORDER BY b, id, n",
		"ORDER BY a, b, id, n",
		"ORDER BY a DESC NULLS LAST, b DESC, id DESC, n DESC LIMIT 9",
		"ORDER BY b DESC, a NULLS LAST, id, n",
		"ORDER BY b, a DESC NULLS FIRST, id DESC, n DESC",
		"ORDER BY c, id, n LIMIT 4",
		"ORDER BY id, n", "ORDER BY id DESC, n DESC LIMIT 5",
		"WHERE id IN (2, 5, 7) ORDER BY id DESC, n DESC",
		"WHERE id IN (2, 5, 7) AND n <> 4 ORDER BY id DESC, n DESC",
		"WHERE id IN (2, 5, 7) OR id > 9 ORDER BY id DESC, n DESC",
		"WHERE (id, n) > (4, 3) ORDER BY id, n", "WHERE (id, n) < (4, 3) ORDER BY id DESC, n DESC",
	} {
		text := "SELECT id, n, a, b, c FROM t " + rest
		p := must(plan.Prepare(w.query(text), plan.Options{Costs: &costs}))
		b := must(p.Bind(nil))
		if e := b.Explain().String(); strings.Contains(e, "sort") || strings.Contains(e, "top ") {
			t.Errorf("%s is sorted:\n%s", text, e)
		}
		got, err := m.run(b)
		want := (&oracle{m: m}).query(w.query(text), nil)
		if err != nil || !sameRows(visible(b, got), want, true) {
			t.Errorf("%s: %v\ngot  %v\nwant %v\n%s", text, err, got, want, b.Explain())
		}
	}
}
