package table_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// unzoned is a store that leaves out no blocks.
type unzoned struct{ store.Store }

func unzonedOf(e *engine.DB) store.Store { return unzoned{local.New(e)} }

func (s unzoned) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Item, error] {
	r.MayHold, r.Blocks = nil, nil
	return s.Store.Scan(ctx, r)
}

func (s unzoned) Snapshot(ctx context.Context) (store.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	return unzonedSnapshot{snap}, err
}

type unzonedSnapshot struct{ store.Snapshot }

func (s unzonedSnapshot) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Item, error] {
	r.MayHold, r.Blocks = nil, nil
	return s.Snapshot.Scan(ctx, r)
}

// zoneRun is a table whose columns rise with the key, more or less.
type zoneRun struct {
	*testing.T
	rng   *rand.Rand
	db    *table.DB
	tab   *table.Table
	round int
	added int
	old   []zoneMoment
}

// zoneMoment is a state of the table to read, with zones and without.
type zoneMoment struct {
	def         *schema.Table
	zones, none table.Reader
	done        func()
}

const zoneTable = `{"name":"t","columns":[{"name":"part","type":"string"},
 {"name":"id","type":"int32"},{"name":"at","type":"time","unit":"ms"},
 {"name":"n","type":"int64","nullable":true},{"name":"s","type":"string","nullable":true},
 {"name":"f","type":"float64","nullable":true},{"name":"d","type":"decimal","nullable":true},
 {"name":"small","type":"int16"},{"name":"c","type":"string","collate":"ascii"}],
 "indexes":[{"name":"by_part","columns":["part",{"column":"n","desc":true}],
   "include":["at","s","f"]},
  {"name":"by_small","columns":["small"],"include":["n","d"]},
  {"name":"by_key","columns":["part","small","id"],"unique":true,"include":["at"]},
  {"name":"by_text","columns":["s","part","small","id"],"unique":true,"include":["n"]}],
 %s}`

// zoneIndexes are its indexes, and its rows.
var zoneIndexes = []string{"by_part", "by_small", "by_key", "by_text", "primary"}

var zoneKeys = []string{`"primary_key":["part"],"sort_key":["id"]`,
	`"primary_key":["part","id"]`,
	`"primary_key":["part","small"],"sort_key":[{"column":"id","desc":true}]`}

// TestZonesChangeNoResult compares queries with the same queries over a store that leaves out no
// blocks, while rows are written over each other, deleted, flushed and merged, and columns come
// and go.
//
// Promise (tables): Column zones change what is read and never what is found, whatever lies
// beneath a block and whatever the definition was when it was written.
func TestZonesChangeNoResult(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	seed := testutil.Seed(t)
	pruned := uint64(0)
	for i := range uint64(testutil.Effort(3, 40)) {
		t.Run(fmt.Sprint("program ", i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, i))
			db := openOn(t, engine.Options{BlockBytes: 1 << 10, MaxRuns: 3 + 20*rng.IntN(2)}, nil)
			r := &zoneRun{T: t, rng: rng, db: db,
				tab: create(t, db, fmt.Sprintf(zoneTable, zoneKeys[i%3]))}
			for r.round = range 40 {
				r.write()
				r.upkeep()
				if r.round%4 == 3 {
					r.define()
					r.compare(r.now())
				}
			}
			for _, m := range r.old {
				r.compare(m)
				m.done()
			}
			m := local.Engine(db).Metrics()
			pruned += m.PrunedBlocks + m.PrunedFiles
		})
	}
	if pruned == 0 {
		t.Error("no block was left out")
	}
}

func (r *zoneRun) must(err error) {
	r.Helper()
	ok(r, err)
}

const zoneIDs = 400

// write writes or deletes a range of rows. Values rise with ids, from another number each time.
func (r *zoneRun) write() {
	from, n := r.rng.IntN(zoneIDs), 1+r.rng.IntN(80)
	if r.round == 0 || r.rng.IntN(8) == 0 {
		from, n = 0, zoneIDs
	}
	part := fmt.Sprint("p", r.rng.IntN(2))
	if r.round > 0 && r.rng.IntN(4) == 0 {
		_, err := r.tab.DeleteWhere(ctx, expr.And{Terms: []expr.Expr{
			eq(col(r.tab, "part"), part), r.cmp("id", expr.Ge, int64(from)),
			r.cmp("id", expr.Lt, int64(from+n))}})
		r.must(err)
		return
	}
	var rows [][]expr.Value
	base := 300 * r.rng.IntN(3)
	for i := from; i < from+n; i += 1 + r.rng.IntN(2) {
		rows = append(rows, r.row(part, i, base+i))
	}
	_, err := r.tab.PutMany(ctx, slices.Values(rows))
	r.must(err)
}

