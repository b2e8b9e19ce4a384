package exec

import (
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// group makes a row of each group: its keys, then its aggregates.
type group struct {
	*runner
	input operator
	wants *extremes // what the input is told of the aggregates, nil if nothing
	mode  plan.GroupMode
	keys  *keyMaker
	aggs  []aggregate
	out   []expr.Value
}

func (r *runner) group(n *plan.Group) (operator, error) {
	if n.Mode == plan.GroupPerBucket {
		if op, err := r.perBucket(n); op != nil || err != nil {
			return op, err
		}
	}
	if a, ok := n.Input.(*plan.Access); ok && a.Extremes != nil {
		r.extremes = &extremes{node: a}
	}
	wants := r.extremes
	input, err := r.compile(n.Input)
	r.extremes = nil
	if err != nil {
		return nil, err
	}
	g, err := r.groupOver(n, input)
	if err != nil {
		return nil, err
	}
	g.wants = wants
	return g, nil
}

// groupOver returns the group over an input that is compiled already.
func (r *runner) groupOver(n *plan.Group, input operator) (*group, error) {
	keys, err := r.keyMaker(n.Keys)
	if err != nil {
		return nil, err
	}
	aggs, err := r.aggregates(n.Aggregates)
	return &group{runner: r, input: input, mode: n.Mode, keys: keys, aggs: aggs,
		out: make([]expr.Value, len(n.Keys)+len(aggs))}, err
}

func (g *group) run(yield func([]expr.Value) bool) error {
	used := g.budget.used
	defer func() { g.budget.used = used }()
	switch {
	case len(g.keys.programs) == 0:
		accs, err := g.total()
		if err != nil {
			return err
		}
		_, err = g.emit(nil, accs, yield)
		return err
	case g.mode == plan.GroupHash:
		return g.hash(yield)
	}
	return g.streaming(yield)
}

// emit yields the row of one group.
func (g *group) emit(key []expr.Value, accs []accumulator, yield func([]expr.Value) bool,
) (more bool, err error) {
	n := copy(g.out, key)
	for i := range accs {
		if g.out[n+i], err = accs[i].result(&g.aggs[i]); err != nil {
			return false, err
		}
	}
	return yield(g.out), nil
}

func (g *group) add(accs []accumulator, row []expr.Value) error {
	for i := range accs {
		if err := accs[i].add(g.runner, &g.aggs[i], row); err != nil {
			return err
		}
	}
	return nil
}

// total aggregates everything as one group.
func (g *group) total() ([]accumulator, error) {
	accs := make([]accumulator, len(g.aggs))
	if g.wants != nil {
		g.wants.accs = accs
	}
	var failed error
	err := g.input.run(func(row []expr.Value) bool {
		failed = g.add(accs, row)
		return failed == nil
	})
	return accs, first(failed, err)
}

// hash keeps all groups. They come out in the order of their first rows.
func (g *group) hash(yield func([]expr.Value) bool) error {
	table := newKeyTable(len(g.keys.programs))
	var accs [][]accumulator
	var keys [][]expr.Value // as they are, where the table has canonical ones
	var failed error
	err := g.input.run(func(row []expr.Value) bool {
		var i int
		if i, failed = g.find(table, row); failed != nil {
			return false
		}
		if i == len(accs) {
			var key []expr.Value
			if key, failed = g.keys.values(row, g.params); failed != nil {
				return false
			}
			keys = append(keys, clone(key))
			accs = append(accs, make([]accumulator, len(g.aggs)))
			bytes := table.bytes() + rowBytes(key) + int64(len(g.aggs))*64
			if failed = g.budget.take("hash grouping", bytes); failed != nil {
				return false
			}
		}
		failed = g.add(accs[i], row)
		return failed == nil
	})
	if err := first(failed, err); err != nil {
		return err
	}
	for i := range accs {
		if more, err := g.emit(keys[i], accs[i], yield); err != nil || !more {
			return err
		}
	}
	return nil
}

// find returns the number of the row's group, adding it if it is new.
func (g *group) find(table *keyTable, row []expr.Value) (int, error) {
	key, _, err := g.keys.canonical(row, g.params)
	if err != nil {
		return 0, err
	}
	i, _ := table.add(key)
	return i, nil
}

// streaming keeps one group: its rows are neighbours.
func (g *group) streaming(yield func([]expr.Value) bool) error {
	width := len(g.keys.programs)
	current := make([]expr.Value, width) // canonical
	shown := make([]expr.Value, width)   // as it is
	var accs []accumulator
	var failed error
	stopped := false
	err := g.input.run(func(row []expr.Value) bool {
		var key []expr.Value
		if key, _, failed = g.keys.canonical(row, g.params); failed != nil {
			return false
		}
		if accs == nil || !equalValues(key, current) {
			if accs != nil {
				var more bool
				if more, failed = g.emit(shown, accs, yield); failed != nil || !more {
					stopped = true
					return false
				}
			}
			accs = g.begin(accs, current, shown, key, row)
		}
		failed = g.add(accs, row)
		return failed == nil
	})
	if err := first(failed, err); err != nil || stopped || accs == nil {
		return err
	}
	_, err = g.emit(shown, accs, yield)
	return err
}

// begin starts a group, in the memory of the one before.
func (g *group) begin(accs []accumulator, current, shown, key, row []expr.Value) []accumulator {
	for i := range key {
		current[i] = key[i].Clone()
	}
	if plain, err := g.keys.values(row, g.params); err == nil { // it was evaluated before
		for i := range plain {
			shown[i] = plain[i].Clone()
		}
	}
	if accs == nil {
		return make([]accumulator, len(g.aggs))
	}
	clear(accs)
	return accs
}
