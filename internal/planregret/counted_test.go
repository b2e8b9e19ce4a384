package planregret_test

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
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
			{"day < 1 AND region = 27", nil, "intersection"},
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
		// The list is known after its subquery has run: none, many values, and few.
		late := "SELECT note FROM orders WHERE created >= 190000 OR cust IN (SELECT p.cust FROM " +
			"people p WHERE p.grade = 7) ORDER BY created LIMIT 10"
		if e := w.explain("EXPLAIN ANALYZE ", late, nil); !strings.Contains(e.String(),
			"spans: created >= 190000 | order") {
			t.Errorf("%s: not from 190000 on\n%s", name, e)
		}
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
	want("SELECT note FROM orders WHERE cust IN (1, 2) AND cust IN (3, 4) AND cust IN (5, 6)",
		"never true")
	want("SELECT name FROM people WHERE grade = 0", "FULL SCAN people") // nearly all
	w.analyze()
	// What is said about one column is no coincidence, and neighbours in a list are one range.
	want("SELECT note FROM orders WHERE cust = 0 AND cust IN (0, 1501) ORDER BY created LIMIT 10",
		"index: by_created")
	want("SELECT region FROM people WHERE cust IN (?) AND cust BETWEEN 1600 AND 1608",
		"row scan people", append(long(0), append(long(-500), long(-1000)...)...))
	next := make([]int, 1000)
	for i := range next {
		next[i] = 1000 + i
	}
	want("SELECT note FROM orders WHERE cust IN (?)", "index: by_cust", next)
	want("SELECT note FROM orders WHERE cust IN (5, 6, 7) AND created >= 87700 ORDER BY id DESC "+
		"LIMIT 1", "merge: 3 streams")
	want("SELECT note FROM orders WHERE cust = 0 AND cust IN (SELECT p.cust FROM people p "+
		"WHERE p.cust BETWEEN 1000 AND 1512) ORDER BY created LIMIT 10", "never true")
	// Up to 64 keys are sought one by one, more in all stripes.
	want("SELECT p.cust FROM people p WHERE p.cust BETWEEN 1000 AND 1063", "stripes: 64/256")
	want("SELECT p.cust FROM people p WHERE p.cust BETWEEN 1000 AND 1064", "stripes: 256/256")
	sampled := &table.AnalyzeOptions{SampleRows: 100}
	ok(t, second(w.db.Analyze(t.Context(), "orders", sampled)))
	// Two of the values that are counted, one of seven, are of the region, and no other ones.
	some := []int{29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 72}
	for i := range 389 {
		some = append(some, 73+4*i)
	}
	want("SELECT note FROM orders WHERE cust IN (?) AND region = 32 ORDER BY cust LIMIT 60",
		"spans: region = 32 | filter: cust IN", some)
	want("SELECT DISTINCT cust FROM orders WHERE cust IN (?) AND region = 17 AND id BETWEEN "+
		"17463 AND 17465", "row scan orders", some)
	const risky = "SELECT note FROM orders WHERE status = ? ORDER BY cust LIMIT 1"
	want(risky, "index: by_cust", "open")
	want(risky, "spans: status = 'none' | fetch rows | rows ~0.1", "none")
}