func (r *zoneRun) row(part string, id, at int) []expr.Value {
	out := r.tab.Schema().Row()
	set := func(name string, v any) {
		o := r.tab.Schema().Column(name)
		if o < 0 || r.tab.Schema().Columns[o].Nullable && r.rng.IntN(6) == 0 {
			return
		}
		out[o] = row(r, v)[0]
	}
	for i := range r.tab.Schema().Columns {
		if c := &r.tab.Schema().Columns[i]; !c.Dropped {
			out[i] = c.DefaultValue()
		}
	}
	set("part", part)
	set("id", id)
	out[2] = zoneTime(at)
	set("n", at)
	set("s", zoneText(at))
	set("f", float64(at)/2)
	out[6] = expr.Scaled(int64(at), 1)
	set("small", at)
	set("c", zoneText(at))
	for i := range r.added {
		set(fmt.Sprint("x", i), at)
	}
	return out
}

func zoneTime(at int) expr.Value { return expr.UnixTime(int64(at), 0) }

// zoneText returns a text that is longer than bounds, or has a zero byte, or is short.
func zoneText(at int) string {
	switch at % 3 {
	case 0:
		return fmt.Sprintf("%04d a text that is longer than bounds", at)
	case 1:
		return fmt.Sprintf("%04d\x00", at)
	}
	return fmt.Sprintf("%04d", at)
}

// upkeep flushes, merges or takes a snapshot.
func (r *zoneRun) upkeep() {
	switch r.rng.IntN(8) {
	case 0, 1, 2, 3:
		r.must(local.Engine(r.db).Flush(ctx))
	case 4:
		r.must(local.Engine(r.db).Compact(ctx))
	case 5:
		if len(r.old) < 3 {
			now := r.now()
			zones, err := now.zones.(*table.DB).Snapshot(ctx)
			r.must(err)
			none, err := now.none.(*table.DB).Snapshot(ctx)
			r.must(err)
			r.old = append(r.old, zoneMoment{now.def, zones, none, func() {
				r.must(zones.Close())
				r.must(none.Close())
			}})
		}
	}
}

// now returns the present.
func (r *zoneRun) now() zoneMoment {
	none, err := table.OpenStore(ctx, unzonedOf(local.Engine(r.db)), nil)
	r.must(err)
	return zoneMoment{def: r.tab.Schema(), zones: r.db, none: none}
}

// define changes the definition.
func (r *zoneRun) define() {
	def := r.tab.Schema()
	switch r.rng.IntN(4) {
	case 3:
		r.must(r.db.SetZones(ctx, "t", r.zones(def)))
	case 0:
		v := expr.Int(int64(r.rng.IntN(1000)))
		c := schema.Column{Name: fmt.Sprint("x", r.added), Type: keycodec.TypeInt64, Default: &v,
			Nullable: r.rng.IntN(2) == 0}
		r.added++
		r.must(r.db.AddColumn(ctx, "t", c))
	case 1:
		if name := fmt.Sprint("x", r.rng.IntN(r.added+1)); def.Column(name) >= 0 {
			r.must(r.db.DropColumn(ctx, "t", name))
		}
	case 2:
		from, to := "n", "renamed"
		if def.Column(from) < 0 {
			from, to = to, from
		}
		r.must(r.db.RenameColumn(ctx, "t", from, to))
	}
}

