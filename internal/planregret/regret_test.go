package planregret_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// work is what a plan has read, as EXPLAIN ANALYZE counts it, and how long it took.
type work struct {
	read float64 // in keys
	time time.Duration
}

// keysPerSeek and keysPerFetch are how many keys are read in the time of a seek, and in that in
// which one row of a batch is fetched: 100 ns, 2 to 4 µs, and 1 µs of CPU time, as was measured.
// allowance, in keys, is what any query costs before it reads: a plan is not blamed for a few
// seeks.
const (
	keysPerSeek  = 35
	keysPerFetch = 10
	allowance    = 10 * keysPerSeek
)

// regret is how much more a plan reads than the best one.
type regret struct {
	ratio, slower float64
	query         string
	chosen, best  work
	plan          string
}

// rowsEnv is the number of rows of a long run.
const rowsEnv = "KSTONE_REGRET_ROWS"

// smallRows is the number of rows of a short run.
const smallRows = 20_000

// worst is the largest ratio of a short run with the fixed seed. Other queries may pass it by
// drawnSlack.
const (
	worst      = 10
	drawnSlack = 4
)

// TestPlanRegret runs generated queries in the way the planner chooses, and in that of every
// index hint: with statistics, without, and with those of a tenth of the rows, which are
// refreshed by themselves or not; with values in the text, and as parameters of one prepared
// statement.
//
// Promise (plans): A plan reads at most ten times what the best plan of all index hints reads, with
// statistics of the rows that are there, with those that come by themselves, with those of a tenth
// of the rows and without any; with constants and with parameters alike.
func TestPlanRegret(t *testing.T) {
	rows, queries := smallRows, 150
	if n, err := strconv.Atoi(os.Getenv(rowsEnv)); err == nil {
		rows, queries = n, 400
	}
	seed := testutil.Seed(t)
	g := &generator{rand.New(rand.NewPCG(seed, 1)), rows}
	list := make([]query, queries)
	for i := range list {
		list[i] = g.query()
	}
	w := newWorld(t, rows, false)
	w.load(seed, 0, rows)
	w.measure("without statistics", list)
	w.analyze()
	w.measure("fresh statistics", list)

	for _, automatic := range []bool{true, false} {
		stale := newWorld(t, rows, automatic)
		stale.load(seed, 0, rows/10)
		stale.analyze()
		stale.load(seed, rows/10, rows)
		stale.best, stale.seen = w.best, w.seen
		if automatic {
			stale.measure("statistics by themselves", list)
		} else {
			stale.measure("stale statistics", list)
		}
	}
}

// measure runs the queries in both forms, prints the regrets, and holds them to the bounds.
func (w *world) measure(name string, list []query) {
	w.t.Helper()
	for _, form := range []string{"literals", "parameters"} {
		var all []regret
		for _, q := range list {
			all = append(all, w.regretOf(q, form == "parameters"))
		}
		slices.SortFunc(all, func(a, b regret) int { return cmp.Compare(b.ratio, a.ratio) })
		slowest := slices.MaxFunc(all, func(a, b regret) int {
			return cmp.Compare(a.slower, b.slower)
		})
		text := fmt.Sprintf("%s, %s, %d rows, %d queries: "+
			"worst %.1f, 99 %% within %.1f; by time %.1f",
			name, form, w.rows, len(list), all[0].ratio, all[len(all)/100].ratio,
			slowest.slower)
		w.t.Log(text)
		for i, r := range all[:10] {
			if r.ratio > 1.2 {
				w.t.Logf("%d. %.1f: reads %.0f (%v), not %.0f (%v): %s\n%s", i+1, r.ratio,
					r.chosen.read, r.chosen.time, r.best.read, r.best.time, r.query, r.plan)
			}
		}
		w.t.Logf("by time %.1f: %v, not %v: %s", slowest.slower, slowest.chosen.time,
			slowest.best.time, slowest.query)
		most := float64(worst)
		if testutil.Drawn() {
			most *= drawnSlack
		}
		if w.rows == smallRows && all[0].ratio > most {
			w.t.Errorf("%s: not within %.1f", text, most)
		}
	}
}

