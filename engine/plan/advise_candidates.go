package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
)

// advised is an index that might help.
type advised struct {
	table   *schema.Table
	columns []schema.KeyColumn
	include []int
}

// wishes is what one query asks of one table.
type wishes struct {
	table    *schema.Table
	equal    []int
	ranged   []int
	joined   []int
	sorted   []schema.KeyColumn
	needed   []int
	relation *relation
}

// maxInclude is how many columns are proposed for INCLUDE.
const maxInclude = 4

// candidates returns the indexes to price: for each query and table of it the columns
// compared for equality, those that are joined by, then those of a range or of the order,
// with and without the other columns that the query needs.
func (a *adviser) candidates(costs []float64) (all []advised) {
	var asked []wishes
	for i, w := range a.workload {
		if costs[i] > 0 {
			asked = append(asked, a.wishesOf(withTables(w.Query, a.now))...)
		}
	}
	popular := popularity(asked)
	seen := map[string]bool{}
	add := func(w wishes, columns []schema.KeyColumn) {
		columns = dropRepeated(columns)
		if len(columns) == 0 {
			return
		}
		for _, include := range [][]int{nil, w.rest(columns)} {
			c := advised{w.table, columns, include}
			key := fmt.Sprint(w.table.ID, columns, include)
			if !seen[key] && len(include) <= maxInclude {
				seen[key] = true
				all = append(all, c)
			}
		}
	}
	for _, w := range asked {
		equal := ascending(a.arrange(w, w.equal, popular))
		joined := ascending(w.joined)
		ranged := ascending(w.ranged)
		for _, j := range [][]schema.KeyColumn{nil, joined} {
			start := slices.Concat(equal, j)
			add(w, start)
			add(w, slices.Concat(start, w.sorted))
			add(w, slices.Concat(j, ranged))
			for i := range ranged {
				add(w, append(slices.Clone(start), ranged[i]))
				add(w, slices.Concat(start, w.sorted, ranged[i:i+1]))
			}
		}
	}
	return all
}