// zones returns some columns that may have zones, or nil.
func (r *zoneRun) zones(def *schema.Table) (names []string) {
	if r.rng.IntN(3) == 0 {
		return nil
	}
	names = []string{}
	for i := range def.Columns {
		if c := &def.Columns[i]; i > 1 && c.Zoned() && r.rng.IntN(2) == 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

func (r *zoneRun) cmp(name string, op expr.Op, v any) expr.Expr {
	return expr.Cmp{Op: op, L: col(r.tab, name), R: expr.Const{Value: row(r, v)[0]}}
}

// term returns a random condition on a column.
func (r *zoneRun) term(def *schema.Table) expr.Expr {
	at := r.rng.IntN(1100)
	o := 1 + r.rng.IntN(len(def.Columns)-1)
	for def.Columns[o].Dropped {
		o = 1 + r.rng.IntN(len(def.Columns)-1)
	}
	value := func(at int) expr.Expr {
		var v expr.Value
		switch def.Columns[o].Type {
		case keycodec.TypeTime:
			v = zoneTime(at)
		case keycodec.TypeString:
			v = expr.String(zoneText(at))
		default:
			v = row(r, []any{at, float64(at) / 2}[r.rng.IntN(2)])[0]
		}
		return expr.Const{Value: v}
	}
	var c expr.Expr = def.Ref(0, o)
	switch r.rng.IntN(9) {
	case 0:
		return expr.Between{X: c, Lo: value(at), Hi: value(at + r.rng.IntN(100)),
			Not: r.rng.IntN(4) == 0}
	case 1:
		return expr.In{X: c, List: []expr.Expr{value(at), value(at + 5), value(at / 2)}}
	case 2:
		return expr.IsNull{X: c, Not: r.rng.IntN(2) == 0}
	case 3:
		if def.Columns[o].Type == keycodec.TypeString {
			return expr.BeginsWith{X: c, Prefix: expr.Const{
				Value: expr.String(fmt.Sprintf("%03d", at/10))}}
		}
	}
	ops := []expr.Op{expr.Eq, expr.Ne, expr.Lt, expr.Le, expr.Gt, expr.Ge}
	return expr.Cmp{Op: ops[r.rng.IntN(len(ops))], L: c, R: value(at)}
}

// compare compares random queries with those that leave out no blocks.
func (r *zoneRun) compare(m zoneMoment) {
	for range 30 {
		terms := []expr.Expr{r.term(m.def)}
		for r.rng.IntN(2) == 0 {
			terms = append(terms, r.term(m.def))
		}
		if r.rng.IntN(3) > 0 {
			terms = append(terms, eq(m.def.Ref(0, 0), fmt.Sprint("p", r.rng.IntN(2))))
		}
		var where expr.Expr = expr.And{Terms: terms}
		if r.rng.IntN(6) == 0 {
			where = expr.Or{Terms: terms}
		}
		sel := &plan.Select{From: []plan.Source{{Table: m.def}}, Where: where}
		if r.rng.IntN(2) == 0 {
			sel.Hints.Index = map[int]string{0: zoneIndexes[r.rng.IntN(len(zoneIndexes))]}
		}
		if r.rng.IntN(3) == 0 {
			sel.OrderBy = []plan.Order{{Expr: m.def.Ref(0, 2)}}
		}
		switch r.rng.IntN(8) {
		case 0:
			sel.Aggregates = []plan.Aggregate{{Func: plan.Count}}
			sel.OrderBy = nil
		case 1, 2:
			sel.Aggregates, sel.OrderBy = r.extremes(m.def), nil
			if r.rng.IntN(3) == 0 {
				sel.Where = nil
			}
		}
		got, want := all(r, m.zones, sel), all(r, m.none, sel)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			r.Fatalf("%s\nhas %d rows, without zones %d\n%s\n\n%s", where, len(got), len(want),
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// extremes returns MIN and MAX of some columns.
func (r *zoneRun) extremes(def *schema.Table) (out []plan.Aggregate) {
	for range 1 + r.rng.IntN(2) {
		o := r.rng.IntN(len(def.Columns))
		for def.Columns[o].Dropped {
			o = r.rng.IntN(len(def.Columns))
		}
		f := []plan.AggregateFunc{plan.Min, plan.Max}[r.rng.IntN(2)]
		out = append(out, plan.Aggregate{Func: f, Arg: def.Ref(0, o)})
	}
	return out
}

// TestZonesOfARisingColumn counts the blocks that are read for 3 of 300,000 rows.
func TestZonesOfARisingColumn(t *testing.T) {
	n := testutil.Effort(30_000, 300_000)
	db := openOn(t, engine.Options{}, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"src","type":"string"},
	 {"name":"id","type":"int64"},{"name":"at","type":"time","unit":"ms"},
	 {"name":"text","type":"string"}],"primary_key":["src"],"sort_key":["id"]}`)
	fill := strings.Repeat("some text ", 8)
	_, err := tab.PutMany(ctx, func(yield func([]expr.Value) bool) {
		for i := range n {
			src := []string{"a", "b"}[i%2]
			r := []expr.Value{expr.String(src), expr.Int(int64(i)), zoneTime(i), expr.String(fill)}
			if !yield(r) {
				return
			}
		}
	})
	if err == nil {
		err = local.Engine(db).Compact(ctx)
	}
	ok(t, err)
	sel := from(tab, expr.And{Terms: []expr.Expr{eq(col(tab, "src"), "a"),
		expr.Cmp{Op: expr.Gt, L: col(tab, "at"), R: expr.Param{}}}})
	rows, err := db.Query(ctx, sel, zoneTime(n-7))
	ok(t, err)
	if got := texts(t, rows); len(got) != 3 {
		t.Fatalf("%d rows, want 3: %q", len(got), got)
	}
	e, err := rows.ExplainAnalyze()
	ok(t, err)
	t.Log(e)
	zones, _ := e.Attr("zones")
	if !strings.Contains(zones, "at >= ") {
		t.Errorf("EXPLAIN has the zones %q", zones)
	}
	b := e.Actual.Blocks
	if b.Read == 0 || b.Read*50 > b.Read+b.Skipped || b.Skipped < int64(n)/2*80/8192 {
		t.Errorf("%d blocks were read, %d skipped", b.Read, b.Skipped)
	}
	extremesOfARisingColumn(t, db, tab, n)
}

// TestZonesOfOldBlocks changes which columns have zones.
//
// Promise (tables): Zones of a table can be changed, and blocks that are written from then on have
// the new ones.
func TestZonesOfOldBlocks(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	db := openOn(t, engine.Options{MaxRuns: 50}, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"at","type":"int64"},{"name":"text","type":"string"}],"primary_key":["id"],
	 "zones":[]}`)
	fill := strings.Repeat("some text ", 40)
	write := func(from int) {
		var rows [][]expr.Value
		for i := from; i < from+10_000; i++ {
			rows = append(rows, row(t, i, i, fill))
		}
		_, err := tab.PutMany(ctx, slices.Values(rows))
		if err == nil {
			err = local.Engine(db).Flush(ctx)
		}
		ok(t, err)
	}
	skipped := func(want bool) {
		t.Helper()
		below := expr.Cmp{Op: expr.Lt, L: col(tab, "at"), R: expr.Param{}}
		rows, err := db.Query(ctx, from(tab, below), expr.Int(-1))
		if err != nil || len(texts(t, rows)) != 0 {
			t.Fatal("there are rows below 0, or", err)
		}
		e, err := rows.ExplainAnalyze()
		ok(t, err)
		b := e.Actual.Blocks
		if b.Skipped > 0 != want {
			t.Errorf("%d blocks were read, %d skipped\n%s", b.Read, b.Skipped, e)
		}
	}
	set := func(columns []string) {
		t.Helper()
		ok(t, db.SetZones(ctx, "t", columns))
	}
	write(0)
	skipped(false)
	set([]string{"at"})
	skipped(false)
	write(10_000)
	skipped(true)
	set([]string{})
	skipped(false)
	set(nil)
	skipped(true)
	for _, columns := range [][]string{{"none"}, {"id"}, {"at", "at"}} {
		if err := db.SetZones(ctx, "t", columns); err == nil {
			t.Errorf("there are zones of %q", columns)
		}
	}
}

// extremesOfARisingColumn counts the blocks that are read for MIN and MAX: those at an end of each
// partition.
func extremesOfARisingColumn(t *testing.T, db *table.DB, tab *table.Table, n int) {
	for f, want := range map[plan.AggregateFunc]int{plan.Min: 0, plan.Max: n - 1} {
		sel := from(tab, nil)
		sel.Aggregates = []plan.Aggregate{{Func: f, Arg: col(tab, "at")}}
		rows, err := db.Query(ctx, sel)
		ok(t, err)
		if got := fmt.Sprint(texts(t, rows)); got != fmt.Sprint([]string{zoneTime(want).String()}) {
			t.Errorf("%v is %s, want %v", f, got, zoneTime(want))
		}
		e, err := rows.ExplainAnalyze()
		ok(t, err)
		t.Log(e)
		for len(e.Children) > 0 {
			e = e.Children[0]
		}
		if b := e.Actual.Blocks; b.Read == 0 || b.Read > 4 || b.Skipped < int64(n)*80/8192 {
			t.Errorf("%v reads %d blocks, skips %d", f, b.Read, b.Skipped)
		}
	}
}
