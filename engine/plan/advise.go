package plan

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan/internal/advise"
	"github.com/kstonedb/kstone/engine/plan/internal/conjunct"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/schema"
)

// Workload is a shape of query as it was logged.
type Workload struct {
	Query *Select
	Count float64 // how often it ran
	// Scanned and Returned are rows in all runs, 0 if they were not counted. Where far
	// more was scanned than the statistics let expect, the query weighs more.
	Scanned, Returned float64
}

// Advise recommends indexes for a workload: those that are missing, best ones first, and
// those of the tables that are unused, redundant or hot. Indexes are priced by planning
// the workload again with hypothetical ones. Queries that cannot be planned are an error.
func Advise(workload []Workload, tables []*schema.Table, opt Options) ([]Advice, error) {
	opt.RefuseFullScan = false
	env := advise.Env{Stats: opt.Stats}
	for _, w := range workload {
		env.Weights = append(env.Weights, w.weight())
	}
	env.Cost = func(i int, tables []*schema.Table, s stats.Source,
		used map[*schema.Index]bool) (float64, error) {
		opt := opt
		opt.Stats = s
		p, err := Prepare(withTables(workload[i].Query, tables), opt)
		if err != nil {
			return 0, err
		}
		return p.totalCost(used), nil
	}
	env.Wishes = func(i int, tables []*schema.Table, s stats.Source) []advise.Wish {
		return wishesOf(withTables(workload[i].Query, tables), Options{Stats: s})
	}
	return advise.Advise(env, tables)
}

// totalCost adds up the costs of a query and of the subqueries that are run before it, and
// notes the indexes that they use.
func (p *Prepared) totalCost(used map[*schema.Index]bool) float64 {
	noteIndexes(p.root, used)
	cost := p.root.Estimate().Cost
	for _, s := range p.subs {
		cost += s.prepared.totalCost(used)
	}
	for _, s := range p.applied {
		s.prepared.totalCost(used) // is part of what root costs
	}
	return cost
}

// weight is how much a query counts.
func (w *Workload) weight() float64 {
	n := max(1, w.Count)
	if w.Scanned > 0 && w.Returned >= 0 && w.Scanned > 100*max(1, w.Returned) {
		n *= 2 // it is known to waste its reads
	}
	return n
}

func noteIndexes(n Node, used map[*schema.Index]bool) {
	if a, ok := n.(*path); ok && a.index != nil {
		used[a.index] = true
	}
	for _, c := range n.Children() {
		noteIndexes(c, used)
	}
}

// wishesOf takes a query and its subqueries apart.
func wishesOf(sel *Select, opt Options) (all []advise.Wish) {
	sc := &scope{opt: opt, listed: map[int]bool{}, kinds: map[int]expr.Kind{}}
	q, err := resolve(sel, nil, nil, sc)
	if err != nil {
		return nil
	}
	return q.wishes()
}

// wishes are those of the query and of its subqueries, wherever these stand.
func (q *query) wishes() (all []advise.Wish) {
	q.distribute()
	q.total = q.order
	for _, s := range slices.Concat(q.subs, q.applied) {
		all = append(all, s.query.wishes()...)
	}
	for _, r := range q.rels {
		if r.table == nil {
			for _, s := range r.sub.all() {
				all = append(all, s.query.wishes()...)
			}
			continue
		}
		w := advise.Wish{Table: r.table}
		for _, t := range r.pred {
			take(&w, t, r.source)
		}
		for _, t := range slices.Concat(q.where, r.on) {
			if _, right, ok := q.equiJoin(termOf(t), r.others(), 1<<r.source); ok {
				if c, ok := right.(expr.Column); ok {
					w.Joined = append(w.Joined, c.Ordinal)
				}
			}
		}
		w.Sorted = q.sortedBy(r)
		w.Needed = slices.Clone(r.need.ordinals)
		var used need
		for _, t := range r.pred {
			addColumns(&used, t, r.source)
		}
		for _, o := range used.ordinals {
			if !slices.Contains(w.Needed, o) {
				w.Needed = append(w.Needed, o)
			}
		}
		all = append(all, w)
	}
	return all
}

// take sorts a term by what an index could do with it.
func take(w *advise.Wish, t expr.Expr, source int) {
	if c, _, ok := conjunct.Equality(t, source); ok {
		if !w.Table.Columns[c.Ordinal].List {
			w.Equal = append(w.Equal, c.Ordinal)
		}
		return
	}
	if in, ok := conjunct.List(t, source); ok {
		w.Equal = append(w.Equal, in.X.(expr.Column).Ordinal)
		return
	}
	if or, ok := t.(expr.Or); ok {
		for _, x := range or.Terms {
			for _, term := range expr.Terms(nil, x) {
				take(w, term, source)
			}
		}
		return
	}
	if o, ok := conjunct.Restricted(t); ok && !w.Table.Columns[o].List {
		w.Ranged = append(w.Ranged, o)
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
		for _, o := range columns {
			keys = append(keys, schema.KeyColumn{Ordinal: o})
		}
		return keys
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
	return sel.WithTables(func(t *schema.Table) *schema.Table {
		for _, other := range slices.Backward(tables) {
			if other.ID == t.ID {
				return other
			}
		}
		return t
	})
}
