package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: a query gives the rows that it should, whatever plan it is given.
//
// Method: random predicates over random tables with random indexes and rows. The rows are
// compared with those that the predicate accepts one by one (brute force), with those that
// come with every index forced and without any (forced plans), with a projection of the
// predicate itself (NoREC), with what is left by NOT p and p IS NULL (TLP), page by page
// with cursors, limited, and with a DB that keeps no plans.
//
// Promise (tables): A query gives the same rows whatever plan it is given: against brute force,
// every index forced and none, NOT p and p IS NULL, the projected predicate, pages, limits,
// without plan cache.
func TestQueriesAgreeWithEveryOtherWay(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runs, seed := testutil.Effort(300, 15_000), testutil.Seed(t)
	const each = 150
	queries := 0
	for i := 0; i*each < runs; i++ {
		ok := t.Run(fmt.Sprint("table ", i), func(t *testing.T) { // closes its databases
			o := newOracle(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for range each {
				o.query()
			}
			queries += o.queries
		})
		if !ok {
			t.FailNow()
		}
	}
	t.Logf("%d predicates, %d queries", runs, queries)
}

// oracle is a table with rows.
type oracle struct {
	*testing.T
	rng     *rand.Rand
	db, raw *table.DB // raw keeps no plans
	tab     *table.Table
	copied  *table.Table // of raw
	rows    [][]expr.Value
	queries int
}

func newOracle(t *testing.T, rng *rand.Rand) *oracle {
	o := &oracle{T: t, rng: rng, db: open(t, nil), raw: open(t, &table.Options{PlanCache: -1})}
	text := randomTable(rng, "t")
	o.tab, o.copied = create(t, o.db, text), create(t, o.raw, text)
	for i := range rng.IntN(5) {
		x := randomIndex(rng, o.tab.Schema(), fmt.Sprint("x", i))
		for _, db := range []*table.DB{o.db, o.raw} {
			ok(t, db.CreateIndex(ctx, "t", x, nil))
		}
	}
	for range rng.IntN(150) {
		row := randomRow(rng, o.tab.Schema(), 100)
		err := o.tab.Insert(ctx, row)
		if errors.Is(err, table.ErrUnique) {
			continue
		}
		ok(t, errors.Join(err, o.copied.Insert(ctx, row)))
		o.rows = append(o.rows, row)
	}
	if rng.IntN(2) == 0 {
		ok(t, second(o.db.Analyze(ctx, "t", nil)))
	}
	return o
}

// operand returns a column and a value that it may be compared with.
func (o *oracle) operand() (expr.Expr, func() expr.Expr) {
	ordinals := []int{0, 1, 2, 3, 3, 4, 5, 6, 8}
	i := ordinals[o.rng.IntN(len(ordinals))]
	return o.tab.Schema().Ref(0, i), func() expr.Expr {
		return expr.Const{Value: randomRow(o.rng, o.tab.Schema(), 100)[i]}
	}
}

func (o *oracle) predicate(depth int) expr.Expr {
	if depth > 0 && o.rng.IntN(3) > 0 {
		switch o.rng.IntN(5) {
		case 0:
			return expr.Not{X: o.predicate(depth - 1)}
		case 1, 2:
			return expr.Or{Terms: []expr.Expr{o.predicate(depth - 1), o.predicate(depth - 1)}}
		default:
			return expr.And{Terms: []expr.Expr{o.predicate(depth - 1), o.predicate(depth - 1)}}
		}
	}
	x, value := o.operand()
	switch o.rng.IntN(8) {
	case 0:
		return expr.IsNull{X: x, Not: o.rng.IntN(2) == 0}
	case 1:
		in := expr.In{X: x, Not: o.rng.IntN(3) == 0}
		for range 1 + o.rng.IntN(4) {
			in.List = append(in.List, value())
		}
		return in
	case 2:
		return expr.Between{X: x, Lo: value(), Hi: value(), Not: o.rng.IntN(3) == 0}
	case 3:
		return expr.Contains{X: o.tab.Schema().Ref(0, 7),
			Item: expr.Const{Value: expr.String([]string{"", "a", "bb", "c"}[o.rng.IntN(4)])}}
	case 4:
		y, other := o.operand()
		return expr.Cmp{Op: expr.Op(o.rng.IntN(6)), L: expr.Row{Items: []expr.Expr{x, y}},
			R: expr.Row{Items: []expr.Expr{value(), other()}}}
	}
	return expr.Cmp{Op: expr.Op(o.rng.IntN(6)), L: x, R: value()}
}

// brute returns the rows for which a predicate is as wanted, as texts, sorted.
func (o *oracle) brute(p expr.Expr, want expr.Truth) (out []string) {
	for _, row := range o.rows {
		truth, err := expr.Test(p, func(_, i int) expr.Value { return row[i] }, nil)
		if err != nil {
			o.Fatalf("%s: %v", p, err)
		}
		if truth == want {
			out = append(out, text(row))
		}
	}
	sort.Strings(out)
	return out
}

// run returns the rows of a query, sorted unless it has an order.
func (o *oracle) run(r table.Reader, sel *plan.Select) []string {
	o.Helper()
	o.queries++
	got := all(o, r, sel)
	if len(sel.OrderBy) == 0 {
		sort.Strings(got)
	}
	return got
}

func (o *oracle) same(what string, p expr.Expr, got, want []string) {
	o.Helper()
	if !slices.Equal(got, want) {
		o.Fatalf("%s\nWHERE %s\ngot  %q\nwant %q", what, p, got, want)
	}
}

func (o *oracle) query() {
	o.Helper()
	p := o.predicate(o.rng.IntN(4))
	want := o.brute(p, expr.True)
	o.same("as planned", p, o.run(o.db, from(o.tab, p)), want)
	o.same("without plan cache", p, o.run(o.raw, from(o.copied, p)), want)
	o.same("NOT", p, o.run(o.db, from(o.tab, expr.Not{X: p})), o.brute(p, expr.False))
	o.same("IS NULL", p, o.run(o.db, from(o.tab, expr.IsNull{X: p})), o.brute(p, expr.Unknown))
	o.forced(p, want)
	o.projected(p, len(want))
	o.ordered(p)
	o.counted(p, len(want))
}

// forced uses every index in turn.
func (o *oracle) forced(p expr.Expr, want []string) {
	o.Helper()
	none := from(o.tab, p)
	none.Hints.NoIndex = true
	o.same("no index", p, o.run(o.db, none), want)
	for _, x := range o.tab.Schema().Indexes {
		sel := from(o.tab, p)
		sel.Hints.Index = map[int]string{0: x.Name}
		if _, err := o.db.Prepare(sel); err != nil {
			continue // it cannot answer this one
		}
		o.same("index "+x.Name, p, o.run(o.db, sel), want)
	}
}

// projected counts the rows for which the projected predicate is true.
func (o *oracle) projected(p expr.Expr, want int) {
	o.Helper()
	sel := from(o.tab, nil)
	sel.Columns = []plan.Output{{Expr: p}}
	n := 0
	for _, v := range o.run(o.db, sel) {
		if v == "TRUE" {
			n++
		}
	}
	if n != want {
		o.Fatalf("projected: %d, want %d\n%s", n, want, p)
	}
}

// counted has groups count the rows.
func (o *oracle) counted(p expr.Expr, want int) {
	o.Helper()
	sel := from(o.tab, p)
	sel.Aggregates = []plan.Aggregate{{Func: plan.Count}}
	o.same("COUNT(*)", p, o.run(o.db, sel), []string{fmt.Sprint(want)})
}

// ordered compares pages and limits with the whole result in order.
func (o *oracle) ordered(p expr.Expr) {
	o.Helper()
	sel := from(o.tab, p)
	for range 1 + o.rng.IntN(2) {
		x, _ := o.operand()
		sel.OrderBy = append(sel.OrderBy, plan.Order{Expr: x, Desc: o.rng.IntN(2) == 0,
			NullsLast: o.rng.IntN(3) == 0})
	}
	for _, k := range o.tab.Schema().KeyOrdinals() { // so that the order is total
		sel.OrderBy = append(sel.OrderBy, plan.Order{Expr: o.tab.Schema().Ref(0, k)})
	}
	whole := o.run(o.db, sel)
	o.sorted(sel, whole)
	limited := *sel
	limit, offset := o.rng.IntN(8), o.rng.IntN(8)
	limited.Limit, limited.Offset = number(limit), number(offset)
	o.same("LIMIT", p, o.run(o.db, &limited), whole[min(offset, len(whole)):min(offset+limit,
		len(whole))])
	paged := *sel
	paged.Page, paged.Limit = true, number(1+o.rng.IntN(9))
	var got []string
	for {
		rows, err := o.db.Query(ctx, &paged)
		ok(o, err)
		paged.After = nil
		for row, err := range rows.All() {
			ok(o, err)
			got = append(got, text(row))
			paged.After = rows.Cursor()
		}
		if paged.After == nil {
			break
		}
		o.queries++
	}
	o.same("pages", p, got, whole)
}

func number(n int) expr.Expr { return expr.Const{Value: expr.Int(int64(n))} }

// sorted compares an ordered result with the rows sorted here.
func (o *oracle) sorted(sel *plan.Select, got []string) {
	o.Helper()
	var rows [][]expr.Value
	for _, row := range o.rows {
		truth, err := expr.Test(sel.Where, func(_, i int) expr.Value { return row[i] }, nil)
		if err == nil && truth == expr.True {
			rows = append(rows, row)
		}
	}
	sort.SliceStable(rows, func(i, j int) bool { return before(sel, rows[i], rows[j]) })
	want := []string{}
	for _, row := range rows {
		want = append(want, text(row))
	}
	if !slices.Equal(got, want) && len(want)+len(got) > 0 {
		o.Fatalf("ORDER BY %v\nWHERE %s\ngot  %q\nwant %q", sel.OrderBy, sel.Where, got, want)
	}
}

// before compares two rows by the order of a query.
func before(sel *plan.Select, a, b []expr.Value) bool {
	for _, k := range sel.OrderBy {
		c := k.Expr.(expr.Column)
		x, y := a[c.Ordinal], b[c.Ordinal]
		if x.IsNull() || y.IsNull() {
			if x.IsNull() != y.IsNull() {
				return x.IsNull() != k.NullsLast
			}
			continue
		}
		n := expr.Order(x, y)
		if s, ok := x.AsString(); ok {
			other, _ := y.AsString()
			n = expr.CompareFolded(s, other, c.Collation)
		}
		if n != 0 {
			return n < 0 != k.Desc
		}
	}
	return false
}
