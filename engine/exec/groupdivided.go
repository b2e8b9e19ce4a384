package exec

import (
	"cmp"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
)

// forWorker returns the group with programs of the worker's own.
func (g *group) forWorker(w *worker) (*group, error) {
	if w.index == 0 {
		return g, nil
	}
	return w.groupOver(g.node, w.op)
}

// totalDivided is total of a divided input.
func (g *group) totalDivided() ([]accumulator, error) {
	var mu sync.Mutex
	var all []accumulator
	err := g.division.run(func(w *worker) error {
		own, err := g.forWorker(w)
		if err != nil {
			return err
		}
		one := own.aggregation()
		defer one.release()
		one.begin(0)
		if err = numbered(w.numbered).all(func(seq int64, row []expr.Value) error {
			one.at = seq
			return one.add(0, row)
		}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if all == nil {
			all = one.accs
			return nil
		}
		return mergeAll(g.aggs, all, one.accs)
	})
	return all, err
}

// mergeAll adds the accumulators of a group to others.
func mergeAll(aggs []aggregate, to, from []accumulator) error {
	for i := range to {
		if err := to[i].merge(&aggs[i], &from[i]); err != nil {
			return err
		}
	}
	return nil
}

// hashDivided is hash of a divided input.
func (g *group) hashDivided(yield func([]expr.Value) bool) error {
	var mu sync.Mutex
	var passes []*hashedGroups
	defer func() {
		for _, h := range passes {
			h.rows.close()
			h.release()
		}
	}()
	err := g.division.run(func(w *worker) error {
		own, err := g.forWorker(w)
		if err != nil {
			return err
		}
		h := own.hashed(w.spool("hash grouping", w.actual(g.node)))
		mu.Lock()
		passes = append(passes, h)
		mu.Unlock()
		return numbered(w.numbered).all(h.add)
	})
	if err != nil {
		return err
	}
	h := passes[0]
	if err := h.joinAll(passes[1:]); err != nil {
		return err
	}
	order := make([]int, h.keys.count)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(h.seqs[a], h.seqs[b]) })
	return g.finish(h, order, func(_ int64, row []expr.Value) bool { return yield(row) })
}

// joinAll takes over the groups of other passes. Rows of groups that some pass had no room for are
// taken in last, when all groups in memory are known.
func (h *hashedGroups) joinAll(others []*hashedGroups) error {
	rests := runs{spool: h.rows, limit: -1}
	take := func(rest *partitions) {
		for i := 0; rest != nil && i < len(rest.parts); i++ {
			if rest.parts[i].rows > 0 {
				rests.tapes = append(rests.tapes, &rest.parts[i])
			}
		}
	}
	take(h.rest)
	for _, other := range others {
		take(other.rest)
		if err := h.join(other); err != nil {
			return err
		}
	}
	if rests.tapes == nil {
		return nil
	}
	h.rest = newPartitions(h.rows)
	return numbered(rests.merge).all(h.add)
}

// join takes over the groups of another pass.
func (h *hashedGroups) join(other *hashedGroups) error {
	for j := range other.keys.count {
		i, added := h.table.add(other.table.key(j))
		if added {
			h.keys.add(other.keys.row(j))
			h.seqs = append(h.seqs, other.seqs[j])
			h.begin(i)
		} else if other.seqs[j] < h.seqs[i] {
			h.seqs[i] = other.seqs[j]
			copy(h.keys.row(i), other.keys.row(j))
		}
		if err := mergeAll(h.aggs, h.of(i), other.of(j)); err != nil {
			return err
		}
	}
	h.kept.join(&other.kept)
	other.keys, other.table, other.accs = rowTable{}, nil, nil
	return nil
}
