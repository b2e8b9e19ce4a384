package planregret_test

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// second is the error of a call that returns a value as well.
func second[T any](_ T, err error) error { return err }

// scaleEnv is the number of rows of a test that takes a disk.
const scaleEnv = "KSTONE_SCALE"

// leastGain is how many times faster a clustered condition has to be than a full scan.
const leastGain = 30

// TestScaleZones reads a thousandth of a table by a column that rises with the key and has no
// index, beside all of the table, and beside the same condition by an index on a bad column.
func TestScaleZones(t *testing.T) {
	rows, err := strconv.Atoi(os.Getenv(scaleEnv))
	if err != nil {
		t.Skip(scaleEnv + " is not set")
	}
	db, err := local.OpenDir(t.Context(), t.TempDir(), &local.Options{
		Engine: &engine.Options{Durability: engine.Process}})
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	if _, err := s.Exec(t.Context(), `CREATE TABLE events (id INT PRIMARY KEY, at INT, src INT,
		v INT, note TEXT, INDEX by_src (src))`); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	events, err := db.Table("events")
	if err == nil {
		_, err = events.InsertMany(t.Context(), eventsOf(rows))
	}
	if err == nil {
		err = local.Engine(db).Flush(t.Context())
	}
	ok(t, err)
	t.Logf("%d rows loaded in %v", rows, time.Since(begin).Round(time.Second))
	lo, hi := rows/2*10, rows/2*10+rows/100
	full := shortest(t, s, 3, "SELECT count(*) FROM events WHERE v + 0 = -1")
	clustered := shortest(t, s, 10, fmt.Sprintf(
		"SELECT count(*), sum(v) FROM events WHERE at >= %d AND at < %d", lo, hi))
	both := shortest(t, s, 10, fmt.Sprintf(
		"SELECT count(*), sum(v) FROM events WHERE src = 3 AND at >= %d AND at < %d", lo, hi))
	few := shortest(t, s, 10, fmt.Sprintf(
		"SELECT count(*) FROM events WHERE src = 1000001 AND at >= %d AND at < %d", 0, hi))
	gain := float64(full) / float64(clustered)
	t.Logf("full scan %v; a thousandth, clustered %v, %.0f times faster; with a tenth by an index "+
		"%v; a few rows by the index %v", full, clustered, gain, both, few)
	if gain < leastGain {
		t.Errorf("%.0f times faster than a full scan, not %d", gain, leastGain)
	}
}

// eventsOf returns rows with a time that rises, and a source; ten sources are frequent.
func eventsOf(rows int) iter.Seq[[]expr.Value] {
	return func(yield func([]expr.Value) bool) {
		for i := range rows {
			src := i * 7 % 10
			if i%1000 == 1 {
				src = 1_000_000 + i%100_000
			}
			row := []expr.Value{expr.Int(int64(i)), expr.Int(int64(10 * i)), expr.Int(int64(src)),
				expr.Int(int64(i * 31 % 1000)), expr.String("a note of some length")}
			if !yield(row) {
				return
			}
		}
	}
}

// shortest returns the shortest time of some runs.
func shortest(t *testing.T, s *sql.Session, runs int, text string) time.Duration {
	t.Helper()
	least := time.Duration(1 << 62)
	for range runs {
		begin := time.Now()
		rows, err := s.Query(t.Context(), text)
		ok(t, err)
		for _, err := range rows.All() {
			ok(t, err)
		}
		least = min(least, time.Since(begin))
	}
	rows, err := s.Query(t.Context(), "EXPLAIN ANALYZE "+text)
	ok(t, err)
	t.Logf("%s\n%s", text, rows.Plan)
	return least
}