// TestPlansOfGuesses runs queries whose estimates cannot be right: rows that stand together in the
// order that is read, joins that find no left row, and values that nothing is known of.
//
// Promise (plans): A skip scan that meets other rows than it seeks, or more values than are known,
// is ended when another plan would be done; without statistics a plan that may end early is tried
// for a quarter of what the other one costs; a limit is expected where its rows stand.
func TestPlansOfGuesses(t *testing.T) {
	w := newWorld(t, smallRows, false)
	w.load(1, 0, smallRows)
	run := func(text string) (*plan.Explanation, float64) {
		t.Helper()
		e := w.explain("EXPLAIN ANALYZE ", text, nil)
		return e, w.readBy(e)
	}
	const days = "SELECT DISTINCT day FROM orders WHERE vip = 0"
	if e, read := run(days); read > 8_000 {
		t.Errorf("%s without statistics reads %.0f\n%s", days, read, e)
	}
	// Another plan would look into every stripe, or knows no more of where the rows are.
	sooner := func(known string) {
		for _, text := range []string{
			"SELECT note FROM orders WHERE id < 4 ORDER BY created LIMIT 1",
			"SELECT max(created) FROM orders WHERE id >= 19998",
		} {
			if e, read := run(text); read > 1_000 {
				t.Errorf("%s %s reads %.0f\n%s", text, known, read, e)
			}
		}
	}
	sooner("without statistics")
	sample := &table.AnalyzeOptions{SampleRows: 2000}
	ok(t, second(w.db.Analyze(t.Context(), "orders", sample)))
	sooner("with those of a sample")
	w.analyze()
	for _, late := range []string{
		"SELECT DISTINCT region FROM orders WHERE created BETWEEN 120000 AND 190000",
		"SELECT DISTINCT vip FROM orders WHERE created >= 110000",
	} {
		if e, read := run(late); read > 75_000 || !strings.Contains(e.String(), "bound passed") {
			t.Errorf("%s reads %.0f\n%s", late, read, e)
		}
	}
	for _, few := range []string{
		"SELECT DISTINCT day FROM orders WHERE status = 'done' AND day BETWEEN 38 AND 39",
		"SELECT DISTINCT day FROM orders WHERE amount >= 7500 AND day BETWEEN 19 AND 39",
		"SELECT DISTINCT day FROM orders WHERE status = 'done' AND day < 1",
		"SELECT DISTINCT cust FROM orders WHERE status = 'done' AND cust = 1",
		"SELECT note FROM orders WHERE id < 4 ORDER BY created LIMIT 1",
	} {
		if e, read := run(few); read > 4_000 {
			t.Errorf("%s reads %.0f\n%s", few, read, e)
		}
	}
	for text, first := range map[string]string{
		// The first rows of the customer are the oldest ones.
		"SELECT note FROM orders WHERE cust = 0 AND created >= 110000 LIMIT 10": "FULL SCAN orders",
		"SELECT note FROM orders WHERE cust = 0 AND day >= 20 LIMIT 100":        "FULL SCAN orders",
		// The customer has no such grade.
		"SELECT o.note FROM orders o JOIN people p ON o.cust = p.cust WHERE o.vip = 1 AND " +
			"o.cust = 1 AND o.status = 'open' AND p.grade = 1": "point get p",
	} {
		e := w.explain("EXPLAIN ", text, nil)
		for len(e.Children) > 0 {
			e = e.Children[0]
		}
		if !strings.HasPrefix(e.String(), first) {
			t.Errorf("%s: first not %s\n%s", text, first, e)
		}
	}
}

// TestPlansOfFirstRows has terms whose rows are all together: at the end, in an index, or after the
// first ones of what is read.
func TestPlansOfFirstRows(t *testing.T) {
	w := newWorld(t, smallRows, false)
	w.load(1, 0, smallRows)
	w.analyze()
	run := func(text string) (*plan.Explanation, float64) {
		t.Helper()
		e := w.explain("EXPLAIN ANALYZE ", text, nil)
		return e, w.readBy(e)
	}
	// The last rows are those that are wanted first.
	const last = "SELECT note FROM orders WHERE cust = 10 OR created >= 199218 OR created " +
		"BETWEEN 127305 AND 127403 ORDER BY created DESC LIMIT 10"
	if e, read := run(last); read > 600 {
		t.Errorf("%s reads %.0f\n%s", last, read, e)
	}
	// Columns rise together: half of the first days are before the time.
	const later = "SELECT note FROM orders WHERE created BETWEEN 4765 AND 54766 AND day < 2 " +
		"LIMIT 10"
	if e, read := run(later); read > 600 {
		t.Errorf("%s reads %.0f\n%s", later, read, e)
	}
	// The rows are the last ones of both columns, though what is counted of them does not add up,
	// or those of most of a part of each.
	const end = "SELECT note FROM orders WHERE created BETWEEN 70293 AND 270294 AND id >= 19980 " +
		"ORDER BY created DESC LIMIT 1"
	const both = "SELECT note FROM orders WHERE day BETWEEN 24 AND 25 AND created BETWEEN 117143 " +
		"AND 129644 ORDER BY created DESC LIMIT 100"
	for text, most := range map[string]float64{end: 600, both: 4_000} {
		if e, read := run(text); read > most {
			t.Errorf("%s reads %.0f\n%s", text, read, e)
		}
	}
	// The rows of a customer are together in an index, codes are in as many buckets as there are.
	const either = "SELECT note FROM orders WHERE code BETWEEN 35000 AND 35031 OR " +
		"cust = 50 LIMIT 1"
	if e, read := run(either); read > 1_000 {
		t.Errorf("%s reads %.0f\n%s", either, read, e)
	}
}

