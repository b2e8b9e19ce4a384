package exec_test

import (
	"context"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/testutil"
)

// directRuns counts what checkDirect has done.
type directRuns struct{ rows, stored, trees int }

// plain hides that a reader can hand over what MultiGet has found as it is.
type plain struct{ store.Reader }

// checkDirect runs the one operator of a query, if it has one: its rows must be those of the
// tree, in the same order.
func (w *world) checkDirect(p *plan.Prepared, snap store.Reader, params []expr.Value,
	want []string) {
	w.t.Helper()
	short := p.Physical()
	if short == nil {
		return
	}
	for _, reader := range []store.Reader{snap, plain{snap}} {
		var got []string
		reading, err := exec.RunPhysical(context.Background(), reader, short,
			&exec.Request{Params: params}, sink{values: func(row []expr.Value) bool {
				got = append(got, text(row))
				return true
			}})
		if reading.Tree {
			w.direct.trees++
			return
		}
		if err != nil || !slices.Equal(got, want) {
			w.t.Fatalf("%+v: %v\n got %q\nwant %q", short, err, got, want)
		}
		w.direct.rows += len(got)
	}
	if !short.Stored() || slices.ContainsFunc(short.Columns,
		func(c plan.ResultColumn) bool { return c.Program != nil }) {
		return
	}
	var got []string
	row := short.Table.Row()
	var columns schema.ColumnSet
	for _, c := range short.Columns {
		columns.Add(c.Ordinal)
	}
	most := int64(len(want)) - 1
	_, err := exec.RunPhysical(context.Background(), snap, short,
		&exec.Request{Params: params, Stored: true, Most: most},
		sink{stored: func(key store.Key, value []byte) bool {
			ok(w.t, short.Table.Decode(row, key, value, &columns))
			var out []expr.Value
			for _, c := range short.Columns {
				out = append(out, row[c.Ordinal])
			}
			got = append(got, text(out))
			return true
		}})
	if most < 0 {
		most = 0
	}
	if err != nil || !slices.Equal(got, want[:min(int(most), len(want))]) {
		w.t.Fatalf("stored rows of %+v: %v\n got %q\nwant %q", short, err, got, want[:most])
	}
	w.direct.stored += len(got)
}

// sink is an exec.Sink of functions.
type sink struct {
	values func(row []expr.Value) bool
	stored func(key store.Key, value []byte) bool
}

func (s sink) Values(row []expr.Value) bool            { return s.values(row) }
func (s sink) Stored(key store.Key, value []byte) bool { return s.stored(key, value) }

