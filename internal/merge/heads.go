package merge

import (
	"bytes"
	"math"

	"github.com/kstonedb/kstone/internal/base"
)

// common makes prefix what all rows that have been read ahead begin with.
//
// Why repeatedly: inputs move through the keys together, so that later on they may have more
// in common than at the start; the longer the prefix, the fewer keys must be compared as a
// whole.
func (m *Merge) common() {
	m.prefix, m.ties = m.prefix[:0], 0
	first := true
	for i := range m.inputs {
		in := &m.inputs[i]
		if first && !in.ended() {
			m.prefix, first = append(m.prefix, in.key(int(in.at))...), false
		}
		m.shorten(in)
	}
}

// shorten cuts the prefix down to what the rows of the input begin with and reports whether
// it was longer. As the rows are in order, the first and the last decide.
func (m *Merge) shorten(in *Input) (shorter bool) {
	if in.ended() || len(m.prefix) == 0 {
		return false
	}
	shorter = m.cut(in.key(int(in.at)))
	if last := len(in.rows) - 1; last > int(in.at) {
		shorter = m.cut(in.key(last)) || shorter
	}
	return shorter
}

// cut shortens the prefix to what key begins with and reports whether it was longer.
func (m *Merge) cut(key []byte) bool {
	if bytes.HasPrefix(key, m.prefix) {
		return false
	}
	n := 0
	for n < len(key) && key[n] == m.prefix[n] {
		n++
	}
	m.prefix = m.prefix[:n]
	return true
}

// heads computes the heads for a new prefix. The order of the players does not change.
func (m *Merge) heads() {
	for i := range m.nodes {
		p := &m.nodes[i]
		p.head = m.head(&m.inputs[p.input])
	}
}

func (m *Merge) head(in *Input) uint64 {
	if in.ended() {
		return math.MaxUint64
	}
	return m.headOf(in, int(in.at))
}

// headOf returns the head of row i.
func (m *Merge) headOf(in *Input, i int) uint64 {
	// Why min: only the first and the last row of a batch have been compared with the prefix,
	// and a damaged block may hold keys out of order.
	key := in.key(i)
	return base.KeyHead(key[min(len(m.prefix), len(key)):]) ^ m.flip
}

// before reports whether a's next row comes before b's: by key, then part, then the newer
// version. An exhausted input comes last. If the keys are equal, it marks the player that
// comes first.
func (m *Merge) before(a, b *player) bool {
	if a.head != b.head {
		return a.head < b.head
	}
	x, y := &m.inputs[a.input], &m.inputs[b.input]
	if x.ended() || y.ended() {
		return !x.ended()
	}
	m.ties++
	var d int
	if m.o.Compare != nil {
		d = m.o.Compare(a.input, b.input)
	} else {
		d = bytes.Compare(x.key(int(x.at)), y.key(int(y.at)))
	}
	if d == 0 {
		d = int(x.Part - y.Part)
	}
	if d != 0 {
		return (d < 0) == (m.flip == 0)
	}
	newer := x.Age < y.Age
	if s, t := x.rows[x.at].Seq, y.rows[y.at].Seq; m.o.Versions && s != t {
		newer = s > t
	}
	if newer {
		a.beat = true
	} else {
		b.beat = true
	}
	return newer
}