// TestPlansOfParts has conditions that leave few values of an index, a frequent value in a long
// list, and a range of rows in which zones leave nothing.
//
// Promise (plans): A skip scan is expected to seek the values that conditions leave; a frequent
// value in a long list counts once; what zones leave of a range of rows is counted.
func TestPlansOfParts(t *testing.T) {
	w := newWorld(t, smallRows, false)
	w.load(1, 0, smallRows)
	w.analyze()
	for text, want := range map[string]string{
		"DISTINCT cust FROM orders WHERE cust = 0 OR cust = 1500":          "skip scan",
		"DISTINCT cust FROM orders WHERE cust = 0 OR cust BETWEEN 5 AND 7": "skip scan",
		"count(*) FROM orders WHERE created < 65000 AND id >= 10000":       "row scan orders",
	} {
		e := w.explain("EXPLAIN SELECT ", text, nil)
		if !strings.Contains(e.String(), want) {
			t.Errorf("%s: not %q\n%s", text, want, e)
		}
	}
	frequent, mixed := make([]int, 1001), make([]int, 960)
	for i := range frequent[1:] {
		frequent[1+i] = 1000 + i // and the most frequent one
	}
	for i := range mixed { // every 15th is one of the rarest
		if mixed[i] = 200 + i - (i+8)/15; i%15 == 6 {
			mixed[i] = 1159 - i/15
		}
	}
	for column, list := range map[string][]int{"note": frequent, "day": mixed} {
		text := "SELECT " + column + " FROM orders WHERE cust IN (?)"
		e := w.explain("EXPLAIN ANALYZE ", text, []any{list})
		if found := float64(e.Actual.Rows); e.Rows > 1.5*found || found > 1.5*e.Rows {
			t.Errorf("%.0f rows are expected, there are %.0f\n%s", e.Rows, found, e)
		}
	}
}

// TestPlansOfLastRows seeks rows that came after the statistics: they are at the end of columns
// that rise.
func TestPlansOfLastRows(t *testing.T) {
	w := newWorld(t, smallRows, false)
	w.load(1, 0, smallRows/10)
	w.analyze()
	w.load(1, smallRows/10, smallRows)
	const last = "SELECT max(created) FROM orders WHERE created BETWEEN 63738 AND 263739 AND " +
		"id >= 19990"
	if e := w.explain("EXPLAIN ANALYZE ", last, nil); w.readBy(e) > 1_000 {
		t.Errorf("%s\n%s", last, e)
	}
}

// TestPlansOfSubqueriesThatHaveRun plans a query again when the values of a subquery are known:
// they would make it worth it to read another one first, whose values have no place in what was
// run. Another list has no values at one time, and one at the next.
func TestPlansOfSubqueriesThatHaveRun(t *testing.T) {
	w := newWorld(t, smallRows, false)
	w.load(1, 0, smallRows)
	count := func(text string, args ...any) (n string) {
		t.Helper()
		rows, err := w.session.Query(t.Context(), text, args...)
		ok(t, err)
		for row, err := range rows.All() {
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			n = row[0].String()
		}
		return n
	}
	got := count("SELECT count(*) FROM orders WHERE (created >= 199900 OR amount IN " +
		"(SELECT p.cust FROM people p WHERE p.cust < 100)) AND cust IN " +
		"(SELECT p.cust FROM people p WHERE p.region = 3)")
	want := count("SELECT count(*) FROM orders WHERE (created >= 199900 OR amount < 100) AND " +
		"cust % 40 = 3 AND cust < 2000")
	if got != want {
		t.Errorf("%s rows, want %s", got, want)
	}
	for _, grade := range []int{7, 1, 7, 1} {
		got := count("SELECT count(*) FROM orders WHERE created >= 190000 OR cust IN "+
			"(SELECT p.cust FROM people p WHERE p.grade = ?)", grade)
		want := count("SELECT count(*) FROM orders WHERE created >= 190000 OR ? = 1 AND "+
			"cust % 200 = 0 AND cust < 2000", grade)
		if got != want {
			t.Errorf("grade %d: %s rows, want %s", grade, got, want)
		}
	}
}
