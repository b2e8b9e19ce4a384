// Package advise recommends indexes for a workload. It sees costs and wishes of queries, and not
// the queries: what it needs of the planner is in an [Env].
package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan/internal/estimate"
	"github.com/kstonedb/kstone/engine/plan/internal/explain"
	"github.com/kstonedb/kstone/engine/plan/internal/stats"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec/shard"
)

// AdviceKind is what an Advice is about.
type AdviceKind uint8

const (
	MissingIndex   AdviceKind = iota // an index would save work
	UnusedIndex                      // no query uses an index
	RedundantIndex                   // the columns of an index begin another one
	HotIndex                         // all writes of an index go to one place
)

// String returns "missing", "unused", "redundant" or "hot".
func (k AdviceKind) String() string {
	return [...]string{"missing", "unused", "redundant", "hot"}[k&3]
}

// Advice is one recommendation.
type Advice struct {
	Kind  AdviceKind
	Table string
	// Index is the definition to create, or the index that is there.
	Index *schema.Index
	// Statement creates or drops the index.
	Statement string
	// Reason says why, in words.
	Reason string
	// GainNs is the work saved over the whole workload, by the cost model.
	GainNs float64
	// SizeBytes is the estimated size of the index, WritesPerRow how many entries a
	// written row has in it.
	SizeBytes, WritesPerRow float64
}

// Limits of an advice.
const (
	maxAdvised = 8
	// minAdvisedGain is the part of the workload's cost that an index has to save.
	minAdvisedGain = 0.02
	// shardBuckets is what is proposed for indexes whose first column grows.
	shardBuckets = 16
)

// Env is what advice needs of the planner. The queries of the workload have numbers.
type Env struct {
	// Weights says how much each query counts.
	Weights []float64
	// Stats gives the statistics of real tables; nil: nothing is known.
	Stats stats.Source
	// Cost plans a query with its tables replaced by those of the same id (of several, the
	// last one), and statistics of them. It adds the indexes that the plan uses to used.
	Cost func(query int, tables []*schema.Table, s stats.Source,
		used map[*schema.Index]bool) (float64, error)
	// Wishes returns what a query asks of each of its tables, with these replaced likewise.
	Wishes func(query int, tables []*schema.Table, s stats.Source) []Wish
}

// Wish is what one query asks of one table, as ordinals of columns.
type Wish struct {
	Table  *schema.Table
	Equal  []int // compared for equality
	Ranged []int // restricted otherwise
	Joined []int // compared with columns of other tables
	Needed []int // read
	Sorted []schema.KeyColumn
}

// Advise recommends indexes for the workload: those that are missing, best ones first, and
// those of the tables that are unused, redundant or hot. Indexes are priced by planning
// the workload again with hypothetical ones. Queries that cannot be planned are an error.
func Advise(env Env, tables []*schema.Table) ([]Advice, error) {
	a := &adviser{env: env, real: map[*schema.Table]*schema.Table{}}
	for _, t := range tables {
		a.real[t] = t
		a.now = append(a.now, t)
	}
	costs, used, err := a.price(nil)
	if err != nil {
		return nil, err
	}
	all, err := a.missing(costs)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		all = append(all, a.existing(t, used)...)
	}
	return all, nil
}

// adviser prices workloads.
type adviser struct {
	env Env
	now []*schema.Table // tables with what has been advised so far
	// real maps hypothetical tables to those that statistics are about.
	real map[*schema.Table]*schema.Table
}

// Table implements Stats for hypothetical tables.
func (a *adviser) Table(t *schema.Table) *stats.Table {
	if r, ok := a.real[t]; ok {
		t = r
	}
	if a.env.Stats == nil {
		return nil
	}
	return a.env.Stats.Table(t)
}

// price plans the workload, with tables replaced by those of the same id in swap.
func (a *adviser) price(swap []*schema.Table) (costs []float64, used map[*schema.Index]bool,
	err error) {
	used = map[*schema.Index]bool{}
	tables := slices.Concat(a.now, swap)
	for i, weight := range a.env.Weights {
		cost, err := a.env.Cost(i, tables, a, used)
		if err != nil {
			return nil, nil, err
		}
		costs = append(costs, weight*cost)
	}
	return costs, used, nil
}

