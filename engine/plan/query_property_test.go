package plan_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// generator writes random queries over the tables t and u.
type generator struct{ r *rand.Rand }

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) number() string {
	return g.pick("0", "1", "2", "3", "4", "5", "2.5", "-1", "?1", "?2")
}

// column is one of a table, qualified.
func (g *generator) column(table string) string {
	return table + "." + g.pick("id", "a", "b", "c", "a", "b")
}

func (g *generator) predicate(tables []string, depth int) string {
	table := tables[g.r.IntN(len(tables))]
	if depth > 0 {
		switch g.r.IntN(4) {
		case 0:
			return "(" + g.predicate(tables, depth-1) + " AND " + g.predicate(tables, depth-1) + ")"
		case 1:
			return "(" + g.predicate(tables, depth-1) + " OR " + g.predicate(tables, depth-1) + ")"
		case 2:
			return "NOT (" + g.predicate(tables, depth-1) + ")"
		}
	}
	c := g.column(table)
	switch g.r.IntN(12) {
	case 0, 1, 2, 3:
		return c + " = " + g.number()
	case 4, 5:
		return c + " " + g.pick("<", "<=", ">", ">=", "<>") + " " + g.number()
	case 6:
		return c + " " + g.pick("IN", "NOT IN") + " (" + g.number() + ", " + g.number() + ")"
	case 7:
		return c + " BETWEEN " + g.number() + " AND " + g.number()
	case 8:
		return c + " IS " + g.pick("", "NOT ") + "NULL"
	case 9:
		return "(" + table + ".a, " + table + ".b) " + g.pick("=", ">", "<=") + " (" + g.number() +
			", " + g.number() + ")"
	case 10:
		return table + ".s " + g.pick("= 'x'", "BEGINS WITH 'x'", "> 'x'", "LIKE 'x%'")
	}
	if len(tables) > 1 {
		return g.column(tables[0]) + " " + g.pick("=", "=", "<") + " " + g.column(tables[1])
	}
	return g.column(table) + " " + g.pick("=", "<") + " " + g.column(table)
}

// term is a term of WHERE, which may be a subquery.
func (g *generator) term(tables []string) string {
	inner := "SELECT " + g.column("v") + " FROM u AS v WHERE " + g.predicate([]string{"v"}, 1)
	outer := g.column(tables[0])
	switch g.r.IntN(12) {
	case 0:
		return outer + g.pick(" IN (", " NOT IN (") + inner + ")"
	case 1:
		return g.pick("", "NOT ") + "EXISTS (" + inner + " AND v.a = " + outer + ")"
	case 2:
		return outer + " = (SELECT MAX(v.a) FROM u AS v)"
	case 3:
		return "(" + g.predicate(tables, 0) + " OR " + outer + " IN (" + inner + "))"
	case 4:
		return outer + " IN (SELECT v.a FROM u AS v GROUP BY v.a HAVING COUNT(*) > 1)"
	}
	return g.predicate(tables, g.r.IntN(3))
}

func (g *generator) where(tables []string) string {
	var terms []string
	for range g.r.IntN(4) {
		terms = append(terms, g.term(tables))
	}
	if terms == nil {
		return ""
	}
	return " WHERE " + strings.Join(terms, " AND ")
}

func (g *generator) from() (text string, tables []string) {
	switch g.r.IntN(5) {
	case 0:
		return "t JOIN u ON " + g.predicate([]string{"t", "u"}, 1), []string{"t", "u"}
	case 1:
		return g.pick("t LEFT", "t LEFT", "t FULL") + " JOIN u ON t." +
			g.pick("a", "id") + " = u." +
			g.pick("a", "id", "b") + g.pick("", " AND u.b > 2"), []string{"t", "u"}
	case 2:
		return "u JOIN t ON u." + g.pick("a", "b") + " = t." + g.pick("a", "id", "b"),
			[]string{"u", "t"}
	}
	return "t", []string{"t"}
}

