package spans

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Every atom is a set of ranges in the key space of its column: x = 5 is the range of the
// encodings of 5, x < 5 is what lies between NULL and that, on the side where the order of
// the column has it. The ends of all these ranges cut the column into pieces, on each of
// which every atom is either true or not. Cuts are sorted once, and from then on known by
// their rank, so that nothing else compares bytes.

// cutID is a cut of a column before the cuts are sorted.
type cutID = int32

// Cuts that are no bytes: before and after everything in the column.
const (
	bottomCut cutID = -1
	topCut    cutID = -2
)

// cut is a position among the encodings of a column.
type cut struct {
	key   uint64 // the first bytes, which mostly decide a comparison
	at, n int32  // all of the bytes, in Builder.bytes
	id    cutID
}

// interval is a range between two cuts, first by their ids and then by their ranks.
type interval struct{ lo, hi int32 }

// and returns what two ranges have in common. It is empty if lo is not below hi.
func (iv interval) and(other interval) interval {
	return interval{max(iv.lo, other.lo), min(iv.hi, other.hi)}
}

// point is a value among the pieces of a column.
type point struct {
	interval
	at, n int32 // its encoding, in Builder.bytes
}

// columnCuts is one column while spans are built.
type columnCuts struct {
	cuts   []cut   // without those of equal bytes, and sorted, once ranked
	ranks  []int32 // ranks[id] is that of a cut; bottom is 0
	points []point // sorted by rank once ranked
	top    int32   // the rank of what is after everything
	// The ranges of NULL and of values, which touch. The former may be empty.
	null, values interval
}

// boundAtom is an atom with the values of its operands.
type boundAtom struct {
	first, n int32 // its ranges in Builder.intervals
	cur      int32 // the range that the current piece may be in
	col      int32
	negated  bool // it is true of the values outside the ranges
}

// reset starts with the cut between NULL and values.
func (b *Builder) resetColumn(c int) {
	cc, f := &b.columns[c], &b.t.key.Fields[c]
	cc.cuts, cc.points = cc.cuts[:0], cc.points[:0]
	cc.values = interval{bottomCut, topCut}
	cc.null = interval{bottomCut, bottomCut}
	if !f.Nullable {
		return
	}
	start := int32(len(b.bytes))
	b.bytes, _ = schema.AppendKeyField(b.bytes, f, expr.Null())
	null := b.bytes[start:]
	if f.NullsLast {
		// The cut is the encoding of NULL itself.
		edge := cc.add(b.bytes, start, 1)
		cc.values.hi, cc.null = edge, interval{edge, topCut}
	} else {
		b.bytes = append(b.bytes, null[0]+1)
		edge := cc.add(b.bytes, start+1, 1)
		cc.values.lo, cc.null = edge, interval{bottomCut, edge}
	}
	cc.points = append(cc.points, point{cc.null, start, 1})
}

// add registers the cut before the bytes of b from at on.
func (cc *columnCuts) add(b []byte, at, n int32) cutID {
	id := cutID(len(cc.cuts))
	cc.cuts = append(cc.cuts, cut{base.KeyHead(b[at : at+n]), at, n, id})
	return id
}

// before registers the cut in front of a value whose encoding is bytes[at:].
func (b *Builder) before(c int, at int32) cutID {
	cc := &b.columns[c]
	if isExtreme(&b.t.key.Fields[c], b.bytes[at:], false) {
		return cc.values.lo
	}
	return cc.add(b.bytes, at, int32(len(b.bytes))-at)
}

// after registers the cut after a value whose encoding is bytes[at:].
func (b *Builder) after(c int, at int32) cutID {
	if isExtreme(&b.t.key.Fields[c], b.bytes[at:], true) {
		return b.columns[c].values.hi
	}
	return b.behindPrefix(c, at)
}

// behindPrefix registers the cut after all encodings that start with bytes[at:].
func (b *Builder) behindPrefix(c int, at int32) cutID {
	cc := &b.columns[c]
	end := int32(len(b.bytes))
	var ok bool
	b.bytes, ok = keycodec.PrefixEnd(b.bytes, b.bytes[at:end])
	n := int32(len(b.bytes)) - end
	if !ok || (b.t.key.Fields[c].Nullable && n == 1) {
		b.bytes = b.bytes[:end]
		return cc.values.hi
	}
	return cc.add(b.bytes, end, n)
}

