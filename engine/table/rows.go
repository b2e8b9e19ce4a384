package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Rows is the result of a query. It belongs to one goroutine.
type Rows struct {
	ctx      context.Context //nolint:containedctx // of one query
	from     Reader
	prepared *Prepared
	compiled *compiled
	plan     *plan.Prepared // of compiled, for params
	after    []byte
	request  exec.Request // Most is how many rows are wanted of the query; negative: all

	// Rows go into a sink, or else to yield.
	into  rowio.Sink
	yield func(row []expr.Value) bool

	bound    *plan.Plan   // for the next execution; nil: not bound yet
	ran      *plan.Plan   // by the last execution
	row      []expr.Value // of the loop body, with what a cursor needs
	returned int64
	read     int64 // entries and rows, by the last execution, if it had no plan
	failed   error // of the sink
	timed    bool
	again    bool // the execution may be done over again: see store.LateSnapshots
	more     bool // another row is wanted
	outdated bool // there is no plan by the present definitions
}

// Reset makes rows ready for the next Prepared.Read, for layers that have rows in forms of their
// own. It keeps nothing but memory.
func (r *Rows) Reset() {
	frame := r.request.Frame
	*r = Rows{}
	r.request.Frame = frame
}

// Columns returns the names and expressions of the columns.
func (r *Rows) Columns() []plan.Output { return r.plan.Columns() }

// All returns the rows: the values of the columns, and with plan.Select.RowKeys the row's
// key after them. The sequence yields at most one error, last, with a nil row. A row is
// valid in the loop body only; exec.Clone keeps it. Breaking off releases everything. Of a
// DB, each call reads the then present state.
func (r *Rows) All() iter.Seq2[[]expr.Value, error] { return exec.Sequence(r) }

// Each is All for a function that returns false if it wants no more rows.
func (r *Rows) Each(yield func(row []expr.Value) bool) error {
	r.yield = yield
	return r.run()
}

// run executes the query once: a point of the present without a snapshot if that has an answer.
// Why here: each call more that a point is nested in is measurable.
func (r *Rows) run() error {
	start := r.started()
	err := errMoved
	if st := r.livePoint(); st != nil {
		db := r.prepared.db
		err = r.runPhysical(db.reader)
		if r.returned == 0 && (r.prepared.cores[0].state.Load() != st || !db.leased()) {
			err = errMoved
		}
	}
	if err == errMoved {
		for _, r.again = r.from.(*DB); err == errMoved; {
			if err = r.execute(); r.again && r.returned == 0 && errors.Is(err, ErrConflict) {
				r.again, err = false, errMoved
			}
		}
		r.again = false
	}
	for err != nil && (errors.Is(err, errMoved) || r.overtaken()) {
		if r.returned > 0 {
			err = fmt.Errorf("table: another process has changed a table of the query, run it "+
				"again: %w: %w", ErrConflict, err)
			break
		}
		err = r.execute()
	}
	r.row = nil
	r.finished(start, err)
	return err
}

// overtaken reports whether the query may have failed because another process has changed a
// definition.
func (r *Rows) overtaken() bool {
	db, ok := r.from.(*DB)
	if !ok || db.fences == 0 || r.failed != nil || r.outdated {
		return false
	}
	for i, core := range r.prepared.cores {
		if moved, err := db.outdated(r.ctx, core, r.compiled.states[i]); moved || err != nil {
			return err == nil
		}
	}
	return false
}

// execute runs the query on a state of the store that its plan is right for.
func (r *Rows) execute() error {
	r.again = r.again && r.hasPhysical() // it returns a row when it has read twice, or once
	reader, held, err := r.open()
	if err != nil {
		return err
	}
	defer func() { done(held) }()
	if r.hasPhysical() {
		if err := r.runPhysical(reader); err != errTree {
			return err
		}
	}
	if r.again {
		r.again = false
		done(held)
		if reader, held, err = r.open(); err != nil {
			return err
		}
	}
	return r.runPlan(reader)
}

// done ends the use of what Reader.open has returned.
func done(held io.Closer) {
	if held != nil {
		held.Close()
	}
}

// physical returns the one operator that answers the query, nil if it takes a tree of them.
func (r *Rows) physical() *plan.Physical {
	if r.into != nil {
		return r.plan.Stored()
	}
	return r.plan.Physical()
}

// hasPhysical reports whether one operator answers the query. A plan that is to be shown with
// what was counted takes a tree of them.
func (r *Rows) hasPhysical() bool {
	p := r.physical()
	return p != nil && r.bound == nil && r.after == nil && !r.timed &&
		(p.Point || !r.prepared.db.logsPlans())
}

// livePoint returns the definition of the table if the query is a point of the present, which is
// read without a snapshot. If what was read, or its definition, was changed meanwhile, a snapshot
// decides. Why not an index that covers: an entry may be left over of an index that was dropped.
func (r *Rows) livePoint() *tableState {
	if db, ok := r.from.(*DB); !ok || db.follows || !r.hasPhysical() {
		return nil
	}
	p, st := r.physical(), r.compiled.states[0]
	if !p.Point || p.Covering || r.prepared.cores[0].state.Load() != st {
		return nil
	}
	return st
}

// These end runPhysical: a snapshot has to decide, or a tree of operators.
var (
	errMoved = errors.New("moved")
	errTree  = errors.New("tree")
)