func (w *world) regretOf(q query, parameters bool) regret {
	w.t.Helper()
	id := q.literal()
	text, args := fmt.Sprintf(id, ""), []any(nil)
	if parameters {
		text, args = fmt.Sprintf(q.text, ""), q.values
	}
	chosen, explained := w.run(id, text, args)
	best, ok := w.best[id]
	if !ok {
		best = chosen
		for i, x := range indexes {
			hint := " INDEXED BY " + x
			if i == 0 {
				hint = " NOT INDEXED"
			}
			forced, e := w.run(id, fmt.Sprintf(id, hint), nil)
			if e != nil && forced.read < best.read {
				best = forced
			}
		}
	}
	if chosen.read < best.read {
		best = chosen
	}
	w.best[id] = best
	r := regret{ratio: (chosen.read + allowance) / (best.read + allowance),
		query: fmt.Sprintf(id, ""), chosen: chosen, best: best, plan: explained.String()}
	const least = 200 * time.Microsecond
	r.slower = float64(chosen.time+least) / float64(best.time+least)
	if len(r.query) > 200 {
		r.query = r.query[:200] + "…"
	}
	if len(r.plan) > 1500 {
		r.plan = r.plan[:1500] + "…"
	}
	return r
}

// run executes a query and returns what it read, and its plan; nil of a hint that does not
// apply, or that is worse than the rows for certain. A plan runs once.
func (w *world) run(id, text string, args []any) (work, *plan.Explanation) {
	w.t.Helper()
	e := w.explain("EXPLAIN ", text, args)
	if e == nil {
		return work{}, nil
	}
	key := id + "\n" + shapeOf(e)
	if done, ok := w.seen[key]; ok {
		return done, e
	}
	if strings.Contains(text, "INDEXED BY") && fetchesAll(e) {
		return work{}, nil
	}
	ran := w.explain("EXPLAIN ANALYZE ", text, args)
	done := work{read: readBy(ran), time: ran.Actual.Time}
	w.seen[key] = done
	return done, ran
}

func (w *world) explain(verb, text string, args []any) *plan.Explanation {
	w.t.Helper()
	rows, err := w.session.Query(w.t.Context(), verb+text, args...)
	if err != nil {
		if strings.Contains(text, "INDEXED BY") {
			return nil
		}
		w.t.Fatalf("%s: %v", text, err)
	}
	return rows.Plan
}

// readBy adds up what the steps of a plan have read. A range of rows is searched in each stripe,
// up to the one that completes a limit.
func readBy(e *plan.Explanation) float64 {
	a := e.Actual
	sum := float64(a.Keys) + keysPerSeek*float64(a.Seeks-a.Fetched) +
		keysPerFetch*float64(a.Fetched)
	limited := false
	for _, a := range e.Attributes {
		limited = limited || a.Name == "limit"
		if a.Name == "order" { // merged
			limited = false
			break
		}
	}
	for _, a := range e.Attributes {
		var stripes int
		if a.Name == "stripes" && e.Actual.Seeks > 0 {
			fmt.Sscanf(a.Value, "%d/", &stripes)
			if limited { // about a row of each
				stripes = min(stripes, int(e.Actual.Keys))
			}
			sum += keysPerSeek * float64(max(0, stripes-int(e.Actual.Seeks)))
		}
	}
	for _, c := range e.Children {
		sum += readBy(c)
	}
	return sum
}

// shapeOf is a plan without its estimates.
func shapeOf(e *plan.Explanation) string {
	var b strings.Builder
	fmt.Fprint(&b, e.Operator, e.Attributes, "(")
	for _, c := range e.Children {
		b.WriteString(shapeOf(c))
	}
	b.WriteString(")")
	return b.String()
}

// fetchesAll reports whether a plan fetches the rows of a whole index in no wanted order.
func fetchesAll(e *plan.Explanation) bool {
	var fetch, order bool
	for _, a := range e.Attributes {
		fetch = fetch || a.Name == "fetch rows"
		order = order || a.Name == "order"
	}
	full := strings.HasPrefix(e.Operator, "FULL SCAN of index")
	return full && fetch && !order || slices.ContainsFunc(e.Children, fetchesAll)
}
