package exec

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// DefaultMemoryBytes bounds the rows that one execution keeps, unless Options say
// otherwise.
const DefaultMemoryBytes = 256 << 20

// Options of an execution. The zero value is usable.
type Options struct {
	// MemoryBytes bounds the memory of the rows that sorts, groups and joins keep. 0 is
	// DefaultMemoryBytes. What they would keep beyond it goes into temporary files.
	MemoryBytes int64
	// Temp makes temporary files, see store.Spiller. If it is nil, an execution that
	// would keep more than MemoryBytes ends with a *MemoryError.
	Temp func() (store.TempFile, error)
	// Clock is the time; nil is time.Now.
	Clock func() time.Time
	// Timed measures the time of every step: for EXPLAIN ANALYZE.
	Timed bool
	// Workers bounds the goroutines of one execution, and so does GOMAXPROCS; 0 is as many as
	// that. 1 uses none beside the caller's. A small query starts none either.
	Workers int
	// Batch is how many keys a request looks up, if requests are what reading costs: unless
	// a limit follows, lookups begin with so many. 0: they begin with few.
	Batch int
}

// Rows is an execution of a plan. It belongs to one goroutine.
type Rows struct {
	runner
	plan   *plan.Plan
	op     operator
	memory budget // of runner
	room   [4]counter
	free   []counter // the rest of room
}

// Run prepares the execution of a plan that was bound for it. Subqueries that the plan
// needs as values are run at once; the rest happens while the rows are read. The reader
// must stay open until then; if it is a snapshot, all reads see the same state.
func Run(ctx context.Context, reader store.Reader, p *plan.Plan, o Options) (*Rows, error) {
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = DefaultMemoryBytes
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	p, err := resolve(ctx, reader, p, o)
	if err != nil {
		return nil, err
	}
	r := executions.Get().(*Rows)
	r.plan, r.runner = p, runner{ctx: ctx, reader: reader, params: p.Params, opt: o,
		divisions: p.Divisions()}
	r.memory.limit, r.memory.spills = o.MemoryBytes, o.Temp != nil
	r.budget = &r.memory
	r.free = r.room[:]
	r.counters = &r.free
	r.addApplied(p)
	r.op, err = r.compile(p.Root)
	return r, err
}

var executions = sync.Pool{New: func() any { return new(Rows) }}

// Release gives the memory of an execution to another one. It is not used any more.
func (r *Rows) Release() {
	*r = Rows{}
	executions.Put(r)
}

// Plan returns the plan that is run, with its counters: that of Run, or what
// plan.Plan.Resolve made of it.
func (r *Rows) Plan() *plan.Plan { return r.plan }

