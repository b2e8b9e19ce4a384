package exec

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// group makes a row of each group: its keys, then its aggregates.
type group struct {
	*runner
	node     *plan.Group
	input    operator
	division *division // of the input; nil: it is not divided
	wants    *extremes // which extremes the input has to return, or nil
	keys     *keyMaker
	aggs     []aggregate
	out      []expr.Value
}

func (r *runner) group(n *plan.Group) (operator, error) {
	if store, ok := r.reader.(store.Counter); ok && n.Counts() {
		return r.countRows(n, store), nil
	}
	d, err := r.divide(n.Input, r.divisions.Below(n))
	if err != nil {
		return nil, err
	}
	if d != nil {
		g, err := r.groupOver(n, d.caller.op)
		if err != nil {
			return nil, err
		}
		g.division = d
		return g, nil
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
	return &group{runner: r, node: n, input: input, keys: keys, aggs: aggs,
		out: make([]expr.Value, len(n.Keys)+len(aggs))}, err
}

func (g *group) run(yield func([]expr.Value) bool) error {
	switch {
	case len(g.keys.terms) == 0:
		accs, err := g.total()
		if err != nil {
			return err
		}
		_, err = g.emit(nil, accs, yield)
		return err
	case g.division != nil:
		return g.hashDivided(yield)
	case g.node.Mode == plan.GroupHash:
		spool := g.spool("hash grouping", g.actual(g.node))
		defer spool.close()
		return g.hash(spool, number(g.input),
			func(_ int64, row []expr.Value) bool { return yield(row) })
	}
	return g.streaming(yield)
}

// aggregation returns one without groups.
func (g *group) aggregation() *aggregation {
	return &aggregation{runner: g.runner, aggs: g.aggs, texts: g.keeper("group_concat"),
		spool: g.spoolOf("distinct aggregate", g.actual(g.node))}
}

// emit yields the row of one group.
func (g *group) emit(key []expr.Value, accs []accumulator, yield func([]expr.Value) bool,
) (more bool, err error) {
	expr.Copy(g.out, key)
	results := g.out[len(key):]
	for i := range accs {
		if n, ok := accs[i].integer(&g.aggs[i]); ok {
			results[i].SetInt(n)
		} else if results[i], err = accs[i].result(&g.aggs[i]); err != nil {
			return false, err
		}
	}
	return yield(g.out), nil
}

// total aggregates everything as one group.
func (g *group) total() ([]accumulator, error) {
	if g.division != nil {
		return g.totalDivided()
	}
	all := g.aggregation()
	defer all.release()
	all.begin(0)
	if g.wants != nil {
		g.wants.accs = all.accs
	}
	var failed error
	err := g.input.run(func(row []expr.Value) bool {
		failed = all.add(0, row)
		return failed == nil
	})
	if err = first(failed, err); err == nil {
		err = all.finish()
	}
	return all.accs, err
}

// countRows is a group that is the number of rows of an access, which the store knows: the access
// is not compiled.
type countRows struct {
	*runner
	access *plan.Access
	store  store.Counter
	out    []expr.Value
}

func (r *runner) countRows(n *plan.Group, s store.Counter) *countRows {
	return &countRows{r, n.Input.(*plan.Access), s, make([]expr.Value, len(n.Aggregates))}
}

func (c *countRows) run(yield func([]expr.Value) bool) error {
	a := access{runner: c.runner, node: c.access, counts: c.actual(c.access)}
	n := int64(0)
	for i := range c.access.Streams {
		st := &c.access.Streams[i]
		var room [1]store.Range
		ranges := room[:0]
		switch {
		case isPoint(st):
			ranges = append(ranges, store.Point(store.Key{PK: st.PK}))
		case st.PK != nil:
			ranges = append(ranges, a.partition(st))
		default:
			for _, rg := range st.Ranges {
				ranges = append(ranges, a.interval(rg))
			}
		}
		for _, r := range ranges {
			a.countSeeks(r)
			r.Reverse = false
			part, err := c.store.Count(c.ctx, r)
			if n += part; err != nil {
				return err
			}
		}
	}
	a.counts.Loops, a.counts.Rows, a.counts.Keys = a.counts.Loops+1, a.counts.Rows+n,
		a.counts.Keys+n
	for i := range c.out {
		c.out[i].SetInt(n)
	}
	yield(c.out)
	return nil
}

// hashedGroups are those of one pass over an input.
type hashedGroups struct {
	*aggregation
	maker *keyMaker
	rows  *spool
	kept  keeper
	table *keyTable
	keys  rowTable    // as they are, where the table has canonical ones
	seqs  []int64     // of the groups' first rows
	rest  *partitions // rows of groups that there was no room for; nil: none
}

// hash keeps all groups that there is room for, and then those of the rest of the rows, in the
// same way. They come out in the order of their first rows, whose numbers they have.
func (g *group) hash(s *spool, in numbered, yield func(seq int64, row []expr.Value) bool) error {
	h := g.hashed(s)
	defer h.release()
	if err := in.all(h.add); err != nil {
		return err
	}
	return g.finish(h, nil, yield)
}

// hashed returns a pass without groups.
func (g *group) hashed(s *spool) *hashedGroups {
	n := g.node.Expected.Rows
	h := &hashedGroups{aggregation: g.aggregation(), maker: g.keys, rows: s,
		kept: g.keeper(s.operator), table: newKeyTableFor(len(g.keys.terms), n),
		keys: newRowTable(n, len(g.keys.terms)), seqs: make([]int64, 0, roomFor(n))}
	h.accs = make([]accumulator, 0, roomFor(n)*len(g.aggs))
	return h
}

// finish yields the groups, in an order if one is given, and those of the rest.
func (g *group) finish(h *hashedGroups, order []int,
	yield func(seq int64, row []expr.Value) bool) error {
	if err := h.aggregation.finish(); err != nil {
		return err
	}
	rest, s := h.rest, h.rows
	groups := func(yield func(seq int64, row []expr.Value) bool) (more bool, err error) {
		more = true
		for i := 0; i < h.keys.count && more && err == nil; i++ {
			at := i
			if order != nil {
				at = order[i]
			}
			more, err = g.emit(h.keys.row(at), h.of(at), func(row []expr.Value) bool {
				return yield(h.seqs[at], row)
			})
		}
		return more, err
	}
	var before *tape
	if order != nil && rest != nil { // groups of the rest may come between
		var failed error
		before = &tape{spool: s}
		_, err := groups(func(seq int64, row []expr.Value) bool {
			failed = before.add(seq, row)
			return failed == nil
		})
		if err := first(failed, err); err != nil {
			return err
		}
	} else if more, err := groups(yield); err != nil || !more {
		return err
	}
	h.release()
	if rest == nil {
		return nil
	}
	return rest.each(before, func(i int, yield func(int64, []expr.Value) bool) error {
		return g.hash(s, rest.parts[i].each, yield)
	}, yield)
}

func (h *hashedGroups) release() {
	h.kept.release()
	h.aggregation.release()
	h.table, h.keys, h.accs, h.rest = nil, rowTable{}, nil, nil
}

// add takes in a row.
func (h *hashedGroups) add(seq int64, row []expr.Value) error {
	h.at = seq
	key, _, err := h.maker.canonical(row, h.params)
	if err != nil {
		return err
	}
	if h.rest != nil {
		i := h.table.find(key)
		if i < 0 {
			return h.rest.add(key, seq, row)
		}
		if seq < h.seqs[i] { // only in a division
			if key, err = h.maker.values(row, h.params); err != nil {
				return err
			}
			h.seqs[i] = seq
			cloneOver(h.keys.row(i), key)
		}
		return h.aggregation.add(i, row)
	}
	i, added := h.table.add(key)
	if !added {
		return h.aggregation.add(i, row)
	}
	if key, err = h.maker.values(row, h.params); err != nil {
		return err
	}
	h.keys.add(key)
	h.seqs = append(h.seqs, seq)
	h.begin(i)
	spill, err := h.kept.grow(h.table.bytes() + rowBytes(key) + int64(len(h.aggs))*accBytes)
	if err != nil {
		return err
	}
	if spill {
		h.rest = newPartitions(h.rows)
	}
	return h.aggregation.add(i, row)
}

// accBytes is the size of an accumulator and its part of the slices around it.
const accBytes = 72

// streaming keeps one group: its rows are neighbours.
func (g *group) streaming(yield func([]expr.Value) bool) error {
	width := len(g.keys.terms)
	current := make([]expr.Value, width) // canonical
	shown := make([]expr.Value, width)   // as it is
	one, some := g.aggregation(), false
	defer one.release()
	var failed error
	stopped := false
	end := func() (more bool, err error) {
		if err := one.finish(); err != nil {
			return false, err
		}
		return g.emit(shown, one.accs, yield)
	}
	if g.worker != nil { // no group goes on in the next part
		g.worker.ends = append(g.worker.ends, func() bool {
			more := true
			if some {
				some = false
				more, failed = end()
			}
			stopped = !more || failed != nil
			return !stopped
		})
	}
	err := g.input.run(func(row []expr.Value) bool {
		var key []expr.Value
		if key, _, failed = g.keys.canonical(row, g.params); failed != nil {
			return false
		}
		if !some || !slices.Equal(key, current) {
			if some {
				var more bool
				if more, failed = end(); failed != nil || !more {
					stopped = true
					return false
				}
			}
			some = true
			g.begin(one, current, shown, key, row)
		}
		failed = one.add(0, row)
		return failed == nil
	})
	last := some
	some = false // a part of the division around that ends later ends no group here
	if err := first(failed, err); err != nil || stopped || !last {
		return err
	}
	_, err = end()
	return err
}

// begin starts a group, in the memory of the one before.
func (g *group) begin(one *aggregation, current, shown, key, row []expr.Value) {
	for i := range key {
		current[i] = key[i].Clone()
	}
	if plain, err := g.keys.values(row, g.params); err == nil { // it was evaluated before
		for i := range plain {
			shown[i] = plain[i].Clone()
		}
	}
	one.release()
	one.begin(0)
}