// A run of one operator allocates for the query, nothing for rows.
func TestFrameAllocatesNothingForRows(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	w := newWorld(t)
	tab := table(t, 7, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"a","type":"int64"},{"name":"s","type":"string"}],"primary_key":["id"],
	 "indexes":[{"name":"ka","columns":["a"],"shard":"mix64:4"}]}`)
	for i := range int64(500) {
		w.insert(tab, []expr.Value{expr.Int(i), expr.Int(i), expr.String("some text")})
	}
	sel := &plan.Select{From: []plan.Source{{Table: tab}},
		Where:   expr.Cmp{Op: expr.Ge, L: tab.Ref(0, 1), R: expr.Param{Index: 0}},
		OrderBy: []plan.Order{{Expr: tab.Ref(0, 1)}}, Limit: expr.Param{Index: 1}}
	p, err := plan.Prepare(sel, plan.Options{})
	ok(t, err)
	run := func(limit int64) float64 {
		params := []expr.Value{expr.Int(100), expr.Int(limit)}
		return testutil.AllocsPerRun(50, func() {
			n := int64(0)
			_, err := exec.RunPhysical(context.Background(), w.store, p.Physical(),
				&exec.Request{Params: params}, sink{values: func([]expr.Value) bool {
					n++
					return true
				}})
			if err != nil || n != limit {
				t.Fatal(n, err)
			}
		})
	}
	run(300) // until buffers have their size
	if few, many := run(10), run(300); few > 12 || many > few+4 {
		t.Errorf("%v allocations for 10 rows, %v for 300", few, many)
	}
}

// expectedRows are plan.Stats of tables of so many rows.
type expectedRows float64

func (n expectedRows) Table(*schema.Table) *plan.TableStats {
	return &plan.TableStats{Epoch: 1, Rows: float64(n)}
}

// TestFrameReadsFewRows: a scan of a table of few rows is not left to a tree.
func TestFrameReadsFewRows(t *testing.T) {
	w := newWorld(t)
	tab := table(t, 7, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"a","type":"int64"}],"primary_key":["id"]}`)
	for i := range int64(10) {
		w.insert(tab, []expr.Value{expr.Int(i), expr.Int(i)})
	}
	sel := &plan.Select{From: []plan.Source{{Table: tab}},
		Where: expr.Cmp{Op: expr.Ge, L: tab.Ref(0, 1), R: expr.Param{Index: 0}}}
	p, err := plan.Prepare(sel, plan.Options{Stats: expectedRows(10)})
	ok(t, err)
	for _, reader := range []store.Reader{w.store, plain{w.store}} {
		n := 0
		read, err := exec.RunPhysical(context.Background(), reader, p.Physical(),
			&exec.Request{Params: []expr.Value{expr.Int(4)}},
			sink{values: func([]expr.Value) bool { n++; return true }})
		if err != nil || n != 6 || read.Tree || read.Keys != 10 {
			t.Errorf("%d rows, %+v, %v; want 6 of 10 without a tree", n, read, err)
		}
	}
}

// TestSingleRowsAfterRanges: rows that are read by their keys, after blocks of others, are joined
// and sorted as those are.
func TestSingleRowsAfterRanges(t *testing.T) {
	w := newWorld(t)
	left := table(t, 7, `{"name":"l","columns":[{"name":"id","type":"int64"},
	 {"name":"k","type":"int64"}],"primary_key":["id"]}`)
	right := table(t, 8, `{"name":"r","columns":[{"name":"k","type":"int64"}],
	 "primary_key":["k"]}`)
	var joined []string
	for i := range int64(3000) { // so that stripes have blocks
		w.insert(left, []expr.Value{expr.Int(i), expr.Int(i)})
		if i%3 != 0 {
			continue
		}
		w.insert(right, []expr.Value{expr.Int(i)})
		if i < 2500 || i == 2700 || i == 2703 {
			joined = append(joined, text([]expr.Value{expr.Int(i)}))
		}
	}
	number := func(n int64) expr.Expr { return expr.Const{Value: expr.Int(n)} }
	id, k := left.Ref(0, 0), left.Ref(0, 1)
	some := &plan.Select{From: []plan.Source{{Table: left}}, Columns: []plan.Output{{Expr: id}},
		Where: expr.Or{Terms: []expr.Expr{expr.Cmp{Op: expr.Lt, L: id, R: number(2500)},
			expr.In{X: id, List: []expr.Expr{number(2700), number(2701), number(2703)}}}}}
	join := *some
	join.From = append(join.From, plan.Source{Table: right})
	join.Joins = []plan.Join{{On: expr.Cmp{Op: expr.Eq, L: k, R: right.Ref(1, 0)}}}
	join.Hints = plan.Hints{ForceJoin: "hash", ForceOrder: true}
	got, p, err := w.run(&join, plan.Options{}, exec.Options{Workers: 1})
	slices.Sort(got)
	slices.Sort(joined)
	if err != nil || !slices.Equal(got, joined) {
		t.Errorf("joined: %v, %d rows, want %d\n%s", err, len(got), len(joined), p.Explain())
	}
	last := *some
	last.OrderBy, last.Limit = []plan.Order{{Expr: k, Desc: true}}, number(2)
	got, p, err = w.run(&last, plan.Options{}, exec.Options{Workers: 1})
	if err != nil || !slices.Equal(got, []string{"2703|", "2701|"}) {
		t.Errorf("sorted: %v, %q\n%s", err, got, p.Explain())
	}
}
