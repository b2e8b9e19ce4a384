package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// query is a Select whose names are resolved, whose types are checked and whose
// subqueries have become sources or parameters.
type query struct {
	sel   *Select
	outer *query // the query around, nil of the outermost
	// holder is the query that this one is a source of: outer is that of the holder.
	holder *query
	scope  *scope // shared by a query and its subqueries

	rels []*relation
	// where holds the conjuncts that every row of the inner joins satisfies, those of ON
	// included.
	where []expr.Expr
	// late holds those that run subqueries for each row, after all joins.
	late []expr.Expr

	groups     []expr.Expr
	aggregates []Aggregate
	having     []expr.Expr
	outputs    []Output
	order      []Order
	total      []Order                // order, with ties if there are cursors
	columns    []operator.OrderColumn // the first terms of total that are columns of one relation
	limit      expr.Expr
	offset     expr.Expr
	page       bool
	subs       []*subquery
	semis      []semiValues
	firsts     []firstValues
	applied    []*subquery // that are run for rows
	isApplied  bool        // this query is
	correlated bool        // some expression has a column of a query around
	grouped    bool
	facts      []joinFacts // by relation, while joins are chosen
	joinsTried int         // joins of two that were looked at
	qualified  bool        // columns are shown with their tables
	narrowed   bool        // see narrow
	spare      *path       // memory of one that is in no plan
}

// scope numbers what a query and its subqueries share.
type scope struct {
	opt    Options
	params int          // parameters of the caller
	values int          // subqueries that become parameters, after those
	listed map[int]bool // parameters that may be lists
	nested bool         // there are subqueries in expressions
	lists  bool         // there is an IN or a subquery
	semis  int          // terms that could be semi joins: see query.listed
	// arguments are the parameters that are columns of queries around.
	arguments map[int]bool
	// kinds are those of what parameters are compared with, as far as they are known.
	kinds   map[int]expr.Kind
	checked []paramKind // kinds, as a list
	// What every query has is part of the scope.
	root     query    // the outermost one
	prepared Prepared // root
	live     estimate.Live
}

// relation is something to join: a table, or a subquery that is planned by itself.
type relation struct {
	source int // its number in columns
	name   string
	table  *schema.Table // nil of a subquery
	sub    *subquery
	kind   JoinKind
	// on holds the conjuncts of ON: of left, semi and anti joins only.
	on []expr.Expr
	// nullAware: see JoinNode.
	nullAware bool
	// pred holds the conjuncts on this relation alone that may be tested before joining.
	pred []expr.Expr
	need need
	// parts are what the paths of the relation, and of its copies, have in common.
	parts *pathParts
	found foundRows
}

// ownRelation is a relation with the memory that most have.
type ownRelation struct {
	relation
	own  pathParts
	room [4]int // of need.ordinals
}

// init makes the relation one of a source without parts.
func (r *ownRelation) init(source int, s *Source) *relation {
	r.relation = relation{source: source, name: s.Name(), table: s.Table, parts: r.own.begin()}
	r.need.ordinals = r.room[:0]
	return &r.relation
}

// pathParts are what is read of rows, and the columns of terms.
type pathParts struct {
	layouts []needLayout
	terms   []termColumns
	// Most relations are read in one way.
	layoutRoom [1]needLayout
	// estimator is known while the query is planned.
	estimator *estimate.Estimator
}

// begin returns p, which is empty.
func (p *pathParts) begin() *pathParts {
	p.layouts = p.layoutRoom[:0]
	return p
}

// termColumns are the columns of a term.
type termColumns struct {
	term    expr.Expr
	columns schema.ColumnSet
}

// foundRows is how many rows are expected to satisfy the last terms that were asked for.
type foundRows struct {
	terms []expr.Expr
	rows  float64
}

// foundBy estimates how many rows of a relation satisfy its terms: all of its paths ask for that.
func (r *relation) foundBy(e *estimate.Estimator) float64 {
	f := &r.found
	if n := len(r.pred); n != len(f.terms) || n == 0 || &r.pred[0] != &f.terms[0] {
		*f = foundRows{r.pred, estimate.Clamp(e.Rows() * e.Selectivity(r.pred))}
	}
	return f.rows
}

// foundAtMost bounds what foundBy has returned, and returns for the same terms.
func (r *relation) foundAtMost(rows float64) { r.found.rows = min(r.found.rows, rows) }

type needLayout struct {
	columns schema.ColumnSet
	need    need
	layout  []ColumnRef
}

// layoutOf returns what it is to need some columns of rows, and the elements of such rows.
func (q *query) layoutOf(r *relation, columns schema.ColumnSet, rowKey bool) (need, []ColumnRef) {
	if r.parts == nil {
		r.parts = new(pathParts).begin()
	}
	for i := range r.parts.layouts {
		if l := &r.parts.layouts[i]; l.need.rowKey == rowKey && l.columns == columns {
			return l.need, l.layout
		}
	}
	n := need{slices.AppendSeq(make([]int, 0, columns.Len()), columns.All()), rowKey}
	layout := make([]ColumnRef, 0, len(n.ordinals)+2)
	for _, o := range n.ordinals {
		c := q.column(r.source, o)
		layout = append(layout, ColumnRef{Source: r.source, Ordinal: o, Name: c.String()})
	}
	if n.rowKey {
		layout = append(layout, r.rowKey()...)
	}
	layout = slices.Clip(layout)
	r.parts.layouts = append(r.parts.layouts, needLayout{columns, n, layout})
	return n, layout
}

