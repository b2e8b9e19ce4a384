package merge

import "github.com/kstonedb/kstone/internal/base"

// Fence returns a fence at key as the row of a source.
func Fence(key []byte) base.Entry { return base.Entry{Key: key, Kind: KindFence} }

// fence makes a fence the first row of input i, if the source knows a lower bound, and
// reports whether it does.
func (m *Merge) fence(i int) bool {
	s, ok := m.inputs[i].Source.(Seeker)
	if !ok {
		return false
	}
	from := len(m.bounds)
	key, known, empty := s.Bound(m.bounds)
	if !known {
		return false
	}
	m.bounds = append(key, fenceSlack[:]...)
	m.setFence(i, m.bounds[from:len(key):len(m.bounds)], empty)
	return true
}

// fenceSlack is memory for a fence that is longer than the first one of its input.
var fenceSlack [16]byte

// setFence makes a fence the only row of input i, or, if nothing follows it, ends the input.
func (m *Merge) setFence(i int, key []byte, empty bool) {
	in := &m.inputs[i]
	m.fences[i] = Fence(key)
	if in.at, in.rows = 0, nil; !empty {
		in.rows = m.fences[i : i+1 : i+1]
	}
}

// fenceAgain is fence after the rows that an input has shown. Why: of few rows, most are
// the only one of their partition.
func (m *Merge) fenceAgain(i int) bool {
	f := &m.fences[i]
	if cap(f.Key) == 0 || m.inputs[i].rows[0].Kind == KindFence {
		return false
	}
	key, known, empty := m.inputs[i].Source.(Seeker).Bound(f.Key[:0])
	if known {
		m.setFence(i, key, empty)
	}
	return known
}