// bind makes the ranges of an atom from the values of its operands. It reports false if
// an operand cannot be compared with the column, so that the atom is left to residuals.
func (b *Builder) bind(i int) bool {
	atom, bound := &b.t.atoms[i], &b.atoms[i]
	values := b.columns[atom.col].values
	*bound = boundAtom{first: int32(len(b.intervals)), col: int32(atom.col)}
	ok := true
	switch atom.op {
	case atomNull:
		b.intervals = append(b.intervals, b.columns[atom.col].null)
	case atomNotNull:
		b.intervals = append(b.intervals, values)
	case atomNe, atomNotBegins:
		bound.negated = true
		null := false
		if null, ok = b.bindOperands(atom); null {
			// x <> NULL and NOT IN with a NULL are never true.
			bound.negated = false
			b.intervals = b.intervals[:bound.first]
		}
	default:
		_, ok = b.bindOperands(atom)
	}
	bound.n = int32(len(b.intervals)) - bound.first
	return ok
}

// bindOperands appends the ranges of all operands. ok is false if one cannot be compared.
func (b *Builder) bindOperands(atom *atom) (null, ok bool) {
	for i := range atom.operands {
		v, err := b.value(&atom.operands[i])
		if err != nil {
			return null, false
		}
		if v.IsNull() {
			null = true
			continue
		}
		like, all := atom.operands[i].like, false // all texts that begin so match
		if pattern, ok := v.AsString(); ok && like != nil {
			text, _, begins := expr.LikePrefix(pattern, like.Escape)
			prefix := expr.String(text)
			v, all = &prefix, begins
		}
		iv, ok := b.rangeOf(atom.col, atom.op, v)
		if !ok {
			return null, false
		}
		if all {
			b.matchesPrefix(atom.operands[i].whole)
		}
		if iv != (interval{}) {
			b.intervals = append(b.intervals, iv)
		}
	}
	return null, true
}

// matchesPrefix makes the whole of a LIKE, a kid, the atom of its beginning, which says the same.
// Requires: its node precedes that of the beginning, or it would be bound as well.
func (b *Builder) matchesPrefix(whole int32) {
	begins, n := b.kids[whole-1], b.kids[whole]
	b.nodes[n] = b.nodes[begins]
	b.kids[whole-1], b.kids[whole] = n, trueNode
}

// value returns the value of an operand.
func (b *Builder) value(o *Operand) (*expr.Value, error) {
	switch {
	case o.expr == nil:
		return &o.Value, nil
	case o.Param >= 0 && o.Param < len(b.params):
		return &b.params[o.Param], nil
	}
	v, err := expr.Eval(o.expr, nil, b.params)
	return &v, err
}

// rangeOf returns the range of the values for which a condition with v, which is not NULL,
// is true; for a negated condition that for which it is false. The zero interval is empty:
// a range never begins at the first cut of a column and ends there.
func (b *Builder) rangeOf(c int, op atomOp, v *expr.Value) (iv interval, ok bool) {
	f := &b.t.key.Fields[c]
	at := int32(len(b.bytes))
	if op == atomBegins || op == atomNotBegins {
		if b.bytes, ok = AppendOpen(b.bytes, f, *v); !ok {
			return interval{}, false
		}
		if v.Len() == 0 {
			return b.columns[c].values, true
		}
		lo := b.columns[c].add(b.bytes, at, int32(len(b.bytes))-at)
		return interval{lo, b.behindPrefix(c, at)}, true
	}
	values := b.columns[c].values
	p := Exact
	if b.bytes, ok = AppendUsual(b.bytes, f, v); !ok {
		var floor expr.Value
		if floor, p = Place(f, *v); p == Exact || p == Between {
			if b.bytes, ok = schema.AppendKeyField(b.bytes, f, floor); !ok {
				return interval{}, false
			}
		}
	}
	switch {
	case p == foreign:
		return interval{}, false
	case p == below && (op == atomGt || op == atomGe), p == above && (op == atomLt || op == atomLe):
		return values, true
	case p == below, p == above, p == Between && (op == atomEq || op == atomNe):
		return interval{}, true
	}
	if op == atomEq || op == atomNe {
		encoded := int32(len(b.bytes)) - at
		iv = interval{b.before(c, at), b.after(c, at)}
		b.columns[c].points = append(b.columns[c].points, point{iv, at, encoded})
		return iv, true
	}
	// One cut is left: below or above the floor, in the order of the values. What is
	// between two values is above the floor, whether equal to it or not.
	var edge cutID
	if aboveFloor := p == Between || op == atomLe || op == atomGt; aboveFloor != f.Desc {
		edge = b.after(c, at)
	} else {
		edge = b.before(c, at)
	}
	if lower := op == atomLt || op == atomLe; lower != f.Desc {
		return interval{values.lo, edge}, true
	}
	return interval{edge, values.hi}, true
}

