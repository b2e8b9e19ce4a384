package sql_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

// TestZonesOfSubqueries counts the blocks that EXISTS and IN read and skip, if they are joins and
// their rows have a condition on a column that rises with the key.
func TestZonesOfSubqueries(t *testing.T) {
	e, err := engine.Open(t.TempDir(), &engine.Options{InMemory: true})
	ok(t, err)
	defer e.Close()
	db, err := local.Open(context.Background(), e, nil)
	ok(t, err)
	defer db.Close()
	s := sql.Open(db)
	run := func(text string) {
		t.Helper()
		ok(t, second(s.Exec(context.Background(), text)))
	}
	run("CREATE TABLE t (id INT PRIMARY KEY, at INT, fill TEXT)")
	run("CREATE TABLE u (id INT PRIMARY KEY)")
	run("INSERT INTO u VALUES (1), (2), (3998)")
	var values strings.Builder
	fill := strings.Repeat("some text ", 40)
	for i := range 4000 {
		values.WriteString(", (" + strconv.Itoa(i) + ", " + strconv.Itoa(i) + ", '" + fill + "')")
	}
	run("INSERT INTO t VALUES " + values.String()[2:])
	ok(t, e.Flush(context.Background()))
	blocks := regexp.MustCompile(`blocks ([0-9,]+) skipped ([0-9,]+)`)
	for _, text := range []string{
		"SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.at = u.id AND at > 3997)",
		"SELECT id FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.at = u.id AND at > 3997)",
		"SELECT id FROM u WHERE id IN (SELECT at FROM t WHERE at > 3997)",
	} {
		plan := queried(t, s, "EXPLAIN ANALYZE "+text)
		m := blocks.FindStringSubmatch(plan)
		if m == nil {
			t.Errorf("%s shows no blocks:\n%s", text, plan)
			continue
		}
		read, _ := strconv.Atoi(m[1])
		skipped, _ := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
		if read > 4 || skipped < 100 {
			t.Errorf("%s reads %d blocks, skips %d:\n%s", text, read, skipped, plan)
		}
	}
}
