package spans

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/keycodec"
)

// Most predicates are an OR of a few ANDs, and each AND is one span at most: points in the
// first columns, and perhaps a range of the next one. Their spans need no cuts: each AND is
// encoded by itself. Where two spans meet or overlap, or a value stands at an end of its
// column, everything is left to the cuts.

// mostQuick bounds the ANDs, and the comparisons in each of them.
const mostQuick = 8

// quickAtom is a comparison of a column with one operand.
type quickAtom struct {
	col     int
	op      atomOp
	operand *Operand
}

// quickTerms returns the ANDs of the predicate, nil if it is another one.
func (t *Template) quickTerms() [][]quickAtom {
	t.once.Do(func() {
		if slices.Contains(t.key.Each, true) {
			return
		}
		terms, ok := t.expand(t.root)
		for _, term := range terms {
			slices.SortStableFunc(term, func(a, b quickAtom) int {
				return cmp.Compare(a.col, b.col)
			})
			ok = ok && t.isQuick(term)
		}
		if ok && len(terms) > 0 {
			t.quick = terms
		}
	})
	return t.quick
}

// expand multiplies a node out.
func (t *Template) expand(n int32) (terms [][]quickAtom, ok bool) {
	node := t.nodes[n]
	kids := t.kids[node.first : node.first+node.n]
	switch node.kind {
	case nodeAtom:
		a := &t.atoms[node.atom]
		if len(a.operands) != 1 || a.operands[0].expr != nil && a.operands[0].Param < 0 {
			return nil, false
		}
		return [][]quickAtom{{{a.col, a.op, &a.operands[0]}}}, true
	case nodeOr:
		for _, kid := range kids {
			more, ok := t.expand(kid)
			if terms = append(terms, more...); !ok || len(terms) > mostQuick {
				return nil, false
			}
		}
		return terms, true
	case nodeAnd:
		terms = [][]quickAtom{nil}
		for _, kid := range kids {
			more, ok := t.expand(kid)
			if !ok || len(terms)*len(more) > mostQuick {
				return nil, false
			}
			var product [][]quickAtom
			for _, a := range terms {
				for _, b := range more {
					product = append(product, slices.Concat(a, b))
				}
			}
			terms = product
		}
		return terms, true
	}
	return nil, false
}

// isQuick reports whether an AND, sorted by columns, is one span without a residual: each
// column but the last has one value.
func (t *Template) isQuick(term []quickAtom) bool {
	if len(term) == 0 || len(term) > mostQuick {
		return false
	}
	next, point := 0, true
	for i := 0; i < len(term); next++ {
		f := &t.key.Fields[next]
		usual := f.Type == keycodec.TypeInt64 ||
			f.Type == keycodec.TypeString && f.Collation == keycodec.CollateBytes
		if term[i].col != next || !point || f.Nullable || f.Desc || !usual {
			return false
		}
		for point = false; i < len(term) && term[i].col == next; i++ {
			switch term[i].op {
			case atomEq:
				point = true
			case atomLt, atomLe, atomGt, atomGe:
			default:
				return false
			}
		}
	}
	return true
}

// buildQuick makes the spans of ANDs. It reports false if they have to be made of cuts.
func (b *Builder) buildQuick(terms [][]quickAtom, max int) bool {
	if len(terms) > max {
		return false
	}
	b.bytes, b.out, b.spans = trimmed(b.bytes), trimmed(b.out), trimmed(b.spans)
	clear(b.set)
	b.set, b.repeats, b.cutOff = b.set[:0], false, false
	for _, term := range terms {
		if !b.quickSpan(term) {
			return false
		}
	}
	for i := 1; i < len(b.spans); i++ {
		for j := i; j > 0 && b.compareSpans(j-1, j) > 0; j-- {
			b.spans[j-1], b.spans[j] = b.spans[j], b.spans[j-1]
		}
	}
	for i := 1; i < len(b.spans); i++ {
		before, s := b.spans[i-1], b.spans[i]
		if before.end < 0 || bytes.Compare(b.out[before.hi:before.end], b.out[s.lo:s.hi]) >= 0 {
			return false
		}
	}
	return true
}

// compareSpans compares where two spans begin.
func (b *Builder) compareSpans(i, j int) int {
	x, y := b.spans[i], b.spans[j]
	return bytes.Compare(b.out[x.lo:x.hi], b.out[y.lo:y.hi])
}

