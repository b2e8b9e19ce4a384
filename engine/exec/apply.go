package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// A subquery that uses columns of the rows around it is run by the expressions it stands in, where
// and when they are evaluated: a branch of CASE that is not taken runs nothing. All runs read
// what the query around reads. Values are kept by the arguments, since they depend on nothing
// else, so that rows with equal arguments share a run.

// Values of one subquery are kept in so many bytes, and in that share of the memory allowed; then
// all of them are given up. The same holds for the rows of one Keep. All of them together have a
// quarter of that memory.
const (
	maxMemoBytes  = 16 << 20
	memoShare     = 16
	memoItemBytes = 64 // beside its text
)

// applied runs a subquery for values of its arguments.
type applied struct {
	*runner
	plan *plan.Applied
	key  []byte
	// steady runs a plan that is the same for all arguments, which are in bound.Params; nil
	// before the first run, and of other plans.
	steady operator
	within *runner
	bound  *plan.Plan

	request Request // of a plan that one operator answers
}

// shared is what the subqueries of an execution keep from run to run.
type shared struct {
	memos map[any]*memo
	kept  map[*plan.Keep]*keptRows
	used  int64 // bytes
	limit int64
}

// room returns the bytes that one subquery, or one Keep, may keep.
func (s *shared) room() int64 {
	return max(0, min(maxMemoBytes, s.limit/memoShare, s.limit/4-s.used))
}

// forget gives up the values for another run of the whole query, but not the rows.
func (s *shared) forget() {
	for _, m := range s.memos {
		s.used -= m.used
	}
	clear(s.memos)
}

// memo keeps the values of a subquery, by its arguments as they are: 1 and 1.0 are not one.
type memo struct {
	values map[string]expr.Value
	used   int64
}

// addApplied makes the subqueries of a plan ready.
func (r *runner) addApplied(p *plan.Plan) {
	if len(p.Applied) == 0 {
		return
	}
	r.applied = make(map[any]*applied, len(p.Applied))
	if r.shared == nil {
		r.shared = &shared{memos: map[any]*memo{}, kept: map[*plan.Keep]*keptRows{},
			limit: r.budget.limit}
	}
	for _, a := range p.Applied {
		r.applied[a.Query()] = &applied{runner: r, plan: a}
	}
}

// program compiles an expression, with the subqueries that it runs.
func (r *runner) program(e expr.Expr) (expr.Program, error) {
	if r.applied != nil {
		e = expr.Map(e, func(x expr.Expr) expr.Expr {
			if a, ok := x.(expr.Apply); ok {
				a.Query = r.applied[a.Query]
				return a
			}
			return x
		})
	}
	return expr.Compile(e)
}

// Apply returns the value for some arguments.
func (a *applied) Apply(args []expr.Value) (expr.Value, error) {
	a.plan.Calls++
	a.key = a.key[:0]
	for i := range args {
		a.key = expr.AppendValue(a.key, args[i])
	}
	m := a.shared.memos[a.plan.Query()]
	if m == nil {
		m = &memo{values: map[string]expr.Value{}}
		a.shared.memos[a.plan.Query()] = m
	}
	if v, ok := m.values[string(a.key)]; ok {
		return v, nil
	}
	a.plan.Runs++
	key := string(a.key)
	v, err := a.run(a.plan.Params(args))
	err = atSubquery(a.plan.Pos, err)
	if err == nil {
		m.keep(a.shared, key, v)
	}
	return v, err
}

// keep keeps a value.
func (m *memo) keep(s *shared, key string, v expr.Value) {
	n := int64(len(key)) + rowBytes([]expr.Value{v}) + memoItemBytes
	if n > s.room() || m.used+n > maxMemoBytes {
		clear(m.values)
		s.used -= m.used
		if m.used = 0; n > s.room() {
			return
		}
	}
	m.values[key] = v
	m.used += n
	s.used += n
}

