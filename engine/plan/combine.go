package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/operator"
	"github.com/kstonedb/kstone/engine/schema"
)

// minGain is how many times cheaper an intersection has to be than the best single index: its
// estimate rests on two guesses. countedGain is that where both are counted: at worst all rows of
// one index are fetched, and the entries of the other one were read for nothing.
const (
	minGain     = 2
	countedGain = 1.3
)

// unionSeeks is what each input of a union takes to begin, in Costs.Seek: a path alone is one
// operator, which is bound without a tree.
const unionSeeks = 3

// unions returns a candidate for each OR whose terms different indexes can serve: the row
// keys that each of them finds, each once, and then the rows. It leaves out what costs at least
// as much as one of the paths: that has no order to make up for it.
func (q *query) unions(r *relation, e *estimate.Estimator, indexes []*schema.Index,
	paths []*path) (all []candidate) {
	ors := bestUnions(r.pred, e)
	if len(ors) == 0 {
		return nil
	}
	least := math.Inf(1)
	for _, p := range paths {
		if !q.refusesFullScan() {
			least = min(least, p.estimate.Cost)
		}
	}
	for _, i := range ors {
		if u := q.union(r, e, indexes, i, least); u != nil {
			all = append(all, candidate{node: q.fetch(r, e, u), set: 1 << r.source})
		}
	}
	return all
}

// union returns the row keys that term i, an OR, finds; nil if an index would be read whole, or it
// costs as much as most.
func (q *query) union(r *relation, e *estimate.Estimator, indexes []*schema.Index, i int,
	most float64) Node {
	or := r.pred[i].(expr.Or)
	rest := slices.Concat(r.pred[:i], r.pred[i+1:])
	c, u := q.costs(), &Union{}
	for j, b := range or.Terms {
		ahead := float64(len(or.Terms)-j) * (1 + unionSeeks) * c.Seek
		if u.Expected.Cost+u.Expected.Rows*(c.Hash+c.Fetch)+ahead >= most {
			return nil
		}
		n := q.keysOnly(r, e, indexes, expr.Terms(slices.Clone(rest), b))
		if n == nil {
			return nil
		}
		u.Inputs = append(u.Inputs, n)
		u.Expected.Rows += n.Estimate().Rows
		u.Expected.Cost += n.Estimate().Cost + unionSeeks*c.Seek
	}
	u.Elements = u.Inputs[0].Layout()
	if q.limit != nil {
		q.cheapFirst(u)
	}
	u.Expected.Cost += u.Expected.Rows * c.Hash
	return u
}

// cheapFirst lets a union whose rows may not all be wanted begin with the input whose rows cost
// least, and says what the first rows to fetch cost.
func (q *query) cheapFirst(u *Union) {
	each := func(e operator.Estimate) float64 { return e.Cost / max(e.Rows, 1) }
	slices.SortStableFunc(u.Inputs, func(a, b Node) int {
		return cmp.Compare(each(a.Estimate()), each(b.Estimate()))
	})
	wanted := min(firstFetch, u.Expected.Rows)
	for _, n := range u.Inputs {
		e := n.Estimate()
		if wanted <= e.Rows {
			u.Expected.Startup += e.FirstRows(wanted)
			return
		}
		u.Expected.Startup += e.Cost
		wanted -= e.Rows
	}
}

// maxUnions bounds the ORs of an AND that are tried as unions: each takes looking at all terms.
const maxUnions = 8

// bestUnions returns which terms are ORs that unions are made of: those that leave the fewest rows.
func bestUnions(terms []expr.Expr, e *estimate.Estimator) (at []int) {
	for i, t := range terms {
		if or, ok := t.(expr.Or); ok && len(or.Terms) <= maxBranches {
			at = append(at, i)
		}
	}
	if len(at) <= maxUnions {
		return at
	}
	left := make(map[int]float64, len(at))
	for _, i := range at {
		left[i] = e.Selectivity(terms[i : i+1])
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(left[a], left[b]) })
	return at[:maxUnions]
}

// maxBranches bounds the terms of an OR that become accesses of their own.
const maxBranches = 16

