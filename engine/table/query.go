package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table/internal/rowio"
)

// Reader is what can be queried: a *DB, which takes a snapshot for each query, a *Snapshot,
// or a *Tx.
type Reader interface {
	// Query runs a query once: see DB.Query.
	Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error)
	// DB returns the database that is read.
	DB() *DB
	// stateOf returns the definition by which a table is read.
	stateOf(ctx context.Context, core *tableCore) (*tableState, error)
	// open returns what to read in one execution of rows; held, if it is not nil, is closed in the
	// end.
	open(ctx context.Context, rows *Rows) (r store.Reader, held io.Closer, err error)
}

// ReadWriter is what can be written to, too: a *DB, for which every call is a commit of its
// own, or a *Tx.
type ReadWriter interface {
	Reader
	writable()
}

var (
	_ ReadWriter = (*DB)(nil)
	_ ReadWriter = (*Tx)(nil)
	_ Reader     = (*Snapshot)(nil)
)

func (*DB) writable() {}
func (*Tx) writable() {}

// Query prepares a query, or takes it from the plan cache, and binds it. Tables of the
// query may be of an earlier version of their definition; the present one is used. Nothing
// is read before the rows are iterated over. Parameters are what expr.From takes. Errors
// are those of plan.Prepare and plan.Prepared.Bind.
func (db *DB) Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error) {
	return query(ctx, db, sel, params)
}

// DB returns db itself.
func (db *DB) DB() *DB { return db }

func (db *DB) stateOf(ctx context.Context, core *tableCore) (*tableState, error) {
	if err := db.renew(ctx); err != nil {
		return nil, err
	}
	return core.present()
}

