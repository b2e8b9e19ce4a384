package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"sort"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// memory is a store and an executor for tests of plans: as simple as can be, and slow.
// What it returns is compared with an evaluation that knows nothing of plans.
type memory struct {
	rows  map[string][][]expr.Value // by table
	items map[any][]*item           // by table or index, sorted by PK and SK
	byKey map[string][]expr.Value   // rows by key
	runs  int
}

// item is a row or an index entry.
type item struct {
	pk, sk []byte
	entry  bool
	key    keycodec.Key // of the row
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newMemory() *memory {
	return &memory{rows: map[string][][]expr.Value{}, items: map[any][]*item{},
		byKey: map[string][]expr.Value{}}
}

func keyID(pk, sk []byte) string { return string(pk) + "|" + string(sk) }

// load stores rows with all entries of their indexes.
func (m *memory) load(t *schema.Table, rows [][]expr.Value) {
	seen := map[string]bool{}
	for _, row := range rows {
		pk, sk, err := t.AppendRowKey(nil, nil, row)
		if err != nil {
			panic(err)
		}
		key := keycodec.Key{PK: pk, SK: sk}
		clash := seen[keyID(pk, sk)]
		entries := map[*schema.Index][]*item{}
		for _, x := range t.Indexes {
			var set schema.Entries
			if err := x.AppendEntries(&set, key, row); err != nil {
				panic(err)
			}
			for _, e := range set.List {
				clash = clash || e.Unique && seen[keyID(e.PK, e.SK)]
				it := &item{bytes.Clone(e.PK), bytes.Clone(e.SK), true, key}
				entries[x] = append(entries[x], it)
			}
		}
		if clash {
			continue
		}
		seen[keyID(pk, sk)] = true
		for x, list := range entries {
			for _, e := range list {
				seen[keyID(e.pk, e.sk)] = true
			}
			m.items[x] = append(m.items[x], list...)
		}
		m.rows[t.Name] = append(m.rows[t.Name], row)
		m.items[t] = append(m.items[t], &item{pk, sk, false, key})
		m.byKey[keyID(pk, sk)] = row
	}
	for _, items := range m.items {
		sort.SliceStable(items, func(i, j int) bool {
			c := bytes.Compare(items[i].pk, items[j].pk)
			return c < 0 || c == 0 && bytes.Compare(items[i].sk, items[j].sk) < 0
		})
	}
}

// of returns what an access reads in.
func (m *memory) of(n *plan.Access) []*item {
	if n.Index != nil {
		return m.items[n.Index]
	}
	return m.items[n.Table]
}

// execution runs one plan.
type execution struct {
	m      *memory
	params []expr.Value
	// fallbacks counts those that were met: every other one is taken for too dear.
	fallbacks int
}

// run executes a plan, subqueries first, and returns the visible columns.
func (m *memory) run(p *plan.Plan) [][]expr.Value {
	if len(p.Subplans) > 0 {
		var values []expr.Value
		for _, s := range p.Subplans {
			values = append(values, subValue(s.Kind, m.run(s.Plan)))
		}
		p = must(p.Resolve(values))
	}
	e := &execution{m: m, params: p.Params, fallbacks: m.runs}
	m.runs++
	return e.node(p.Root)
}

func subValue(kind plan.SubplanKind, rows [][]expr.Value) expr.Value {
	switch kind {
	case plan.SubplanExists:
		return expr.Bool(len(rows) > 0)
	case plan.SubplanList:
		var list []expr.Value
		for _, r := range rows {
			list = append(list, r[0])
		}
		return expr.List(list)
	}
	if len(rows) == 0 {
		return expr.Null()
	}
	return rows[0][0]
}

func (e *execution) test(x expr.Expr, row []expr.Value) bool {
	if x == nil {
		return true
	}
	p := must(expr.Compile(x))
	return must(p.Test(row, e.params)) == expr.True
}

func (e *execution) value(x expr.Expr, row []expr.Value) expr.Value {
	p := must(expr.Compile(x))
	return must(p.Value(row, e.params))
}

func (e *execution) values(list []expr.Expr, row []expr.Value) (out []expr.Value) {
	for _, x := range list {
		out = append(out, e.value(x, row))
	}
	return out
}

func (e *execution) node(n plan.Node) (out [][]expr.Value) {
	switch n := n.(type) {
	case *plan.OneRow:
		return [][]expr.Value{{}}
	case *plan.Access:
		return e.access(n)
	case *plan.Derived:
		for _, r := range e.node(n.Input) {
			out = append(out, r[:len(n.Layout())])
		}
		return out
	case *plan.Union:
		return e.union(n)
	case *plan.Intersect:
		return e.intersect(n)
	case *plan.Filter:
		for _, r := range e.node(n.Input) {
			if e.test(n.Pred, r) {
				out = append(out, r)
			}
		}
		return out
	case *plan.Project:
		for _, r := range e.node(n.Input) {
			out = append(out, e.values(n.Exprs, r))
		}
		return out
	case *plan.Sort:
		return e.sort(n)
	case *plan.Limit:
		out = e.node(n.Input)
		out = out[min(int(n.Offset), len(out)):]
		if n.Count >= 0 {
			out = out[:min(int(n.Count), len(out))]
		}
		return out
	case *plan.Group:
		return e.group(n)
	case *plan.Distinct:
		return e.distinct(n)
	case *plan.Fetch:
		return e.fetch(n)
	case *plan.JoinNode:
		return e.join(n)
	case *plan.Fallback:
		e.fallbacks++
		if e.fallbacks%2 == 0 {
			return e.node(n.Then)
		}
		return e.node(n.First)
	}
	panic(fmt.Sprintf("no %T", n))
}

func rowID(r []expr.Value) string {
	var b []byte
	for _, v := range r {
		b = fmt.Appendf(b, "%s|", v.Canonical())
	}
	return string(b)
}

func (e *execution) union(n *plan.Union) (out [][]expr.Value) {
	seen := map[string]bool{}
	for _, in := range n.Inputs {
		for _, r := range e.node(in) {
			if id := rowID(r[len(r)-min(2, len(r)):]); n.All || !seen[id] {
				seen[id] = true
				out = append(out, r)
			}
		}
	}
	return out
}

func (e *execution) intersect(n *plan.Intersect) (out [][]expr.Value) {
	count := map[string]int{}
	for _, in := range n.Inputs[1:] {
		for _, r := range e.node(in) {
			count[rowID(r[len(r)-2:])]++
		}
	}
	for _, r := range e.node(n.Inputs[0]) {
		if count[rowID(r[len(r)-2:])] == len(n.Inputs)-1 {
			out = append(out, r)
		}
	}
	return out
}

func (e *execution) fetch(n *plan.Fetch) (out [][]expr.Value) {
	for _, k := range e.node(n.Input) {
		pk, _ := k[len(k)-2].AsBytes()
		sk, _ := k[len(k)-1].AsBytes()
		row := e.m.byKey[pk+"|"+sk]
		r := make([]expr.Value, len(n.Layout()))
		for i, c := range n.Layout() {
			switch c.Ordinal {
			case plan.RowPK:
				r[i] = k[len(k)-2]
			case plan.RowSK:
				r[i] = k[len(k)-1]
			default:
				r[i] = row[c.Ordinal]
			}
		}
		if e.test(n.Filter, r) {
			out = append(out, r)
		}
	}
	return out
}

func (e *execution) sort(n *plan.Sort) [][]expr.Value {
	out := e.node(n.Input)
	sort.SliceStable(out, func(i, j int) bool {
		for _, k := range n.Keys {
			a, b := e.value(k.Expr, out[i]), e.value(k.Expr, out[j])
			if c := compareNulls(a, b, k.Desc, k.NullsLast); c != 0 {
				return c < 0
			}
		}
		return false
	})
	if n.Limit >= 0 {
		out = out[:min(int(n.Limit), len(out))]
	}
	return out
}

func compareNulls(a, b expr.Value, desc, last bool) int {
	switch {
	case a.IsNull() && b.IsNull():
		return 0
	case a.IsNull() != b.IsNull():
		if a.IsNull() != last {
			return -1
		}
		return 1
	}
	c := expr.Order(a, b)
	if desc {
		return -c
	}
	return c
}

func (e *execution) group(n *plan.Group) (out [][]expr.Value) {
	in := e.node(n.Input)
	var keys [][]expr.Value
	members := map[string][][]expr.Value{}
	last := ""
	for i, r := range in {
		k := e.values(n.Keys, r)
		id := rowID(k)
		if members[id] == nil {
			keys = append(keys, k)
		} else if n.Mode == plan.GroupStreaming && i > 0 && id != last {
			panic("a streaming group comes twice")
		}
		last = id
		members[id] = append(members[id], r)
	}
	if len(n.Keys) == 0 {
		keys, members[""] = [][]expr.Value{nil}, in
	}
	for _, k := range keys {
		row := slices.Clone(k)
		for _, a := range n.Aggregates {
			row = append(row, e.aggregate(a, members[rowID(k)]))
		}
		out = append(out, row)
	}
	return out
}

func (e *execution) aggregate(a plan.Aggregate, rows [][]expr.Value) expr.Value {
	var values []expr.Value
	seen := map[string]bool{}
	for _, r := range rows {
		v := expr.Int(1)
		if a.Arg != nil {
			v = e.value(a.Arg, r)
		}
		if v.IsNull() || a.Distinct && seen[rowID([]expr.Value{v})] {
			continue
		}
		seen[rowID([]expr.Value{v})] = true
		values = append(values, v)
	}
	return aggregate(a.Func, values)
}

// aggregate is also what the oracle calls.
func aggregate(f plan.AggregateFunc, values []expr.Value) expr.Value {
	if f == plan.Count {
		return expr.Int(int64(len(values)))
	}
	if len(values) == 0 {
		return expr.Null()
	}
	switch f {
	case plan.Min:
		return slices.MinFunc(values, expr.Order)
	case plan.Max:
		return slices.MaxFunc(values, expr.Order)
	}
	sum := 0.0
	for _, v := range values {
		f, _ := v.AsFloat()
		sum += f
	}
	if f == plan.Avg {
		sum /= float64(len(values))
	}
	return expr.Float(sum)
}

func (e *execution) distinct(n *plan.Distinct) (out [][]expr.Value) {
	seen := map[string]bool{}
	last := ""
	for i, r := range e.node(n.Input) {
		id := rowID(r[:n.Columns])
		if n.Mode == plan.DistinctStreaming && seen[id] && i > 0 && id != last {
			panic("a streaming distinct row comes twice")
		}
		last = id
		if !seen[id] {
			seen[id] = true
			out = append(out, r)
		}
	}
	return out
}
