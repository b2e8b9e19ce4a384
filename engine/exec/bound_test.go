package exec_test

import (
	"math"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// boundRows is how many rows of a table have the same value, without statistics that say so.
const boundRows = 3000

// boundWorld has few rows in left, and boundRows in right, nearly all with k = 1.
func boundWorld(t *testing.T) (w *world, left, right *schema.Table) {
	t.Helper()
	w = newWorld(t)
	left = table(t, 11, `{"name":"l","columns":[{"name":"id","type":"int64"},
	 {"name":"k","type":"int64"}],"primary_key":["id"]}`)
	right = table(t, 12, `{"name":"r","columns":[{"name":"id","type":"int64"},
	 {"name":"k","type":"int64"},{"name":"v","type":"int64"},{"name":"s","type":"string"}],
	 "primary_key":["id"],"indexes":[{"name":"by_k","columns":["k"]},
	  {"name":"by_v","columns":["v"]}]}`)
	for i := range int64(10) {
		w.insert(left, []expr.Value{expr.Int(i), expr.Int(i % 4)})
	}
	for i := range int64(boundRows) {
		k := int64(1)
		if i%1000 == 0 {
			k = 2 + i/1000
		}
		w.insert(right, []expr.Value{expr.Int(i), expr.Int(k), expr.Int(i), expr.String("text")})
	}
	return w, left, right
}

// find returns the first step that satisfies a condition.
func find(n plan.Node, is func(plan.Node) bool) plan.Node {
	if is(n) {
		return n
	}
	for _, c := range n.Children() {
		if found := find(c, is); found != nil {
			return found
		}
	}
	return nil
}

func isJoin(n plan.Node) bool {
	_, ok := n.(*plan.JoinNode)
	return ok
}

// TestLookupsThatMeetAFrequentValue joins by lookups that find far more rows than was expected: the
// right side is read once instead, if there is room for it, and the rows are the same.
//
// Promise (plans): A lookup join that finds more than was expected reads at most twice what a hash
// join would: it becomes one, for the left rows that are left, in their order.
func TestLookupsThatMeetAFrequentValue(t *testing.T) {
	w, left, right := boundWorld(t)
	for _, kind := range []plan.JoinKind{plan.Inner, plan.Left} {
		sel := func(method string) *plan.Select {
			return &plan.Select{From: []plan.Source{{Table: left}, {Table: right}},
				Joins: []plan.Join{{Kind: kind, On: expr.Cmp{Op: expr.Eq, L: left.Ref(0, 1),
					R: right.Ref(1, 1)}}},
				Columns: []plan.Output{{Expr: left.Ref(0, 0)}, {Expr: right.Ref(1, 3)}},
				Hints:   plan.Hints{ForceJoin: method, ForceOrder: true}}
		}
		want, _, err := w.run(sel("hash"), plan.Options{}, exec.Options{})
		ok(t, err)
		for name, o := range map[string]exec.Options{
			"room":              {},
			"no room":           {MemoryBytes: 1 << 20, Temp: w.store.Temp()},
			"no room, no files": {MemoryBytes: 1 << 20},
		} {
			got, p, err := w.run(sel("lookup"), plan.Options{}, o)
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %v, %d rows, want %d", name, err, len(got), len(want))
			}
			j := find(p.Root, isJoin).(*plan.JoinNode)
			if j.Method != plan.JoinLookup || j.Actual().Turned != 1 {
				t.Fatalf("%s: the lookups went on:\n%s", name, p.ExplainAnalyze())
			}
			fetched, room := j.Right.Actual().Fetched, name == "room"
			// Of the rows, one has no partner.
			if turned := fetched < boundRows-1; turned != room {
				t.Errorf("%s: %d rows fetched:\n%s", name, fetched, p.ExplainAnalyze())
			}
		}
	}
}

// TestLookupsWithoutRoom joins by lookups whose partners have no room in memory: the rows are the
// same, in the same order.
func TestLookupsWithoutRoom(t *testing.T) {
	w, left, right := boundWorld(t)
	w.bound = func() float64 { return math.Inf(1) } // they go on
	for _, kind := range []plan.JoinKind{plan.Inner, plan.Left, plan.Semi, plan.Anti} {
		sel := &plan.Select{From: []plan.Source{{Table: left}, {Table: right}},
			Joins: []plan.Join{{Kind: kind, On: expr.And{Terms: []expr.Expr{
				expr.Cmp{Op: expr.Eq, L: left.Ref(0, 1), R: right.Ref(1, 1)},
				expr.Cmp{Op: expr.Gt, L: right.Ref(1, 2), R: left.Ref(0, 0)}}}}},
			Columns: []plan.Output{{Expr: left.Ref(0, 0)}},
			Hints:   plan.Hints{ForceJoin: "lookup", ForceOrder: true}}
		if kind < plan.Semi {
			sel.Columns = append(sel.Columns, plan.Output{Expr: right.Ref(1, 3)},
				plan.Output{Expr: right.Ref(1, 0)})
		}
		want, p, err := w.run(sel, plan.Options{}, exec.Options{})
		ok(t, err)
		if find(p.Root, isJoin).(*plan.JoinNode).Method != plan.JoinLookup {
			t.Fatal(p.Explain())
		}
		for _, memory := range []int64{1, 10_000, 1 << 20, 3 << 20} {
			got, _, err := w.run(sel, plan.Options{}, exec.Options{MemoryBytes: memory})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("kind %d, %d bytes: %v, %d rows, want %d", kind, memory, err, len(got),
					len(want))
			}
		}
	}
}

