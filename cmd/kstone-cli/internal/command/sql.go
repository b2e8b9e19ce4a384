package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/figure"
)

func sqlCommand(a *cli.App) *cobra.Command {
	var params []string
	cmd := &cobra.Command{
		Use:   a.Use("sql", "STATEMENT…|- [--param VALUE…]"),
		Short: "Run statements of the query language over tables",
		Long: `Run statements, with semicolons between them, over the tables of a database; - reads
them from standard input. SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER and DROP of
tables and indexes, ANALYZE, EXPLAIN and EXPLAIN ANALYZE, BEGIN, COMMIT and ROLLBACK;
docs/sql.md is the reference. A transaction without COMMIT, or in which a statement fails,
is rolled back. Of standard input at most 1 MiB at a time is read and checked before it is
run.

The database is opened read-only if no statement changes it, and is created if one of
them is CREATE TABLE. --as-of reads tables as they were, if the database has the setting
retain-versions. --param gives the values of ?, in their order, or name=value of :name; a
value takes the type of what it is compared with.`,
		Example: `  kstone-cli sql cities.db 'SELECT city FROM cities ORDER BY lat DESC LIMIT 3'
  kstone-cli sql cities.db 'SELECT count(*) FROM cities WHERE country = ?' --param IT
  kstone-cli sql cities.db "EXPLAIN SELECT * FROM cities WHERE country = 'IT'"
  kstone-cli sql cities.db --as-of 15m 'SELECT count(*) FROM cities'
  kstone-cli sql cities.db - < queries.sql`,
		Args: a.Arguments(1, -1),
	}
	a.SetFlag(cmd)
	cmd.Flags().StringArrayVar(&params, "param", nil,
		"`VALUE` of a parameter, or name=VALUE (repeat for each)")
	a.AsOfFlag(cmd)
	a.RowFlag(cmd)
	a.DurabilityFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, args := a.Split(args)
		in, err := newStatements(a, args)
		if err != nil {
			return err
		}
		text, _, more, err := in.next()
		if err != nil {
			return err
		}
		parts, err := sql.Split(text)
		if err != nil {
			return err
		}
		if len(parts) == 0 && !more {
			return cli.Usage("sql: there is no statement")
		}
		m := modeOf(parts)
		if more { // what comes is not known
			m = max(m, cli.ReadWrite)
		}
		return a.WithTables(cmd.Context(), path, m, func(t *cli.Tables) error {
			err := runSQL(cmd.Context(), a, t, text, params)
			for before := 0; err == nil && more; {
				if text, before, more, err = in.next(); err == nil {
					err = placed(runSQL(cmd.Context(), a, t, text, params), before)
				}
			}
			if a.Open == nil && t.SQL.Rollback() {
				err = rolledBack(err)
			}
			return err
		})
	}
	return cmd
}

// rolledBack is the error of statements whose transaction was rolled back, because of err or
// because they are over.
func rolledBack(err error) error {
	if err == nil {
		return cli.Usage("the statements end in an open transaction; it is rolled back").
			WithHint("COMMIT keeps what it has written")
	}
	return cli.Advise(err, "the transaction is rolled back: nothing since BEGIN is kept")
}

// modeOf returns how the database must be opened for statements.
func modeOf(parts []sql.Part) cli.Mode {
	m := cli.ReadOnly
	for _, p := range parts {
		switch p.Verb {
		case "SELECT", "EXPLAIN", "SHOW", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE",
			"ROLLBACK TO":
		case "CREATE TABLE":
			return cli.Create
		default:
			m = cli.ReadWrite
		}
	}
	return m
}

// runSQL runs statements one after the other. Those before one that fails stay done.
func runSQL(ctx context.Context, a *cli.App, t *cli.Tables, text string, params []string) error {
	parts, err := t.SQL.PrepareParts(text)
	if err != nil {
		return err
	}
	for _, stmt := range parts {
		args, err := arguments(stmt, params)
		if err == nil && stmt.Returns() {
			err = showRows(ctx, a, t, stmt, args)
		} else if err == nil {
			err = change(ctx, a, t, stmt, args)
		}
		if errors.Is(err, sql.ErrArguments) && len(params) == 0 {
			err = cli.Advise(err, paramsAdvice(stmt))
		}
		var placed *sql.Error
		if err != nil && !errors.As(err, &placed) && strings.Contains(text, "\n") {
			return &lineError{1 + strings.Count(text[:stmt.Pos()], "\n"), err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lineError is the error of a statement of several lines of text that has no place in it.
type lineError struct {
	line int // where the statement begins
	err  error
}

// Error implements error.
func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

// Unwrap returns the error without the line.
func (e *lineError) Unwrap() error { return e.err }

// arguments returns the values of --param for a statement.
func arguments(stmt *sql.Stmt, params []string) ([]any, error) {
	names, err := stmt.Params()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, nil // of another statement of the same text
	}
	var args []any
	for _, p := range params {
		if names[0] == "" {
			args = append(args, sql.Untyped(p))
			continue
		}
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			return nil, cli.Usage("--param %q has no name", p).
				WithHint("the statement has :%s; write --param %s=VALUE", names[0], names[0])
		}
		args = append(args, sql.Named(strings.TrimPrefix(name, ":"), sql.Untyped(value)))
	}
	return args, nil
}

// paramsAdvice says how to give the parameters of a statement.
func paramsAdvice(stmt *sql.Stmt) string {
	names, err := stmt.Params()
	if err == nil && names[0] != "" {
		return fmt.Sprintf("the statement has :%[1]s; write --param %[1]s=VALUE", names[0])
	}
	return "--param VALUE gives the value of ?; repeat it for each, in their order"
}

// showRows runs a query and writes its rows.
func showRows(ctx context.Context, a *cli.App, t *cli.Tables, stmt *sql.Stmt, args []any) error {
	o := a.Options(nil, false)
	if !slices.Contains(present.RowFormats, o.Format) { // of the shell, about items
		o.Format = present.Table
	}
	out, done := a.Patient(t.Running(ctx, stmt, args))
	defer done()
	rows, err := stmt.Query(ctx, args...)
	if err != nil {
		return err
	}
	r := cli.ResultOf(rows)
	if rows.Plan != nil && (a.Format == "" || o.Format == present.Table) {
		return present.Lines(out, r, o.Width)
	}
	_, err = present.WriteRows(out, r, o)
	return err
}

// rowVerbs are those of statements that change rows.
var rowVerbs = []string{"INSERT", "UPDATE", "DELETE"}

// change runs a statement that returns no rows, and says on standard error what it did.
func change(ctx context.Context, a *cli.App, t *cli.Tables, stmt *sql.Stmt, args []any) error {
	done := func() {}
	if parts, err := sql.Split(stmt.Text()); err == nil && slices.Contains(rowVerbs,
		parts[0].Verb) { // others show their own progress
		_, done = a.Patient(t.Running(ctx, stmt, args))
	}
	result, err := t.Exec(ctx, a, stmt, args)
	done()
	if err != nil {
		return err
	}
	text := strings.ToLower(result.Statement)
	switch {
	case result.Unchanged:
		text += ": nothing to do"
	case text == "insert" || text == "update" || text == "delete":
		text += ": " + figure.Rows(result.Rows)
		if result.Skipped > 0 {
			text += fmt.Sprintf(", %s left out", figure.Count(result.Skipped))
		}
	default:
		return nil
	}
	_, err = fmt.Fprintln(a.Err, text)
	return err
}
