package exec_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Random queries with next to no memory have the rows that they have with much, in the same order.
//
// Promise (plans): A query that spills to disk has the result that it has in memory, its order
// included, and leaves no file. Also `TestSpilledStatements`, `TestSpillFaults` in `engine/sql`.
func TestSpilledQueries(t *testing.T) {
	runs := testutil.Effort(150, 100_000)
	seed := testutil.Seed(t)
	spilled := map[string]int{}
	refused := 0
	for i := 0; runs > 0; i++ {
		ok := t.Run("world", func(t *testing.T) {
			w, rng := newWorld(t), rand.New(rand.NewPCG(seed, uint64(i)))
			g := &generator{Rand: rng}
			g.people, g.cities = fill(t, w, rng, 100+rng.IntN(200))
			for n := 0; n < 150 && runs > 0; n++ {
				runs--
				sel := g.query()
				sel.Hints = g.hints(sel)
				refused += w.compareSpilled(g, sel, spilled)
			}
		})
		if !ok {
			t.FailNow()
		}
	}
	t.Logf("spilled: %v, refused %d", spilled, refused)
	for _, op := range []string{"sort", "group hash", "hash join", "distinct hash"} {
		if spilled[op] == 0 {
			t.Errorf("no %s has spilled", op)
		}
	}
}

// compareSpilled runs a query with much memory and with little. It returns 1 if it cannot be run
// with little, because an operator does not spill.
func (w *world) compareSpilled(g *generator, sel *plan.Select, spilled map[string]int) int {
	w.t.Helper()
	params := []expr.Value{expr.Int(g.Int64N(20)), expr.Null(), expr.String("n3")}
	want, _, err := w.run(sel, plan.Options{}, exec.Options{}, params...)
	if err != nil {
		return 0 // hints that do not fit
	}
	memory := 1 + g.Int64N(1<<g.IntN(15))
	got, p, err := w.run(sel, plan.Options{}, exec.Options{MemoryBytes: memory,
		Temp: w.store.Temp()}, params...)
	if files := w.temporary(); len(files) > 0 {
		w.t.Fatalf("%s: %q are left", describe(sel), files)
	}
	if errors.Is(err, exec.ErrMemory) {
		return 1
	}
	if err != nil || !slices.Equal(got, want) {
		w.t.Fatalf("%s with %d bytes: %v\n%s\n got %q\nwant %q", describe(sel), memory, err,
			p.ExplainAnalyze(), got, want)
	}
	count(p.ExplainAnalyze(), spilled)
	return 0
}

// count counts the operators that have spilled.
func count(e *plan.Explanation, spilled map[string]int) {
	if e.Actual != nil && e.Actual.Spilled > 0 {
		name := e.Operator
		if strings.HasPrefix(name, "top ") {
			name = "sort"
		}
		for _, kind := range []string{"inner ", "left ", "semi ", "anti "} {
			name = strings.TrimPrefix(name, kind)
		}
		spilled[name]++
	}
	for _, c := range e.Children {
		count(c, spilled)
	}
}

// temporary returns the temporary files.
func (w *world) temporary() (left []string) {
	names, err := w.fs.List("db")
	ok(w.t, err)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, "SPILL-")
	})
}
