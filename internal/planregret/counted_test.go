package planregret_test

import (
	"github.com/kstonedb/kstone/engine/local"
	"strings"
	"testing"
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
			{"region = 7 AND cust = 7 AND vip = 1", nil, "by_region"},
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
