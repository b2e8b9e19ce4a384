package sql_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// TestSortWithinGroups sorts by columns whose first ones an index is in the order of, from one
// group of all rows to a group for each row, in memory and in files, beside sorts of all rows.
//
// Promise (sql): Rows that an index delivers in the order of the first columns of ORDER BY are
// sorted group by group, with the result of a sort of all, and LIMIT ends the reading.
func TestSortWithinGroups(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	opened, err := openfs.Open(vfs.NewMem(), "db", &engine.Options{})
	ok(t, err)
	e := opened.(*engine.DB)
	defer e.Close()
	open := func(memory int64) (*sql.Session, *table.DB) { // without statistics
		db, err := local.Open(context.Background(), e, &table.Options{
			MemoryBytes: memory, SampleRows: -1})
		ok(t, err)
		return sql.Open(db), db
	}
	s, db := open(0)
	rnd := testutil.Rand(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, one INT, own INT, g INT NULL, "+
		"s TEXT NULL COLLATE NOCASE, at INT NULL, x TEXT, INDEX kone (one), INDEX kown (own), "+
		"INDEX kg (g), INDEX kgs (g DESC, s NULLS LAST), INDEX ks (s) SHARD (4), INDEX ka (at))")
	const rows = 600
	own := rnd.Perm(rows)
	var list []string
	for i := range rows {
		g, at, text := fmt.Sprint(rnd.IntN(40)), fmt.Sprint(rnd.IntN(9)), "NULL"
		if rnd.IntN(9) == 0 {
			g = "NULL"
		}
		if rnd.IntN(9) == 0 {
			at = "NULL"
		}
		if n := rnd.IntN(9); n > 0 {
			text = fmt.Sprintf("'%c%d'", "nN"[rnd.IntN(2)], n)
		}
		list = append(list, fmt.Sprintf("(%d, 1, %d, %s, %s, %s, '%060d')", i, own[i], g, text, at,
			rnd.IntN(100)))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(list, ", "))
	spilled := false
	for range 2 {
		for _, c := range []struct{ index, where, within, order string }{
			{"kone", "", "one", "one, x, id"},
			{"kown", "", "own DESC NULLS LAST", "own DESC, x, id"},
			{"kg", "", "g", "g, at, x, id"},
			{"kg", "", "g", "g, at % 3 DESC, id DESC"},
			{"kg", "", "g DESC NULLS LAST", "g DESC, x DESC, id"},
			{"kg", "WHERE g >= 20 AND at > 3", "g", "g, x, id"},
			{"kg", "WHERE at = 3", "at, g", "at, g, x, id"},
			{"kgs", "", "g DESC NULLS LAST", "g DESC, s DESC, id"},
			{"kgs", "", "g, s DESC", "g NULLS FIRST, s DESC NULLS FIRST, x, id"},
			{"kgs", "WHERE g IN (7, 8, 9)", "s NULLS LAST", "s NULLS LAST, x, id"},
			{"ks", "", "s", "s, x, id"},
			{"ks", "", "s DESC NULLS LAST", "s COLLATE NOCASE DESC, g, id"},
			{"ka", "WHERE x > ''", "at", "at, upper(s), id"},
		} {
			text := "SELECT id, at, g, s FROM t INDEXED BY " + c.index + " " + c.where
			all := queried(t, s, strings.Replace(text, "INDEXED BY "+c.index, "NOT INDEXED", 1)+
				" ORDER BY "+c.order)
			plan := checkGroups(t, s, text+" ORDER BY "+c.order, strings.Split(all, "\n"), rnd.IntN)
			if !strings.Contains(plan, " within "+c.within+" |") {
				t.Errorf("ORDER BY %s is not sorted within %s:\n%s", c.order, c.within, plan)
			}
			spilled = spilled || strings.Contains(plan, "spilled")
		}
		ok(t, db.Close())
		s, db = open(little)
	}
	ok(t, db.Close())
	if !spilled {
		t.Error("nothing has spilled")
	}
}

// checkGroups compares a query with all its rows, without a limit and with limits, and returns the
// plans.
func checkGroups(t *testing.T, s *sql.Session, text string, all []string,
	intN func(int) int) string {
	t.Helper()
	if got := queried(t, s, text); got != strings.Join(all, "\n") {
		t.Fatalf("%s:\n%s\nwant\n%s", text, got, strings.Join(all, "\n"))
	}
	group := func(i int) string { return all[i][strings.Index(all[i], " "):] }
	edge := 1 // the first row of another group, more or less
	for edge < len(all)-1 && group(edge) == group(0) {
		edge++
	}
	for _, limit := range []int{edge, edge + 1, 1 + intN(len(all))} {
		for _, offset := range []int{0, edge, intN(len(all))} {
			first := fmt.Sprintf("%s LIMIT %d OFFSET %d", text, limit, offset)
			want := all[offset:min(len(all), offset+limit)]
			if got := queried(t, s, first); !slices.Equal(strings.Split(got, "\n"), want) {
				t.Fatalf("%s:\n%s\nwant\n%s", first, got, strings.Join(want, "\n"))
			}
		}
	}
	return queried(t, s, "EXPLAIN ANALYZE "+text) + queried(t, s, "EXPLAIN "+text+" LIMIT 2")
}

var readRows = regexp.MustCompile(`actual rows ([0-9,]+)`)

// TestLimitEndsSortWithinGroups reads no more groups than LIMIT asks for, unless the first one has
// most of the rows, by what the statistics know.
func TestLimitEndsSortWithinGroups(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, g INT, n INT NULL, at INT, "+
		"INDEX kg (g), INDEX kn (n))")
	var rows []string
	for i := range 4_000 {
		n := "NULL"
		if i%10 == 0 {
			n = fmt.Sprint(i % 70)
		}
		rows = append(rows, fmt.Sprintf("(%d, %d, %s, %d)", i, i%100, n, i*7919%4001))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	exec(t, s, "ANALYZE")
	for _, c := range []struct {
		order  string
		within bool
	}{{"g, at", true}, {"g DESC, at", true}, {"n, at", false}, {"n DESC, at", true}} {
		plan := queried(t, s, "EXPLAIN ANALYZE SELECT * FROM t ORDER BY "+c.order+" LIMIT 45")
		reads := readRows.FindAllStringSubmatch(plan, -1)
		n, _ := strconv.Atoi(strings.ReplaceAll(reads[len(reads)-1][1], ",", ""))
		if strings.Contains(plan, "within") != c.within || c.within && n > 150 {
			t.Errorf("ORDER BY %s reads %d rows:\n%s", c.order, n, plan)
		}
	}
}

// TestFewRowsAreFetchedSoon sorts the first group of an index as soon as the next one begins, and
// does not read on until there are more rows to fetch.
func TestFewRowsAreFetchedSoon(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, g INT, at INT, INDEX kg (g))")
	var rows []string
	for i := range 12_000 {
		rows = append(rows, fmt.Sprintf("(%d, %d, %d)", i, min(i/10, 2), i))
	}
	exec(t, s, "INSERT INTO t VALUES "+strings.Join(rows, ", "))
	plan := queried(t, s, "EXPLAIN ANALYZE SELECT * FROM t INDEXED BY kg WHERE id < 20 "+
		"ORDER BY g, at DESC LIMIT 1")
	keys := regexp.MustCompile(`keys ([1-9][0-9,]+)`).FindStringSubmatch(plan)
	if n, _ := strconv.Atoi(strings.ReplaceAll(keys[1], ",", "")); n > 6000 {
		t.Errorf("%d keys are read:\n%s", n, plan)
	}
}
