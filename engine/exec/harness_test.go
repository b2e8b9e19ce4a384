package exec_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

var ok = testutil.OK

// world is a database with tables and what is in them.
type world struct {
	t     *testing.T
	db    *engine.DB
	fs    vfs.FS
	store *local.Store
	rows  map[*schema.Table][][]expr.Value

	direct directRuns
	turned turned
	bound  func() float64 // makes the bounds of plans; nil: they are the planner's
}

func newWorld(t *testing.T) *world {
	t.Helper()
	fsys := vfs.NewMem()
	opened, err := openfs.Open(fsys, "db", &engine.Options{})
	ok(t, err)
	db := opened.(*engine.DB)
	t.Cleanup(func() { ok(t, db.Close()) })
	return &world{t: t, db: db, fs: fsys, store: local.New(db),
		rows: map[*schema.Table][][]expr.Value{}}
}

// table makes a table of its JSON form, with all indexes ready.
func table(t *testing.T, id uint32, text string) *schema.Table {
	t.Helper()
	tab, err := schema.Parse([]byte(text))
	if err == nil {
		def := *tab
		def.ID = id
		tab, err = schema.New(def)
	}
	for i := 0; err == nil && i < len(tab.Indexes); i++ {
		tab, err = tab.SetIndexState(tab.Indexes[i].Name, schema.Ready)
	}
	ok(t, err)
	return tab
}

// insert writes a row and its entries; rows whose key is there are left out.
func (w *world) insert(tab *schema.Table, row []expr.Value) {
	w.t.Helper()
	pk, sk, err := tab.AppendRowKey(nil, nil, row)
	ok(w.t, err)
	key := store.Key{PK: pk, SK: sk}
	value, err := tab.AppendRow(nil, row)
	ok(w.t, err)
	var set store.WriteSet
	set.PutIf(key, value, store.Absent())
	var c schema.Changes
	ok(w.t, tab.Compute(&c, key, nil, row, false))
	for _, e := range c.Put {
		set.PutIf(store.Key{PK: e.PK, SK: e.SK}, e.Value, store.Absent())
	}
	if err := w.store.Commit(context.Background(), &set); err == nil {
		w.rows[tab] = append(w.rows[tab], row)
	}
}

// run returns the rows of a query as texts, and the plan.
func (w *world) run(sel *plan.Select, opt plan.Options, o exec.Options, params ...expr.Value,
) ([]string, *plan.Plan, error) {
	prepared, err := plan.Prepare(sel, opt)
	if err != nil {
		return nil, nil, err
	}
	p, err := prepared.Bind(params)
	if err != nil {
		return nil, nil, err
	}
	snap, err := w.store.Snapshot(context.Background())
	if err != nil {
		return nil, nil, err
	}
	defer snap.Close()
	if w.bound != nil {
		w.turned.set(p.Root, w.bound)
	}
	rows, err := exec.Run(context.Background(), snap, p, o)
	if err != nil {
		return nil, p, err
	}
	var out []string
	for row, err := range exec.Sequence(rows) {
		if err != nil {
			return out, rows.Plan(), err
		}
		out = append(out, text(row[:len(p.Columns)]))
	}
	w.turned.count(rows.Plan().Root)
	w.checkDirect(prepared, snap, params, out)
	return out, rows.Plan(), nil
}

// turned counts the operators that went over to another way.
type turned struct{ lookups, fallbacks int }

// set makes the bounds of a plan those that cost returns.
func (t *turned) set(n plan.Node, cost func() float64) {
	switch n := n.(type) {
	case *plan.JoinNode:
		n.Bound.Cost = cost()
	case *plan.Fallback:
		n.Bound.Cost = cost()
	}
	for _, c := range n.Children() {
		t.set(c, cost)
	}
}

func (t *turned) count(n plan.Node) {
	if n.Actual().Turned > 0 {
		switch n.(type) {
		case *plan.JoinNode:
			t.lookups++
		case *plan.Fallback:
			t.fallbacks++
		}
	}
	for _, c := range n.Children() {
		t.count(c)
	}
}

