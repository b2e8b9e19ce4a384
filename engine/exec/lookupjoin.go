package exec

import (
	"errors"
	"slices"
	"sync"

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
	node  *plan.JoinNode
	right *access
	exprs *keyMaker

	hash  *hashJoin // over Whole; nil until it is needed
	built *hashed   // what it has read; nil: rows are looked up

	first int // the size of the first batch
	size  int
	had   int // half of the size for which there was no room; or maxProbes
	// direct hands on the partners of a batch of one row; nil: they are kept.
	direct func(partner []expr.Value) error
	*probed
	kept keeper
}

// probed is the memory of a batch. Later runs, of other queries too, use it again.
type probed struct {
	prober prober
	rows   rowTable // the left rows of the batch
	found  rowTable // their partners
	next   []int32  // of each partner: the next one of its probe, from 1 on; 0: none
	chains []chain  // of the partners of each probe
}

var probedPool = sync.Pool{New: func() any { return new(probed) }}

// release keeps the memory of a batch that is empty, but for that of a large one.
func (p *probed) release() {
	p.prober.node = nil
	if p.small() {
		probedPool.Put(p)
	}
}

// small reports whether the memory of an empty batch is small enough to be kept.
func (p *probed) small() bool {
	return max(p.rows.held(), p.found.held(), cap(p.prober.arena)) <= maxKeptBytes &&
		max(cap(p.next), cap(p.prober.places)) <= 2*maxProbes
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
	l := &lookupJoin{joiner: j, node: n, right: right, exprs: exprs,
		first: r.firstBatch(minProbes, maxProbes)}
	return l, err
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
	l.probed = probedPool.Get().(*probed)
	l.prober.node = l.right.node
	defer l.letGo()
	if err := l.bound(); err != nil {
		return err
	}
	var failed error
	stopped := false
	flush := func() bool {
		more := true
		if failed == nil && l.probed != nil && l.rows.count > 0 {
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
	if err := first(failed, err); err != nil || stopped || l.rows.count == 0 {
		return err
	}
	_, err = l.flush(yield)
	return err
}

// letGo releases what a run has kept.
func (l *lookupJoin) letGo() {
	l.reset()
	l.probed.release()
	l.probed = nil
	if l.built != nil && l.worker == nil {
		l.built.kept.release()
	}
}

// take takes a left row.
func (l *lookupJoin) take(row []expr.Value, yield func([]expr.Value) bool) (more bool, err error) {
	if l.built != nil {
		return l.hash.probe(l.built, row, yield)
	}
	err = l.add(row)
	full := errors.Is(err, ErrMemory) || err == nil && l.rows.count >= l.size
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
	l.had = l.rows.count / 2
	if l.size = l.had; l.size == 0 {
		return l.one(yield)
	}
	rows := l.rows
	l.rows = rowTable{}
	l.reset()
	for i := range rows.count {
		if more, err = l.take(rows.row(i), yield); err != nil || !more {
			return false, err
		}
	}
	if l.rows.count == 0 {
		return true, nil
	}
	return l.flush(yield)
}

// one hands on the partners of a batch of one row.
func (l *lookupJoin) one(yield func([]expr.Value) bool) (more bool, err error) {
	m, meter := l.setLeft(l.rows.row(0)), l.right.meter
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
	l.rows.clear()
	l.prober.reset()
	l.forget()
	l.kept.release()
}

// forget empties what is known of the partners.
func (l *lookupJoin) forget() {
	l.found.clear()
	l.next, l.chains = l.next[:0], l.chains[:0]
}

// add puts a left row into the batch.
func (l *lookupJoin) add(row []expr.Value) error {
	l.rows.add(row)
	values, err := l.exprs.values(row, l.params)
	if err != nil {
		return err
	}
	l.prober.add(values)
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
			l.forget()
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
	for i := range l.rows.count {
		m := l.setLeft(l.rows.row(i))
		if probe := l.prober.probes[i]; probe >= 0 {
			for at := l.chains[probe].first; at > 0 && !m.done; at = l.next[at-1] {
				if err := l.try(&m, l.found.row(int(at-1)), yield); err != nil {
					return false, err
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
	for i := range l.rows.count {
		if more, err = l.hash.probe(l.built, l.rows.row(i), yield); err != nil || !more {
			return false, err
		}
	}
	l.reset()
	return true, nil
}

// read finds the partners of all probes of the batch.
func (l *lookupJoin) read() error {
	probes := l.prober.settle()
	if probes == 0 {
		return nil
	}
	l.chains = slices.Grow(l.chains[:0], probes)[:probes]
	clear(l.chains)
	l.right.counts.Loops++
	if l.right.node.Index == nil {
		return l.right.readPlaces(&l.prober, func(probe int, it store.Item) error {
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
	a.fetch.reset()
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
	err := a.readPlaces(&l.prober, func(probe int, it store.Item) error {
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
	if err != nil || a.fetch.len() == 0 {
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
	c := &l.chains[probe]
	if l.kind >= plan.Semi && !l.on.some && c.first > 0 {
		return nil
	}
	l.right.counts.Rows++
	l.found.add(row)
	l.next = append(l.next, 0)
	at := int32(len(l.next))
	if c.first == 0 {
		c.first = at
	} else {
		l.next[c.last-1] = at
	}
	c.last = at
	return l.count(rowBytes(row))
}
