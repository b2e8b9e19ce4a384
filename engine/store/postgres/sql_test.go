//go:build unix

package postgres_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/postgres/postgrestest"
	"github.com/kstonedb/kstone/engine/table"
)

// session returns an empty database of tables.
func session(t *testing.T) *sql.Session {
	t.Helper()
	s, err := store.Open(ctx, need(t).URL(postgrestest.Table()))
	ok(t, err)
	db, err := table.OpenOwned(ctx, s, nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	return sql.Open(db)
}

// text returns the rows of a query, or its plan.
func text(t *testing.T, s *sql.Session, query string, args ...any) string {
	t.Helper()
	rows, err := s.Query(ctx, query, args...)
	ok(t, err)
	var lines []string
	for row, err := range rows.All() {
		ok(t, err)
		var line []string
		for _, v := range row {
			line = append(line, v.String())
		}
		lines = append(lines, strings.Join(line, ","))
	}
	return strings.Join(lines, "\n")
}

// Tables, indexes, transactions and plans over the server.
func TestSQL(t *testing.T) {
	s := session(t)
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := s.Exec(ctx, query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run(`CREATE TABLE people (id INT PRIMARY KEY, name TEXT, city TEXT, INDEX by_city (city),
		UNIQUE INDEX by_name (name))`)
	run(`BEGIN`)
	for i := range 500 {
		run(`INSERT INTO people VALUES (?, ?, ?)`, i, fmt.Sprintf("n%03d", i),
			fmt.Sprintf("c%d", i%7))
	}
	run(`COMMIT`)
	got := text(t, s, `SELECT count(*), min(name), max(id) FROM people`)
	if got = strings.ReplaceAll(got, "'", ""); got != "500,n000,499" {
		t.Errorf("all: %s", got)
	}
	if got := text(t, s, `SELECT id FROM people WHERE city = 'c3' ORDER BY id DESC LIMIT 2`); got !=
		"493\n486" {
		t.Errorf("by city: %s", got)
	}
	if _, err := s.Exec(ctx, `INSERT INTO people VALUES (1000, 'n007', '')`); err == nil {
		t.Error("a name twice")
	}
	run(`BEGIN`)
	run(`DELETE FROM people WHERE city = 'c3'`)
	run(`ROLLBACK`)
	run(`UPDATE people SET city = 'x' WHERE city = 'c4' AND id < 100`)
	run(`CREATE INDEX by_both ON people (city, name)`)
	if got := text(t, s, `SELECT count(*) FROM people WHERE city = 'x'`); got != "14" {
		t.Errorf("moved: %s", got)
	}
	run(`DROP INDEX by_both ON people`)
	plan := text(t, s, `EXPLAIN ANALYZE SELECT name FROM people WHERE id = 7`)
	if !strings.Contains(plan, "round trips: 1 (1 requests)") { // with the row, the snapshot
		t.Errorf("the plan has other round trips:\n%s", plan)
	}
	run(`DROP TABLE people`)
}

// A program with this back end has no engine and none of its files.
func TestLinksNoEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "github.com/kstonedb/kstone/engine/sql").
		Output()
	ok(t, err)
	const module = "github.com/kstonedb/kstone/"
	for _, name := range strings.Fields(string(out)) {
		switch strings.TrimPrefix(name, module) {
		case "engine", "engine/local", "stripe", "wal", "sst", "memtable", "compaction", "zonemap",
			"internal/vfs", "internal/manifest", "internal/cache":
			t.Errorf("it links %s", name)
		}
	}
}
