package exec

import (
	"fmt"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// joiner is what all methods share: which pairs match, and what is made of them.
type joiner struct {
	*runner
	kind        plan.JoinKind
	left, right operator
	on          condition
	leftWidth   int
	pair        []expr.Value // the left row, then the right one
	// swapped says that left and right are exchanged, but for their places in a pair.
	swapped bool
	tried   uint // pairs
}

// pairsAtATime is after how many pairs a join looks whether its context has ended: a join of rows
// that are in memory reads nothing that would.
const pairsAtATime = 1 << 12

func (r *runner) join(n *plan.JoinNode) (operator, error) {
	j := joiner{runner: r, kind: n.Kind, leftWidth: len(n.Left.Layout())}
	j.pair = make([]expr.Value, j.leftWidth+len(n.Right.Layout()))
	var err error
	if j.left, err = r.compile(n.Left); err != nil {
		return nil, err
	}
	if j.on, err = r.condition(n.On); err != nil {
		return nil, err
	}
	if n.Method == plan.JoinLookup {
		return r.lookupJoin(n, j)
	}
	if j.right, err = r.compile(n.Right); err != nil {
		return nil, err
	}
	switch n.Method {
	case plan.JoinHash:
		return r.hashJoin(n, j)
	case plan.JoinMerge:
		return r.mergeJoin(n, j)
	case plan.JoinLoop:
		return &loopJoin{j, r.rowList("nested loop join", r.actual(n))}, nil
	}
	return nil, fmt.Errorf("exec: unknown join method %d", n.Method)
}

// matched is what came of a left row so far.
type matched struct {
	any  bool // a partner was found
	last bool // the right row that was tried last is one
	more bool // more rows are wanted
	done bool // no further partner matters
}

// leftPart returns the place of the left row in the pair.
func (j *joiner) leftPart() []expr.Value {
	if j.swapped {
		return j.pair[j.leftWidth:]
	}
	return j.pair[:j.leftWidth:j.leftWidth]
}

// setLeft begins a left row.
func (j *joiner) setLeft(row []expr.Value) matched {
	if part := j.leftPart(); len(part) > 0 && &part[0] != &row[0] {
		expr.Copy(part, row)
	}
	return matched{more: true}
}

// try considers a right row as the partner of the present left row.
func (j *joiner) try(m *matched, right []expr.Value, yield func([]expr.Value) bool) error {
	if j.tried++; j.tried%pairsAtATime == 0 {
		if err := check(j.ctx); err != nil {
			return err
		}
	}
	if j.swapped {
		expr.Copy(j.pair[:j.leftWidth], right)
	} else {
		expr.Copy(j.pair[j.leftWidth:], right)
	}
	ok, err := j.on.holds(j.pair)
	if m.last = ok && err == nil; !m.last {
		return err
	}
	m.any = true
	switch j.kind {
	case plan.Inner, plan.Left, plan.Full:
		m.more = yield(j.pair)
		m.done = !m.more
	default: // one partner is enough to know
		m.done = true
	}
	return nil
}

// tryAll considers right rows until no further one matters. met, for a full join, notes which of
// them have had a partner.
func (j *joiner) tryAll(m *matched, rows *rowList, met []bool, yield func([]expr.Value) bool,
) error {
	var failed error
	at := 0
	err := rows.each(func(right []expr.Value) bool {
		if failed = j.try(m, right, yield); met != nil && m.last {
			met[at] = true
		}
		at++
		return failed == nil && !m.done
	})
	return first(failed, err)
}

// lone yields a right row that has no partner: of a full join.
func (j *joiner) lone(right []expr.Value, yield func([]expr.Value) bool) bool {
	clear(j.pair[:j.leftWidth])
	copy(j.pair[j.leftWidth:], right)
	return yield(j.pair)
}

// loneOf yields those of the right rows that have had no partner.
func (j *joiner) loneOf(rows *rowList, met []bool, yield func([]expr.Value) bool) (more bool,
	err error) {
	at := 0
	more = true
	err = rows.each(func(right []expr.Value) bool {
		more = met[at] || j.lone(right, yield)
		at++
		return more
	})
	return more, err
}

// finish yields what a left row gives without pairs.
func (j *joiner) finish(m *matched, yield func([]expr.Value) bool) {
	if !m.more {
		return
	}
	switch {
	case (j.kind == plan.Left || j.kind == plan.Full) && !m.any:
		clear(j.pair[j.leftWidth:])
		m.more = yield(j.pair)
	case j.kind == plan.Semi && m.any, j.kind == plan.Anti && !m.any:
		m.more = yield(j.pair[:j.leftWidth:j.leftWidth])
	}
}

// loopJoin keeps the right side and compares all pairs.
type loopJoin struct {
	joiner
	rows *rowList
}

func (l *loopJoin) run(yield func([]expr.Value) bool) error {
	defer l.rows.reset()
	var failed error
	err := l.right.run(func(row []expr.Value) bool {
		failed = l.rows.add(row)
		return failed == nil
	})
	if err := first(failed, err); err != nil {
		return err
	}
	var met []bool
	if l.kind == plan.Full {
		met = make([]bool, l.rows.len())
		if err := l.rows.kept.take(int64(len(met))); err != nil {
			return err
		}
	}
	more := true
	err = l.left.run(func(row []expr.Value) bool {
		m := l.setLeft(row)
		if failed = l.tryAll(&m, l.rows, met, yield); failed != nil {
			return false
		}
		l.finish(&m, yield)
		more = m.more
		return more
	})
	if err := first(failed, err); err != nil || met == nil || !more {
		return err
	}
	_, err = l.loneOf(l.rows, met, yield)
	return err
}
