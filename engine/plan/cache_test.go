package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// TestCacheChangesNothing binds random queries with the values NULL, empty ranges and
// others, through a cache and without one: the plans are the same.
//
// Promise (plans): A cached plan is the plan; it depends on the query's shape, its tables and
// statistics and nothing else; the cache is bounded. Also `TestCacheKeys`, `TestCacheIsBounded`.
func TestCacheChangesNothing(t *testing.T) {
	seed := testutil.Seed(t)
	for i := range 6 {
		// One for each catalogue: versions of tables tell definitions of one apart.
		cache := plan.NewCache(32)
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		w := randomCatalog(t, r)
		g := &generator{r}
		for range 40 {
			text := g.query()
			for range 3 {
				params := []expr.Value{{}, expr.Int(int64(r.IntN(9))), {}, {}}
				r.Shuffle(2, func(i, j int) { params[i], params[j] = params[j], params[i] })
				opt := plan.Options{Stats: w}
				cached := must(must(cache.Prepare(w.query(text), opt)).Bind(params))
				fresh := must(must(plan.Prepare(w.query(text), opt)).Bind(params))
				if a, b := cached.Explain().String(), fresh.Explain().String(); a != b {
					t.Fatalf("%s with %v:\n%s%s", text, params, a, b)
				}
			}
		}
		if s := cache.Stats(); s.Hits < 2*s.Misses || s.Entries > 32 {
			t.Errorf("%+v", s)
		}
	}
}

