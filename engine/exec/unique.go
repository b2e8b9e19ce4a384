package exec

import "github.com/kstonedb/kstone/engine/expr"

// unique passes on the first row of each key. When memory is full, it keeps the keys that it
// has; rows of others wait in partitions until the end of the input.
type unique struct {
	*spool
	width int
	// key returns the canonical key of a row, valid until the next call.
	key   func(row []expr.Value) []expr.Value
	yield func(seq int64, row []expr.Value) bool

	kept keeper
	seen *keyTable
	rest *partitions // nil: there is room
}

func newUnique(s *spool, width int, key func(row []expr.Value) []expr.Value,
	yield func(seq int64, row []expr.Value) bool) *unique {
	return &unique{spool: s, width: width, key: key, yield: yield, kept: s.keeper(s.operator),
		seen: newKeyTable(width)}
}

// add takes a row and reports whether more are wanted.
func (u *unique) add(seq int64, row []expr.Value) (more bool, err error) {
	key := u.key(row)
	if u.rest != nil {
		if u.seen.find(key) < 0 {
			err = u.rest.add(key, seq, row)
		}
		return err == nil, err
	}
	if _, added := u.seen.add(key); !added {
		return true, nil
	}
	spill, err := u.kept.grow(u.seen.bytes())
	if err != nil {
		return false, err
	}
	if spill {
		u.rest = newPartitions(u.spool)
	}
	return u.yield(seq, row), nil
}

// finish passes on what has waited. Nothing is added any more.
func (u *unique) finish() error {
	rest := u.rest
	u.release()
	if rest == nil {
		return nil
	}
	return rest.each(nil, func(i int, yield func(int64, []expr.Value) bool) error {
		return newUnique(u.spool, u.width, u.key, yield).all(rest.parts[i].each)
	}, u.yield)
}

func (u *unique) release() {
	u.kept.release()
	u.seen, u.rest = nil, nil
}

// all is add for all rows, and finish.
func (u *unique) all(in numbered) error {
	defer u.release()
	var failed error
	more := true
	err := in(func(seq int64, row []expr.Value) bool {
		more, failed = u.add(seq, row)
		return more && failed == nil
	})
	if err := first(failed, err); err != nil || !more {
		return err
	}
	return u.finish()
}