// arrange orders the columns that are compared for equality: first those that most
// queries share, so that one index serves several, then those with more values. Columns
// with few values go last, or, after others, away.
func (a *adviser) arrange(w wishes, columns []int, popular map[[2]int]int) []int {
	e := newEstimator(w.relation, &Options{Stats: a})
	out := slices.Clone(columns)
	class := func(o int) int {
		switch v := e.values(o); {
		case v < lowCardinality:
			return 2
		case v <= highCardinality:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(x, y int) int {
		id := int(w.table.ID)
		low := cmp.Compare(class(x)/2, class(y)/2)
		return cmp.Or(low, cmp.Compare(popular[[2]int{id, y}], popular[[2]int{id, x}]),
			cmp.Compare(class(x), class(y)), cmp.Compare(e.values(y), e.values(x)))
	})
	return out
}

// The classes of cardinality of the composite-key specification.
const (
	lowCardinality  = 1e3
	highCardinality = 1e6
)

func popularity(asked []wishes) map[[2]int]int {
	n := map[[2]int]int{}
	for _, w := range asked {
		for _, o := range slices.Concat(w.equal, w.joined) {
			n[[2]int{int(w.table.ID), o}]++
		}
	}
	return n
}

func ascending(ordinals []int) (keys []schema.KeyColumn) {
	for _, o := range ordinals {
		keys = append(keys, schema.KeyColumn{Ordinal: o})
	}
	return keys
}

func dropRepeated(columns []schema.KeyColumn) (out []schema.KeyColumn) {
	for _, c := range columns {
		same := func(o schema.KeyColumn) bool { return o.Ordinal == c.Ordinal }
		if !slices.ContainsFunc(out, same) {
			out = append(out, c)
		}
	}
	return out
}

// rest returns the columns a covering index needs besides.
func (w *wishes) rest(columns []schema.KeyColumn) (out []int) {
	for _, o := range w.needed {
		inKey := slices.ContainsFunc(slices.Concat(columns, w.table.PK, w.table.SK),
			func(c schema.KeyColumn) bool { return c.Ordinal == o })
		if !inKey {
			out = append(out, o)
		}
	}
	return out
}

// wishesOf takes a query and its subqueries apart.
func (a *adviser) wishesOf(sel *Select) (all []wishes) {
	copied := *sel
	sc := &scope{opt: Options{Stats: a}, listed: map[int]bool{}, kinds: map[int]expr.Kind{}}
	q, err := resolve(&copied, nil, sc)
	if err != nil {
		return nil
	}
	return q.wishes()
}

// wishes are those of the query and of its subqueries, wherever these stand.
func (q *query) wishes() (all []wishes) {
	q.distribute()
	q.total = q.order
	for _, s := range q.subs {
		all = append(all, s.query.wishes()...)
	}
	for _, r := range q.rels {
		if r.table == nil {
			all = append(all, r.sub.query.wishes()...)
			continue
		}
		w := wishes{table: r.table, relation: r}
		for _, t := range r.pred {
			w.take(t, r.source)
		}
		for _, t := range slices.Concat(q.where, r.on) {
			if _, right, ok := q.equiJoin(t, r.others(), 1<<r.source); ok {
				if c, ok := right.(expr.Column); ok {
					w.joined = append(w.joined, c.Ordinal)
				}
			}
		}
		w.sorted = q.sortedBy(r)
		w.needed = slices.Clone(r.need.ordinals)
		var used need
		for _, t := range r.pred {
			addColumns(&used, t, r.source)
		}
		for _, o := range used.ordinals {
			if !slices.Contains(w.needed, o) {
				w.needed = append(w.needed, o)
			}
		}
		all = append(all, w)
	}
	return all
}

// take sorts a term by what an index could do with it.
func (w *wishes) take(t expr.Expr, source int) {
	if o, _, ok := equality(t, source); ok {
		if !w.table.Columns[o].List {
			w.equal = append(w.equal, o)
		}
		return
	}
	if in, ok := listTerm(t, source); ok {
		w.equal = append(w.equal, in.X.(expr.Column).Ordinal)
		return
	}
	if or, ok := t.(expr.Or); ok {
		for _, x := range or.Terms {
			for _, term := range conjuncts(nil, x) {
				w.take(term, source)
			}
		}
		return
	}
	if o, ok := soleColumnAny(t); ok && !w.table.Columns[o].List {
		w.ranged = append(w.ranged, o)
	}
}

// sortedBy returns the order or the groups that the rows of a relation could come in.
func (q *query) sortedBy(r *relation) (keys []schema.KeyColumn) {
	order, ok := q.columnOrder(q.order)
	if len(order) == 0 || !ok {
		columns, source, ok := groupColumns(q.groupKeys())
		if !ok || source != r.source {
			return nil
		}
		return ascending(columns)
	}
	for _, o := range order {
		if o.Source != r.source {
			return nil
		}
		keys = append(keys, schema.KeyColumn{Ordinal: o.Ordinal, Desc: o.Desc,
			NullsLast: o.NullsLast})
	}
	return keys
}

// withTables returns a query with its tables, and those of its subqueries, replaced by
// those of the same id; of several the last one.
func withTables(sel *Select, tables []*schema.Table) *Select {
	out := *sel
	out.From = slices.Clone(sel.From)
	for i, f := range out.From {
		for _, t := range tables {
			if f.Table != nil && t.ID == f.Table.ID {
				out.From[i].Table = t
			}
		}
	}
	swap := func(e expr.Expr) expr.Expr {
		if e == nil {
			return nil
		}
		r, _ := expr.Rewrite(e, func(x expr.Expr) (expr.Expr, error) {
			if s, ok := x.(expr.Subquery); ok {
				if inner, ok := s.Query.(*Select); ok && inner != nil {
					return expr.Subquery{Query: withTables(inner, tables), Kind: s.Kind}, nil
				}
			}
			return x, nil
		})
		return r
	}
	out.Where, out.Having = swap(sel.Where), swap(sel.Having)
	out.Limit, out.Offset = swap(sel.Limit), swap(sel.Offset)
	out.Joins = slices.Clone(sel.Joins)
	for i := range out.Joins {
		out.Joins[i].On = swap(out.Joins[i].On)
	}
	out.GroupBy = slices.Clone(sel.GroupBy)
	for i := range out.GroupBy {
		out.GroupBy[i] = swap(out.GroupBy[i])
	}
	out.Aggregates = slices.Clone(sel.Aggregates)
	for i := range out.Aggregates {
		out.Aggregates[i].Arg = swap(out.Aggregates[i].Arg)
	}
	out.Columns = slices.Clone(sel.Columns)
	for i := range out.Columns {
		out.Columns[i].Expr = swap(out.Columns[i].Expr)
	}
	out.OrderBy = slices.Clone(sel.OrderBy)
	for i := range out.OrderBy {
		out.OrderBy[i].Expr = swap(out.OrderBy[i].Expr)
	}
	return &out
}