// TestCacheKeys: what a plan depends on makes another entry, and nothing else does.
func TestCacheKeys(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
		"CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT)")
	cache := plan.NewCache(100)
	prepare := func(text string, change func(*plan.Select)) {
		sel := w.query(text)
		if change != nil {
			change(sel)
		}
		if _, err := cache.Prepare(sel, plan.Options{Stats: w}); err != nil {
			t.Fatal(err)
		}
	}
	const text = "SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a = ?1"
	prepare(text, nil)
	prepare(text, nil)
	prepare("SELECT  t.a FROM t JOIN u ON t.id = u.id WHERE t.a = ?", nil)
	if s := cache.Stats(); s.Misses != 1 || s.Hits != 2 {
		t.Fatalf("equal queries: %+v", s)
	}
	others := []func(){
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE u.a = ?1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.b = ?1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a = 1", nil) },
		func() { prepare("SELECT t.a FROM t LEFT JOIN u ON t.id = u.id WHERE t.a = ?1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a < ?1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a > ?1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a <= 1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a >= 1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a <> 1", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a + ?1 > 2", nil) },
		func() { prepare("SELECT t.a FROM t JOIN u ON t.id = u.id WHERE t.a - ?1 > 2", nil) },
		func() { prepare(text+" LIMIT 1", nil) },
		func() { prepare(text, func(s *plan.Select) { s.Hints.NoIndex = true }) },
		func() { prepare(text, func(s *plan.Select) { s.Page = true }) },
		func() { prepare(text, func(s *plan.Select) { s.Where = columnIs(0, 1) }) },
		func() { prepare(text, func(s *plan.Select) { s.Where = columnIs(1, 1) }) },
		func() { w.stats["u"] = &plan.TableStats{Epoch: 2, Rows: 5}; prepare(text, nil) },
		func() { w.exec("CREATE INDEX ka ON t (a)"); prepare(text, nil) },
	}
	for i, other := range others {
		other()
		if s := cache.Stats(); s.Misses != uint64(i+2) {
			t.Fatalf("change %d was taken for the same query: %+v", i, s)
		}
	}
}

func columnIs(source, ordinal int) expr.Expr {
	return expr.IsNull{X: expr.Column{Source: source, Ordinal: ordinal, Name: "a"}}
}

// TestCacheIsBounded and used concurrently.
func TestCacheIsBounded(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	cache := plan.NewCache(10)
	var wg sync.WaitGroup
	for g := range 4 {
		queries := make([]*plan.Select, 50)
		for i := range queries {
			queries[i] = w.query(fmt.Sprintf("SELECT id FROM t WHERE a = %d", (i*7+g)%30))
		}
		wg.Go(func() {
			for _, q := range queries {
				if _, err := cache.Prepare(q, plan.Options{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := cache.Stats(); s.Entries != 10 || s.Hits+s.Misses != 200 {
		t.Errorf("%+v", s)
	}
}

// TestPointKeysAreThoseOfRows: a point gives the keys that rows and entries have.
//
// Promise (plans): The key of a point query is that of the row or entry, and making it allocates
// nothing. Also `TestPointKeyAllocatesNothing`.
func TestPointKeysAreThoseOfRows(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT, n SMALLINT, s TEXT, PARTITION KEY (id, s),
		SORT KEY (n DESC), UNIQUE INDEX uk (s, n) SHARD (16))`)
	tab := w.tables["t"]
	row := []expr.Value{expr.Int(5), expr.Int(-3), expr.String("x\x00y")}
	pk, sk, err := tab.AppendRowKey(nil, nil, row)
	ok(t, err)
	p := must(plan.Prepare(w.query("SELECT * FROM t WHERE n = ?2 AND id = ?1 AND s = ?3"),
		plan.Options{})).Physical()
	gotPK, gotSK, found := p.Key(nil, nil, row, false)
	err = p.Check(row)
	if err != nil || !found || !slices.Equal(gotPK, pk) || !slices.Equal(gotSK, sk) {
		t.Errorf("%x %x %v %v, want %x %x", gotPK, gotSK, found, err, pk, sk)
	}
	var set schema.Entries
	x := tab.Indexes[0]
	ok(t, x.AppendEntries(&set, keyOf(pk, sk), row))
	p = must(plan.Prepare(w.query("SELECT id FROM t WHERE s = ?2 AND n = ?1"),
		plan.Options{})).Physical()
	params := []expr.Value{row[1], row[2]}
	gotPK, gotSK, found = p.Key(nil, nil, params, false)
	err, e := p.Check(params), set.List[0]
	if err != nil || !found || !slices.Equal(gotPK, e.PK) || !slices.Equal(gotSK, e.SK) {
		t.Errorf("%x %x %v %v, want %x %x", gotPK, gotSK, found, err, e.PK, e.SK)
	}
	for _, params := range [][]expr.Value{{{}, row[2]}, {expr.Int(40000), row[2]},
		{expr.Float(1.5), row[2]}} {
		if _, _, found = p.Key(nil, nil, params, false); found || p.Check(params) != nil {
			t.Errorf("%v: %v %v", params, found, p.Check(params))
		}
	}
	if err = p.Check([]expr.Value{row[2], row[2]}); err == nil {
		t.Error("a text for a number is not an error")
	}
}

func TestPointKeyAllocatesNothing(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	w := newCatalog(t,
		"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, UNIQUE INDEX uk (a) SHARD (16), "+
			"UNIQUE INDEX ub (b) SHARD (256, tidb))")
	for _, text := range []string{"SELECT * FROM t WHERE id = ?", "SELECT * FROM t WHERE a = ?",
		"SELECT * FROM t WHERE b = ?"} {
		p := must(plan.Prepare(w.query(text), plan.Options{})).Physical()
		pk, sk := make([]byte, 0, 64), make([]byte, 0, 64)
		params := []expr.Value{expr.Int(100)}
		n := testutil.AllocsPerRun(100, func() {
			_, _, found := p.Key(pk, sk, params, false)
			if err := p.Check(params); !found || err != nil {
				t.Fatal(found, err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func TestCachedPrepareAllocatesNothing(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX kab (a, b))")
	sel := w.query("SELECT id FROM t WHERE a = ?1 AND b > ?2 ORDER BY b LIMIT 10")
	cache := plan.NewCache(10)
	first := must(cache.Prepare(sel, plan.Options{}))
	n := testutil.AllocsPerRun(100, func() {
		if p, err := cache.Prepare(sel, plan.Options{}); err != nil || p != first {
			t.Fatal(p, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPointKey(b *testing.B) {
	w := newCatalog(b,
		"CREATE TABLE t (id INT PRIMARY KEY, a INT, UNIQUE INDEX uk (a) SHARD (256, tidb))")
	for name, text := range map[string]string{"row": "SELECT * FROM t WHERE id = ?",
		"tidb-shard": "SELECT * FROM t WHERE a = ?"} {
		p := must(plan.Prepare(w.query(text), plan.Options{})).Physical()
		b.Run(name, func(b *testing.B) {
			pk, sk := make([]byte, 0, 64), make([]byte, 0, 64)
			params := []expr.Value{expr.Int(100)}
			b.ReportAllocs()
			for b.Loop() {
				p.Key(pk, sk, params, false)
			}
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	w := newCatalog(b,
		"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, INDEX kab (a, b) SHARD (16))")
	sel := w.query("SELECT id FROM t WHERE a = ?1 AND b > ?2 ORDER BY b LIMIT 10")
	params := []expr.Value{expr.Int(1), expr.Int(2)}
	cache := plan.NewCache(10)
	p := must(plan.Prepare(sel, plan.Options{}))
	b.Run("anew", func(b *testing.B) {
		for b.Loop() {
			must(plan.Prepare(sel, plan.Options{}))
		}
	})
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			must(cache.Prepare(sel, plan.Options{}))
		}
	})
	b.Run("bind", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(p.Bind(params))
		}
	})
}

// TestCacheKeepsForLayers: what a layer keeps takes part in the bound and the order of leaving.
func TestCacheKeepsForLayers(t *testing.T) {
	cache := plan.NewCache(2)
	for _, key := range []string{"a", "b"} {
		cache.Keep([]byte(key), key)
	}
	if cache.Get([]byte("a")) != "a" {
		t.Fatal("what was kept is gone")
	}
	cache.Keep([]byte("c"), "c")
	if cache.Get([]byte("b")) != nil || cache.Get([]byte("a")) != "a" {
		t.Error("another one than the least recently used has left")
	}
	if s := cache.Stats(); s.Hits != 2 || s.Misses != 3 || s.Entries != 2 {
		t.Errorf("%+v", s)
	}
}