// query returns a query, and whether its order decides everything.
func (g *generator) query() string {
	from, tables := g.from()
	where := g.where(tables)
	switch g.r.IntN(4) {
	case 0:
		return g.grouped(from, tables, where)
	case 1:
		c := g.column("t")
		q := "SELECT DISTINCT " + c + ", t.a FROM " + from + where
		return q + g.pick("", " ORDER BY t.a"+g.desc()+", "+c)
	}
	var order []string
	for range g.r.IntN(3) {
		order = append(order, g.column("t")+g.desc())
	}
	if where == "" && len(tables) == 1 && g.r.IntN(2) == 0 {
		where = " WHERE " + g.column("t") + " IN (1, 2, " + g.number() + ")"
	}
	q := "SELECT t.id, " + g.column(tables[len(tables)-1]) + " FROM " + from + where
	if len(tables) > 1 {
		order = append(order, "t.id", "u.id")
		q = strings.Replace(q, "SELECT t.id,", "SELECT t.id, u.id,", 1)
	} else {
		order = append(order, "t.id"+g.desc())
	}
	q += " ORDER BY " + strings.Join(order, ", ")
	return q + g.pick("", " LIMIT 3", " LIMIT 4 OFFSET 2")
}

// costs makes something cheap or dear, so that other plans are chosen, too.
func (g *generator) costs() *plan.Costs {
	c := plan.DefaultCosts
	for _, f := range []*float64{&c.Seek, &c.Key, &c.Byte, &c.Fetch, &c.Merge, &c.Hash, &c.Sort} {
		*f *= []float64{1, 1, 0.01, 100}[g.r.IntN(4)]
	}
	return &c
}

func (g *generator) desc() string {
	return g.pick("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST")
}

func (g *generator) grouped(from string, tables []string, where string) string {
	c := g.column("t")
	aggs := g.pick("COUNT(*)", "MIN(t.b), MAX(t.b)", "COUNT(t.b), SUM(t.c)", "MIN(t.a)", "MAX(t.a)",
		"COUNT(DISTINCT t.b)", "AVG(t.id)")
	switch g.r.IntN(3) {
	case 0:
		return "SELECT " + aggs + " FROM " + from + where
	case 1:
		return "SELECT " + c + ", " + aggs + " FROM " + from + where + " GROUP BY " + c +
			g.pick("", " HAVING COUNT(*) > 1") +
			g.pick("", " ORDER BY "+c+g.desc()+g.pick("", " LIMIT 2"))
	}
	return "SELECT t.a, t.b, " + aggs + " FROM " + from + where +
		" GROUP BY t.b, t.a ORDER BY t.a" + g.pick(", t.b", " DESC, t.b DESC")
}

// randomCatalog makes the tables with random indexes.
func randomCatalog(t *testing.T, r *rand.Rand) *catalog {
	g := &generator{r}
	index := func(name string) string {
		columns := []string{"a", "b", "c", "s", "id"}
		r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
		columns = columns[:1+r.IntN(3)]
		plain := slices.Clone(columns)
		for i := range columns {
			columns[i] += g.pick("", "", " DESC")
		}
		text := g.pick("", "", "UNIQUE ") + "INDEX " + name
		text += " (" + strings.Join(columns, ", ") + ")"
		switch r.IntN(4) {
		case 0:
			text += " SHARD (4)"
		case 1:
			if plain[0] != "s" {
				text += " SHARD (256, tidb)"
			}
		case 2:
			if !strings.HasPrefix(text, "UNIQUE") {
				text += g.pick(" LOCAL", "")
			}
		}
		if !slices.Contains(plain, "c") {
			text += g.pick("", " INCLUDE (c)")
		}
		return text + g.pick("", "", " WHERE b > 2")
	}
	columns := " (id INT, a INT NULL, b INT, c INT NULL, s TEXT, "
	keys := g.pick("PARTITION KEY (id)", "PARTITION KEY (a2), SORT KEY (id)",
		"PRIMARY KEY ((tidb_shard(id)), id)", "PARTITION KEY (a2) SHARD (8), SORT KEY (id)")
	if strings.Contains(keys, "a2") {
		columns = strings.Replace(columns, "s TEXT", "s TEXT, a2 INT", 1)
	}
	return newCatalog(t,
		"CREATE TABLE t"+columns+keys+", "+index("k1")+", "+index("k2")+", "+index("k3")+")",
		"CREATE TABLE u (id INT PRIMARY KEY, a INT NULL, b INT, c INT NULL, s TEXT, "+
			index("k1")+", "+index("k2")+")")
}

