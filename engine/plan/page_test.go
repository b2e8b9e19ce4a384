package plan_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestPagesAreTheWhole reads random queries page by page, each page with the cursor of the
// last row of the one before, and compares with the query in one piece.
//
// Promise (plans): Pages put together are the whole; a page begins in the index; cursors of
// other queries and damaged ones are refused. Also `TestCursorsBeginInTheIndex`,
// `TestCursorsOfOthersAreRefused`, `TestCursorsOutliveIndexes`.
func TestPagesAreTheWhole(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	worlds := testutil.Effort(5, 20)
	seed := testutil.Seed(t)
	for i := range worlds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := randomCatalog(t, r)
		m := randomRows(t, w, r)
		g := &generator{r}
		for range 25 {
			text := g.pick(
				"SELECT t.id, t.a FROM t"+g.where([]string{"t"})+" ORDER BY "+g.column("t")+
					g.desc(),
				"SELECT t.id, t.b, t.c FROM t ORDER BY "+g.column("t")+g.desc()+", t.b"+g.desc(),
				"SELECT t.id, u.id FROM t LEFT JOIN u ON t.a = u.a ORDER BY u.a"+g.desc(),
				"SELECT t.a, COUNT(*) FROM t GROUP BY t.a ORDER BY t.a"+g.desc(),
				"SELECT DISTINCT t.a, t.b FROM t ORDER BY t.b"+g.desc())
			checkPages(t, w, m, g, text, 1+r.IntN(4))
		}
	}
}

func checkPages(t *testing.T, w *catalog, m *memory, g *generator, text string, size int) {
	t.Helper()
	params := []expr.Value{expr.Int(2), expr.Int(4)}
	whole := w.query(text)
	whole.Page = true
	p := must(plan.Prepare(whole, plan.Options{}))
	all := must(p.Bind(params))
	want, err := m.run(all)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want = visible(all, want)
	paged := w.query(text)
	paged.Page, paged.Limit = true, expr.Const{Value: expr.Int(int64(size))}
	p = must(plan.Prepare(paged, plan.Options{Costs: g.costs()}))
	var got [][]expr.Value
	var after []byte
	for range len(want) + 2 {
		b, err := p.BindAfter(params, after)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		rows := must(m.run(b))
		if len(rows) == size {
			after = b.Cursor(rows[size-1])
		}
		got = append(got, visible(b, rows)...)
		if len(rows) < size {
			break
		}
	}
	if !sameRows(got, want, true) {
		t.Fatalf("%s in pages of %d:\ngot  %v\nwant %v\n%s", text, size, got, want,
			must(p.BindAfter(params, after)).Explain())
	}
}

// TestCursorsBeginInTheIndex: a page deep in a large result starts with a seek.
func TestCursorsBeginInTheIndex(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT, INDEX ka (a) SHARD (4))")
	sel := w.query("SELECT id, a FROM t ORDER BY a DESC LIMIT 2")
	sel.Page = true
	p := must(plan.Prepare(sel, plan.Options{}))
	b := must(p.Bind(nil))
	row := []expr.Value{expr.Int(7), expr.Int(50), expr.Int(50), expr.Int(7)}
	next := must(p.BindAfter(nil, b.Cursor(row))).Explain().String()
	for _, part := range []string{"a = 50 AND id < 7", "a < 50", "reverse", "merge: 4 streams"} {
		if !strings.Contains(next, part) {
			t.Errorf("no %q in\n%s", part, next)
		}
	}
	if strings.Contains(next, "sort") || strings.Contains(next, "filter") {
		t.Errorf("the page is sorted or filtered:\n%s", next)
	}
}

// TestCursorsOutliveIndexes: an index that comes between two pages has the ties the other way.
func TestCursorsOutliveIndexes(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	paged := func() *plan.Prepared {
		sel := w.query("SELECT id FROM t ORDER BY a DESC LIMIT 2")
		sel.Page = true
		return must(plan.Prepare(sel, plan.Options{}))
	}
	row := []expr.Value{expr.Int(7), expr.Int(50), expr.Int(7)}
	before := paged()
	cursor := must(before.Bind(nil)).Cursor(row)
	w.exec("CREATE INDEX ka ON t (a DESC)")
	after := paged()
	next := must(after.BindAfter(nil, cursor))
	if text := next.Explain().String(); !strings.Contains(text, "id < 7") {
		t.Errorf("the next page is another one:\n%s", text)
	}
	if _, err := before.BindAfter(nil, next.Cursor(row)); err != nil {
		t.Errorf("the page after it: %v", err)
	}
	if _, err := before.BindAfter(nil, must(after.Bind(nil)).Cursor(row)); err != nil {
		t.Errorf("the index has gone: %v", err)
	}
}

func TestCursorsOfOthersAreRefused(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	paged := func(text string) *plan.Prepared {
		sel := w.query(text)
		sel.Page = true
		return must(plan.Prepare(sel, plan.Options{}))
	}
	p := paged("SELECT id FROM t WHERE a = 1")
	c := must(p.Bind(nil)).Cursor([]expr.Value{expr.Int(1), expr.Int(1)})
	if _, err := p.BindAfter(nil, c); err != nil {
		t.Fatal(err)
	}
	if _, err := paged("SELECT id FROM t WHERE a = 1 LIMIT 5").BindAfter(nil, c); err != nil {
		t.Errorf("another limit: %v", err)
	}
	damaged := slices.Clone(c)
	damaged[len(damaged)/2] ^= 1
	for name, err := range map[string]error{
		"another query": second(paged("SELECT id FROM t WHERE a = 2").BindAfter(nil, c)),
		"damage":        second(p.BindAfter(nil, damaged)),
		"empty":         second(p.BindAfter(nil, []byte{})),
		"no pages": second(must(plan.Prepare(w.query("SELECT id FROM t WHERE a = 1"),
			plan.Options{})).BindAfter(nil, c)),
	} {
		if !errors.Is(err, plan.ErrCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ *plan.Plan, err error) error { return err }

// FuzzCursor binds arbitrary bytes as a cursor: errors, never a panic.
func FuzzCursor(f *testing.F) {
	w := newCatalog(f, "CREATE TABLE t (id INT PRIMARY KEY, a INT, INDEX ka (a))")
	sel := w.query("SELECT id FROM t ORDER BY a")
	sel.Page = true
	p := must(plan.Prepare(sel, plan.Options{}))
	f.Add(must(p.Bind(nil)).Cursor([]expr.Value{expr.Int(1), expr.Int(2), expr.Null()}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, c []byte) {
		defer testutil.Watch(c)()
		if b, err := p.BindAfter(nil, c); err == nil {
			b.Explain()
		} else if !errors.Is(err, plan.ErrCursor) {
			t.Fatal(err)
		}
	})
}
