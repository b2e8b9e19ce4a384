package sql

import (
	"iter"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
)

// ColumnInfo describes a column of a result.
type ColumnInfo struct {
	Name string
	Type string // in the words of CREATE TABLE, empty if it is not known
	// NotNull says that the values are those of a column that is NOT NULL.
	NotNull bool
	// Table is the table whose column it is, empty if it is computed.
	Table string
}

// Rows is the result of a query. It belongs to one goroutine.
type Rows struct {
	// Columns may be those of other executions, too. Do not modify them.
	Columns []ColumnInfo
	// Plan is the plan, of EXPLAIN only.
	Plan *plan.Explanation

	rows  *table.Rows
	stmt  *Stmt
	asked *asked
	in    *transaction                   // or nil
	kept  *returned                      // instead of rows: of RETURNING
	past  iter.Seq2[[]expr.Value, error] // instead of rows: of AS OF
	more  bool                           // another row is wanted
}

// All returns the rows. The sequence yields at most one error, last, with a nil row. A row
// is valid in the loop body only; exec.Clone keeps it.
func (r *Rows) All() iter.Seq2[[]expr.Value, error] {
	return func(yield func([]expr.Value, error) bool) {
		if r.Plan != nil {
			r.lines(yield)
			return
		}
		if r.kept != nil {
			r.kept.all(yield)
			return
		}
		if r.past != nil {
			r.past(yield)
			return
		}
		if r.in != nil {
			r.in.reading++
			defer func() { r.in.reading-- }()
		}
		r.more = true
		err := r.rows.Each(func(row []expr.Value) bool {
			r.more = yield(row[:len(r.Columns)], nil)
			return r.more
		})
		if err != nil && r.more {
			yield(nil, conflicted(r.asked.planError(err, r.stmt.start)))
		}
	}
}

// lines yields the text of the plan.
func (r *Rows) lines(yield func([]expr.Value, error) bool) {
	text := strings.TrimSuffix(r.Plan.String(), "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if !yield([]expr.Value{expr.String(line)}, nil) {
			return
		}
	}
}

// explain makes the plan the result; run reads all rows before.
func (r *Rows) explain(run bool) (err error) {
	r.Columns = []ColumnInfo{{Name: "plan", Type: "TEXT"}}
	if run {
		r.Plan, err = r.rows.ExplainAnalyze()
	} else {
		r.Plan, err = r.rows.Explain()
	}
	return r.asked.planError(err, r.stmt.start)
}
