package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/explain"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
)

// Plan is a bound query, ready for one execution. It belongs to one goroutine at a
// time, and so does the tree, but for parts that the executor itself runs in parallel.
type Plan struct {
	// Root returns the rows. Its first len(Columns) elements are the result; what
	// follows is for cursors.
	Root Node
	// Columns names the result.
	Columns []Output
	// Params are the values for the parameters that are left in expressions: those
	// given to Bind, then one for each of Subplans.
	Params []expr.Value
	// Subplans are uncorrelated subqueries whose values are needed first. The executor
	// runs them in their order and calls Resolve. Until then Root is for EXPLAIN only.
	Subplans []*Subplan
	// Applied are the subqueries that expressions run for rows: an expr.Apply has the
	// Query of one of them.
	Applied []*Applied

	prepared *Prepared
	after    []byte
	ran      []*Subplan // whose values are among Params

	divisions Divisions
}

// SubplanKind says which value a subquery has.
type SubplanKind uint8

const (
	// SubplanScalar is the first column of the only row, NULL without rows. More than
	// one row is an error.
	SubplanScalar SubplanKind = iota
	// SubplanExists is whether there is a row.
	SubplanExists
	// SubplanList is an expr.List of the first column of all rows.
	SubplanList
)

// String returns "scalar", "exists" or "list".
func (k SubplanKind) String() string {
	return [...]string{"scalar", "exists", "list", ""}[k&3]
}

// Subplan is an uncorrelated subquery that becomes a value.
type Subplan struct {
	Kind SubplanKind
	Plan *Plan
	// Param is the position in Plan.Params of the plan around it.
	Param int
	// Most, if not 0, is how many values it may have: see Plan.Joined.
	Most int
	Pos  int // where it stands: see QueryError.Pos
}

// Applied is a subquery that is run for values of columns of the queries around it. It belongs
// to the execution of its plan.
type Applied struct {
	Kind SubplanKind
	Pos  int // as in Subplan
	// Calls counts how often its value was asked for, and Runs how often it was run: values are
	// kept.
	Calls, Runs int64

	sub    *subquery
	params []expr.Value // of the plan around it
	bound  bool         // params is a copy
	sum    *Plan        // a run with the counters of all runs
}

// Query is that of the expr.Apply for this subquery.
func (a *Applied) Query() any { return a.sub }

// Physical returns the one operator that answers the subquery, nil if it takes a tree of them.
func (a *Applied) Physical() *Physical { return a.sub.prepared.Physical() }

// Params returns the parameters of the subquery for values of the arguments. They are valid until
// the next call.
func (a *Applied) Params(args []expr.Value) []expr.Value {
	if !a.bound {
		a.params, a.bound = slices.Clone(a.params), true
	}
	for i, at := range a.sub.argParams {
		a.params[at] = args[i]
	}
	return a.params
}

// Steady reports whether a plan of Bind can be run again after Params was called again.
func (a *Applied) Steady() bool { return a.sub.steady }

// Bind returns the plan of the subquery for what Params has returned.
func (a *Applied) Bind(params []expr.Value) (*Plan, error) {
	return a.sub.prepared.bind(params, nil, false)
}

// Ran counts a run.
func (a *Applied) Ran(run *Plan) {
	switch a.sum {
	case run:
	case nil:
		a.sum = run
	default:
		a.sum.add(run)
	}
}

// add adds the counters of another run of the same query.
func (p *Plan) add(run *Plan) {
	addActual(p.Root, run.Root)
	for i, a := range p.Applied {
		other := run.Applied[i]
		a.Calls, a.Runs = a.Calls+other.Calls, a.Runs+other.Runs
		if other.sum != nil {
			a.Ran(other.sum)
		}
	}
}

// addActual adds the counters of a tree to those of another one. Where values have made another
// tree, they are those of what is above.
func addActual(to, from Node) {
	to.Actual().Add(from.Actual())
	into, children := to.Children(), from.Children()
	for i, c := range children {
		if len(into) == len(children) {
			addActual(into[i], c)
			continue
		}
		addActual(to, c)
	}
}

// explain describes the subquery.
func (a *Applied) explain(analyze bool) *Explanation {
	run := a.sum
	if run == nil {
		bound, err := a.sub.prepared.bind(a.params, nil, true)
		if err != nil {
			return &Explanation{Operator: "subquery " + a.Kind.String()}
		}
		run = bound
	}
	var args []string
	for _, c := range a.sub.args {
		args = append(args, c.String())
	}
	e := explain.Value(run.explainDivided(Undivided(run), analyze), a.Kind.String(), a.sub.param)
	e.Attributes = append(e.Attributes,
		Attribute{Name: "for each", Value: strings.Join(args, ", ")})
	if analyze {
		e.Attributes = append(e.Attributes, Attribute{Name: "runs",
			Value: fmt.Sprintf("%d of %d", a.Runs, a.Calls)})
	}
	return e
}

// Explain describes the plan.
func (p *Plan) Explain() *Explanation { return p.explain(false) }

// ExplainAnalyze describes a plan that was run, with the executor's counters.
func (p *Plan) ExplainAnalyze() *Explanation { return p.explain(true) }

// Divisions says which steps several goroutines may run: none of a plan with subqueries that run
// for rows, since these keep values for one.
func (p *Plan) Divisions() *Divisions { return p.divide(len(p.Applied) > 0) }

// Undivided is Divisions of a subquery that runs for rows.
func Undivided(p *Plan) *Divisions { return p.divide(true) }

func (p *Plan) divide(whole bool) *Divisions {
	p.divisions = operator.Divide(p.Root, p.Params, whole)
	return &p.divisions
}

func (p *Plan) explain(analyze bool) *Explanation {
	return p.explainDivided(p.Divisions(), analyze)
}

func (p *Plan) explainDivided(d *Divisions, analyze bool) *Explanation {
	e := explain.Node(p.Root, d, analyze)
	subs := p.Subplans
	if analyze {
		subs = slices.Concat(p.ran, subs)
	}
	for _, s := range subs {
		sub := s.Plan.explain(analyze)
		e.Children = append(e.Children, explain.Value(sub, s.Kind.String(), s.Param))
		e.Reads += sub.Reads
	}
	for _, a := range p.Applied {
		e.Children = append(e.Children, a.explain(analyze))
	}
	return e
}
