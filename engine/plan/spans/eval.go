package spans

import (
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
)

// pieceMode says what a piece decides about atoms of its column.
type pieceMode uint8

const (
	single pieceMode = iota // everything
	// eachOther: the piece is one element of a list. Other elements may be in it, too.
	eachOther
	// eachFirst is the same, of lists without elements at points before the piece.
	eachFirst
)

// evaluate returns what is left of n on a piece of column c. Pieces come in order.
func (b *Builder) evaluate(n int32, c int, iv interval, mode pieceMode) int32 {
	b.work++
	node := &b.nodes[n]
	if node.mask>>c&1 == 0 {
		return n
	}
	switch node.kind {
	case nodeConstant:
		return b.decideConstant(n)
	case nodeAtom:
		return b.decide(n, &b.atoms[node.atom], iv, mode)
	case nodeOr:
		if s := b.sweepOf(n); s != nil {
			return b.evaluateTerms(n, s.advance(iv.lo), c, iv, mode)
		}
	}
	return b.evaluateTerms(n, nil, c, iv, mode)
}

// decideConstant returns whether a condition without columns is true. If that is an
// error, executing the residual reports it.
func (b *Builder) decideConstant(n int32) int32 {
	switch t, err := expr.Test(b.t.exprs[n], nil, b.params); {
	case err != nil:
		b.nodes[n] = node{kind: nodeOpaque}
		return n
	case t == expr.True:
		return trueNode
	}
	return falseNode
}

// decide returns whether an atom is true on a piece.
func (b *Builder) decide(n int32, atom *boundAtom, iv interval, mode pieceMode) int32 {
	ivs := b.intervals[atom.first : atom.first+atom.n]
	for int(atom.cur) < len(ivs) && ivs[atom.cur].hi <= iv.lo {
		atom.cur++
	}
	inside := int(atom.cur) < len(ivs) && ivs[atom.cur].lo <= iv.lo
	if atom.negated {
		values := b.columns[atom.col].values
		inside = !inside && values.lo <= iv.lo && iv.hi <= values.hi
	}
	switch {
	case inside:
		b.hit = true
		return trueNode
	case mode == eachOther, mode == eachFirst && int(atom.cur) < len(ivs):
		return n
	}
	return falseNode
}

// evaluateTerms evaluates AND and OR. Active, if not nil, holds the only children that can
// be other than false.
func (b *Builder) evaluateTerms(n int32, active []int32, c int, iv interval,
	mode pieceMode) int32 {
	node := b.nodes[n]
	stop, skip := falseNode, trueNode
	if node.kind == nodeOr {
		stop, skip = trueNode, falseNode
	}
	first, changed := len(b.stack), active != nil
	count := node.n
	if active != nil {
		count = int32(len(active))
	}
	for i := range count {
		at := i
		if active != nil {
			at = active[i]
		}
		kid := b.kids[node.first+at]
		left := kid
		if b.nodes[kid].mask>>c&1 != 0 {
			left = b.evaluate(kid, c, iv, mode)
			changed = changed || left != kid
		}
		switch left {
		case stop:
			b.stack = b.stack[:first]
			return stop
		case skip:
			continue
		}
		if sub := &b.nodes[left]; sub.kind == node.kind {
			b.stack = append(b.stack, b.kids[sub.first:sub.first+sub.n]...)
			continue
		}
		b.stack = append(b.stack, left)
	}
	return b.join(n, first, changed, skip)
}

// join makes a node of the kind of n from the children on the stack from first on.
func (b *Builder) join(n int32, first int, changed bool, neutral int32) int32 {
	terms := b.stack[first:]
	b.stack = b.stack[:first]
	switch {
	case len(terms) == 0:
		return neutral
	case len(terms) == 1:
		return terms[0]
	case !changed:
		return n
	}
	node := node{kind: b.nodes[n].kind, first: int32(len(b.kids)), n: int32(len(terms))}
	for _, term := range terms {
		node.mask |= b.nodes[term].mask
	}
	b.kids = append(b.kids, terms...)
	b.nodes = append(b.nodes, node)
	return int32(len(b.nodes) - 1)
}

