package exec

import (
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// Batches of left rows of a lookup join begin small, for queries that end early, and
// double.
const (
	minProbes = 32
	maxProbes = 1024
)

// lookupJoin reads the partners of batches of left rows by their keys. When that has cost more than
// to read all of the right side, it does so, and becomes a hash join for the rest of the left rows:
// from the first one of the batch in which it was noticed: nothing of that was handed on.
//
// A batch whose partners have no room is divided, down to single rows, whose partners are handed on
// as they are found.
type lookupJoin struct {
	joiner
	node   *plan.JoinNode
	right  *access
	prober prober
	exprs  *keyMaker

	hash  *hashJoin // over Whole; nil until it is needed
	built *hashed   // what it has read; nil: rows are looked up

	first int // the size of the first batch
	size  int
	had   int // half of the size for which there was no room; or maxProbes
	// direct hands on the partners of a batch of one row; nil: they are kept.
	direct func(partner []expr.Value) error
	rows   [][]expr.Value   // the left rows of the batch
	probes []int            // of each left row, -1 for one without partners
	found  [][][]expr.Value // the partners of each probe
	kept   keeper
}

func (r *runner) lookupJoin(n *plan.JoinNode, j joiner) (operator, error) {
	node, ok := n.Right.(*plan.Access)
	if !ok {
		return nil, errNoProbe
	}
	right, err := r.newAccess(node)
	if err != nil {
		return nil, err
	}
	exprs, err := r.keyMaker(node.Probe.Exprs)
	return &lookupJoin{joiner: j, node: n, right: right, prober: prober{node: node}, exprs: exprs,
		first: r.firstBatch(minProbes, maxProbes)}, err
}

// bound begins to count what the lookups cost. In a division it is luck what a worker reads, once
// there are helpers, and so would be the order of the partners of a row: then only the caller
// turns, before, and for all.
func (l *lookupJoin) bound() (err error) {
	l.built, l.right.meter = nil, l.meter
	cost := l.node.Bound.Cost
	if w := l.worker; w != nil && w.index > 0 {
		if l.built, err = w.division.build(l.node, nil); l.built != nil {
			return first(err, l.compileHash())
		}
		if l.inOrder() {
			return err
		}
		cost /= float64(w.division.workers)
	}
	if l.node.Whole != nil {
		l.right.meter = &meter{bound: &l.node.Bound, around: l.meter,
			counts: []*plan.Actual{l.right.counts}}
		l.right.meter.begin(cost)
	}
	return err
}

// inOrder reports whether a left row may have several partners, so that their order shows.
func (l *lookupJoin) inOrder() bool {
	return (l.kind == plan.Inner || l.kind == plan.Left) && !l.right.node.Probe.Unique
}

// compileHash makes the hash join that there is for Whole.
func (l *lookupJoin) compileHash() (err error) {
	if l.hash != nil {
		return nil
	}
	j := l.joiner
	if j.right, err = l.compile(l.node.Whole); err != nil {
		return err
	}
	op, err := l.hashJoin(l.node, j)
	if err == nil {
		l.hash = op.(*hashJoin)
	}
	return err
}

// turn reads the right side into a hash table. If there is no room for it, the lookups go on,
// without a bound.
func (l *lookupJoin) turn() (err error) {
	l.right.meter = l.meter
	if err := l.compileHash(); err != nil {
		return err
	}
	l.actual(l.node).Turned++
	l.built, err = l.hash.buildInMemory(l.spool("lookup join", l.actual(l.node)))
	return err
}

func (l *lookupJoin) run(yield func([]expr.Value) bool) error {
	l.kept = l.keeper("lookup join")
	l.size, l.had = l.first, maxProbes
	if err := l.bound(); err != nil {
		return err
	}
	defer l.reset()
	defer func() {
		if l.built != nil && l.worker == nil {
			l.built.kept.release()
		}
	}()
	var failed error
	stopped := false
	flush := func() bool {
		more := true
		if failed == nil && len(l.rows) > 0 {
			more, failed = l.flush(yield)
		}
		stopped = !more || failed != nil
		return !stopped
	}
	if l.worker != nil {
		l.worker.ends = append(l.worker.ends, flush)
	}
	err := l.left.run(func(row []expr.Value) bool {
		var more bool
		more, failed = l.take(row, yield)
		stopped = !more || failed != nil
		return !stopped
	})
	if err := first(failed, err); err != nil || stopped || len(l.rows) == 0 {
		return err
	}
	_, err = l.flush(yield)
	return err
}

// take takes a left row.
func (l *lookupJoin) take(row []expr.Value, yield func([]expr.Value) bool) (more bool, err error) {
	if l.built != nil {
		return l.hash.probe(l.built, row, yield)
	}
	err = l.add(row)
	full := errors.Is(err, ErrMemory) || err == nil && len(l.rows) >= l.size
	if !full {
		return true, err
	}
	return l.flush(yield)
}

// count counts what the batch keeps, up to a quarter of the memory allowed.
func (l *lookupJoin) count(bytes int64) error {
	err := l.kept.take(bytes)
	if limit := l.budget.limit; err == nil && l.kept.used > limit/4 {
		err = &MemoryError{Operator: l.kept.operator, Limit: limit}
	}
	return err
}

// divide finds the partners of a batch that has no room for them in parts.
func (l *lookupJoin) divide(yield func([]expr.Value) bool) (more bool, err error) {
	rows := slices.Clone(l.rows)
	l.had = len(rows) / 2
	if l.size = l.had; l.size == 0 {
		return l.one(yield)
	}
	l.reset()
	for _, row := range rows {
		if more, err = l.take(row, yield); err != nil || !more {
			return false, err
		}
	}
	if len(l.rows) == 0 {
		return true, nil
	}
	return l.flush(yield)
}

// one hands on the partners of a batch of one row.
func (l *lookupJoin) one(yield func([]expr.Value) bool) (more bool, err error) {
	m, meter := l.setLeft(l.rows[0]), l.right.meter
	defer func() { l.right.meter, l.direct = meter, nil }()
	l.right.meter = l.meter // what is handed on is not found in another way any more
	l.direct = func(partner []expr.Value) error {
		if err := l.try(&m, partner, yield); err != nil || !m.done {
			return err
		}
		return errStopped
	}
	if err := l.read(); err != nil && err != errStopped {
		return false, err
	}
	l.finish(&m, yield)
	l.size = 1
	l.reset()
	return m.more, nil
}

// reset empties the batch.
func (l *lookupJoin) reset() {
	l.rows, l.probes = l.rows[:0], l.probes[:0]
	l.prober.reset()
	clear(l.found)
	l.found = l.found[:0]
	l.kept.release()
}

// add puts a left row into the batch.
func (l *lookupJoin) add(row []expr.Value) error {
	l.rows = append(l.rows, clone(row))
	values, err := l.exprs.values(row, l.params)
	if err != nil {
		return err
	}
	probe := l.prober.add(values)
	if l.probes = append(l.probes, probe); probe == len(l.found) {
		l.found = append(l.found, nil)
	}
	return l.count(rowBytes(row))
}

// flush reads the partners of the batch and yields the pairs in the order of the left
// rows.
func (l *lookupJoin) flush(yield func([]expr.Value) bool) (more bool, err error) {
	if err := check(l.ctx); err != nil {
		return false, err
	}
	if l.worker != nil && l.worker.division.started && l.inOrder() {
		l.right.meter = l.meter
	}
	err = l.read()
	if m := l.right.meter; m != nil && m != l.meter && errors.Is(err, overrun{m}) {
		if err = l.turn(); err == nil && l.built != nil {
			return l.probeAll(yield)
		}
		if err == nil {
			clear(l.found)
			err = l.read()
		}
	}
	if errors.Is(err, ErrMemory) {
		return l.divide(yield)
	}
	if err != nil {
		return false, err
	}
	l.size = min(max(min(2*l.size, l.had), l.size+l.size/8+1), maxProbes)
	for i, row := range l.rows {
		m := l.setLeft(row)
		if probe := l.probes[i]; probe >= 0 {
			for _, partner := range l.found[probe] {
				if err := l.try(&m, partner, yield); err != nil {
					return false, err
				}
				if m.done {
					break
				}
			}
		}
		l.finish(&m, yield)
		if !m.more {
			return false, nil
		}
	}
	l.reset()
	return true, nil
}

// probeAll finds the partners of the batch in the hash table.
func (l *lookupJoin) probeAll(yield func([]expr.Value) bool) (more bool, err error) {
	for _, row := range l.rows {
		if more, err = l.hash.probe(l.built, row, yield); err != nil || !more {
			return false, err
		}
	}
	l.reset()
	return true, nil
}

// read finds the partners of all probes of the batch.
func (l *lookupJoin) read() error {
	if len(l.prober.places) == 0 {
		return nil
	}
	l.right.counts.Loops++
	slices.SortFunc(l.prober.places, comparePlaces)
	if l.right.node.Index == nil {
		return l.right.readPlaces(l.prober.places, func(probe int, it store.Item) error {
			row, err := l.right.decoder.decodeRow(it.Key, it.Value)
			return l.keep(probe, row, err)
		})
	}
	return l.readIndex()
}

// readIndex finds the partners through an index.
func (l *lookupJoin) readIndex() error {
	a := l.right
	var probes []int // of the rows to fetch
	if a.fetch != nil {
		a.fetch.reset()
	}
	fetch := func() error {
		var failed error
		err := a.fetch.flush(func(i int, it store.Item) bool {
			row, err := a.decoder.decodeRow(it.Key, it.Value)
			failed = l.keep(probes[i], row, err)
			return failed == nil
		})
		probes = probes[:0]
		return first(failed, err)
	}
	err := a.readPlaces(l.prober.places, func(probe int, it store.Item) error {
		d := &a.decoder
		if !a.node.Covering {
			d = a.entry
		}
		row, key, err := d.decodeEntry(a.node.Index, &it)
		ok := false
		if err == nil {
			ok, err = a.filter.holds(row)
		}
		if err != nil || !ok {
			return err
		}
		if a.node.Covering {
			return l.keep(probe, row, nil)
		}
		a.fetch.add(key)
		probes = append(probes, probe)
		switch {
		case l.direct == nil:
			return l.count(int64(len(key.PK)+len(key.SK)) + keyBytes)
		case a.fetch.len() < maxFetch:
			return nil
		}
		return fetch()
	})
	if err != nil || a.pending() == 0 {
		return err
	}
	return fetch()
}

// keyBytes is the size of a key on the list of a fetcher, without its bytes.
const keyBytes = 56

// keep adds a partner of a probe if the residual condition holds.
func (l *lookupJoin) keep(probe int, row []expr.Value, err error) error {
	ok := false
	if err == nil {
		ok, err = l.right.residual.holds(row)
	}
	if err != nil || !ok {
		return err
	}
	if l.direct != nil {
		l.right.counts.Rows++
		return l.direct(row)
	}
	if l.kind >= plan.Semi && !l.on.some && len(l.found[probe]) > 0 {
		return nil
	}
	l.right.counts.Rows++
	l.found[probe] = append(l.found[probe], clone(row))
	return l.count(rowBytes(row))
}