// TestLookupsAfterOthers joins by lookups after joins that ended in the middle of a batch, whose
// memory they use.
func TestLookupsAfterOthers(t *testing.T) {
	w, left, right := boundWorld(t)
	w.bound = func() float64 { return math.Inf(1) } // they go on
	sel := plan.Select{From: []plan.Source{{Table: left}, {Table: right}},
		Joins:   []plan.Join{{On: expr.Cmp{Op: expr.Eq, L: left.Ref(0, 1), R: right.Ref(1, 1)}}},
		Where:   expr.Cmp{Op: expr.Ge, L: left.Ref(0, 1), R: expr.Const{Value: expr.Int(2)}},
		Columns: []plan.Output{{Expr: left.Ref(0, 0)}, {Expr: right.Ref(1, 0)}},
		Hints:   plan.Hints{ForceJoin: "lookup", ForceOrder: true}}
	want, _, err := w.run(&sel, plan.Options{}, exec.Options{})
	ok(t, err)
	ended := sel
	ended.Limit = expr.Param{Index: 0}
	for range 10 {
		got, _, err := w.run(&ended, plan.Options{}, exec.Options{}, expr.Int(2))
		if err != nil || !slices.Equal(got, want[:2]) {
			t.Fatalf("the first rows are %v, %v", got, err)
		}
		got, _, err = w.run(&sel, plan.Options{}, exec.Options{})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d rows, %v, want %d", len(got), err, len(want))
		}
	}
}

// TestLimitThatIsNotReached reads in the order of an index for the first row of a condition that no
// row satisfies, until all rows are read otherwise.
//
// Promise (plans): A limit that is not reached as early as was expected costs at most about twice
// what the plan does that reads everything.
func TestLimitThatIsNotReached(t *testing.T) {
	w, _, right := boundWorld(t)
	sel := &plan.Select{From: []plan.Source{{Table: right}},
		Where:   expr.Cmp{Op: expr.Gt, L: right.Ref(0, 3), R: expr.Param{Index: 0}},
		OrderBy: []plan.Order{{Expr: right.Ref(0, 2)}}, Limit: expr.Param{Index: 1},
		Columns: []plan.Output{{Expr: right.Ref(0, 0)}, {Expr: right.Ref(0, 3)}}}
	for _, c := range []struct {
		than   string
		limit  int64
		turned int64
		rows   int
	}{
		{"a", 3, 0, 3},
		{"z", 3, 1, 0},
	} {
		params := []expr.Value{expr.String(c.than), expr.Int(c.limit)}
		got, p, err := w.run(sel, plan.Options{}, exec.Options{}, params...)
		if err != nil || len(got) != c.rows {
			t.Fatalf("%q: %v, %d rows", c.than, err, len(got))
		}
		f, ok := p.Root.(*plan.Fallback)
		if !ok || f.Actual().Turned != c.turned {
			t.Fatalf("%q:\n%s", c.than, p.ExplainAnalyze())
		}
		a := find(f.First, func(n plan.Node) bool { _, ok := n.(*plan.Access); return ok })
		if read := a.Actual().Fetched; read > 3*boundRows/4 {
			t.Errorf("%q: %d rows fetched by the index", c.than, read)
		}
	}
}

// TestHashJoinWithoutLeftRows does not read the right side, which is larger than the left one.
//
// Promise (plans): A hash join whose left side is empty does not read a right side that costs more.
func TestHashJoinWithoutLeftRows(t *testing.T) {
	w, left, right := boundWorld(t)
	for _, workers := range []int{1, 4} {
		sel := &plan.Select{From: []plan.Source{{Table: left}, {Table: right}},
			Joins: []plan.Join{{Kind: plan.Inner, On: expr.Cmp{Op: expr.Eq, L: left.Ref(0, 1),
				R: right.Ref(1, 1)}}},
			Where: expr.Cmp{Op: expr.Lt, L: left.Ref(0, 0), R: expr.Const{Value: expr.Int(0)}},
			Hints: plan.Hints{ForceJoin: "hash", ForceOrder: true}}
		got, p, err := w.run(sel, plan.Options{}, exec.Options{Workers: workers})
		if err != nil || len(got) > 0 {
			t.Fatal(got, err)
		}
		j := find(p.Root, isJoin).(*plan.JoinNode)
		if a := j.Right.Actual(); j.Method != plan.JoinHash || a.Keys+a.Seeks > 0 {
			t.Errorf("%d workers:\n%s", workers, p.ExplainAnalyze())
		}
	}
}