// run runs the subquery.
func (a *applied) run(params []expr.Value) (expr.Value, error) {
	if err := check(a.ctx); err != nil {
		return expr.Value{}, err
	}
	if p := a.plan.Physical(); p != nil && !a.opt.Timed {
		if v, ok, err := a.runPhysical(p, params); ok || err != nil {
			return v, err
		}
	}
	if a.steady == nil {
		if err := a.bind(params); err != nil {
			return expr.Value{}, err
		}
	}
	op, bound := a.steady, a.bound
	if !a.plan.Steady() {
		a.steady = nil
	}
	before := a.budget.used.Load()
	v, err := a.within.value(a.plan.Kind, 0, op)
	a.budget.used.Store(before) // what it has kept is a value now
	a.plan.Ran(bound)
	return v, err
}

// bind makes the operators for some arguments.
func (a *applied) bind(params []expr.Value) (err error) {
	if a.bound, err = a.plan.Bind(params); err != nil {
		return err
	}
	r := &runner{ctx: a.ctx, reader: a.reader, params: a.bound.Params, opt: a.opt,
		budget: a.budget, shared: a.shared, divisions: plan.Undivided(a.bound)}
	r.opt.Workers = 1
	r.addApplied(a.bound)
	a.within = r
	a.steady, err = r.compile(a.bound.Root)
	return err
}

// runPhysical runs a subquery that one operator answers; ok is false if these values need a tree.
func (a *applied) runPhysical(p *plan.Physical, params []expr.Value) (v expr.Value, ok bool,
	err error) {
	if a.plan.Kind == plan.SubplanList {
		return v, false, nil
	}
	a.request.Params = params
	s := valueSink{most: 2}
	if a.plan.Kind == plan.SubplanExists {
		s.most = 1
	}
	read, err := RunPhysical(a.ctx, a.reader, p, &a.request, &s)
	switch {
	case err != nil || read.Tree || read.Moved:
		return v, false, err
	case a.plan.Kind == plan.SubplanExists:
		return expr.Bool(s.rows > 0), true, nil
	case s.rows > 1:
		return v, false, ErrManyRows
	}
	return s.value, true, nil
}

// valueSink takes the first value of the first rows.
type valueSink struct {
	value      expr.Value
	rows, most int
}

// Values takes a row.
func (s *valueSink) Values(row []expr.Value) bool {
	if s.rows++; s.rows == 1 {
		s.value = row[0].Clone()
	}
	return s.rows < s.most
}

// Stored is not called.
func (*valueSink) Stored(store.Key, []byte) bool { return false }

// keep passes the rows of its input, which from the second run on are in memory.
type keep struct {
	input  operator
	rows   *keptRows
	shared *shared
}

// keptRows are the rows of a plan.Keep.
type keptRows struct {
	runs int
	all  bool // they are in rows
	rows rowTable
}

func (r *runner) keep(n *plan.Keep) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil || r.shared == nil {
		return input, err
	}
	rows := r.shared.kept[n.Of]
	if rows == nil {
		rows = &keptRows{}
		r.shared.kept[n.Of] = rows
	}
	return &keep{input, rows, r.shared}, nil
}

func (k *keep) run(yield func([]expr.Value) bool) error {
	if k.rows.runs++; k.rows.runs == 2 {
		if err := k.rows.fill(k.input, k.shared); err != nil {
			return err
		}
	}
	if !k.rows.all {
		return k.input.run(yield)
	}
	rows := &k.rows.rows
	for i := range rows.count {
		if !yield(rows.row(i)) {
			break
		}
	}
	return nil
}

// fill reads the rows, if there is room.
func (k *keptRows) fill(input operator, s *shared) error {
	used, most, fits := int64(0), s.room(), true
	err := input.run(func(row []expr.Value) bool {
		used += rowBytes(row)
		if fits = used <= most; fits {
			k.rows.add(row)
		}
		return fits
	})
	if k.all = err == nil && fits; k.all {
		s.used += used
	} else {
		k.rows = rowTable{}
	}
	return err
}
