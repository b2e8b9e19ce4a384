package planregret_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/table"
)

// TestPlansKnowWhatIsThere plans without statistics, and with those of a tenth of the rows, which
// are not refreshed: conditions are looked up in the indexes that might be read.
//
// Promise (plans): What conditions with known values find in indexes is counted when a query is
// planned, and so is what zones leave of a scan, so that plans are good without statistics and with
// old ones; values of parameters and subqueries are counted, too.
func TestPlansKnowWhatIsThere(t *testing.T) {
	const rows = smallRows
	none, stale := newWorld(t, rows, false), newWorld(t, rows, false)
	none.load(1, 0, rows)
	stale.load(1, 0, rows/10)
	stale.analyze()
	stale.load(1, rows/10, rows)
	for name, w := range map[string]*world{"none": none, "stale": stale} {
		if err := local.Engine(w.db).Flush(t.Context()); err != nil { // only files have zones
			t.Fatal(err)
		}
		for _, c := range []struct {
			where string
			args  []any
			want  string
		}{
			{"created >= 199990 AND status = 'done'", nil, "by_created"},
			{"created >= 20010 AND code BETWEEN 500 AND 560", nil, "by_code"},
			{"created >= ? AND code BETWEEN ? AND ?", []any{20010, 500, 560}, "by_code"},
			{"created >= ? AND code BETWEEN ? AND ?", []any{199990, 0, 190_000}, "by_created"},
			{"status = 'done' AND region = 7", nil, "by_region"},
			{"status = 'none' AND vip = 1", nil, "by_status"},
			{"region = 7 AND cust = 7 AND vip = 1", nil, "intersection"},
			// Most rows, and a tenth of them in blocks of their own.
			{"status = 'done'", nil, "FULL SCAN orders"},
			{"id + 0 > 5 AND day BETWEEN 10 AND 25", nil, "FULL SCAN orders"},
			{"id + 0 > 5 AND day BETWEEN 10 AND 10", nil, "by_day"},
		} {
			text := "SELECT note FROM orders WHERE " + c.where
			e := w.explain("EXPLAIN ", text, c.args)
			if !strings.Contains(e.String(), c.want) {
				t.Errorf("%s: %s %v: not %q\n%s", name, c.where, c.args, c.want, e)
			}
		}
		// The list is known after its subquery has run: many values, and few.
		for least, want := range map[string]string{"3": "FULL SCAN orders", "1990": "by_cust"} {
			e := w.explain("EXPLAIN ANALYZE ", "SELECT note FROM orders WHERE vip = 7 OR cust IN "+
				"(SELECT p.cust FROM people p WHERE p.cust + 0 BETWEEN "+least+" AND 1999)", nil)
			if !strings.Contains(e.String(), want) {
				t.Errorf("%s: values from %s on: not %q\n%s", name, least, want, e)
			}
		}
	}
}

// TestPlansOfSeveralLists reads the value that two lists have in common, a frequent one, in the
// order that is wanted; each list alone has rare ones, too. Of a subquery only the value is read
// that is fixed, and a value without rows, after one of its class, is sought by its index.
//
// Promise (plans): Of several lists of a column the values that all have are estimated; what fixes
// a column restricts the subquery that it is compared with; a risky plan is of counted values.
func TestPlansOfSeveralLists(t *testing.T) {
	const rows = smallRows
	w := newWorld(t, rows, false)
	w.load(1, 0, rows)
	long := func(first int) (list []int) {
		for i := range 200 {
			list = append(list, 1500+first+2*i)
		}
		return append(list, 0)
	}
	want := func(text, plan string, args ...any) {
		t.Helper()
		e := w.explain("EXPLAIN ", text, args)
		if !strings.Contains(e.String(), plan) {
			t.Errorf("%s %v: not %q\n%s", text, args, plan, e)
		}
	}
	const lists = "SELECT note FROM orders WHERE cust IN (?) AND cust IN (?) ORDER BY created " +
		"LIMIT 10"
	want(lists, "index: by_created", long(0), long(1))
	want(lists, "index: by_cust", long(0)[:200], long(0)[100:200])
	w.analyze()
	want("SELECT note FROM orders WHERE cust = 0 AND cust IN (SELECT p.cust FROM people p "+
		"WHERE p.cust BETWEEN 1000 AND 1512) ORDER BY created LIMIT 10", "never true")
	// Up to 64 keys are sought one by one, more in all stripes.
	want("SELECT p.cust FROM people p WHERE p.cust BETWEEN 1000 AND 1063", "row scan p")
	want("SELECT p.cust FROM people p WHERE p.cust BETWEEN 1000 AND 1064", "index: p_region")
	sampled := &table.AnalyzeOptions{SampleRows: 100}
	if _, err := w.db.Analyze(t.Context(), "orders", sampled); err != nil {
		t.Fatal(err)
	}
	const risky = "SELECT note FROM orders WHERE status = ? ORDER BY cust LIMIT 1"
	want(risky, "index: by_cust", "open")
	want(risky, "spans: status = 'none' | fetch rows | rows ~0.1", "none")
}
