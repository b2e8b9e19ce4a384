package exec_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
)

// generator makes random queries over the two tables.
type generator struct {
	*rand.Rand
	people, cities *schema.Table
}

// TestRandomQueries compares plans of random queries, each with several hints, with the plan that
// has none of what hints choose: scans, nested loops, one worker. What queries mean is for
// TestQueriesMatchOracle in engine/plan.
func TestRandomQueries(t *testing.T) {
	runs := testutil.Effort(60, 100_000)
	seed := testutil.Seed(t)
	compared, direct, over := 0, directRuns{}, turned{}
	const each = 200
	for i := 0; i*each < runs; i++ {
		ok := t.Run(fmt.Sprint("world ", i), func(t *testing.T) { // closes its database
			w, rng := newWorld(t), rand.New(rand.NewPCG(seed, uint64(i)))
			g := &generator{Rand: rng}
			g.people, g.cities = fill(t, w, rng, 30+rng.IntN(150))
			for range min(each, runs-i*each) {
				compared += w.compare(g, g.query())
			}
			direct.rows += w.direct.rows
			direct.stored += w.direct.stored
			direct.trees += w.direct.trees
			over.lookups += w.turned.lookups
			over.fallbacks += w.turned.fallbacks
		})
		if !ok {
			t.FailNow()
		}
	}
	t.Logf("%d queries, %d results compared; with one operator: %+v; to another way: %+v",
		runs, compared, direct, over)
	if runs >= 200 && (over.lookups == 0 || over.fallbacks == 0) {
		t.Error("no bound was passed")
	}
	if runs >= 60 && direct.rows == 0 {
		t.Error("no query had one operator")
	}
}

// compare runs a query under several hints, and returns how many of them could be followed.
func (w *world) compare(g *generator, sel *plan.Select) (compared int) {
	w.t.Helper()
	params := []expr.Value{expr.Int(g.Int64N(20)), expr.Null(), expr.String("n3")}
	full := *sel
	full.Limit, full.Offset = nil, nil
	full.Hints = plan.Hints{NoIndex: true, ForceJoin: "loop", ForceOrder: true}
	w.bound = nil
	all, _, err := w.run(&full, plan.Options{}, exec.Options{Workers: 1}, params...)
	if err != nil {
		w.t.Fatalf("%s: %v", describe(&full), err)
	}
	for range 4 {
		sel.Hints = g.hints(sel)
		w.bound = nil
		if g.IntN(2) == 0 {
			w.bound = func() float64 { return float64(g.IntN(3) * g.IntN(40_000)) }
		}
		got, p, err := w.run(sel, plan.Options{}, exec.Options{Workers: 1 + g.IntN(3)}, params...)
		if err != nil {
			var unusable *plan.QueryError
			hinted := len(sel.Hints.Index) > 0 || sel.Hints.ForceJoin != ""
			if errors.As(err, &unusable) && hinted {
				continue // a hint that does not fit
			}
			w.t.Fatalf("%s: %v", describe(sel), err)
		}
		if why := w.differs(sel, all, got); why != "" {
			w.t.Fatalf("%s\n%s\n%s", describe(sel), p.Explain(), why)
		}
		compared++
	}
	return compared
}

// differs compares a result with all rows that the query would have without a limit.
func (w *world) differs(sel *plan.Select, want, got []string) string {
	lo, hi := 0, len(want)
	if c, ok := sel.Offset.(expr.Const); ok {
		n, _ := c.AsInt()
		lo = min(int(n), hi)
	}
	if c, ok := sel.Limit.(expr.Const); ok {
		n, _ := c.AsInt()
		hi = min(hi, lo+int(n))
	}
	if len(got) != hi-lo {
		return fmt.Sprintf("%d rows, want %d\n got %q\nwant %q", len(got), hi-lo, got, want)
	}
	if len(sel.OrderBy) > 0 && isTotal(sel) {
		if !slices.Equal(got, want[lo:hi]) {
			return fmt.Sprintf("order\n got %q\nwant %q", got, want[lo:hi])
		}
		return ""
	}
	counts := map[string]int{}
	for _, row := range want {
		counts[row]++
	}
	for _, row := range got {
		if counts[row]--; counts[row] < 0 {
			return fmt.Sprintf("row %q is wrong or too often\n got %q\nwant %q", row, got, want)
		}
	}
	return ""
}

// isTotal reports whether equal sort keys mean equal rows: every output is sorted by.
func isTotal(sel *plan.Select) bool {
	for _, c := range sel.Columns {
		if !slices.ContainsFunc(sel.OrderBy, func(o plan.Order) bool {
			return expr.Equal(o.Expr, c.Expr)
		}) {
			return false
		}
	}
	return true
}

