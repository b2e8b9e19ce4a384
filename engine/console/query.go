package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/completion"
	"github.com/kstonedb/kstone/internal/overview"
)

const (
	// maxCellBytes is how much of a value is shown in a table, maxResultBytes of all that a request
	// asks for, where a cell has cellBytes more than its text.
	maxCellBytes   = 4 << 10
	maxResultBytes = 8 << 20
	cellBytes      = 8
)

// column describes a column of a result.
type column struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Right says that its values are numbers.
	Right bool `json:"right,omitempty"`
}

// outcome is what a statement has done.
type outcome struct {
	Verb    string      `json:"verb"`
	Columns []column    `json:"columns,omitempty"`
	Rows    [][]*string `json:"rows,omitempty"` // nil is NULL
	// More says that there are further rows.
	More   bool              `json:"more,omitempty"`
	Plan   *plan.Explanation `json:"plan,omitempty"`
	Done   string            `json:"done,omitempty"`
	Millis float64           `json:"millis"`
	Error  *problem          `json:"error,omitempty"`
}

// readers are the statements that change nothing.
var readers = []string{"SELECT", "EXPLAIN", "SHOW"}

// statements are what is to be run.
type statements struct {
	SQL     string `json:"sql"`
	Explain bool   `json:"explain"` // with what it counts
}

// query runs statements, one after the other, up to the first that fails. A transaction ends with
// the request.
func (c *Console) query(ctx context.Context, in *statements) (any, error) {
	session := sql.Open(c.db) // no other request shares its transaction
	defer session.Rollback()
	parts, err := sql.Split(in.SQL)
	if err == nil {
		err = c.allowed(parts)
	}
	var stmts []*sql.Stmt
	if err == nil {
		stmts, err = session.PrepareParts(in.SQL)
	}
	if err != nil {
		return map[string]any{"error": problemOf(ctx, err)}, nil
	}
	var out []*outcome
	left := maxResultBytes
	for i, stmt := range stmts {
		verb := parts[i].Verb
		one := c.run(ctx, stmt, in.Explain && verb != "EXPLAIN", &left)
		one.Verb = verb
		if out = append(out, one); one.Error != nil {
			break
		}
	}
	if session.InTransaction() {
		out = append(out, &outcome{Verb: "ROLLBACK",
			Done: "the transaction was open at the end, and is rolled back"})
	}
	return map[string]any{"statements": out}, nil
}

// allowed returns an error for statements that change something, unless the console allows them.
func (c *Console) allowed(parts []sql.Part) error {
	if c.o.Write {
		return nil
	}
	for _, p := range parts {
		if !slices.Contains(readers, p.Verb) {
			return fmt.Errorf("%s changes the database, and this console only reads; "+
				"kstone-cli console --write, or Options.Write of a program, allows it", p.Verb)
		}
	}
	return nil
}

// run runs one statement, or explains it. At most left bytes of its result are kept.
func (c *Console) run(ctx context.Context, stmt *sql.Stmt, explain bool, left *int) *outcome {
	begin := c.o.Clock()
	out := &outcome{}
	if err := c.runInto(ctx, out, stmt, explain, left); err != nil {
		out.Error = problemOf(ctx, err)
	}
	out.Millis = float64(c.o.Clock().Sub(begin)) / float64(time.Millisecond)
	return out
}

func (c *Console) runInto(ctx context.Context, out *outcome, stmt *sql.Stmt, explain bool,
	left *int) (err error) {
	if err = ctx.Err(); err != nil {
		return err
	}
	if explain {
		out.Plan, err = stmt.ExplainAnalyze(ctx)
		if errors.Is(err, sql.ErrNoResult) {
			err = errors.New("a statement without a query has no plan")
		}
		return err
	}
	if !stmt.Returns() {
		result, err := stmt.Exec(ctx)
		if err == nil {
			out.Done = doneText(&result)
		}
		return err
	}
	rows, err := stmt.Query(ctx)
	if err != nil {
		return err
	}
	if out.Plan = rows.Plan; out.Plan != nil {
		return nil
	}
	return c.take(out, rows, left)
}

// take keeps the first rows of a result.
func (c *Console) take(out *outcome, rows *sql.Rows, left *int) error {
	for _, col := range rows.Columns {
		out.Columns = append(out.Columns, column{Name: col.Name, Type: col.Type})
	}
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		if len(out.Rows) == c.o.MaxRows || *left <= 0 {
			out.More = true
			break
		}
		out.Rows = append(out.Rows, cells(out.Columns, row, left))
	}
	return nil
}

// cells returns the values of a row as texts.
func cells(columns []column, row []expr.Value, left *int) []*string {
	line := make([]*string, len(row))
	*left -= cellBytes * len(row)
	for i, v := range row {
		if v.IsNull() {
			continue
		}
		columns[i].Right = columns[i].Right || v.Kind().Numeric()
		if t, ok := v.AsTime(); ok && strings.HasPrefix(columns[i].Type, "DATE") {
			text := t.Format(time.DateOnly)
			line[i] = &text
			continue
		}
		text := string(overview.AppendValue(nil, v))
		text = shorten(text, len(text))
		*left -= len(text)
		line[i] = &text
	}
	return line
}

// shorten returns at most maxCellBytes of a text, in valid UTF-8, and else how many bytes all has.
func shorten(text string, all int) string {
	if len(text) > maxCellBytes {
		text = fmt.Sprintf("%s… (%d bytes)", text[:maxCellBytes], all)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// doneText says what a statement has done.
func doneText(r *sql.Result) string {
	switch r.Statement {
	case "INSERT", "UPDATE", "DELETE":
		text := fmt.Sprintf("%d rows", r.Rows)
		if r.Rows == 1 {
			text = "1 row"
		}
		if r.Skipped > 0 {
			text += fmt.Sprintf(", %d left out", r.Skipped)
		}
		return text
	}
	if r.Unchanged {
		return "nothing to do"
	}
	return "done"
}

// typed is a statement that is being typed, before and after the cursor.
type typed struct {
	Before string `json:"before"`
	After  string `json:"after"`
}

// complete returns words that complete the text before the cursor.
func (c *Console) complete(_ context.Context, in *typed) (any, error) {
	start, found := completion.Of(c.db, in.Before, in.After)
	found = found[:min(len(found), maxWords)]
	return map[string]any{"typed": in.Before[start:], "words": found}, nil
}

// maxWords bounds the words that are offered.
const maxWords = 50