func randomRows(t testing.TB, w *catalog, r *rand.Rand) *memory {
	m := newMemory(t)
	for _, name := range []string{"t", "u"} {
		t := w.tables[name]
		var rows [][]expr.Value
		for i := range 5 + r.IntN(20) {
			row := t.Row()
			for at, c := range t.Columns {
				switch {
				case c.Name == "id":
					row[at] = expr.Int(int64(i))
				case c.Nullable && r.IntN(4) == 0:
				case c.Type == keycodec.TypeString:
					row[at] = expr.String([]string{"", "x", "xy", "y"}[r.IntN(4)])
				default:
					row[at] = expr.Int(int64(r.IntN(6)))
				}
			}
			rows = append(rows, row)
		}
		m.load(t, rows)
	}
	return m
}

// TestQueriesMatchOracle plans random queries over random tables, runs the plans, and
// compares with what the queries mean.
//
// Promise (plans): A plan returns what the query means: random queries with joins, subqueries,
// groups, orders and limits over random tables and indexes, every join method forced, against an
// evaluation of all combinations of rows.
func TestQueriesMatchOracle(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	const queries = 50
	seed := testutil.Seed(t)
	for i := range testutil.Effort(4, 1000) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := randomCatalog(t, r)
		m := randomRows(t, w, r)
		g := &generator{r}
		for range queries {
			text := g.query()
			checkQuery(t, w, m, g, text)
		}
	}
}

func checkQuery(t *testing.T, w *catalog, m *memory, g *generator, text string) {
	t.Helper()
	var params []expr.Value
	for range 2 {
		params = append(params, []expr.Value{expr.Null(), expr.Int(int64(g.r.IntN(6))),
			expr.Int(3)}[g.r.IntN(3)])
	}
	sel := w.query(text)
	want := (&oracle{m, params}).query(sel, nil)
	for _, variant := range []string{"", "noindex", "hash", "merge", "loop", "lookup"} {
		sel := w.query(text)
		sel.Hints.NoIndex = variant == "noindex"
		if len(variant) < 7 {
			sel.Hints.ForceJoin = variant
		}
		opt := plan.Options{MaxStreams: 1 + g.r.IntN(300), Costs: g.costs()}
		p, err := plan.Prepare(sel, opt)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		vector := append(slices.Clone(params), make([]expr.Value, 2)...)[:max(2, p.Params())]
		b, err := p.Bind(vector)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := m.run(b)
		if err != nil || !sameRows(visible(b, got), want, len(sel.OrderBy) > 0) {
			t.Fatalf("%q: %s\nparams %v\n%sgot %v, %v\nwant %v", variant, text, params,
				b.Explain(), got, err, want)
		}
	}
}

// visible cuts rows to the columns of the query.
func visible(p *plan.Plan, rows [][]expr.Value) [][]expr.Value {
	for i := range rows {
		rows[i] = rows[i][:len(p.Columns)]
	}
	return rows
}

func sameRows(a, b [][]expr.Value, ordered bool) bool {
	x, y := make([]string, len(a)), make([]string, len(b))
	for i := range a {
		x[i] = rowID(a[i])
	}
	for i := range b {
		y[i] = rowID(b[i])
	}
	if !ordered {
		slices.Sort(x)
		slices.Sort(y)
	}
	return slices.Equal(x, y)
}
