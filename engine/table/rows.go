package table

import (
	"context"
	"iter"
	"time"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// Rows is the result of a query. It belongs to one goroutine.
type Rows struct {
	ctx      context.Context //nolint:containedctx // of one query
	from     Reader
	prepared *Prepared
	compiled *compiled
	params   []expr.Value
	after    []byte

	bound    *plan.Plan   // for the next execution; nil: not bound yet
	ran      *plan.Plan   // by the last execution
	row      []expr.Value // of the loop body, with what a cursor needs
	returned int64
	read     int64 // entries and rows, by the last execution, if it had no plan
	timed    bool
}

// Columns returns the names and expressions of the columns.
func (r *Rows) Columns() []plan.Output { return r.compiled.plan.Columns() }

// All returns the rows: the values of the columns, and with plan.Select.RowKeys the row's
// key behind them. The sequence yields at most one error, last, with a nil row. A row is
// valid in the loop body only; exec.Clone keeps it. Breaking off releases everything. Of a
// DB, each call reads the then present state.
func (r *Rows) All() iter.Seq2[[]expr.Value, error] {
	return func(yield func([]expr.Value, error) bool) {
		start := r.started()
		stopped := false
		err := r.execute(func(row []expr.Value) bool {
			r.returned++
			stopped = !yield(row, nil)
			return !stopped
		})
		r.row = nil
		r.finished(start, err)
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// execute runs the query on a state of the store that its plan is right for.
func (r *Rows) execute(yield func([]expr.Value) bool) error {
	r.returned, r.read, r.ran = 0, 0, nil
	if c := r.compiled; c.point != nil && c.point.index == nil && r.bound == nil && !r.timed {
		if db, ok := r.from.(*DB); ok {
			again, err := r.direct(db, yield)
			if !again {
				return err
			}
		}
	}
	reader, done, err := r.open()
	if err != nil {
		return err
	}
	defer done()
	if used, err := r.runShort(reader, yield); used {
		return err
	}
	return r.runPlan(reader, yield)
}

// runShort runs the query without a plan. used is false if that cannot be.
func (r *Rows) runShort(reader store.Reader, yield func([]expr.Value) bool) (used bool,
	err error) {
	c := r.compiled
	switch {
	case r.bound != nil || r.after != nil || r.timed:
		return false, nil
	case c.point != nil:
		return true, c.point.run(r.ctx, reader, r.params, yield)
	case c.direct == nil || r.prepared.db.logsPlans():
		return false, nil
	}
	reading, err := c.direct.Run(r.ctx, reader, r.params, yield)
	r.read = reading.Keys
	return !reading.Tree, err
}

// logsPlans reports whether slow queries are logged with their plans, which are counted only
// where there is one.
func (db *DB) logsPlans() bool { return db.opt.SlowQuery > 0 && db.opt.LogValues }

// direct reads a row by its primary key without a snapshot. again says that the definition
// of the table has changed meanwhile.
func (r *Rows) direct(db *DB, yield func([]expr.Value) bool) (again bool, err error) {
	st := r.compiled.states[0]
	if r.prepared.cores[0].state.Load() != st {
		return true, nil
	}
	err = r.compiled.point.run(r.ctx, db.store, r.params, yield)
	return err != nil && r.returned == 0 && r.prepared.cores[0].state.Load() != st, err
}

// open opens the reader. Why it looks at the tables twice: if they are the same before and
// after a snapshot was taken, the indexes of the plan were complete when it was.
func (r *Rows) open() (store.Reader, func(), error) {
	for {
		reader, done, err := r.from.open(r.ctx)
		if err != nil {
			return nil, nil, err
		}
		c, err := r.prepared.compile(r.from)
		if err == nil && c == r.compiled {
			return reader, done, nil
		}
		done()
		if err != nil {
			return nil, nil, err
		}
		if !sameStates(c, r.compiled) {
			r.bound = nil
		}
		r.compiled = c
	}
}

func sameStates(a, b *compiled) bool {
	for i := range a.states {
		if a.states[i] != b.states[i] {
			return false
		}
	}
	return true
}

// runPlan executes the plan.
func (r *Rows) runPlan(reader store.Reader, yield func([]expr.Value) bool) (err error) {
	p := r.bound
	r.bound = nil
	if p == nil {
		if p, err = r.compiled.plan.BindAfter(r.params, r.after); err != nil {
			return err
		}
	}
	opt := exec.Options{MemoryBytes: r.prepared.db.opt.MemoryBytes,
		Workers: r.prepared.db.opt.Workers}
	if _, ok := r.from.(*Tx); ok {
		opt.Workers = 1 // a transaction belongs to one goroutine
	}
	if r.timed {
		opt.Clock = r.prepared.db.opt.Clock
	}
	rows, err := exec.Run(r.ctx, reader, p, opt)
	if err != nil {
		return err
	}
	r.ran = rows.Plan()
	n := len(p.Columns)
	if r.compiled.sel.RowKeys {
		n += 2
	}
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		r.row = row
		if !yield(row[:n:n]) {
			return nil
		}
	}
	return nil
}

// Cursor returns the position behind the row of the loop body, for plan.Select.After and
// Prepared.QueryAfter. It is nil outside of a loop body, and for queries without Page.
func (r *Rows) Cursor() []byte {
	if r.row == nil || r.ran == nil {
		return nil
	}
	return r.ran.Cursor(r.row)
}

// Explain returns the plan of the query.
func (r *Rows) Explain() (*plan.Explanation, error) {
	p, err := r.compiled.plan.BindAfter(r.params, r.after)
	if err != nil {
		return nil, err
	}
	return p.Explain(), nil
}

// ExplainAnalyze runs the query, throws the rows away, and returns the plan with what was
// counted and how long every step took.
func (r *Rows) ExplainAnalyze() (*plan.Explanation, error) {
	r.timed = true
	defer func() { r.timed = false }()
	for _, err := range r.All() {
		if err != nil {
			return nil, err
		}
	}
	return r.ran.ExplainAnalyze(), nil
}

// started returns the time if anybody wants to know how long the query takes.
func (r *Rows) started() (t time.Time) {
	if r.prepared.db.opt.SlowQuery > 0 {
		t = r.prepared.db.opt.Clock()
	}
	return t
}