// need says what must be read of a relation.
type need struct {
	ordinals []int // ascending
	rowKey   bool
}

func (n *need) add(ordinal int) {
	if i, found := slices.BinarySearch(n.ordinals, ordinal); !found {
		n.ordinals = slices.Insert(n.ordinals, i, ordinal)
	}
}

// subquery is a Select inside an expression.
type subquery struct {
	query *query
	also  []*subquery // whose rows follow, in FROM only
	kind  SubplanKind
	// param is the position of the parameter it becomes, if it does (asParam).
	param   int
	asParam bool
	most    int // see Subplan.Most
	tree    Node
	// args are the columns of queries around that an applied one is run for, and argParams the
	// parameters that they are in it; shape finds equal ones.
	args      []expr.Column
	argParams []int
	shape     string
	prepared  *Prepared
	// steady says that values of arguments do not change its plan.
	steady bool
}

// relationOf returns the relation with the given number.
func (q *query) relationOf(source int) *relation {
	if source < 0 || source >= len(q.rels) {
		return nil
	}
	return q.rels[source]
}

// padded reports whether there are rows with NULLs in place of those of the relation.
func (r *relation) padded() bool { return r.kind == Left || r.kind == Full }

// columnOf returns what a column of a relation is.
func (r *relation) columnOf(ordinal int) (schema.Column, bool) {
	switch {
	case r.table != nil && ordinal >= 0 && ordinal < len(r.table.Columns):
		c := r.table.Columns[ordinal]
		return c, !c.Dropped
	case r.table == nil && ordinal >= 0 && ordinal < len(r.sub.query.outputs):
		o := r.sub.query.outputs[ordinal]
		c := schema.Column{Name: o.Name, Nullable: true}
		c.Collation = expr.CollationOf(o.Expr)
		for _, s := range r.sub.also {
			c.Collation = max(c.Collation, expr.CollationOf(s.query.outputs[ordinal].Expr))
		}
		return c, true
	}
	return schema.Column{}, false
}

// tableColumn returns a column of a relation that is a table, nil for others.
func (r *relation) tableColumn(ordinal int) *schema.Column {
	if r.table == nil || ordinal < 0 || ordinal >= len(r.table.Columns) ||
		r.table.Columns[ordinal].Dropped {
		return nil
	}
	return &r.table.Columns[ordinal]
}

// nameOf returns the name of a column.
func (r *relation) nameOf(ordinal int) string {
	if r.table == nil {
		return r.sub.query.outputs[ordinal].Name
	}
	return r.table.Columns[ordinal].Name
}

// columns returns how many columns a relation has, dropped ones included.
func (r *relation) columns() int {
	if r.table == nil {
		return len(r.sub.query.outputs)
	}
	return len(r.table.Columns)
}

// all returns the subquery and those whose rows follow.
func (s *subquery) all() []*subquery { return append([]*subquery{s}, s.also...) }

// plan plans a subquery that is joined.
func (s *subquery) plan() error {
	var inputs []Node
	var sum operator.Estimate
	for _, part := range s.all() {
		tree, err := part.query.plan()
		if err != nil {
			return err
		}
		part.tree = tree
		var layout []ColumnRef
		for _, o := range s.query.outputs {
			layout = append(layout, ColumnRef{Source: operator.Computed, Name: o.Name})
		}
		e := tree.Estimate()
		sum = operator.Estimate{Rows: sum.Rows + e.Rows, Cost: sum.Cost + e.Cost}
		step := operator.Step{Elements: layout, Expected: e}
		inputs = append(inputs, &Derived{Unary: over(step, tree)})
	}
	if len(inputs) > 1 {
		step := operator.Step{Elements: inputs[0].Layout(), Expected: sum}
		s.tree = &Union{Step: step, Inputs: inputs, All: true}
	}
	return nil
}

// column returns the expression for a column of a relation.
func (q *query) column(source, ordinal int) expr.Column {
	r := q.rels[source]
	out := expr.Column{Source: source, Ordinal: ordinal}
	if c := r.tableColumn(ordinal); c != nil {
		out.Name, out.Collation = c.Name, c.Collation
	} else {
		c, _ := r.columnOf(ordinal)
		out.Name, out.Collation = c.Name, c.Collation
	}
	if q.qualified {
		out.Table = r.name
	}
	return out
}

// sourcesOf returns the set of sources that an expression has columns of, as bits.
func sourcesOf(e expr.Expr) (set uint64) {
	for c := range expr.Columns(e) {
		if c.Source >= 0 {
			set |= 1 << c.Source
		}
	}
	return set
}