// rank sorts the cuts of a column and lets everything that knew ids know ranks.
func (b *Builder) rank(c int) {
	cc := &b.columns[c]
	b.sortCuts(cc.cuts)
	cc.ranks = slices.Grow(cc.ranks[:0], len(cc.cuts))[:len(cc.cuts)]
	kept := 0
	for i, x := range cc.cuts {
		if i == 0 || b.compareCuts(&cc.cuts[kept-1], &x) != 0 {
			cc.cuts[kept] = x
			kept++
		}
		cc.ranks[x.id] = int32(kept)
	}
	cc.cuts = cc.cuts[:kept]
	cc.top = int32(kept + 1)
	cc.null, cc.values = cc.ranked(cc.null), cc.ranked(cc.values)
	for i := range cc.points {
		cc.points[i].interval = cc.ranked(cc.points[i].interval)
	}
	sorted := true
	for i := 1; i < len(cc.points) && sorted; i++ {
		sorted = cc.points[i-1].lo <= cc.points[i].lo
	}
	if !sorted {
		slices.SortFunc(cc.points, func(x, y point) int { return cmp.Compare(x.lo, y.lo) })
	}
}

// fewCuts is up to how many cuts are sorted by insertion.
const fewCuts = 12

func (b *Builder) sortCuts(cuts []cut) {
	if len(cuts) > fewCuts {
		slices.SortFunc(cuts, func(x, y cut) int { return b.compareCuts(&x, &y) })
		return
	}
	for i := 1; i < len(cuts); i++ {
		for j := i; j > 0 && b.compareCuts(&cuts[j-1], &cuts[j]) > 0; j-- {
			cuts[j-1], cuts[j] = cuts[j], cuts[j-1]
		}
	}
}

func (b *Builder) compareCuts(x, y *cut) int {
	switch {
	case x.key < y.key:
		return -1
	case x.key > y.key:
		return 1
	}
	return bytes.Compare(b.bytes[x.at:x.at+x.n], b.bytes[y.at:y.at+y.n])
}

// ranked turns ids into ranks.
func (cc *columnCuts) ranked(iv interval) interval {
	return interval{cc.rankOf(iv.lo), cc.rankOf(iv.hi)}
}

func (cc *columnCuts) rankOf(id cutID) int32 {
	switch id {
	case bottomCut:
		return 0
	case topCut:
		return cc.top
	}
	return cc.ranks[id]
}

// rankAtom turns the ranges of an atom into ranks, sorts them and drops the empty and the
// repeated ones.
func (b *Builder) rankAtom(bound *boundAtom) {
	cc := &b.columns[bound.col]
	ivs := b.intervals[bound.first : bound.first+bound.n]
	kept := ivs[:0]
	sorted := true
	for _, iv := range ivs {
		if iv = cc.ranked(iv); iv.lo < iv.hi {
			sorted = sorted && (len(kept) == 0 || kept[len(kept)-1].lo < iv.lo)
			kept = append(kept, iv)
		}
	}
	if !sorted {
		slices.SortFunc(kept, func(x, y interval) int { return cmp.Compare(x.lo, y.lo) })
		kept = slices.Compact(kept)
	}
	bound.n = int32(len(kept))
}
