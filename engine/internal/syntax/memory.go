package syntax

// Memory is what the frequent nodes of a tree are made in, for a caller that reads a text after
// the other and keeps no tree. The zero Memory is ready.
//
// Ownership: the tree that ParseIn returns is in it, until Reset.
type Memory struct {
	selects  slab[Select]
	tables   slab[Source]
	outputs  slab[Output]
	operands slab[Expr]
	binaries slab[Binary]
	literals slab[Literal]
	refs     slab[Ref]
	calls    slab[Call]
}

// Reset makes the memory ready for another tree. Nothing may refer to the last one any more.
func (m *Memory) Reset() {
	m.selects.reset()
	m.tables.reset()
	m.outputs.reset()
	m.operands.reset()
	m.binaries.reset()
	m.literals.reset()
	m.refs.reset()
	m.calls.reset()
}

// slab is memory for nodes of one type, which live as long as each other. A full chunk is left to
// the tree.
type slab[T any] struct{ chunk []T }

const maxSlab = 16

// grow makes room for n nodes.
func (s *slab[T]) grow(n int) {
	if c := cap(s.chunk); c-len(s.chunk) < n {
		s.chunk = make([]T, 0, max(n, min(2*c, maxSlab)))
	}
}

// put returns the place of a copy of a node.
func (s *slab[T]) put(node T) *T {
	s.grow(1)
	s.chunk = append(s.chunk, node)
	return &s.chunk[len(s.chunk)-1]
}

// list returns a copy of a list, in memory of its own if it is long.
func (s *slab[T]) list(all []T) []T {
	if len(all) > maxSlab {
		return append([]T(nil), all...)
	}
	s.grow(len(all))
	from := len(s.chunk)
	s.chunk = append(s.chunk, all...)
	return s.chunk[from:len(s.chunk):len(s.chunk)]
}

func (s *slab[T]) reset() {
	clear(s.chunk)
	s.chunk = s.chunk[:0]
}
