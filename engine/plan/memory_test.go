package plan_test

import (
	"context"
	"math"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/exec"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// memory is a database in memory with rows of tables, which plans are run on. What they return is
// compared with an evaluation that knows nothing of plans.
type memory struct {
	rows  map[string][][]expr.Value // by table
	store *local.Store
	runs  int
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newMemory(t testing.TB) *memory {
	t.Helper()
	e, err := engine.Open("db", &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	return &memory{rows: map[string][][]expr.Value{}, store: local.New(e)}
}

// load stores rows with all entries of their indexes. Rows whose keys are there are left out.
func (m *memory) load(t *schema.Table, rows [][]expr.Value) {
	for _, row := range rows {
		pk, sk, err := t.AppendRowKey(nil, nil, row)
		if err != nil {
			panic(err)
		}
		key := store.Key{PK: pk, SK: sk}
		var set store.WriteSet
		set.PutIf(key, must(t.AppendRow(nil, row)), store.Absent())
		var c schema.Changes
		if err := t.Compute(&c, key, nil, row, false); err != nil {
			panic(err)
		}
		for _, e := range c.Put {
			set.PutIf(store.Key{PK: e.PK, SK: e.SK}, e.Value, store.Absent())
		}
		if m.store.Commit(context.Background(), &set) == nil {
			m.rows[t.Name] = append(m.rows[t.Name], row)
		}
	}
}

// run returns the rows of a plan. In every other one, what may go over to another way does so at
// once.
func (m *memory) run(p *plan.Plan) (out [][]expr.Value, err error) {
	ctx := context.Background()
	snap, err := m.store.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	m.runs++
	turn(p.Root, []float64{0, math.MaxFloat64}[m.runs%2])
	rows, err := exec.Run(ctx, snap, p, exec.Options{})
	if err != nil {
		return nil, err
	}
	for row, err := range exec.Sequence(rows) {
		if err != nil {
			return nil, err
		}
		out = append(out, exec.Clone(row))
	}
	return out, nil
}

// turn sets what the first ways of a plan may cost.
func turn(n plan.Node, cost float64) {
	switch n := n.(type) {
	case *plan.JoinNode:
		n.Bound.Cost = cost
	case *plan.Fallback:
		n.Bound.Cost = cost
	}
	for _, c := range n.Children() {
		turn(c, cost)
	}
}