func (db *DB) open(ctx context.Context, rows *Rows) (store.Reader, io.Closer, error) {
	var s store.Snapshot
	var err error
	if late, ok := db.store.(store.LateSnapshots); ok {
		s, err = late.SnapshotLater(ctx, rows.again, rows.fixed)
	} else {
		s, err = db.store.Snapshot(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	return s, s, nil
}

// present returns the present state, or an error if the table has been dropped.
func (c *tableCore) present() (*tableState, error) {
	s := c.state.Load()
	if s.gone {
		return nil, &NameError{s.Schema.Name, ErrNoTable}
	}
	return s, nil
}

// Query is DB.Query in the transaction: it sees what that has written, and all it reads
// must be unchanged when the transaction commits. Nothing may be written while rows are
// iterated over.
func (tx *Tx) Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error) {
	return query(ctx, tx, sel, params)
}

func (tx *Tx) stateOf(ctx context.Context, core *tableCore) (*tableState, error) {
	return tx.state(ctx, core)
}

func (tx *Tx) open(context.Context, *Rows) (store.Reader, io.Closer, error) {
	return tx.store, nil, nil
}

func query(ctx context.Context, r Reader, sel *plan.Select, args []any) (*Rows, error) {
	params, err := values(args)
	if err != nil {
		return nil, err
	}
	p := &Prepared{db: r.DB(), sel: sel}
	list := p.db.tables.Load()
	if s, ok := r.(*Snapshot); ok { // which has tables that were dropped since
		list = s.list
	}
	if err := p.find(list); err != nil {
		return nil, err
	}
	return p.Query(ctx, r, params...)
}

// Prepared is a query that is ready to be run many times. It follows changes of its tables
// and of statistics. It may be used concurrently.
type Prepared struct {
	db       *DB
	sel      *plan.Select
	literals bool            // of a text: see PrepareLiterals
	cores    []*tableCore    // the tables of the query and its subqueries
	tables   []*schema.Table // as the query has them
	last     atomic.Pointer[compiled]
	coreRoom [2]*tableCore    // of cores
	room     [2]*schema.Table // of tables
}

// compiled is a prepared query for one version of its tables and statistics.
type compiled struct {
	sel    *plan.Select
	states []*tableState // of Prepared.cores
	stats  []*plan.TableStats
	plan   *plan.Prepared
	values []expr.Value // of the parameters that plan has, not sel: see PrepareLiterals
	shape  *shape
	byKey  bool // it reads one row by its primary key, whatever the statistics are

	stateRoom [2]*tableState      // of states
	statsRoom [2]*plan.TableStats // of stats
}

// params returns the values of the parameters of a plan.
func (p *Prepared) params(c *compiled, given []expr.Value) []expr.Value {
	if p.literals {
		return c.values
	}
	return given
}

// fitting returns the plan of the query that is good for values.
func (p *Prepared) fitting(c *compiled, params []expr.Value) *plan.Prepared {
	return p.db.plans.Fitting(c.plan, params)
}

// Prepare prepares a query, which must not be changed any more. The errors are those of
// plan.Prepare.
func (db *DB) Prepare(sel *plan.Select) (*Prepared, error) {
	return prepare(&Prepared{db: db, sel: sel})
}

func prepare(p *Prepared) (*Prepared, error) {
	if err := p.find(p.db.tables.Load()); err != nil {
		return nil, err
	}
	_, err := p.compile(context.Background(), p.db)
	return p, err
}

// PrepareLiterals is Prepare for a query without parameters whose values are written in a text.
// Queries that differ by such values alone share a plan where values make no difference to it. It
// ignores the values of parameters.
func (db *DB) PrepareLiterals(sel *plan.Select) (*Prepared, error) {
	return prepare(&Prepared{db: db, sel: sel, literals: true})
}

// Columns returns the names and expressions of the result's columns.
func (p *Prepared) Columns() []plan.Output {
	c, err := p.compile(context.Background(), p.db)
	if err != nil {
		return nil
	}
	return c.plan.Columns()
}

// Params returns how many parameters the query has.
func (p *Prepared) Params() int {
	if c := p.last.Load(); c != nil && !p.literals {
		return c.plan.Params()
	}
	return 0
}

// find looks up the tables of the query.
func (p *Prepared) find(list *tableList) error {
	var missing error
	p.cores, p.tables = p.coreRoom[:0], p.room[:0]
	p.sel.Tables(func(t *schema.Table) {
		if core := list.byID[t.ID]; core != nil {
			p.cores, p.tables = append(p.cores, core), append(p.tables, t)
		} else if missing == nil {
			missing = &NameError{t.Name, ErrNoTable}
		}
	})
	return missing
}

// compile returns the query for the definitions that the reader has.
func (p *Prepared) compile(ctx context.Context, r Reader) (*compiled, error) {
	c := p.last.Load()
	if c != nil {
		if !c.byKey {
			p.db.refresh(p.cores, false)
		}
		same, err := p.fits(ctx, c, r)
		if same || err != nil {
			return c, err
		}
	} else {
		p.db.refresh(p.cores, true)
	}
	c = new(compiled)
	c.states, c.stats = c.stateRoom[:0], c.statsRoom[:0]
	for _, core := range p.cores {
		st, err := r.stateOf(ctx, core)
		if err != nil {
			return nil, err
		}
		c.states = append(c.states, st)
		c.stats = append(c.stats, core.stats.Load())
	}
	c.sel = p.withTables(c.states)
	opt := p.db.planOptions()
	if len(p.cores) > 1 { // joins take time
		opt.Check = func() error { return context.Cause(ctx) }
	}
	var err error
	if p.literals {
		c.plan, c.values, err = p.db.plans.PrepareLiterals(c.sel, opt)
	} else {
		c.plan, err = p.db.plans.Prepare(c.sel, opt)
	}
	var wrong *plan.QueryError
	if c.sel != p.sel && errors.As(err, &wrong) { // it may be right for what it was made for
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err != nil {
		return nil, p.notOf(c, r, err)
	}
	physical := c.plan.Physical()
	c.byKey = physical != nil && physical.Point && physical.Index == nil
	c.shape = p.db.shapes.of(c)
	p.last.Store(c)
	return c, nil
}

// notOf returns the error of a query that a transaction cannot plan, a conflict if it reads by
// former definitions: then the query may be one of the present.
func (p *Prepared) notOf(c *compiled, r Reader, err error) error {
	for i, core := range p.cores {
		if _, ok := r.(*Tx); ok && c.states[i] != core.state.Load() {
			return changedSince(c.states[i])
		}
	}
	return err
}

// fits reports whether the definitions are those that the reader has.
func (p *Prepared) fits(ctx context.Context, c *compiled, r Reader) (bool, error) {
	for i, core := range p.cores {
		st, err := r.stateOf(ctx, core)
		if err != nil {
			return false, err
		}
		if st != c.states[i] || core.stats.Load() != c.stats[i] {
			return false, nil
		}
	}
	return true, nil
}

func (db *DB) planOptions() plan.Options {
	return plan.Options{Stats: statsOf{db}, Costs: db.costs, Counter: db.counter(),
		RefuseFullScan: db.opt.RefuseFullScan}
}

// Query binds the query. See DB.Query.
func (p *Prepared) Query(ctx context.Context, r Reader, params ...expr.Value) (*Rows, error) {
	return p.QueryAfter(ctx, r, p.sel.After, params...)
}

// QueryAfter is Query that resumes after a cursor: see Rows.Cursor. Nil begins at the
// beginning. The error of a cursor that is not of this query matches plan.ErrCursor.
func (p *Prepared) QueryAfter(ctx context.Context, r Reader, after []byte,
	params ...expr.Value) (*Rows, error) {
	c, err := p.compile(ctx, r)
	if err != nil {
		return nil, err
	}
	params = p.params(c, params)
	rows := &Rows{ctx: ctx, from: r, prepared: p, after: after, compiled: c,
		plan: p.fitting(c, params), request: exec.Request{Params: params, Most: -1}}
	if q := rows.plan.Physical(); q != nil && after == nil {
		err = q.Check(params)
	} else {
		rows.bound, err = rows.plan.BindAfter(params, after)
	}
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Read runs the query once, with its rows going into q.Sink, and returns how many they were:
// for layers that have rows in forms of their own. rows is the memory of the execution, a zero
// Rows or one after Reset. Its Cursor is then the position after the last row of the sink.
func (p *Prepared) Read(ctx context.Context, r Reader, rows *Rows, q *rowio.Request) (int64,
	error) {
	c, err := p.compile(ctx, r)
	if err != nil {
		return 0, err
	}
	rows.ctx, rows.from, rows.prepared, rows.compiled = ctx, r, p, c
	params := p.params(c, q.Params)
	rows.plan, rows.after, rows.into = p.fitting(c, params), p.sel.After, q.Sink
	rows.request.Params, rows.request.Cut, rows.request.Most = params, q.Cut, -1
	if q.Most > 0 {
		rows.request.Most = q.Most
	}
	if rows.request.Frame == nil {
		rows.request.Frame = new(exec.Frame)
	}
	err = rows.run()
	return rows.returned, err
}

// Explain returns the plan of the query for these values, without running it.
func (p *Prepared) Explain(r Reader, params ...expr.Value) (*plan.Explanation, error) {
	c, err := p.compile(context.Background(), r)
	if err != nil {
		return nil, err
	}
	params = p.params(c, params)
	bound, err := p.fitting(c, params).Bind(params)
	if err != nil {
		return nil, err
	}
	return c.noted(bound.Explain()), nil
}

// noted adds to a plan what it was chosen by.
func (c *compiled) noted(e *plan.Explanation) *plan.Explanation {
	for i, st := range c.states {
		note := "statistics of " + st.Schema.Name + ": " + c.stats[i].Origin()
		if !slices.Contains(e.Notes, note) {
			e.Notes = append(e.Notes, note)
		}
	}
	return e
}
