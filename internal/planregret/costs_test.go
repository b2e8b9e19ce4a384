//go:build unix

package planregret_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

// costFactor is how far the time that is estimated for a plan may be from what it takes.
const costFactor = 3

// costQueries have one thing each that costs most. Their rows are estimated well.
var costQueries = []struct{ name, text string }{
	{"filter", "SELECT count(*) FROM orders NOT INDEXED WHERE amount + 0 = -1"},
	{"rows", "SELECT note, amount FROM orders NOT INDEXED"},
	{"group", "SELECT region, sum(amount) FROM orders NOT INDEXED GROUP BY region"},
	{"group of many", "SELECT amount, count(*) FROM orders NOT INDEXED GROUP BY amount"},
	{"group by order", "SELECT status, count(*) FROM orders GROUP BY status"},
	{"covering range", "SELECT sum(cust) FROM orders WHERE region BETWEEN 0 AND 20"},
	{"fetched range", "SELECT sum(day) FROM orders INDEXED BY by_amount " +
		"WHERE amount BETWEEN 100 AND 600"},
	{"fetched by status", "SELECT sum(day) FROM orders INDEXED BY by_status " +
		"WHERE status = 'open'"},
	{"points", "SELECT sum(day) FROM orders WHERE code IN (%s)"},
	{"rows by keys", "SELECT sum(day) FROM orders WHERE id IN (%s)"},
	{"values of an index", "SELECT count(*) FROM orders WHERE amount IN (%s)"},
	{"order of rows", "SELECT count(*) FROM (SELECT id FROM orders NOT INDEXED WHERE " +
		"amount + 0 >= 0 ORDER BY id LIMIT 100000)"},
	{"order of an index", "SELECT note FROM orders INDEXED BY by_created WHERE vip = 1 " +
		"ORDER BY created LIMIT 100"},
	{"sort", "SELECT amount, id FROM orders NOT INDEXED ORDER BY amount + 0"},
	{"top", "SELECT note FROM orders NOT INDEXED ORDER BY amount + 0 LIMIT 10"},
	{"hash join", "SELECT sum(o.amount + p.grade) FROM orders o NOT INDEXED " +
		"JOIN people p NOT INDEXED ON o.cust = p.cust"},
	{"row lookups", "SELECT sum(p.grade) FROM orders o INDEXED BY by_amount " +
		"JOIN people p ON o.cust = p.cust WHERE o.amount BETWEEN 100 AND 120"},
	{"index lookups", "SELECT count(*) FROM people p JOIN orders o ON o.cust = p.cust " +
		"WHERE p.cust BETWEEN {from} AND {to}"},
	{"semi join", "SELECT count(*) FROM people p WHERE EXISTS " +
		"(SELECT 1 FROM orders o WHERE o.cust = p.cust)"},
	{"distinct", "SELECT DISTINCT amount FROM orders NOT INDEXED"},
	{"skipped", "SELECT DISTINCT region FROM orders"},
	{"sum", "SELECT sum(amount), avg(day) FROM orders NOT INDEXED"},
	{"count", "SELECT count(*) FROM orders"},
	{"last rows", "SELECT note FROM orders NOT INDEXED WHERE id >= {last}"},
	{"buckets", "SELECT count(*) FROM orders WHERE code BETWEEN 500 AND 1500"},
	{"text", "SELECT name FROM people NOT INDEXED WHERE name = 'x'"},
	{"tiny table", "SELECT name FROM tiny WHERE name = 'x'"},
	{"count of tiny table", "SELECT count(*) FROM tiny"},
}

// TestCosts prints the times that are estimated beside the processor time that plans take, and the
// plans that are far off.
func TestCosts(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv(rowsEnv))
	if err != nil {
		t.Skip(rowsEnv + " is not set")
	}
	w := newWorld(t, rows, false)
	w.load(1, 0, rows)
	ok(t, local.Engine(w.db).Flush(t.Context()))
	w.analyze()
	for _, d := range []string{"CREATE TABLE tiny (id INT PRIMARY KEY, name TEXT)",
		"INSERT INTO tiny VALUES (1, 'a'), (2, 'b'), (3, 'c')", "ANALYZE tiny"} {
		ok(t, second(w.session.Exec(t.Context(), d)))
	}
	var list []string
	for i := range 500 {
		list = append(list, strconv.Itoa((7*i*w.rows/500+i)%w.rows))
	}
	fill := strings.NewReplacer("%s", strings.Join(list, ", "), "{from}", strconv.Itoa(rows/20),
		"{to}", strconv.Itoa(rows/20+300), "{last}", strconv.Itoa(rows-20))
	for _, q := range costQueries {
		text := fill.Replace(q.text)
		e := w.explain("EXPLAIN ", text, nil)
		stmt, err := w.session.Prepare(text)
		ok(t, err)
		least := time.Hour
		for begin := time.Now(); least == time.Hour || time.Since(begin) < time.Second/2; {
			least = min(least, w.cpuTime(stmt))
		}
		factor := e.Cost / float64(least)
		line := fmt.Sprintf("%-20s %5.2f: estimated %v, took %v", q.name, factor,
			time.Duration(e.Cost).Round(time.Microsecond), least.Round(time.Microsecond))
		t.Log(line)
		if factor > costFactor || factor < 1.0/costFactor {
			t.Logf("not within %d: %s\n%s", costFactor, line,
				w.explain("EXPLAIN ANALYZE ", text, nil))
		}
	}
}

// cpuTime runs a query and returns the processor time that it has taken.
func (w *world) cpuTime(stmt *sql.Stmt) time.Duration {
	w.t.Helper()
	begin := processTime(w.t)
	rows, err := stmt.Query(w.t.Context())
	ok(w.t, err)
	for _, err := range rows.All() {
		ok(w.t, err)
	}
	return processTime(w.t) - begin
}

// processTime is what the process has spent on processors.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	ok(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
