package plan_test

import (
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// fewBlocks counts a million rows, thirty thousand of them with any value, and says that zones
// leave one in a thousand entries of an index.
type fewBlocks struct{}

func (fewBlocks) Rows(*schema.Table) (float64, bool) { return 1e6, true }

func (fewBlocks) Range(_ *schema.Table, _ *schema.Index, _, _ []byte, points int) (float64, bool) {
	if points > 0 {
		return 3e4, true
	}
	return 1e6, true
}

func (fewBlocks) Left(_ *schema.Table, x *schema.Index, _, _ []byte, _ int,
	_ func(zone.Columns) bool) (left, all float64, ok bool) {
	return 1, 1000, x != nil
}

// TestZonesLeaveWhatIsFound: a scan of all entries reads at least those that are found, however
// few of the blocks that were looked at may hold some. The naive price takes it for cheaper than
// the index of the column, by as much as it seems to read less, also for values of a few rows that
// share its plan.
func TestZonesLeaveWhatIsFound(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c TEXT,
		INDEX by_ab (a, b), INDEX by_b (b))`)
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100}
	p := must(plan.Prepare(w.query("SELECT c FROM t WHERE b = 1"),
		plan.Options{Stats: w, Counter: fewBlocks{}}))
	e := must(p.Bind(nil)).Explain().Find("index scan")
	if e == nil {
		t.Fatalf("no index scan:\n%v", must(p.Bind(nil)).Explain())
	}
	if index, _ := e.Attr("index"); index != "by_b (b)" {
		t.Errorf("not by the index of the column:\n%v", must(p.Bind(nil)).Explain())
	}
}

// fewRows says that zones leave one in a thousand rows.
type fewRows struct{ fewBlocks }

func (fewRows) Left(*schema.Table, *schema.Index, []byte, []byte, int, func(zone.Columns) bool) (
	left, all float64, ok bool) {
	return 1, 1000, true
}

// TestZonesBoundWhatIsFound: a range of a column without an index is a guess of a third of the
// rows, but for what zones leave. By the guess, all rows of the other table would be hashed.
//
// Promise (plans): A condition on a column without an index is expected to find no more rows than
// zones leave.
func TestZonesBoundWhatIsFound(t *testing.T) {
	w := newCatalog(t, "CREATE TABLE t (id INT PRIMARY KEY, at INT)",
		"CREATE TABLE u (id INT PRIMARY KEY, v INT)")
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100}
	w.stats["u"] = w.stats["t"]
	p := must(plan.Prepare(w.query("SELECT v FROM t JOIN u ON u.id = t.id WHERE t.at > 5"),
		plan.Options{Stats: w, Counter: fewRows{}}))
	if e := must(p.Bind(nil)).Explain(); e.Rows > 1000 || e.Find("lookup join") == nil {
		t.Errorf("no look-ups for a thousand rows:\n%v", e)
	}
}

// fewPairs counts five entries with any two values.
type fewPairs struct{ fewBlocks }

func (fewPairs) Range(t *schema.Table, x *schema.Index, lo, hi []byte, points int) (float64, bool) {
	if points > 1 {
		return 5, true
	}
	return fewBlocks{}.Range(t, x, lo, hi, points)
}

// TestValuesOfAListAreCountedWithOthers: an entry for each value of a short list may say what the
// columns of a key have together, whatever each of them has alone.
//
// Promise (plans): The values of a short list are counted with those of the next column of an
// index.
func TestValuesOfAListAreCountedWithOthers(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c TEXT,
		INDEX by_ab (a, b), INDEX by_b (b))`)
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100}
	for text, most := range map[string]float64{
		"SELECT c FROM t WHERE a IN (1, 2) AND b = 3":          10,
		"SELECT c FROM t WHERE a IN (1, 2) AND b IN (3, 4, 5)": 30,
	} {
		p := must(plan.Prepare(w.query(text), plan.Options{Stats: w, Counter: fewPairs{}}))
		if e := must(p.Bind(nil)).Explain(); e.Rows > most+1 {
			t.Errorf("more than %v rows:\n%v", most, e)
		}
	}
}

// TestListsAreNotCombined: the work of planning does not grow with the product of the lengths of
// lists.
func TestListsAreNotCombined(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT, d INT, e INT,
		f INT, g TEXT, INDEX by_all (a, b, c, d, e, f))`)
	w.stats["t"] = &plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100}
	allocs := func(columns ...string) float64 {
		text := "SELECT g FROM t WHERE " + strings.Join(columns, " IN (1, 2, 3, 4) AND ") +
			" IN (1, 2, 3, 4)"
		return testutil.AllocsPerRun(1, func() {
			must(plan.Prepare(w.query(text), plan.Options{Stats: w, Counter: fewPairs{}}))
		})
	}
	few, all := allocs("a", "b", "c"), allocs("a", "b", "c", "d", "e", "f")
	if all > 10*few {
		t.Errorf("%v allocations for 6 lists, %v for 3", all, few)
	}
}

// passing has statistics until they are taken away.
type passing struct{ s *plan.TableStats }

func (p *passing) Table(*schema.Table) *plan.TableStats { return p.s }

// TestPlansKeepNoStatistics: a plan that is kept does not keep the statistics that it was made by.
func TestPlansKeepNoStatistics(t *testing.T) {
	w := newCatalog(t, `CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c TEXT,
		INDEX by_ab (a, b), INDEX by_b (b))`)
	for _, text := range []string{"SELECT c FROM t WHERE b = 1", "SELECT max(b) FROM t",
		"SELECT c FROM t WHERE a = 1 OR b = 2"} {
		s := &passing{&plan.TableStats{Epoch: 1, Rows: 1e6, RowBytes: 100}}
		used := weak.Make(s.s)
		p := must(plan.Prepare(w.query(text), plan.Options{Stats: s, Counter: fewBlocks{}}))
		s.s = nil
		runtime.GC()
		if used.Value() != nil {
			t.Errorf("kept by the plan of %s", text)
		}
		runtime.KeepAlive(p)
	}
}