// same reports whether two nodes are made of the same atoms in the same way.
func (b *Builder) same(x, y int32) bool {
	if x == y {
		return true
	}
	p, q := b.nodes[x], b.nodes[y]
	if p.kind != q.kind || p.n != q.n || p.n == 0 {
		return false
	}
	for i := range p.n {
		if !b.same(b.kids[p.first+i], b.kids[q.first+i]) {
			return false
		}
	}
	return true
}

// exprOf returns a node as an expression.
func (b *Builder) exprOf(n int32) expr.Expr {
	made := int(n) - len(b.t.nodes)
	if made < 0 {
		return b.t.exprs[n]
	}
	if made >= len(b.exprs) {
		b.exprs = append(b.exprs, make([]expr.Expr, len(b.nodes)-len(b.t.nodes)-len(b.exprs))...)
	}
	if b.exprs[made] == nil {
		node := b.nodes[n]
		terms := make([]expr.Expr, 0, node.n)
		for i := range node.n {
			if x := b.exprOf(b.kids[node.first+i]); !isTrue(x) { // see compileLike
				terms = append(terms, x)
			}
		}
		if node.kind == nodeAnd {
			b.exprs[made] = expr.AllOf(terms)
		} else {
			b.exprs[made] = expr.Or{Terms: terms}
		}
	}
	return b.exprs[made]
}

// wideOr is the number of terms from which an OR is swept.
const wideOr = 16

// sweep goes along a column with an OR of many terms, most false on most
// pieces: each is looked at on those pieces only where it may not be.
type sweep struct {
	node   int32
	reach  []interval // of each term
	order  []int32    // the terms by where they begin
	next   int        // in order
	active []int32
}

// advance returns the terms that may not be false on the piece at lo.
func (s *sweep) advance(lo int32) []int32 {
	s.active = slices.DeleteFunc(s.active, func(i int32) bool { return s.reach[i].hi <= lo })
	for ; s.next < len(s.order) && s.reach[s.order[s.next]].lo <= lo; s.next++ {
		if i := s.order[s.next]; s.reach[i].hi > lo {
			s.active = append(s.active, i)
		}
	}
	return s.active
}

// openSweeps prepares the wide ORs in n for column c.
func (b *Builder) openSweeps(n int32, c int) {
	node := &b.nodes[n]
	if node.kind < nodeAnd || node.mask>>c&1 == 0 || b.t.each(c) {
		return
	}
	if node.kind == nodeOr && node.n >= wideOr {
		b.openSweep(n, c)
	}
	for i := node.first; i < node.first+node.n; i++ {
		b.openSweeps(b.kids[i], c)
	}
}

func (b *Builder) openSweep(n int32, c int) {
	if b.depth == len(b.sweeps) {
		b.sweeps = append(b.sweeps, sweep{})
	}
	s, node := &b.sweeps[b.depth], b.nodes[n]
	b.depth++
	s.node, s.next = n, 0
	s.reach, s.order, s.active = s.reach[:0], s.order[:0], s.active[:0]
	for i := range node.n {
		s.reach = append(s.reach, b.reach(b.kids[node.first+i], c))
		s.order = append(s.order, i)
	}
	slices.SortFunc(s.order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(s.reach[i].lo, s.reach[j].lo), cmp.Compare(i, j))
	})
}

func (b *Builder) sweepOf(n int32) *sweep {
	for i := b.depth - 1; i >= 0; i-- {
		if b.sweeps[i].node == n {
			return &b.sweeps[i]
		}
	}
	return nil
}

// reach returns a part of column c; outside of it n is false.
func (b *Builder) reach(n int32, c int) interval {
	node := &b.nodes[n]
	all := interval{0, b.columns[c].top}
	if node.mask>>c&1 == 0 {
		return all
	}
	switch node.kind {
	case nodeAtom:
		atom := &b.atoms[node.atom]
		switch {
		case atom.negated:
			return all
		case atom.n == 0:
			return interval{}
		}
		ivs := b.intervals[atom.first : atom.first+atom.n]
		return interval{ivs[0].lo, ivs[len(ivs)-1].hi}
	case nodeAnd:
		out := all
		for i := node.first; i < node.first+node.n; i++ {
			out = out.and(b.reach(b.kids[i], c))
		}
		return out
	}
	out := interval{b.columns[c].top, 0}
	for i := node.first; i < node.first+node.n; i++ {
		r := b.reach(b.kids[i], c)
		out = interval{min(out.lo, r.lo), max(out.hi, r.hi)}
	}
	return out
}