func (g *generator) hints(sel *plan.Select) plan.Hints {
	var h plan.Hints
	switch g.IntN(4) {
	case 0:
		h.NoIndex = true
	case 1:
		at := g.IntN(len(sel.From))
		if xs := sel.From[at].Table.Indexes; len(xs) > 0 {
			h.Index = map[int]string{at: xs[g.IntN(len(xs))].Name}
		}
	case 2:
		h.ForceJoin = []string{"lookup", "merge", "hash", "loop"}[g.IntN(4)]
	}
	h.ForceOrder = g.IntN(2) == 0
	return h
}

func (g *generator) query() *plan.Select {
	sel := &plan.Select{From: []plan.Source{{Table: g.people}}}
	if g.IntN(3) == 0 {
		sel.From = append(sel.From, plan.Source{Table: g.cities})
		sel.Joins = []plan.Join{{Kind: plan.JoinKind(g.IntN(3)), On: g.on()}}
		if g.IntN(4) == 0 {
			sel.From[0], sel.From[1] = sel.From[1], sel.From[0]
			sel.Joins[0].On = swapSources(sel.Joins[0].On)
		}
	}
	if g.IntN(6) > 0 {
		sel.Where = g.predicate(sel, 3)
	}
	if g.IntN(3) == 0 {
		g.group(sel)
	} else {
		for range 1 + g.IntN(4) {
			sel.Columns = append(sel.Columns, plan.Output{Expr: g.column(sel)})
		}
		sel.Distinct = g.IntN(4) == 0
	}
	g.order(sel)
	return sel
}

// order adds ORDER BY and LIMIT.
func (g *generator) order(sel *plan.Select) {
	if g.IntN(2) == 0 {
		for _, c := range sel.Columns {
			if sel.Distinct || g.IntN(3) > 0 {
				sel.OrderBy = append(sel.OrderBy, plan.Order{Expr: c.Expr, Desc: g.IntN(2) == 0,
					NullsLast: g.IntN(2) == 0})
			}
		}
		if !sel.Distinct && sel.Aggregates == nil && g.IntN(3) == 0 {
			sel.OrderBy = append(sel.OrderBy, plan.Order{Expr: g.column(sel), Desc: g.IntN(2) == 0})
		}
	}
	if g.IntN(3) == 0 {
		sel.Limit = expr.Const{Value: expr.Int(g.Int64N(12))}
	}
	if g.IntN(6) == 0 {
		sel.Offset = expr.Const{Value: expr.Int(g.Int64N(5))}
	}
}

func (g *generator) group(sel *plan.Select) {
	for range g.IntN(3) {
		sel.GroupBy = append(sel.GroupBy, g.column(sel))
	}
	for range 1 + g.IntN(3) {
		a := plan.Aggregate{Func: plan.AggregateFunc(g.IntN(4))}
		if a.Func != plan.Count || g.IntN(2) == 0 {
			a.Arg = g.number(sel)
			a.Distinct = g.IntN(4) == 0
		}
		sel.Aggregates = append(sel.Aggregates, a)
	}
	for _, e := range sel.GroupBy {
		sel.Columns = append(sel.Columns, plan.Output{Expr: e})
	}
	for i := range sel.Aggregates {
		sel.Columns = append(sel.Columns, plan.Output{Expr: expr.Agg{Index: i}})
	}
}

func (g *generator) on() expr.Expr {
	p, c := func(o int) expr.Expr { return g.people.Ref(0, o) },
		func(o int) expr.Expr { return g.cities.Ref(1, o) }
	eq := func(l, r expr.Expr) expr.Expr { return expr.Cmp{Op: expr.Eq, L: l, R: r} }
	switch g.IntN(7) {
	case 5:
		return eq(p(3), c(3))
	case 6:
		return eq(c(3), p(3))
	case 0:
		return eq(p(0), c(0))
	case 1:
		return eq(c(1), p(2))
	case 2:
		return eq(p(1), c(2))
	case 3:
		return expr.And{Terms: []expr.Expr{eq(p(0), c(0)), expr.Cmp{Op: expr.Lt, L: p(2), R: c(1)}}}
	}
	return expr.And{Terms: []expr.Expr{eq(p(2), c(1)), eq(p(0), c(0))}}
}

func swapSources(e expr.Expr) expr.Expr {
	out, _ := expr.Rewrite(e, func(e expr.Expr) (expr.Expr, error) {
		if c, ok := e.(expr.Column); ok {
			c.Source = 1 - c.Source
			return c, nil
		}
		return e, nil
	})
	return out
}

func (g *generator) column(sel *plan.Select) expr.Expr {
	at := g.IntN(len(sel.From))
	t := sel.From[at].Table
	return t.Ref(at, g.IntN(min(len(t.Columns), 6))) // not the list
}

