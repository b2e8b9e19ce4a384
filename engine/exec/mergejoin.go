package exec

import (
	"iter"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// mergeJoin walks both sides in the order of their keys and keeps the right rows of one
// key.
type mergeJoin struct {
	joiner
	leftKeys, rightKeys *keyMaker
	order               order
	node                *plan.JoinNode
}

func (r *runner) mergeJoin(n *plan.JoinNode, j joiner) (operator, error) {
	left, err := r.keyMaker(n.LeftKeys)
	if err != nil {
		return nil, err
	}
	right, err := r.keyMaker(n.RightKeys)
	return &mergeJoin{j, left, right, newOrder(n.MergeOrder), n}, err
}

// rightSide is the right side of a running merge join.
type rightSide struct {
	*mergeJoin
	next func() ([]expr.Value, bool)
	err  error // of the right operator

	row   []expr.Value // the next row, nil at the end; not yet in group
	key   []expr.Value // its key
	group *rowList
	at    []expr.Value // the key of the group; nil before the first

	met     []bool // of a full join: the rows of group that have had a partner
	yield   func([]expr.Value) bool
	stopped bool // yield has returned false
}

func (m *mergeJoin) run(yield func([]expr.Value) bool) error {
	right := &rightSide{mergeJoin: m, group: m.rowList("merge join", m.actual(m.node)),
		yield: yield}
	next, stop := iter.Pull(func(yield func([]expr.Value) bool) {
		right.err = m.right.run(yield)
	})
	right.next = next
	defer func() { stop(); right.group.reset() }()
	if err := right.advance(); err != nil || right.stopped {
		return err
	}
	var failed error
	err := m.left.run(func(row []expr.Value) bool {
		var more bool
		more, failed = m.step(right, row, yield)
		right.stopped = !more
		return more && failed == nil
	})
	if err := first(failed, err, right.err); err != nil || m.kind != plan.Full {
		return err
	}
	return right.drain()
}

// step pairs one left row.
func (m *mergeJoin) step(right *rightSide, row []expr.Value, yield func([]expr.Value) bool,
) (bool, error) {
	key, err := m.leftKeys.values(row, m.params)
	if err != nil {
		return false, err
	}
	equal := false
	if !hasNull(key) {
		if err := right.seek(key); err != nil || right.stopped {
			return false, err
		}
		equal = right.at != nil && m.order.compare(right.at, key) == 0
	}
	state := m.setLeft(row)
	if equal {
		if err := m.tryAll(&state, right.group, right.met, yield); err != nil {
			return false, err
		}
	}
	m.finish(&state, yield)
	return state.more, nil
}

// lone yields a row without a partner, of a full join.
func (s *rightSide) lone(row []expr.Value) {
	if s.kind == plan.Full && !s.stopped {
		s.stopped = !s.joiner.lone(row, s.yield)
	}
}

// endGroup lets go of the group.
func (s *rightSide) endGroup() error {
	if s.kind == plan.Full && !s.stopped {
		more, err := s.loneOf(s.group, s.met, s.yield)
		if s.stopped = !more; err != nil {
			return err
		}
		s.met = s.met[:0]
	}
	s.group.reset()
	s.at = nil
	return nil
}

// drain yields the rest of the right side, whose rows have no partners, of a full join.
func (s *rightSide) drain() error {
	err := s.endGroup()
	for err == nil && s.row != nil && !s.stopped {
		s.lone(s.row)
		err = s.advance()
	}
	return err
}

// advance reads the next row of the right side that has no NULL in its key.
func (s *rightSide) advance() error {
	for {
		row, ok := s.next()
		if !ok {
			s.row = nil
			return s.err
		}
		key, err := s.rightKeys.values(row, s.params)
		if err != nil {
			return err
		}
		if hasNull(key) {
			if s.lone(row); s.stopped {
				s.row = nil
				return nil
			}
			continue
		}
		s.row, s.key = row, key
		return nil
	}
}

// seek makes group the rows of the first key that is not before the given one, if the
// group is before it.
func (s *rightSide) seek(key []expr.Value) error {
	if s.at != nil && s.order.compare(s.at, key) >= 0 {
		return nil
	}
	if err := s.endGroup(); err != nil {
		return err
	}
	for s.row != nil && s.order.compare(s.key, key) < 0 {
		s.lone(s.row)
		if err := s.advance(); err != nil {
			return err
		}
	}
	if s.row == nil || s.stopped {
		return nil
	}
	s.at = clone(s.key)
	for s.row != nil && s.order.compare(s.key, s.at) == 0 {
		if err := s.group.add(s.row); err != nil {
			return err
		}
		if s.kind == plan.Full {
			s.met = append(s.met, false)
		}
		if err := s.advance(); err != nil {
			return err
		}
	}
	return nil
}

func hasNull(key []expr.Value) bool {
	for i := range key {
		if key[i].IsNull() {
			return true
		}
	}
	return false
}
