package table

import (
	"context"
	"errors"
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// Reader is what can be queried: a *DB, which takes a snapshot for each query, a *Snapshot,
// or a *Tx.
type Reader interface {
	// Query runs a query once: see DB.Query.
	Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error)
	view() view
}

type view struct{}

// Query prepares a query, or takes it from the plan cache, and binds it. Tables of the
// query may be of an earlier version of their definition; the present one is used. Nothing
// is read before the rows are iterated over.
func (db *DB) Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error) {
	return nil, errors.ErrUnsupported
}

func (db *DB) view() view { return view{} }

// Query is DB.Query in the transaction.
func (tx *Tx) Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error) {
	return nil, errors.ErrUnsupported
}

func (tx *Tx) view() view { return view{} }

// Prepared is a query that is ready to be run many times. It follows changes of its tables
// and of statistics. It may be used concurrently.
type Prepared struct{ sel *plan.Select }

// Prepare prepares a query. The errors are those of plan.Prepare.
func (db *DB) Prepare(sel *plan.Select) (*Prepared, error) { return nil, errors.ErrUnsupported }

// Query runs the query.
func (p *Prepared) Query(ctx context.Context, r Reader, params ...expr.Value) (*Rows, error) {
	return nil, errors.ErrUnsupported
}

// Columns returns the names and expressions of the result's columns.
func (p *Prepared) Columns() []plan.Output { return nil }

// Rows is the result of a query. It belongs to one goroutine.
type Rows struct{ columns []plan.Output }

// Columns returns the names and expressions of the columns.
func (r *Rows) Columns() []plan.Output { return r.columns }

// All returns the rows: the values of the columns. The sequence yields at most one error,
// last, with a nil row. A row is valid in the loop body only; exec.Clone keeps it. Breaking
// off releases everything. Of a DB, each call reads the then present state.
func (r *Rows) All() iter.Seq2[[]expr.Value, error] { return nil }

// Cursor returns the position behind the row of the loop body, for plan.Select.After. Only
// for queries with Page.
func (r *Rows) Cursor() []byte { return nil }

// Explain returns the plan of the query.
func (r *Rows) Explain() (*plan.Explanation, error) { return nil, errors.ErrUnsupported }

// Analyzed returns the plan with what the last iteration has counted.
func (r *Rows) Analyzed() *plan.Explanation { return nil }

type shapes struct{ most int }