// quickSpan adds the span of an AND, if it is not empty. It reports false if cuts have to be
// made.
func (b *Builder) quickSpan(term []quickAtom) bool {
	lo, points := len(b.out), int32(0)
	for len(term) > 0 {
		n := 1
		for n < len(term) && term[n].col == term[0].col {
			n++
		}
		on := term[:n]
		term = term[n:]
		at := slices.IndexFunc(on, func(a quickAtom) bool { return a.op == atomEq })
		if at < 0 {
			return b.quickRange(on, lo, points)
		}
		found, ok := b.quickPoint(on, at)
		if !ok || !found {
			b.out = b.out[:lo]
			return ok
		}
		points++
	}
	return b.quickEnd(lo, len(b.out), points, nil)
}

// quickPoint appends the value of a column that on[at] sets; found is false if the others are
// not true of it.
func (b *Builder) quickPoint(on []quickAtom, at int) (found, ok bool) {
	start := len(b.out)
	var null bool
	if b.out, null, ok = b.quickValue(b.out, &on[at]); null || !ok {
		return false, ok
	}
	if len(on) == 1 {
		return true, true
	}
	point := b.out[start:]
	for i := range on {
		if i == at {
			continue
		}
		if b.bytes, null, ok = b.quickValue(b.bytes[:0], &on[i]); null || !ok {
			return false, ok
		}
		c := bytes.Compare(point, b.bytes)
		switch on[i].op {
		case atomEq:
			found = c == 0
		case atomLt:
			found = c < 0
		case atomLe:
			found = c <= 0
		case atomGt:
			found = c > 0
		case atomGe:
			found = c >= 0
		}
		if !found {
			return false, true
		}
	}
	return true, true
}

// quickRange adds the span of a range after the points that b.out has from lo on.
func (b *Builder) quickRange(on []quickAtom, lo int, points int32) bool {
	var from, to []byte
	b.bytes = b.bytes[:0]
	for i := range on {
		start := len(b.bytes)
		var null, ok bool
		if b.bytes, null, ok = b.quickValue(b.bytes, &on[i]); null || !ok {
			b.out = b.out[:lo]
			return ok
		}
		edge := b.bytes[start:]
		if on[i].op == atomGt || on[i].op == atomLe {
			end := len(b.bytes)
			if b.bytes, ok = keycodec.PrefixEnd(b.bytes, edge); !ok {
				return false
			}
			edge = b.bytes[end:]
		}
		switch lower := on[i].op == atomGt || on[i].op == atomGe; {
		case lower && (from == nil || bytes.Compare(edge, from) > 0):
			from = edge
		case !lower && (to == nil || bytes.Compare(edge, to) < 0):
			to = edge
		}
	}
	if to != nil && from != nil {
		if bytes.Compare(from, to) >= 0 {
			b.out = b.out[:lo]
			return true
		}
		var ok bool
		n := len(b.bytes)
		if b.bytes, ok = keycodec.PrefixEnd(b.bytes, from); !ok || bytes.Equal(b.bytes[n:], to) {
			return false // the cuts see that it is one value
		}
	}
	prefix := len(b.out)
	b.out = append(b.out, from...)
	return b.quickEnd(lo, prefix, points, to)
}

// quickEnd adds the span that begins with b.out[lo:], whose first bytes up to prefix are
// points. Its end is after these points, or, if to is not nil, before to after them.
func (b *Builder) quickEnd(lo, prefix int, points int32, to []byte) bool {
	hi, end := len(b.out), int32(-1)
	switch {
	case to != nil:
		b.out = append(append(b.out, b.out[lo:prefix]...), to...)
		end = int32(len(b.out))
	case prefix > lo:
		var ok bool
		if b.out, ok = keycodec.PrefixEnd(b.out, b.out[lo:prefix]); !ok {
			return false
		}
		end = int32(len(b.out))
	}
	b.spans = append(b.spans, builtSpan{int32(lo), int32(hi), end, points, trueNode})
	return true
}

// quickValue appends the encoding of an operand. ok is false if it is not one that is usual,
// or an end of its column.
func (b *Builder) quickValue(dst []byte, a *quickAtom) (out []byte, null, ok bool) {
	v := &a.operand.Value
	if a.operand.expr != nil {
		if a.operand.Param >= len(b.params) {
			return dst, false, false
		}
		v = &b.params[a.operand.Param]
	}
	if v.IsNull() {
		return dst, true, true
	}
	f, start := &b.t.key.Fields[a.col], len(dst)
	if dst, ok = AppendUsual(dst, f, v); !ok {
		return dst, false, false
	}
	own := dst[start:]
	return dst, false, !isExtreme(f, own, false) && !isExtreme(f, own, true)
}
