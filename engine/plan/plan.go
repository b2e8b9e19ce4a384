package plan

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/explain"
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

	prepared *Prepared
	after    []byte
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
}

// Explain describes the plan.
func (p *Plan) Explain() *Explanation { return p.explain(false) }

// ExplainAnalyze describes a plan that was run, with the executor's counters.
func (p *Plan) ExplainAnalyze() *Explanation { return p.explain(true) }

func (p *Plan) explain(analyze bool) *Explanation {
	e := explain.Node(p.Root, analyze)
	for _, s := range p.Subplans {
		sub := s.Plan.explain(analyze)
		e.Children = append(e.Children, explain.Value(sub, s.Kind.String(), s.Param))
	}
	return e
}
