package sql_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// openSession returns a session over an empty database in memory.
func openSession(t testing.TB) *sql.Session {
	t.Helper()
	clock := func() time.Time { return time.Date(2026, 3, 1, 12, 34, 56, 789e6, time.UTC) }
	p := &program{}
	s, end := p.storage(t, clock, otherStorage)
	db, err := table.Open(context.Background(), s, &table.Options{Clock: clock, SampleRows: -1,
		Lease: quickLease})
	ok(t, err)
	t.Cleanup(func() { ok(t, errors.Join(db.Close(), end())) })
	return sql.Open(db)
}

// TestRun runs the scripts in testdata/run: statements with their results. The arguments
// of the directive are the values of parameters: name=value, or arg=value in their order.
//
// Promise (sql): Statements do what they say, all or nothing, and prepared ones follow changes
// of their tables. Also `TestPreparedFollowsTables`, `TestPreparedShowFollowsTables`,
// `TestErrorsOfTables`, `TestUntypedArguments` in `engine/sql`.
func TestRun(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	datadriven.Walk(t, "testdata/run", func(t *testing.T, path string) {
		s := openSession(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var args []any
			for _, a := range d.CmdArgs {
				for _, v := range a.Vals {
					if a.Key == "arg" {
						args = append(args, v)
					} else {
						args = append(args, sql.Named(a.Key, v))
					}
				}
			}
			parts, err := s.PrepareParts(d.Input)
			var out strings.Builder
			for _, stmt := range parts {
				if err == nil {
					err = runStatement(&out, stmt, args)
				}
			}
			var e *syntax.Error
			switch {
			case errors.As(err, &e):
				fmt.Fprintf(&out, "%v\n%s\n", e, e.Excerpt())
			case err != nil:
				fmt.Fprintf(&out, "error: %v\n", err)
			}
			return out.String()
		})
	})
}

// measured are what a plan says of costs and times, which these tests are not about.
var measured = regexp.MustCompile(` \| rows \S+ cost .*`)

func runStatement(out *strings.Builder, stmt *sql.Stmt, args []any) error {
	ctx := context.Background()
	if !stmt.Returns() {
		r, err := stmt.Exec(ctx, args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %d rows", r.Statement, r.Rows)
		if r.Skipped > 0 {
			fmt.Fprintf(out, ", %d skipped", r.Skipped)
		}
		if r.Unchanged {
			out.WriteString(", unchanged")
		}
		out.WriteString("\n")
		return nil
	}
	rows, err := stmt.Query(ctx, args...)
	if err != nil {
		return err
	}
	var names []string
	for _, c := range rows.Columns {
		names = append(names, c.Name)
	}
	fmt.Fprintln(out, strings.Join(names, " | "))
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		var cells []string
		for _, v := range row {
			text := v.String()
			if rows.Plan != nil {
				text, _ = v.AsString()
				text = measured.ReplaceAllString(text, "")
			}
			cells = append(cells, text)
		}
		fmt.Fprintln(out, strings.Join(cells, " | "))
	}
	return nil
}
