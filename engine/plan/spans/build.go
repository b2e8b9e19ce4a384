package spans

import (
	"bytes"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// The columns of the key are gone through from the first one on. On each piece of a
// column the predicate is evaluated as far as that column decides it:
//
//	false                      the piece is left out
//	a point                    the next column, with the value as part of the prefix
//	a gap                      a span, with what is left of the predicate as residual
//	no atom on the column      the span of the prefix, with the same
//
// So spans come out sorted and disjoint. How many there may be is divided among the
// pieces: where a column gets less than it has pieces, neighbours are taken together, and
// what is between them is read too and left out by the residual.

// maxSpanWork is how many nodes of predicates may be visited before points are no longer
// gone into: for predicates whose spans take much work and are few.
const maxSpanWork = 1 << 22

// MaxKeptScratch is the size, in elements, of scratch memory that is kept for another use.
const MaxKeptScratch = 1 << 16

// Builder builds spans. Each call of Build uses its memory again; the zero value is ready.
// A Builder must not be used concurrently.
type Builder struct {
	t      *Template
	params []expr.Value

	nodes []node // those of the template, and then what is left of them on pieces
	kids  []int32
	stack []int32     // children of nodes that are being made
	exprs []expr.Expr // of nodes after those of the template; nil if not made yet
	work  int

	bytes     []byte // encodings that cuts refer to
	columns   []columnCuts
	atoms     []boundAtom
	intervals []interval

	ranks  []int32 // cuts of the column and those of the columns before it
	pieces []piece // likewise
	sweeps []sweep
	depth  int // sweeps in use

	hit bool // an atom was true on the last piece

	prefix  []byte // encodings of the points that were gone into
	tail    int    // how much of prefix has the same end: nothing sorts after the rest
	low     int    // the smallest number of them since the last span
	out     []byte
	spans   []builtSpan
	set     []Span
	repeats bool
	cutOff  bool
	bare    bool // residuals are not wanted
}

var builders = sync.Pool{New: func() any { return new(Builder) }}

// NewBuilder returns a builder with memory of one that was released, if there is any.
func NewBuilder() *Builder { return builders.Get().(*Builder) }

// Release lets other builders use the memory. Requires: no span that b has built is used
// any more, unless it was cloned.
func (b *Builder) Release() {
	if max(cap(b.out), cap(b.nodes), cap(b.bytes)) > MaxKeptScratch {
		return
	}
	b.t, b.params = nil, nil
	clear(b.exprs)
	clear(b.set)
	builders.Put(b)
}

// piece is a part of a column on which no atom changes, with the rest of the predicate.
type piece struct {
	interval
	node int32
	at   int32 // the encoding of the value, if the piece is a point
	n    int32 // its length, 0 if it is a gap
}

// builtSpan is a span whose bytes are in Builder.out.
type builtSpan struct {
	lo, hi, end int32 // lo ends where hi begins; end is -1 if there is no end
	points      int32
	node        int32
}

// Build returns the spans of a template with the given parameters, at most max of them (0:
// DefaultMaxSpans).
//
// Ownership: the bytes and the slice belong to the builder and are valid until the next
// call; Set.Clone makes a copy. Residuals share nothing that changes.
func (b *Builder) Build(t *Template, params []expr.Value, max int) Set {
	b.bare = false
	return b.build(t, params, max)
}

// BuildRanges is Build without residuals: Exact reports whether there are any.
func (b *Builder) BuildRanges(t *Template, params []expr.Value, max int) Set {
	b.bare = true
	return b.build(t, params, max)
}

func (b *Builder) build(t *Template, params []expr.Value, max int) Set {
	if max <= 0 {
		max = DefaultMaxSpans
	}
	b.t, b.params = t, params
	if terms := t.quickTerms(); terms != nil && b.buildQuick(terms, max) {
		return b.finish()
	}
	b.reset(t)
	b.bindAtoms()
	root := t.root
	if b.nodes[root].mask>>constantBit != 0 {
		root = b.evaluate(root, constantBit, interval{}, single)
	}
	b.level(root, 0, max)
	return b.finish()
}

// reset copies what building changes of a template.
func (b *Builder) reset(t *Template) {
	b.nodes = append(trimmed(b.nodes), t.nodes...)
	b.kids = append(trimmed(b.kids), t.kids...)
	clear(b.exprs)
	b.exprs, b.stack, b.bytes = b.exprs[:0], b.stack[:0], trimmed(b.bytes)
	b.atoms = slices.Grow(b.atoms[:0], len(t.atoms))[:len(t.atoms)]
	if n := len(t.key.Fields); n > len(b.columns) {
		b.columns = append(b.columns, make([]columnCuts, n-len(b.columns))...)
	}
	b.intervals, b.ranks, b.pieces = trimmed(b.intervals), trimmed(b.ranks), trimmed(b.pieces)
	b.prefix, b.out, b.spans = b.prefix[:0], trimmed(b.out), trimmed(b.spans)
	if b.out == nil {
		b.out = make([]byte, 0, 64) // so that no bound is nil
	}
	clear(b.set)
	b.set = b.set[:0]
	b.work, b.depth, b.low, b.tail, b.repeats, b.cutOff = 0, 0, 0, 0, false, false
}

// trimmed empties a slice, and lets go of one that has become large.
func trimmed[T any](s []T) []T {
	if cap(s) > MaxKeptScratch {
		return nil
	}
	return s[:0]
}

// bindAtoms makes the cuts of all columns.
func (b *Builder) bindAtoms() {
	mask := b.nodes[b.t.root].mask
	for c := range b.t.key.Fields {
		if mask>>c&1 != 0 {
			b.resetColumn(c)
		}
	}
	for n := range b.t.nodes {
		if node := &b.nodes[n]; node.kind == nodeAtom && !b.bind(int(node.atom)) {
			node.kind, node.mask = nodeOpaque, 0
		}
	}
	for c := range b.t.key.Fields {
		if mask>>c&1 != 0 {
			b.rank(c)
		}
	}
	for i := range b.atoms {
		b.rankAtom(&b.atoms[i])
	}
}

// level makes the spans of the predicate n under the current prefix, which has the values
// of the columns before c. It makes at most budget spans.
func (b *Builder) level(n int32, c, budget int) {
	if n == falseNode {
		return
	}
	whole := c == len(b.t.key.Fields) || b.nodes[n].mask>>c&1 == 0
	if !whole && b.work > maxSpanWork {
		whole, b.cutOff = true, true
	}
	if whole {
		b.emit(n, c, interval{0, -1}, c)
		return
	}
	firstPiece := len(b.pieces)
	if !b.takePieces(n, c) {
		firstRank, depth := len(b.ranks), b.depth
		b.collectRanks(n, c)
		b.openSweeps(n, c)
		b.cutPieces(n, c, firstRank)
		b.depth = depth
		b.ranks = b.ranks[:firstRank]
	}
	pieces := len(b.pieces) - firstPiece

	if b.t.each(c) && pieces > 1 {
		b.repeats = true
	}
	before := len(b.spans)
	for done := 0; done < pieces; {
		left := budget - (len(b.spans) - before)
		share, group := left/(pieces-done), 1
		if share == 0 {
			group = (pieces - done + left - 1) / left // 2 or more
		}
		p := b.pieces[firstPiece+done]
		done += group
		b.low = min(b.low, c)
		switch {
		case group > 1:
			b.cutOff = true
			b.emit(n, c, interval{p.lo, b.pieces[firstPiece+done-1].hi}, c)
		case p.n > 0:
			length, tail := len(b.prefix), b.tail
			b.prefix = append(b.prefix, b.bytes[p.at:p.at+p.n]...)
			if p.hi != b.columns[c].top {
				b.tail = len(b.prefix)
			}
			b.level(p.node, c+1, share)
			b.prefix, b.tail = b.prefix[:length], tail
		default:
			b.emit(p.node, c, p.interval, c)
		}
	}
	b.pieces = b.pieces[:firstPiece]
}

// takePieces appends the pieces of column c if n is an atom, or an AND in which only atoms
// are about the column: then these are the ranges that the atoms have in common, and on
// all of them the same is left of n. It reports false if that is not so, or if more than
// one atom has several ranges.
func (b *Builder) takePieces(n int32, c int) bool {
	if b.t.each(c) {
		return false
	}
	node := &b.nodes[n]
	var many []interval
	common := interval{0, b.columns[c].top}
	terms := []int32{n}
	if node.kind == nodeAnd {
		terms = b.kids[node.first : node.first+node.n]
	}
	for _, term := range terms {
		if node = &b.nodes[term]; node.mask>>c&1 == 0 {
			continue
		}
		if node.kind != nodeAtom || b.atoms[node.atom].negated {
			return false
		}
		atom := &b.atoms[node.atom]
		atom.cur = 0
		ivs := b.intervals[atom.first : atom.first+atom.n]
		switch {
		case len(ivs) == 0:
			return true
		case len(ivs) == 1:
			common = common.and(ivs[0])
		case many != nil:
			return false
		default:
			many = ivs
		}
	}
	if many == nil {
		b.takePiece(n, c, common)
		return true
	}
	first := len(b.pieces)
	for _, iv := range many {
		if len(b.pieces) == first {
			b.takePiece(n, c, iv.and(common))
		} else if iv = iv.and(common); iv.lo < iv.hi {
			b.pieces = append(b.pieces, piece{interval: iv, node: b.pieces[first].node})
		}
	}
	b.findPoints(c, first)
	return true
}

// takePiece appends a piece if it is not empty.
func (b *Builder) takePiece(n int32, c int, iv interval) {
	if iv.lo < iv.hi {
		b.pieces = append(b.pieces, piece{interval: iv, node: b.evaluate(n, c, iv, single)})
		b.findPoints(c, len(b.pieces)-1)
	}
}

// findPoints gives the pieces from first on that are points their values.
func (b *Builder) findPoints(c, first int) {
	points := b.columns[c].points
	for i := first; i < len(b.pieces) && len(points) > 0; i++ {
		p := &b.pieces[i]
		for len(points) > 0 && points[0].lo < p.lo {
			points = points[1:]
		}
		if len(points) > 0 && points[0].interval == p.interval {
			p.at, p.n = points[0].at, points[0].n
		}
	}
}

// collectRanks appends the cuts that the atoms of n make in column c, in order.
func (b *Builder) collectRanks(n int32, c int) {
	cc, first := &b.columns[c], len(b.ranks)
	b.ranks = append(b.ranks, 0)
	if cc.null.lo < cc.null.hi {
		if b.ranks = append(b.ranks, cc.values.lo); cc.null.lo > 0 {
			b.ranks[len(b.ranks)-1] = cc.null.lo
		}
	}
	b.collect(n, c)
	b.ranks = append(b.ranks, cc.top)
	own := b.ranks[first:]
	if !slices.IsSorted(own) {
		slices.Sort(own)
	}
	b.ranks = b.ranks[:first+len(slices.Compact(own))]
}

func (b *Builder) collect(n int32, c int) {
	node := &b.nodes[n]
	switch {
	case node.mask>>c&1 == 0:
	case node.kind == nodeAtom:
		atom := &b.atoms[node.atom]
		atom.cur = 0
		for _, iv := range b.intervals[atom.first : atom.first+atom.n] {
			b.ranks = append(b.ranks, iv.lo, iv.hi)
		}
	default:
		for i := node.first; i < node.first+node.n; i++ {
			b.collect(b.kids[i], c)
		}
	}
}

// cutPieces appends the pieces between the cuts from firstRank on, on which n is not false.
func (b *Builder) cutPieces(n int32, c, firstRank int) {
	cc, each := &b.columns[c], b.t.each(c)
	points := cc.points
	firstPiece, reach := len(b.pieces), interval{0, cc.top}
	if !each {
		reach = b.reach(n, c)
	}
	for i := firstRank; i+1 < len(b.ranks); i++ {
		p := piece{interval: interval{b.ranks[i], b.ranks[i+1]}}
		if p.lo < reach.lo {
			continue
		}
		if p.lo >= reach.hi {
			break
		}
		for len(points) > 0 && points[0].lo < p.lo {
			points = points[1:]
		}
		if len(points) > 0 && points[0].interval == p.interval {
			p.at, p.n = points[0].at, points[0].n
		}
		if each {
			// A row is found at those of its elements that make an atom true. Rows that
			// have such an element at an earlier point are found there.
			b.hit = false
			if b.evaluate(n, c, p.interval, eachFirst) == falseNode || !b.hit {
				continue
			}
			p.node = b.evaluate(n, c, p.interval, eachOther)
		} else {
			p.node = b.evaluate(n, c, p.interval, single)
		}
		if p.node == falseNode {
			continue
		}
		if k := len(b.pieces); k > firstPiece && b.same(p.node, b.pieces[k-1].node) {
			p.node = b.pieces[k-1].node
			if last := &b.pieces[k-1]; last.hi == p.lo && p.n == 0 && last.n == 0 {
				last.hi = p.hi
				continue
			}
		}
		b.pieces = append(b.pieces, p)
	}
}

// emit adds the span of an interval of column c under the current prefix, whose
// first points columns are fixed. An interval without end is the whole column.
func (b *Builder) emit(n int32, c int, iv interval, points int) {
	for i := points; i < len(b.t.key.Fields); i++ {
		b.repeats = b.repeats || b.t.each(i)
	}
	lo := int32(len(b.out))
	b.appendCut(c, iv.lo)
	hi := int32(len(b.out))
	if k := len(b.spans); k > 0 && b.joins(b.spans[k-1], b.out[lo:hi], n, points) {
		last := &b.spans[k-1]
		b.out = b.out[:last.hi]
		last.end = b.appendEnd(c, iv.hi)
		last.points = min(last.points, int32(points), int32(b.low))
		b.low = points
		return
	}
	end := b.appendEnd(c, iv.hi)
	if end >= 0 && bytes.Compare(b.out[lo:hi], b.out[hi:end]) >= 0 {
		b.out = b.out[:lo]
		return
	}
	b.spans = append(b.spans, builtSpan{lo, hi, end, int32(points), n})
	b.low = points
}

// joins reports whether a span that starts at lo continues the last one.
func (b *Builder) joins(last builtSpan, lo []byte, n int32, points int) bool {
	keep := b.t.key.Keep
	fixed := points >= keep
	return last.end >= 0 && bytes.Equal(b.out[last.hi:last.end], lo) &&
		fixed == (int(last.points) >= keep) && (!fixed || b.low >= keep) && b.same(last.node, n)
}

// appendCut appends the prefix and the bytes of a cut.
func (b *Builder) appendCut(c int, rank int32) {
	b.out = append(b.out, b.prefix...)
	if rank > 0 {
		x := b.columns[c].cuts[rank-1]
		b.out = append(b.out, b.bytes[x.at:x.at+x.n]...)
	}
}

// appendEnd appends a cut that is the end of a span and returns where it ends, -1 if
// nothing is after it.
func (b *Builder) appendEnd(c int, rank int32) int32 {
	if c == len(b.t.key.Fields) || rank < 0 || rank == b.columns[c].top {
		var ok bool
		if b.out, ok = keycodec.PrefixEnd(b.out, b.prefix[:b.tail]); !ok {
			return -1
		}
	} else {
		b.appendCut(c, rank)
	}
	return int32(len(b.out))
}

// finish makes the result.
func (b *Builder) finish() Set {
	s := Set{Exact: true, Truncated: b.cutOff, Repeats: b.repeats}
	for _, built := range b.spans {
		span := Span{Lo: b.out[built.lo:built.hi:built.hi], Points: int(built.points)}
		if built.end >= 0 {
			span.Hi = b.out[built.hi:built.end:built.end]
		}
		if built.node != trueNode {
			s.Exact = false
			if !b.bare {
				span.Residual = b.exprOf(built.node)
			}
		}
		b.set = append(b.set, span)
	}
	s.Spans = b.set
	return s
}