// runPhysical executes the query with one operator.
func (r *Rows) runPhysical(reader store.Reader) error {
	r.returned, r.ran, r.failed = 0, nil, nil
	p := r.physical()
	r.request.Stored, r.request.Batch = r.into != nil && p.Stored(), r.prepared.db.batch
	reading, err := exec.RunPhysical(r.ctx, reader, p, &r.request, (*rowsSink)(r))
	r.read = reading.Keys
	switch {
	case reading.Moved:
		return errMoved
	case reading.Tree:
		return errTree
	case err == nil:
		return r.failed
	}
	return err
}

// rowsSink takes the rows of an execution for a Rows.
type rowsSink Rows

// Values implements exec.Sink.
func (r *rowsSink) Values(row []expr.Value) bool {
	if r.into == nil {
		r.returned++
		return r.yield(row)
	}
	return r.counted(r.into.Values(row))
}

// Stored implements exec.Sink.
func (r *rowsSink) Stored(key store.Key, value []byte) bool {
	return r.counted(r.into.Stored(r.compiled.states[0].Schema, key, value))
}

// counted counts a row that the sink has taken, and reports whether another one is wanted.
func (r *rowsSink) counted(more bool, err error) bool {
	if err != nil {
		r.failed = err
		return false
	}
	r.returned++
	return more && r.returned != r.request.Most
}

// logsPlans reports whether slow queries are logged with their plans, which are counted only
// where there is one.
func (db *DB) logsPlans() bool { return db.opt.SlowQuery > 0 && db.opt.LogValues }

// open opens the reader. Why it looks at the tables twice: if they are the same before and
// after a snapshot was taken, the indexes of the plan were complete when it was.
func (r *Rows) open() (store.Reader, io.Closer, error) {
	for {
		reader, held, err := r.from.open(r.ctx, r)
		if err != nil {
			return nil, nil, err
		}
		same := true
		if db, ok := r.from.(*DB); ok && db.follows {
			same, err = db.sees(r.ctx, reader)
		}
		var c *compiled
		if err == nil { // not before: what is known may become that of the snapshot meanwhile
			c, err = r.prepared.compile(r.ctx, r.from)
			r.outdated = err != nil
		}
		if err == nil && same && r.compiled == c {
			return reader, held, nil
		}
		done(held)
		if err != nil {
			var q *plan.QueryError // of a column that was dropped
			if errors.As(err, &q) {
				err = fmt.Errorf("table: a table of the query has changed, run it again: %w: %w",
					ErrConflict, err)
			}
			return nil, nil, err
		}
		if !slices.Equal(c.states, r.compiled.states) {
			r.bound = nil
		}
		r.request.Params = r.prepared.params(c, r.request.Params)
		r.compiled, r.plan = c, r.prepared.fitting(c, r.request.Params)
	}
}

// fixed looks at the tables after a snapshot was taken that is taken with its first read, which
// fails if they are others.
func (r *Rows) fixed() error {
	if c, err := r.prepared.compile(r.ctx, r.from); err != nil || r.compiled != c {
		return cmp.Or(err, errMoved)
	}
	return nil
}

// runPlan executes the plan.
func (r *Rows) runPlan(reader store.Reader) (err error) {
	p := r.bound
	r.bound, r.returned, r.read, r.failed = nil, 0, 0, nil
	if p == nil {
		if p, err = r.plan.BindAfter(r.request.Params, r.after); err != nil {
			return err
		}
	}
	opt := exec.Options{MemoryBytes: r.prepared.db.opt.MemoryBytes,
		Workers: r.prepared.db.opt.Workers, Temp: r.prepared.db.temp, Batch: r.prepared.db.batch,
		Clock: r.prepared.db.opt.Clock, Timed: r.timed}
	if _, ok := r.from.(*Tx); ok {
		opt.Workers = 1 // a transaction belongs to one goroutine
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
	r.more = true
	err = rows.Each(func(row []expr.Value) bool {
		r.row = row
		r.more = (*rowsSink)(r).Values(row[:n:n])
		return r.more
	})
	rows.Release() // not deferred: should yield panic, helpers may still use it
	if !r.more {
		return r.failed
	}
	return err
}

// Cursor returns the position after the row of the loop body, for plan.Select.After and
// Prepared.QueryAfter. It is nil outside of a loop body, and for queries without Page.
func (r *Rows) Cursor() []byte {
	if r.row == nil || r.ran == nil {
		return nil
	}
	return r.ran.Cursor(r.row)
}

// Explain returns the plan of the query.
func (r *Rows) Explain() (*plan.Explanation, error) {
	p, err := r.plan.BindAfter(r.request.Params, r.after)
	if err != nil {
		return nil, err
	}
	return r.compiled.noted(p.Explain()), nil
}

// ExplainAnalyze runs the query, throws the rows away, and returns the plan with what was
// counted and how long every step took. Of a store on other machines it has the round trips, too.
func (r *Rows) ExplainAnalyze() (*plan.Explanation, error) {
	var trips *store.Trips
	r.ctx, trips = store.CountTrips(r.ctx)
	r.timed = true
	defer func() { r.timed = false }()
	for _, err := range r.All() {
		if err != nil {
			return nil, err
		}
	}
	e := r.compiled.noted(r.ran.ExplainAnalyze())
	if n := trips.Requests(); n > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("round trips: %d (%d requests)", trips.Waves(), n))
	}
	return e, nil
}

// started returns the time if anybody wants to know how long the query takes.
func (r *Rows) started() (t time.Time) {
	if r.prepared.db.opt.SlowQuery > 0 {
		t = r.prepared.db.opt.Clock()
	}
	return t
}