// missing chooses, one by one, the index that saves most, and drops those again that later
// ones have made unnecessary.
func (a *adviser) missing(costs []float64) (all []Advice, err error) {
	total, before := sum(costs), slices.Clone(a.now)
	for len(all) < maxAdvised {
		best, err := a.bestIndex(costs, minAdvisedGain*total)
		if err != nil {
			return nil, err
		}
		if best == nil {
			break
		}
		all = append(all, a.advice(best))
		a.adopt(best.table)
		costs = best.costs
	}
	for i := 0; i < len(all); {
		without := slices.Delete(slices.Clone(all), i, i+1)
		costsWithout, err := a.priceAdvice(before, without)
		if err != nil {
			return nil, err
		}
		if loss := sum(costsWithout) - sum(costs); loss > minAdvisedGain*total {
			all[i].GainNs = loss
			i++
			continue
		}
		all, costs = without, costsWithout
	}
	for i := range all {
		all[i].Reason = fmt.Sprintf("saves %s of %s%s", explain.Cost(all[i].GainNs),
			explain.Cost(total),
			all[i].Reason)
	}
	slices.SortStableFunc(all, func(x, y Advice) int { return cmp.Compare(y.GainNs, x.GainNs) })
	return all, nil
}

// priced is a hypothetical index and what the workload costs with it.
type priced struct {
	table *schema.Table
	index *schema.Index
	costs []float64
	gain  float64
}

// alike is how much of the best gain an index must have to be preferred for its columns.
const alike = 0.95

// bestIndex returns the candidate that saves most; of those that save about as much, the
// one without included columns, and with more columns in its key. It is nil if none saves
// enough.
func (a *adviser) bestIndex(costs []float64, enough float64) (*priced, error) {
	var all []priced
	most := enough
	for _, c := range a.candidates(costs) {
		t, err := a.hypothetical(c)
		if err != nil {
			continue // not a possible index: a type that no key can hold, for example
		}
		after, used, err := a.price([]*schema.Table{t})
		if err != nil {
			return nil, err
		}
		x := t.Indexes[len(t.Indexes)-1]
		if gain := sum(costs) - sum(after); used[x] && gain >= enough {
			all = append(all, priced{t, x, after, gain})
			most = max(most, gain)
		}
	}
	all = slices.DeleteFunc(all, func(p priced) bool { return p.gain < alike*most })
	if len(all) == 0 {
		return nil, nil
	}
	best := slices.MinFunc(all, func(x, y priced) int {
		return cmp.Or(cmp.Compare(len(x.index.Include), len(y.index.Include)),
			cmp.Compare(len(y.index.Columns), len(x.index.Columns)), cmp.Compare(y.gain, x.gain))
	})
	return &best, nil
}

// priceAdvice prices the workload for the tables as they were with some indexes more.
func (a *adviser) priceAdvice(before []*schema.Table, advice []Advice) ([]float64, error) {
	a.now = slices.Clone(before)
	for _, v := range advice {
		i := slices.IndexFunc(a.now, func(t *schema.Table) bool { return t.Name == v.Table })
		c := advised{table: a.now[i], include: v.Index.Include}
		for _, k := range v.Index.Columns {
			c.columns = append(c.columns, k.KeyColumn)
		}
		t, err := a.hypothetical(c)
		if err != nil {
			return nil, err
		}
		a.adopt(t)
	}
	costs, _, err := a.price(nil)
	return costs, err
}

func sum(list []float64) (s float64) {
	for _, f := range list {
		s += f
	}
	return s
}

// adopt makes a hypothetical table the present one.
func (a *adviser) adopt(t *schema.Table) {
	i := slices.IndexFunc(a.now, func(o *schema.Table) bool { return o.ID == t.ID })
	a.now[i] = t
}

// hypothetical returns a table with one more index.
func (a *adviser) hypothetical(c advised) (*schema.Table, error) {
	def := *c.table
	x := &schema.Index{State: schema.Ready, Include: c.include}
	names := make([]string, 0, len(c.columns))
	for _, k := range c.columns {
		x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: k})
		names = append(names, def.Columns[k.Ordinal].Name)
	}
	if a.monotonic(c.table, c.columns[0].Ordinal) {
		x.Shard, x.ShardColumns = shard.Spec{Function: shard.Mix64, Count: shardBuckets}, 1
	}
	x.Name = "by_" + strings.Join(names, "_")
	for n := 2; c.table.Index(x.Name) != nil; n++ {
		x.Name = fmt.Sprintf("by_%s_%d", strings.Join(names, "_"), n)
	}
	for _, o := range def.Indexes {
		x.ID = max(x.ID, o.ID)
	}
	x.ID++
	def.Indexes = append(slices.Clone(def.Indexes), x)
	def.NextIndex = max(def.NextIndex, x.ID+1)
	t, err := schema.New(def)
	if err == nil {
		a.real[t] = a.real[c.table]
	}
	return t, err
}

