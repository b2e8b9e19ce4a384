package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// Every query is slow here, since the clock moves a second whenever it is read.
//
// Promise (tables): Slow queries are logged without their values; full scans can be refused;
// advice comes from what was run. Also `TestFullScansCanBeRefused`,
// `TestAdviceComesFromTheQueriesThatWereRun`.
func TestSlowQueriesAreLoggedWithoutTheirValues(t *testing.T) {
	for _, values := range []bool{false, true} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		db := open(t, &table.Options{SlowQuery: time.Second, LogValues: values,
			Logger: slog.New(slog.NewTextHandler(&out, nil)), SampleRows: -1,
			Clock: func() time.Time {
				now = now.Add(time.Second)
				return now
			}})
		people := create(t, db, peopleText)
		ok(t, people.Insert(ctx, row(t, 1, "secret@x", "Bern", 30)))
		where := expr.And{Terms: []expr.Expr{eq(col(people, "city"), "Bern"),
			expr.Cmp{Op: expr.Eq, L: col(people, "email"), R: expr.Param{Index: 0}}}}
		if got := all(t, db, from(people, where), "secret@x"); len(got) != 1 {
			t.Fatal(got)
		}
		log := out.String()
		const want = `query="SELECT * FROM people WHERE city = ? AND email = ?1" rows=1`
		if !strings.Contains(log, want) {
			t.Fatal(log)
		}
		if strings.Contains(log, "secret") != values || !values && strings.Contains(log, "Bern") {
			t.Fatal(log)
		}
	}
}

// A workload has the sums over all executions, also of those that return no row or several.
func TestWorkloadCounts(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for i := range 3 {
		ok(t, people.Insert(ctx, row(t, i, nil, "Bern", 30+i)))
	}
	older, err := db.Prepare(from(people, expr.Cmp{Op: expr.Ge, L: col(people, "age"),
		R: expr.Param{Index: 0}}))
	ok(t, err)
	returned := 0
	for n, age := range []int64{30, 31, 32, 32, 99} {
		rows, err := older.Query(ctx, db, expr.Int(age))
		ok(t, err)
		for _, err := range rows.All() {
			ok(t, err)
			returned++
		}
		// Each execution reads the whole table, and tests the rows that it returns.
		w, scanned := db.Workload(), 3*(n+1)+returned
		if len(w) != 1 || w[0].Count != float64(n+1) || w[0].Returned != float64(returned) ||
			w[0].Scanned != float64(scanned) {
			t.Fatalf("%d rows of %d executions, %d scanned: %+v", returned, n+1, scanned, w)
		}
	}
}

// A workload has a query once, however often it is prepared.
func TestWorkloadCountsPlansOnce(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for range 3 {
		all(t, db, from(people, eq(col(people, "age"), 30)))
	}
	if w := db.Workload(); len(w) != 1 || w[0].Count != 3 {
		t.Fatalf("%+v", w)
	}
}

// A workload keeps queries, not what they were made from: the plan and the text.
func TestWorkloadKeepsNoPlans(t *testing.T) {
	db := open(t, &table.Options{PlanCache: -1})
	people := create(t, db, peopleText)
	run := func() weak.Pointer[[64]byte] {
		text := new([64]byte)
		sel := from(people, eq(col(people, "age"), 30))
		sel.Position = func(expr.Expr) int { return int(text[0]) }
		all(t, db, sel)
		return weak.Make(text)
	}
	text := run()
	runtime.GC()
	if text.Value() != nil {
		t.Error("the text of a query that was run is still there")
	}
	w := db.Workload()
	if len(w) != 1 || w[0].Query.Where == nil {
		t.Fatalf("%+v", w)
	}
}

// Each query has a count of its own, whichever plan is made first.
func TestWorkloadCountsByQuery(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	query := func(column string) *plan.Select {
		return from(people, expr.Cmp{Op: expr.Eq, L: col(people, column),
			R: expr.Param{Index: 0}})
	}
	for i := range 5 {
		all(t, db, query("age"), i)
		if i < 2 {
			all(t, db, query("city"), fmt.Sprint(i))
		}
	}
	var counts []float64
	for _, w := range db.Workload() {
		counts = append(counts, w.Count)
	}
	if !slices.Equal(counts, []float64{5, 2}) {
		t.Errorf("counts %v, want 5 and 2", counts)
	}
}

func TestAdviceComesFromTheQueriesThatWereRun(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for i := range 3000 {
		ok(t, people.Insert(ctx, row(t, i, nil, fmt.Sprint(i), i)))
	}
	ok(t, second(db.Analyze(ctx, "people", nil)))
	for i := range 20 {
		all(t, db, from(people, expr.Cmp{Op: expr.Eq, L: col(people, "age"),
			R: expr.Param{Index: 0}}), i)
	}
	advice, err := db.Advise()
	ok(t, err)
	found := map[string]string{}
	for _, a := range advice {
		found[a.Kind.String()] += a.Statement + ";"
	}
	if !strings.Contains(found["missing"], "ON people (age)") {
		t.Fatalf("%+v", found)
	}
}

func TestFullScansCanBeRefused(t *testing.T) {
	db := open(t, &table.Options{RefuseFullScan: true})
	people := create(t, db, peopleText)
	plain := create(t, db, tableWith(0))
	_, err := db.Query(ctx, from(plain, eq(col(plain, "a"), 1)))
	var full *plan.FullScanError
	if !errors.As(err, &full) || full.Table != "t" {
		t.Fatalf("a full scan was not refused: %v", err)
	}
	rows, err := db.Query(ctx, from(people, eq(col(people, "city"), "x")))
	ok(t, err)
	e, err := rows.ExplainAnalyze()
	if err != nil || !strings.Contains(e.String(), "by_city") || e.Actual == nil {
		t.Fatal(e, err)
	}
}