// Sequence returns what Each calls its function with, until that returns false, and then its error.
func Sequence[T any](rows interface{ Each(func(T) bool) error }) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := rows.Each(func(row T) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// Each calls yield with each row until it returns false. A row is valid during the call; Clone
// keeps it.
func (r *Rows) Each(yield func(row []expr.Value) bool) error {
	r.memory.used.Store(0)
	if r.shared != nil {
		r.shared.forget()
	}
	return r.op.run(yield)
}

// Clone returns a copy of a row that stays valid.
func Clone(row []expr.Value) []expr.Value { return clone(row) }

// operator produces the rows of one node.
type operator interface {
	// run calls yield with each row until it returns false. The row is valid during
	// the call. After yield has returned false run returns nil.
	run(yield func(row []expr.Value) bool) error
}

// runner is what the operators of one execution share; those of a worker have one of their own.
type runner struct {
	ctx       context.Context
	reader    store.Reader
	params    []expr.Value
	opt       Options
	budget    *budget
	applied   map[any]*applied // by the Query of an expr.Apply; nil: none
	shared    *shared          // by these, and what they run; nil: none
	worker    *worker          // nil: the operators are not those of a division
	divisions *plan.Divisions
	// actuals are the counters of a helper; nil: those of the plan.
	actuals map[plan.Node]*plan.Actual
	meter   *meter // of a fallback around; nil: none
	// extremes is for the access that is being compiled, if its Extremes are not nil.
	extremes *extremes
	limited  bool // a limit follows what is being compiled
	// counters is room for those of the first operators; nil: there is none.
	counters *[]counter
}

// firstBatch returns how many keys are looked up first, of up to most.
func (r *runner) firstBatch(few, most int) int {
	if r.limited {
		return few
	}
	return max(few, min(r.opt.Batch, most))
}

// actual returns the counters of a node.
func (r *runner) actual(n plan.Node) *plan.Actual {
	if r.actuals == nil {
		return n.Actual()
	}
	a := r.actuals[n]
	if a == nil {
		a = new(plan.Actual)
		r.actuals[n] = a
	}
	return a
}

// compile returns the operator of a node.
func (r *runner) compile(n plan.Node) (operator, error) {
	d, err := r.divide(n, r.divisions.Gathers(n))
	if d != nil || err != nil {
		return &gather{d}, err
	}
	op, err := r.compileNode(n)
	if err != nil {
		return nil, err
	}
	return r.counted(n, op), nil
}

func (r *runner) compileNode(n plan.Node) (operator, error) {
	switch n := n.(type) {
	case *plan.OneRow:
		return oneRow{}, nil
	case *plan.Access:
		return r.access(n)
	case *plan.Derived:
		return r.derived(n)
	case *plan.Keep:
		return r.keep(n)
	case *plan.Fetch:
		return r.fetch(n)
	case *plan.Filter:
		return r.filter(n)
	case *plan.Project:
		return r.project(n)
	case *plan.Limit:
		return r.limit(n)
	case *plan.Sort:
		return r.sort(n)
	case *plan.Distinct:
		return r.distinct(n)
	case *plan.Group:
		return r.group(n)
	case *plan.Union:
		return r.union(n)
	case *plan.Intersect:
		return r.intersect(n)
	case *plan.JoinNode:
		return r.join(n)
	case *plan.Fallback:
		return r.fallback(n)
	}
	return nil, fmt.Errorf("exec: unknown step %T", n)
}

// counted wraps an operator so that it counts rows and, for EXPLAIN ANALYZE, time.
func (r *runner) counted(n plan.Node, op operator) operator {
	var c *counter
	if r.counters != nil && len(*r.counters) > 0 {
		c, *r.counters = &(*r.counters)[0], (*r.counters)[1:]
	} else {
		c = new(counter)
	}
	*c = counter{op: op, within: r, actual: r.actual(n)}
	return c
}

// rowsAtATime is after how many rows every operator looks whether its context has ended. Why all of
// them: what a sort, a group or a join has in memory is handed on without reading anything.
const rowsAtATime = 1 << 10

type counter struct {
	op     operator
	within *runner
	actual *plan.Actual
	ended  error // why it hands on no more rows
}

func (c *counter) run(yield func([]expr.Value) bool) error {
	if !c.within.opt.Timed {
		return c.count(yield)
	}
	clock := c.within.opt.Clock
	start := clock()
	var above time.Duration // of the operators above, which is left out
	err := c.count(func(row []expr.Value) bool {
		before := clock()
		more := yield(row)
		above += clock().Sub(before)
		return more
	})
	c.actual.Time += clock().Sub(start) - above
	return err
}

// count is run without the time.
func (c *counter) count(yield func([]expr.Value) bool) error {
	if c.within.actuals == nil { // else the caller's worker counts it
		c.actual.Loops++
	}
	c.ended = nil
	a := c.actual
	err := c.op.run(func(row []expr.Value) bool {
		if a.Rows++; a.Rows%rowsAtATime == 0 {
			if c.ended = check(c.within.ctx); c.ended != nil {
				return false
			}
		}
		return yield(row)
	})
	return first(err, c.ended)
}

// resolve runs the subqueries that the plan needs as values.
func resolve(ctx context.Context, reader store.Reader, p *plan.Plan, o Options,
) (*plan.Plan, error) {
	if len(p.Subplans) == 0 {
		return p, nil
	}
	values := make([]expr.Value, len(p.Subplans))
	for i, s := range p.Subplans {
		r, err := Run(ctx, reader, s.Plan, o)
		if err != nil {
			return nil, err
		}
		s.Plan = r.plan
		values[i], err = r.value(s.Kind, s.Most, r.op)
		r.Release()
		err = atSubquery(s.Pos, err)
		if errors.Is(err, errManyValues) {
			joined, err := p.Joined()
			if err != nil {
				return nil, err
			}
			return resolve(ctx, reader, joined, o)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.Resolve(values)
}

// value makes a value of the rows of a subquery. A list has at most so many values if that is not
// 0.
func (r *runner) value(kind plan.SubplanKind, most int, op operator) (expr.Value, error) {
	switch kind {
	case plan.SubplanExists:
		found := false
		err := op.run(func([]expr.Value) bool { found = true; return false })
		return expr.Bool(found), err
	case plan.SubplanScalar:
		var v expr.Value
		rows := 0
		err := op.run(func(row []expr.Value) bool {
			if rows++; rows == 1 {
				v = row[0].Clone()
			}
			return rows < 2
		})
		if err == nil && rows > 1 {
			err = ErrManyRows
		}
		return v, err
	}
	return r.list(op, most)
}

// errManyValues ends a subquery that has more values than the plan is for.
var errManyValues = errors.New("exec: the subquery has many values")

// list collects the different values of the first column, at most so many if that is not 0.
func (r *runner) list(op operator, most int) (expr.Value, error) {
	seen := newKeyTable(1)
	var failed error
	err := op.run(func(row []expr.Value) bool {
		if _, added := seen.add([]expr.Value{row[0].Canonical()}); added {
			failed = r.budget.take("list of a subquery", seen.bytes())
		}
		if most > 0 && seen.count > most {
			failed = errManyValues
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	seen.mix()
	return expr.List(seen.keys), err
}

// oneRow yields one row without elements.
type oneRow struct{}

func (oneRow) run(yield func([]expr.Value) bool) error {
	yield(nil)
	return nil
}