// advice describes a new index.
func (a *adviser) advice(p *priced) Advice {
	t, x := p.table, p.index
	e := estimate.ForTable(t, a.Table(t), nil)
	out := Advice{Kind: MissingIndex, Table: t.Name, Index: x, GainNs: p.gain, WritesPerRow: 1}
	out.SizeBytes = e.Entries(x) * e.EntryBytes(x)
	out.Statement = createText(t, x)
	if x.Sharded() {
		out.Reason = fmt.Sprintf("; %s only grows, so entries are spread over %d buckets",
			t.Columns[x.Columns[0].Ordinal].Name, x.Shard.Count)
	}
	return out
}

// createText is the statement that creates an index.
func createText(t *schema.Table, x *schema.Index) string {
	var b strings.Builder
	b.WriteString("CREATE ")
	if x.Unique {
		b.WriteString("UNIQUE ")
	}
	fmt.Fprintf(&b, "INDEX %s ON %s (", syntax.QuoteName(x.Name), syntax.QuoteName(t.Name))
	for i, c := range x.Columns {
		if i > 0 {
			b.WriteString(", ")
		}
		if c.Each {
			b.WriteString("EACH ")
		}
		b.WriteString(syntax.QuoteName(t.Columns[c.Ordinal].Name) +
			explain.Direction(c.Desc, c.NullsLast))
	}
	b.WriteByte(')')
	if x.Sharded() {
		fmt.Fprintf(&b, " SHARD (%d)", x.Shard.Count)
	}
	if len(x.Include) > 0 {
		names := make([]string, len(x.Include))
		for i, o := range x.Include {
			names[i] = syntax.QuoteName(t.Columns[o].Name)
		}
		fmt.Fprintf(&b, " INCLUDE (%s)", strings.Join(names, ", "))
	}
	if x.Where != nil {
		b.WriteString(" WHERE " + x.Where.String())
	}
	return b.String()
}

// monotonic says whether new rows have had ever larger values of a column.
func (a *adviser) monotonic(t *schema.Table, ordinal int) bool {
	s := a.Table(t)
	e := estimate.ForTable(t, s, nil)
	for x := range e.KeysWith(ordinal) {
		if k := s.Key(x); k != nil && k.Monotonic {
			return true
		}
	}
	return s != nil && slices.Contains(s.Monotonic, ordinal)
}

// existing looks for indexes that are not worth what they cost.
func (a *adviser) existing(t *schema.Table, used map[*schema.Index]bool) (all []Advice) {
	for _, x := range t.Indexes {
		if x.State != schema.Ready {
			continue
		}
		out := Advice{Table: t.Name, Index: x, WritesPerRow: 1,
			Statement: fmt.Sprintf("DROP INDEX %s ON %s", syntax.QuoteName(x.Name),
				syntax.QuoteName(t.Name))}
		e := estimate.ForTable(t, a.Table(t), nil)
		out.SizeBytes = e.Entries(x) * e.EntryBytes(x)
		longer := extended(t, x)
		switch {
		case longer != nil:
			out.Kind = RedundantIndex
			out.Reason = "its columns are the first ones of " + longer.Name
		case !used[x] && !x.Unique:
			out.Kind, out.Reason = UnusedIndex, "no query of the workload uses it"
		case x.Buckets() == 1 && a.monotonic(t, x.Columns[0].Ordinal):
			out.Kind = HotIndex
			sharded := *x
			sharded.Name += "_sharded"
			sharded.Shard = shard.Spec{Function: shard.Mix64, Count: shardBuckets}
			out.Statement = createText(t, &sharded)
			out.Reason = t.Columns[x.Columns[0].Ordinal].Name +
				" only grows, so all writes go to one place"
		default:
			continue
		}
		all = append(all, out)
	}
	slices.SortStableFunc(all, func(x, y Advice) int { return cmp.Compare(x.Kind, y.Kind) })
	return all
}

// extended returns an index that can do all that x does.
func extended(t *schema.Table, x *schema.Index) *schema.Index {
	if x.Unique || x.Where != nil {
		return nil
	}
	for _, o := range t.Indexes {
		if o == x || o.State != schema.Ready || o.Where != nil || len(o.Columns) < len(x.Columns) ||
			o.Placement != x.Placement || !slices.Equal(o.Columns[:len(x.Columns)], x.Columns) {
			continue
		}
		if len(o.Columns) == len(x.Columns) && !o.Unique && o.ID > x.ID {
			continue // of two equal ones, the younger goes
		}
		within := schema.Columns(x.Include...).Within(o.Covers())
		if within && (o.Shard == x.Shard || x.Buckets() == 1) && !(o.Unique && !sameNulls(t, o)) {
			return o
		}
	}
	return nil
}

// sameNulls says whether no column of an index can be NULL.
func sameNulls(t *schema.Table, x *schema.Index) bool {
	return !slices.ContainsFunc(x.Columns, func(c schema.IndexColumn) bool {
		return t.Columns[c.Ordinal].Nullable
	})
}
