package exec

import (
	"errors"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// hashJoin keeps the right side by its keys, or the left one if that is smaller and its order
// is not needed: then the two are exchanged. If it has no room, both sides are divided by their
// keys, and each part is joined by itself.
type hashJoin struct {
	joiner
	node                *plan.JoinNode
	leftKeys, rightKeys *keyMaker

	count int64 // rows of the right side
	null  bool  // one of them has a NULL key

	partners *intPartners // of left rows, nil if each is looked up by itself
}

func (r *runner) hashJoin(n *plan.JoinNode, j joiner) (operator, error) {
	left, err := r.keyMaker(n.LeftKeys)
	if err != nil {
		return nil, err
	}
	right, err := r.keyMaker(n.RightKeys)
	if err != nil {
		return nil, err
	}
	for i := range n.RightKeys { // one collation for both sides of an equality
		c := expr.CollationOfPair(n.LeftKeys[i], n.RightKeys[i])
		left.terms[i].collation, right.terms[i].collation = c, c
	}
	if r.divisions.Swapped(n) {
		j.swapped, j.left, j.right = true, j.right, j.left
		left, right = right, left
	}
	if a := accessOf(j.left); a != nil {
		a.decoder.row = j.leftPart() // a left row need not be copied
	}
	return &hashJoin{joiner: j, node: n, leftKeys: left, rightKeys: right}, nil
}

// hashed is the right side in memory.
type hashed struct {
	count int64 // what hashJoin has counted of it
	null  bool
	table *keyTable
	rows  rowTable
	of    []partner // of each row, from 1 on
	ends  []chain   // of the rows of each key
	kept  keeper
	spool *spool
	rest  *partitions // not nil: nothing is in memory, and everything here
}

// partner is what is known of a row of the right side.
type partner struct {
	seq  int64
	next int32 // the next one of its key; 0: none
	met  bool  // of a full join: it has had a partner
}

// loneSeq is less than the numbers of the right rows of a full join that have no partners: they
// follow all left rows, in their order.
const loneSeq = 1 << 62

// chain is the first and the last of some partners.
type chain struct{ first, last int32 }

func (h *hashJoin) run(yield func([]expr.Value) bool) error {
	numbered := func(_ int64, row []expr.Value) bool { return yield(row) }
	h.count, h.null = 0, false
	if a := accessOf(h.left); a != nil {
		a.narrow, h.partners = nil, nil // of the run before
	}
	spool := h.spool("hash join", h.actual(h.node))
	defer spool.close()
	if h.worker == nil {
		return h.join(spool, number(h.right), number(h.left), numbered)
	}
	d := h.worker.division
	build := func() (*hashed, error) {
		return d.build(h.node, func() (*hashed, error) { return h.build(spool, number(h.right)) })
	}
	if h.worker.index == 0 && h.node.Right.Estimate().Cost > h.node.Left.Estimate().Cost {
		d.unbuilt++ // helpers wait for the first row of the left side
		waiting := 1
		err := h.joinWith(func() (*hashed, error) {
			d.unbuilt, waiting = d.unbuilt-waiting, 0
			return build()
		}, number(h.left), numbered)
		d.unbuilt -= waiting
		return err
	}
	built, err := build()
	if err != nil || h.worker.index > 0 && built.rest != nil {
		return err // the caller's worker divides the left side by keys
	}
	h.count, h.null = built.count, built.null
	return h.joinWith(func() (*hashed, error) { return built, nil }, number(h.left), numbered)
}

// join joins the sides, or parts of them. Pairs have the numbers of their left rows.
func (h *hashJoin) join(s *spool, right, left numbered,
	yield func(seq int64, row []expr.Value) bool) error {
	var built *hashed
	defer func() {
		if built != nil {
			built.kept.release()
		}
	}()
	return h.joinWith(func() (_ *hashed, err error) {
		built, err = h.build(s, right)
		return built, err
	}, left, yield)
}

// joinWith joins the left side with what build returns of the right one, which is asked for when
// there is a left row.
func (h *hashJoin) joinWith(build func() (*hashed, error), left numbered,
	yield func(seq int64, row []expr.Value) bool) (err error) {
	var built *hashed
	if h.kind == plan.Full {
		if built, err = build(); err != nil {
			return err
		}
	}
	var lefts *partitions // of the left side, if the right one is divided
	var failed error
	var at int64
	more := true
	pair := func(row []expr.Value) bool { return yield(at, row) }
	err = left(func(seq int64, row []expr.Value) bool {
		if built == nil {
			if built, failed = build(); failed != nil || h.isEmpty() {
				return false
			}
			h.narrow(built)
		}
		if built.rest != nil {
			if lefts == nil {
				lefts = newPartitionsLike(built.rest.spool, built.rest.seed)
			}
			failed = h.addLeft(lefts, seq, row)
			return failed == nil
		}
		at = seq
		more, failed = h.probe(built, row, pair)
		return more && failed == nil
	})
	if err := first(failed, err); err != nil || built == nil {
		return err
	}
	if built.rest != nil {
		if lefts == nil {
			lefts = newPartitionsLike(built.rest.spool, built.rest.seed)
		}
		return h.joinParts(built.rest, lefts, yield)
	}
	if h.kind != plan.Full {
		return nil
	}
	for i := 1; i < len(built.of) && more; i++ {
		if p := &built.of[i]; !p.met {
			at = loneSeq + p.seq
			more = h.lone(built.rows.row(i-1), pair)
		}
	}
	return nil
}

// narrow lets the access that the left side is, if it is one, leave out rows without a partner.
func (h *hashJoin) narrow(built *hashed) {
	a := accessOf(h.left)
	if a == nil || built.rest != nil || h.kind != plan.Inner && h.kind != plan.Semi ||
		len(h.leftKeys.terms) != 1 || a.node.Limit >= 0 {
		return
	}
	if r := a.intReader(h.leftKeys.terms[0].at); r != nil {
		h.partners = &intPartners{intColumn: intColumn{reader: r}, of: a, table: built.table}
		a.narrow = h.partners
	}
}

// isEmpty reports whether no left row is one of the result, whatever it is.
func (h *hashJoin) isEmpty() bool {
	switch {
	case h.node.NullAware && h.null: // x NOT IN (…, NULL) is never true
		return true
	case h.kind == plan.Inner || h.kind == plan.Semi:
		return h.count == 0
	}
	return false
}

// addLeft adds a row of the left side to its part.
func (h *hashJoin) addLeft(lefts *partitions, seq int64, row []expr.Value) error {
	key, _, err := h.leftKeys.canonical(row, h.params)
	if err != nil {
		return err
	}
	return lefts.add(key, seq, row)
}

// joinParts joins the parts of both sides.
func (h *hashJoin) joinParts(rights, lefts *partitions,
	yield func(seq int64, row []expr.Value) bool) error {
	if h.kind == plan.Full {
		lefts.beside = rights
	}
	all := rights.rows()
	return lefts.each(nil, func(i int, yield func(int64, []expr.Value) bool) error {
		right, left := &rights.parts[i], &lefts.parts[i]
		if right.rows == all { // it cannot be divided: one key, mostly
			return h.scan(right, left, yield)
		}
		return h.join(rights.spool, right.each, left.each, yield)
	}, yield)
}

// scan compares each left row with all right ones.
func (h *hashJoin) scan(right, left *tape, yield func(seq int64, row []expr.Value) bool) error {
	r := tapeReader{tape: right}
	var met []bool
	if h.kind == plan.Full {
		met = make([]bool, right.rows)
	}
	var failed error
	var at int64
	more := true
	pair := func(row []expr.Value) bool { return yield(at, row) }
	err := left.each(func(seq int64, row []expr.Value) bool {
		at = seq
		more, failed = h.scanFor(&r, met, row, pair)
		return more && failed == nil
	})
	if err := first(failed, err); err != nil || h.kind != plan.Full || !more {
		return err
	}
	i := -1
	return right.each(func(seq int64, row []expr.Value) bool {
		i++
		at = loneSeq + seq
		return met[i] || h.lone(row, pair)
	})
}

// scanFor finds the partners of one left row on a tape.
func (h *hashJoin) scanFor(r *tapeReader, met []bool, row []expr.Value,
	yield func([]expr.Value) bool) (bool, error) {
	key, m, err := h.begin(row)
	if err != nil {
		return false, err
	}
	at := -1
	for r.rewind(); key != nil && !m.done; {
		ok, err := r.next()
		if err != nil {
			return false, err
		}
		if !ok {
			break
		}
		at++
		other, _, err := h.rightKeys.canonical(r.row, h.params)
		if err == nil && slices.Equal(key, other) {
			if err = h.try(&m, r.row, yield); met != nil && m.last {
				met[at] = true
			}
		}
		if err != nil {
			return false, err
		}
	}
	h.finish(&m, yield)
	return m.more, nil
}

// begin begins a left row. The key is nil if it is equal to nothing.
func (h *hashJoin) begin(row []expr.Value) (key []expr.Value, m matched, err error) {
	key, null, err := h.leftKeys.canonical(row, h.params)
	m = h.setLeft(row)
	if null {
		// Of NOT IN, NULL is unknown unless the right side is empty.
		key, m.any = nil, h.node.NullAware && h.count > 0
	}
	return key, m, err
}

// hashed returns a right side without rows.
func (h *hashJoin) hashed(s *spool) *hashed {
	side := h.node.Right
	if h.swapped {
		side = h.node.Left
	}
	n := side.Estimate().Rows
	return &hashed{table: newKeyTableFor(len(h.rightKeys.terms), n), spool: s,
		kept: s.keeper(s.operator), rows: newRowTable(n, len(side.Layout())),
		of: make([]partner, 1, 1+roomFor(n)), ends: make([]chain, 0, roomFor(n))}
}

// build reads the right side.
func (h *hashJoin) build(s *spool, in numbered) (*hashed, error) {
	right := h.hashed(s)
	var failed error
	err := in(func(seq int64, row []expr.Value) bool {
		failed = h.keep(right, seq, row)
		return failed == nil && !(h.node.NullAware && h.null)
	})
	right.count, right.null = h.count, h.null
	if right.rest == nil {
		right.table.complete()
	}
	return right, first(failed, err)
}

// buildInMemory reads the right side, for all workers of a division, if there is room for it in a
// quarter of the memory allowed. Otherwise it returns nil.
func (h *hashJoin) buildInMemory(s *spool) (*hashed, error) {
	read := func() (*hashed, error) {
		right := h.hashed(s)
		var failed error
		fits := true
		err := h.right.run(func(row []expr.Value) bool {
			failed = h.keep(right, 0, row)
			fits = right.rest == nil && right.kept.used <= h.budget.limit/4
			return fits && failed == nil
		})
		if err = first(failed, err); err == nil && fits {
			return right, nil
		}
		right.kept.release()
		s.close()
		if errors.Is(err, ErrMemory) {
			err = nil
		}
		return nil, err
	}
	if h.worker == nil {
		return read()
	}
	return h.worker.division.build(h.node, read)
}

// keep adds a row of the right side.
func (h *hashJoin) keep(right *hashed, seq int64, row []expr.Value) error {
	h.count++
	key, null, err := h.rightKeys.canonical(row, h.params)
	if err != nil {
		return err
	}
	if null { // equal to nothing
		if h.null = true; h.kind != plan.Full {
			return nil
		}
	}
	if right.rest != nil {
		return right.rest.add(key, seq, row)
	}
	bytes := rowBytes(row)
	ends := &chain{}
	if !null {
		i, added := right.table.add(key)
		if added {
			right.ends = append(right.ends, chain{})
			bytes += right.table.bytes()
		} else if h.kind >= plan.Semi && !h.on.some {
			return nil // that there is one is all that matters
		}
		ends = &right.ends[i]
	}
	right.add(ends, seq, row)
	spill, err := right.kept.grow(bytes)
	if err != nil || !spill {
		return err
	}
	return h.divide(right)
}

// add adds a row to those of a key.
func (right *hashed) add(ends *chain, seq int64, row []expr.Value) {
	n := int32(len(right.of))
	right.rows.add(row)
	right.of = append(right.of, partner{seq: seq})
	if ends.first == 0 {
		ends.first = n
	} else {
		right.of[ends.last].next = n
	}
	ends.last = n
}

// divide moves the rows in memory to partitions.
func (h *hashJoin) divide(right *hashed) error {
	right.rest = newPartitions(right.spool)
	for i := range right.rows.count {
		row := right.rows.row(i)
		key, _, err := h.rightKeys.canonical(row, h.params)
		if err == nil {
			err = right.rest.add(key, right.of[i+1].seq, row)
		}
		if err != nil {
			return err
		}
	}
	right.rows, right.of, right.ends, right.table = rowTable{}, nil, nil, nil
	right.kept.release()
	return nil
}

// find begins a left row, and returns the number of its key in the table; negative if it is not
// there.
func (h *hashJoin) find(right *hashed, row []expr.Value) (i int, m matched, err error) {
	if i, ok := h.partners.found(); ok {
		return i, h.setLeft(row), nil
	}
	key, m, err := h.begin(row)
	if key == nil || err != nil {
		return -1, m, err
	}
	return right.table.find(key), m, nil
}

// probe finds the partners of one left row.
func (h *hashJoin) probe(right *hashed, row []expr.Value, yield func([]expr.Value) bool,
) (bool, error) {
	i, m, err := h.find(right, row)
	if err != nil {
		return false, err
	}
	if i >= 0 {
		for at := right.ends[i].first; at != 0 && !m.done; at = right.of[at].next {
			if err := h.try(&m, right.rows.row(int(at)-1), yield); err != nil {
				return false, err
			}
			if h.kind == plan.Full && m.last {
				right.of[at].met = true
			}
		}
	}
	h.finish(&m, yield)
	return m.more, nil
}