// keysOnly returns the cheapest access that finds the keys of the rows for which terms
// may be true, looking at no row; nil if every index would be read whole.
func (q *query) keysOnly(r *relation, e *estimate.Estimator, indexes []*schema.Index,
	terms []expr.Expr) Node {
	var best *path
	var tested schema.ColumnSet
	for _, t := range terms {
		tested.Union(r.columnsOf(t))
	}
	var unused *relation
	for _, x := range indexes {
		if x != nil && !tested.Has(x.Columns[0].Ordinal) {
			continue // the scan of its key would not be bounded
		}
		branch := unused
		if unused = nil; branch == nil {
			branch = new(relation)
		}
		*branch = *r
		branch.pred, branch.need = terms, need{}
		if x != nil && x.Where != nil && !implies(branch, terms, x.Where) {
			continue
		}
		branch.pred = decidable(r, x, terms)
		p := q.newPath(branch, x, true)
		p.price(e, q.costs())
		if p.scan.Bounded && !p.repeats && (best == nil || p.estimate.Cost < best.estimate.Cost) {
			best, p = p, best
		}
		if p != nil { // its memory is used again
			q.spare, unused = p, p.rel
		}
	}
	if best == nil {
		return nil
	}
	return rowKeys(r, best.access())
}

// decidable returns the terms that an index entry, or a row, decides by itself, and those
// that a partial index stands for.
func decidable(r *relation, x *schema.Index, terms []expr.Expr) (out []expr.Expr) {
	for _, t := range terms {
		if x == nil || r.columnsOf(t).Within(x.Covers()) {
			out = append(out, t)
		}
	}
	return out
}

// rowKey returns the elements of the row's key.
func (r *relation) rowKey() []ColumnRef {
	return []ColumnRef{
		{Source: r.source, Ordinal: operator.RowPK, Name: "row pk"},
		{Source: r.source, Ordinal: operator.RowSK, Name: "row sk"},
	}
}

// rowKeys projects to the row's key.
func rowKeys(r *relation, n Node) Node {
	at := len(n.Layout()) - 2
	if at == 0 {
		return n
	}
	s := operator.Step{Elements: r.rowKey(), Expected: n.Estimate()}
	return &Project{Unary: over(s, n), Exprs: []expr.Expr{
		expr.Slot{I: at, Name: "row pk"}, expr.Slot{I: at + 1, Name: "row sk"}}}
}

// fetch reads the rows whose keys a node finds, and tests the whole predicate.
func (q *query) fetch(r *relation, e *estimate.Estimator, keys Node) Node {
	p := q.newPath(r, nil, false)
	s := operator.Step{Elements: p.layout, Expected: keys.Estimate()}
	c := q.costs()
	s.Expected.Startup += min(s.Expected.Rows, firstFetch) * c.Fetch
	s.Expected.Cost += s.Expected.Rows*c.Fetch + c.Trips(s.Expected.Rows, c.Batch)
	s.Expected.Rows = r.foundBy(e)
	return &Fetch{Unary: over(s, keys), Source: r.sourceTable(),
		Filter: toSlots(expr.AllOf(r.pred), p.layout)}
}

// intersections returns the candidate that reads the two most selective indexes and
// fetches only the rows that both find, if it is far cheaper than any of the paths.
func (q *query) intersections(r *relation, e *estimate.Estimator, paths []*path) []candidate {
	least := paths[0].estimate.Cost
	var bounded []*path
	for _, p := range paths {
		least = min(least, p.estimate.Cost)
		if p.index != nil && p.scan.Bounded && !p.ordered && !p.repeats && p.skip == nil {
			bounded = append(bounded, p)
		}
	}
	// Both find at least the rows that are wanted, and these are fetched.
	rows := r.foundBy(e)
	gain := float64(minGain)
	if e.Counts() {
		gain = countedGain
	}
	if c := q.costs(); len(bounded) < 2 || (2*c.Seek+rows*c.Fetch)*gain > least {
		return nil
	}
	var best Node
	for i, a := range bounded {
		for _, b := range bounded[i+1:] {
			n := q.intersect(r, e, a.index, b.index)
			if n != nil && (best == nil || n.Estimate().Cost < best.Estimate().Cost) {
				best = n
			}
		}
	}
	if best == nil || best.Estimate().Cost*gain > least {
		return nil
	}
	return []candidate{{node: best, set: 1 << r.source}}
}

func (q *query) intersect(r *relation, e *estimate.Estimator, a, b *schema.Index) Node {
	if a.Columns[0].Ordinal == b.Columns[0].Ordinal {
		return nil
	}
	n := &Intersect{}
	for _, x := range []*schema.Index{a, b} {
		in := q.keysOnly(r, e, []*schema.Index{x}, r.pred)
		if in == nil {
			return nil
		}
		n.Inputs = append(n.Inputs, in)
		n.Expected.Cost += in.Estimate().Cost + in.Estimate().Rows*q.costs().Hash
	}
	n.Elements = n.Inputs[0].Layout()
	rows := e.Rows() * e.Selectivity(r.pred)
	n.Expected.Rows = estimate.Clamp(min(rows, n.Inputs[0].Estimate().Rows))
	n.Expected.Startup = n.Expected.Cost
	return q.fetch(r, e, n)
}