// number returns a column of numbers.
func (g *generator) number(sel *plan.Select) expr.Expr {
	at := g.IntN(len(sel.From))
	t := sel.From[at].Table
	if t == g.cities {
		return t.Ref(at, 1+g.IntN(2))
	}
	return t.Ref(at, []int{1, 2, 4}[g.IntN(3)])
}

func (g *generator) predicate(sel *plan.Select, depth int) expr.Expr {
	if depth > 0 && g.IntN(2) == 0 {
		terms := []expr.Expr{g.predicate(sel, depth-1), g.predicate(sel, depth-1)}
		switch g.IntN(5) {
		case 0, 1:
			return expr.And{Terms: terms}
		case 2, 3:
			return expr.Or{Terms: terms}
		}
		return expr.Not{X: terms[0]}
	}
	return g.atom(sel)
}

func (g *generator) atom(sel *plan.Select) expr.Expr {
	if g.IntN(12) == 0 {
		sub := &plan.Select{From: []plan.Source{{Table: g.cities}}}
		col := g.IntN(3)
		if g.IntN(4) == 0 {
			sub.Limit = expr.Const{Value: expr.Int(1000)}
		}
		sub.Columns = []plan.Output{{Expr: g.cities.Ref(0, col)}}
		if g.IntN(2) == 0 {
			sub.Where = g.predicate(sub, 1)
		}
		x := g.like(sel, col == 0)
		return expr.In{X: x, List: []expr.Expr{expr.Subquery{Query: sub, Kind: expr.Rows}},
			Not: g.IntN(3) == 0}
	}
	if sel.From[0].Table == g.people && g.IntN(10) == 0 {
		return expr.Contains{X: g.people.Ref(0, 6), Item: expr.Const{Value: expr.String(
			fmt.Sprint("t", g.IntN(6)))}}
	}
	str := g.IntN(3) == 0
	x := g.like(sel, str)
	switch g.IntN(6) {
	case 0:
		return expr.Between{X: x, Lo: g.constant(str), Hi: g.constant(str), Not: g.IntN(4) == 0}
	case 1:
		return expr.In{X: x, List: []expr.Expr{g.constant(str), g.constant(str), g.constant(str)},
			Not: g.IntN(4) == 0}
	case 2:
		return expr.IsNull{X: x, Not: g.IntN(2) == 0}
	case 3:
		if str {
			return expr.BeginsWith{X: x, Prefix: expr.Const{Value: expr.String("n1")}}
		}
	}
	return expr.Cmp{Op: expr.Op(g.IntN(6)), L: x, R: g.constant(str)}
}

// like returns a column of texts, or of numbers.
func (g *generator) like(sel *plan.Select, str bool) expr.Expr {
	if !str {
		return g.number(sel)
	}
	at := g.IntN(len(sel.From))
	t := sel.From[at].Table
	if t == g.cities {
		return t.Ref(at, []int{0, 3}[g.IntN(2)])
	}
	return t.Ref(at, []int{0, 3}[g.IntN(2)])
}

func (g *generator) constant(str bool) expr.Expr {
	switch {
	case g.IntN(15) == 0:
		return expr.Param{Index: 1}
	case str && g.IntN(8) == 0:
		return expr.Param{Index: 2}
	case str && g.IntN(2) == 0:
		return expr.Const{Value: expr.String(cityName(g.Rand))}
	case str:
		return expr.Const{Value: expr.String(fmt.Sprint("n", g.IntN(12)))}
	case g.IntN(8) == 0:
		return expr.Param{Index: 0}
	case g.IntN(6) == 0:
		return expr.Const{Value: expr.Float(float64(g.IntN(80)) / 4)}
	}
	return expr.Const{Value: expr.Int(g.Int64N(25) - 2)}
}

// describe renders a query for a failure.
func describe(sel *plan.Select) string {
	out := "from " + sel.From[0].Table.Name
	for i, j := range sel.Joins {
		out += fmt.Sprintf(" %s join %s on %v", j.Kind, sel.From[i+1].Table.Name, j.On)
	}
	out += fmt.Sprintf(" where %v group %v aggregates %v columns %v distinct %v order %v limit %v"+
		" offset %v hints %+v", sel.Where, sel.GroupBy, sel.Aggregates, sel.Columns, sel.Distinct,
		sel.OrderBy, sel.Limit, sel.Offset, sel.Hints)
	if sel.Where != nil {
		expr.Walk(sel.Where, func(e expr.Expr) bool {
			if sub, ok := e.(expr.Subquery); ok {
				out += "\nsubquery " + describe(sub.Query.(*plan.Select))
			}
			return true
		})
	}
	return out
}