// text renders a row so that equal rows have equal texts. Capitals are in the column with
// a collation only.
func text(row []expr.Value) string {
	out := ""
	for _, v := range row {
		out += strings.ToLower(v.Canonical().String()) + "|"
	}
	return out
}

const peopleTable = `{"name":"people","columns":[
 {"name":"city","type":"string"},{"name":"id","type":"int32"},
 {"name":"age","type":"int16","nullable":true},{"name":"name","type":"string","nullable":true},
 {"name":"score","type":"float64","nullable":true},{"name":"note","type":"string"},
 {"name":"tags","type":"string","list":true}],
 "primary_key":["city"],"sort_key":["id"],
 "indexes":[
  {"name":"by_tag","columns":[{"column":"tags","each":true},"age"],"shard":"mix64:3"},
  {"name":"local_id","columns":["id","city"],"unique":true,"local":true},
  {"name":"adults","columns":[{"column":"name","desc":true,"nulls":"last"}],"include":["age"],
   "where":ADULTS},
  {"name":"by_age","columns":["age","name"]},
  {"name":"by_age_sharded","columns":["age",{"column":"id","desc":true}],"shard":"mix64:4"},
  {"name":"by_id","columns":["id","city"],"unique":true,"shard":"tidb:16"},
  {"name":"by_name_local","columns":["name"],"local":true,"include":["score"]},
  {"name":"by_score","columns":[{"column":"score","desc":true}],"include":["age"]}]}`

const citiesTable = `{"name":"cities","columns":[
 {"name":"name","type":"string"},{"name":"size","type":"int64"},
 {"name":"mayor","type":"int32","nullable":true},
 {"name":"saint","type":"string","nullable":true,"collate":"ascii"}],
 "primary_key":["name"],
 "indexes":[{"name":"by_mayor","columns":["mayor"]},{"name":"by_size","columns":["size"],
  "shard":"mix64:8"},{"name":"by_saint","columns":["saint","size"],"local":true}]}`

// fill makes the two tables with random rows.
func fill(t *testing.T, w *world, rng *rand.Rand, rows int) (people, cities *schema.Table) {
	t.Helper()
	people, cities = table(t, 1, peopleDefinition(t)), table(t, 2, citiesTable)
	null := func(v expr.Value) expr.Value {
		if rng.IntN(8) == 0 {
			return expr.Null()
		}
		return v
	}
	for i := range rows {
		w.insert(people, []expr.Value{
			expr.String(cityName(rng)), expr.Int(int64(i)),
			null(expr.Int(rng.Int64N(20))), null(expr.String(fmt.Sprint("n", rng.IntN(12)))),
			null(expr.Float(float64(rng.IntN(40)) / 4)), expr.String("note"), tags(rng),
		})
	}
	for i := range 10 {
		w.insert(cities, []expr.Value{expr.String(fmt.Sprint("c", i)),
			expr.Int(rng.Int64N(6)), null(expr.Int(rng.Int64N(int64(rows)))),
			null(expr.String(fmt.Sprint([]string{"n", "N"}[rng.IntN(2)], rng.IntN(12))))})
	}
	return people, cities
}

// peopleDefinition is the table with the condition of its partial index.
func peopleDefinition(t *testing.T) string {
	t.Helper()
	where, err := expr.MarshalExpr(expr.Cmp{Op: expr.Ge,
		L: expr.Column{Ordinal: 2, Name: "age"}, R: expr.Const{Value: expr.Int(10)}})
	ok(t, err)
	return strings.Replace(peopleTable, "ADULTS", string(where), 1)
}

// tags returns a list of up to three texts, with repetitions.
func tags(rng *rand.Rand) expr.Value {
	var list []expr.Value
	for range rng.IntN(4) {
		list = append(list, expr.String(fmt.Sprint("t", rng.IntN(5))))
	}
	return expr.List(list)
}

func cityName(rng *rand.Rand) string { return fmt.Sprint("c", rng.IntN(12)) }
