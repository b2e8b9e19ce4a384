package spans

import (
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
)

// Template is a predicate that is ready to be turned into spans, again and again and
// with other parameters. It is immutable and may be used concurrently.
type Template struct {
	key      Key
	nodes    []node
	kids     []int32
	atoms    []atom
	operands []Operand   // of all atoms
	exprs    []expr.Expr // exprs[n] is what nodes[n] was made from
	root     int32
	fixed    bool // see Fixed
	// Most predicates have few nodes.
	nodeRoom [3]node
	exprRoom [3]expr.Expr
	// incomplete says that rows without entries may satisfy the predicate.
	incomplete bool

	once  sync.Once
	quick [][]quickAtom // see quickTerms
}

// nodeKind is the kind of a spanNode.
type nodeKind uint8

const (
	nodeFalse    nodeKind = iota // always node 0
	nodeTrue                     // always node 1
	nodeOpaque                   // spans know nothing about it
	nodeConstant                 // the same for all rows; parameters decide it
	nodeAtom
	nodeAnd
	nodeOr
)

const (
	falseNode int32 = 0
	trueNode  int32 = 1
)

// constantBit is the bit of masks for nodeConstant. Columns of a key from this one
// on are left to residuals.
const constantBit = 63

// spanNode is a node of a predicate. Only AND and OR have children: no NOT is left, so
// that unknown and false are the same everywhere.
type node struct {
	kind     nodeKind
	col      int8   // of an atom: the position in the key
	atom     int32  // of an atom: its position in atoms
	first, n int32  // of AND and OR: the children in kids
	mask     uint64 // bit c: an atom on column c is in here; see constantBit
}

// atomOp is what an atom asks of its column.
type atomOp uint8

const (
	atomEq atomOp = iota // or, with several operands, IN
	atomNe               // or NOT IN
	atomLt
	atomLe
	atomGt
	atomGe
	atomBegins
	atomNotBegins
	atomNull
	atomNotNull
)

// spanAtom is a condition on one column of the key.
type atom struct {
	op       atomOp
	col      int
	operands []Operand
}

// Operand is what a column is compared with.
type Operand struct {
	Value expr.Value
	expr  expr.Expr // without columns; nil if it is the value
	Param int       // if it is a parameter; -1
	// like is set if it is a pattern, whose beginning is meant; whole is where in kids the term of
	// all of it is.
	like  *expr.Like
	whole int32
}

// OperandOf returns e, which has no columns, as an operand.
func OperandOf(e expr.Expr) Operand {
	switch e := e.(type) {
	case expr.Const:
		return Operand{Value: e.Value, Param: -1}
	case expr.Param:
		return Operand{expr: e, Param: e.Index}
	}
	return Operand{expr: e, Param: -1}
}

// Compile prepares a normalised predicate for a key. A nil predicate is true.
func Compile(key Key, pred expr.Expr) *Template {
	t := &Template{key: key}
	nodes, kids, atoms := t.size(pred)
	t.nodes, t.exprs = t.nodeRoom[:0], t.exprRoom[:0]
	if 2+nodes > len(t.nodeRoom) {
		t.nodes, t.exprs = make([]node, 0, 2+nodes), make([]expr.Expr, 0, 2+nodes)
	}
	t.kids, t.atoms = make([]int32, 0, kids), make([]atom, 0, atoms)
	t.operands = make([]Operand, 0, atoms)
	t.add(node{kind: nodeFalse}, False)
	t.add(node{kind: nodeTrue}, True)
	t.root, t.fixed = trueNode, true
	if pred != nil {
		t.root = t.compile(pred)
	}
	for i := range t.operands {
		t.fixed = t.fixed && t.operands[i].expr == nil
	}
	for i := range t.nodes {
		t.fixed = t.fixed && t.nodes[i].kind != nodeConstant
	}
	for c := range key.Each {
		if t.each(c) && t.without(t.root, c) {
			t.incomplete = true
		}
	}
	return t
}

// Fixed reports whether the spans are the same whatever the parameters are.
func (t *Template) Fixed() bool { return t.fixed }

// size estimates what a predicate takes.
func (t *Template) size(e expr.Expr) (nodes, kids, atoms int) {
	var inner []expr.Expr
	switch x := e.(type) {
	case nil:
		return 0, 0, 0
	case expr.And:
		inner = x.Terms
	case expr.Or:
		inner = x.Terms
	case expr.Cmp:
		return 1, 0, t.sizeOf(x.L)
	case expr.In:
		return 1, 0, t.sizeOf(x.X)
	case expr.IsNull:
		return 1, 0, t.sizeOf(x.X)
	case expr.Like:
		n := t.sizeOf(x.X)
		return 1 + 2*n, 2 * n, n
	default:
		return 1, 0, 0
	}
	nodes, kids = 1, len(inner)
	for _, term := range inner {
		n, k, a := t.size(term)
		nodes, kids, atoms = nodes+n, kids+k, atoms+a
	}
	if atoms == 0 {
		return 1, 0, 0
	}
	return nodes, kids, atoms
}

// sizeOf returns 1 for a column of the key.
func (t *Template) sizeOf(e expr.Expr) int {
	if c, ok := e.(expr.Column); ok && slices.Contains(t.key.Ordinals, c.Ordinal) {
		return 1
	}
	return 0
}

// Incomplete reports whether the spans must not be used: rows that have no entry, because
// a list is empty or NULL, may satisfy the predicate.
func (t *Template) Incomplete() bool { return t.incomplete }

// each reports whether column c holds elements of lists.
func (t *Template) each(c int) bool { return t.key.IsEach(c) }

func (t *Template) add(n node, e expr.Expr) int32 {
	t.nodes = append(t.nodes, n)
	t.exprs = append(t.exprs, e)
	return int32(len(t.nodes) - 1)
}

func (t *Template) compile(e expr.Expr) int32 {
	switch e := e.(type) {
	case expr.Const:
		if isTrue(e) {
			return trueNode
		}
		if IsFalse(e) {
			return falseNode
		}
	case expr.And:
		return t.compileTerms(nodeAnd, e, e.Terms)
	case expr.Or:
		return t.compileTerms(nodeOr, e, e.Terms)
	case expr.Like:
		return t.compileLike(e)
	default:
		if a, ok := t.atomOf(e); ok {
			t.atoms = append(t.atoms, a)
			return t.add(node{kind: nodeAtom, col: int8(a.col), mask: 1 << a.col,
				atom: int32(len(t.atoms) - 1)}, e)
		}
	}
	if IsConstant(e) {
		return t.add(node{kind: nodeConstant, mask: 1 << constantBit}, e)
	}
	return t.add(node{kind: nodeOpaque}, e)
}

// OpenLike reports whether values of parameters say what all texts of a LIKE begin with.
func OpenLike(e expr.Like) bool {
	_, known := e.Pattern.(expr.Const)
	return !known && !e.Not && !e.Fold && IsConstant(e.Pattern)
}

// compileLike compiles a LIKE. What its texts begin with is known when the pattern is: so it is two
// terms, of the beginning and of the whole.
func (t *Template) compileLike(e expr.Like) int32 {
	col, ok := t.column(e.X, false)
	if !ok || !OpenLike(e) {
		return t.add(node{kind: nodeOpaque}, e)
	}
	operand := OperandOf(e.Pattern)
	operand.like, operand.whole = &e, int32(len(t.kids))+1
	t.operands = append(t.operands, operand)
	t.atoms = append(t.atoms, atom{op: atomBegins, col: col,
		operands: slices.Clip(t.operands[len(t.operands)-1:])})
	first := int32(len(t.kids))
	whole := t.add(node{kind: nodeOpaque}, e) // before begins: see matchesPrefix
	begins := t.add(node{kind: nodeAtom, col: int8(col), mask: 1 << col,
		atom: int32(len(t.atoms) - 1)}, True)
	t.kids = append(t.kids, begins, whole)
	return t.add(node{kind: nodeAnd, first: first, n: 2, mask: 1 << col}, e)
}

func (t *Template) compileTerms(kind nodeKind, e expr.Expr, terms []expr.Expr) int32 {
	var room [8]int32
	kids := room[:0]
	mask, opaque, start := uint64(0), true, len(t.nodes)
	for _, term := range terms {
		kid := t.compile(term)
		kids = append(kids, kid)
		mask |= t.nodes[kid].mask
		opaque = opaque && t.nodes[kid].kind == nodeOpaque
	}
	if opaque { // so is all of it
		t.nodes, t.exprs = t.nodes[:start], t.exprs[:start]
		return t.add(node{kind: nodeOpaque}, e)
	}
	first := int32(len(t.kids))
	t.kids = append(t.kids, kids...)
	return t.add(node{kind: kind, first: first, n: int32(len(kids)), mask: mask}, e)
}

// without reports whether the predicate can be true of a row without any element in the
// list of column c.
func (t *Template) without(n int32, c int) bool {
	node := t.nodes[n]
	kids := t.kids[node.first : node.first+node.n]
	switch node.kind {
	case nodeFalse:
		return false
	case nodeAtom:
		return int(node.col) != c
	case nodeAnd:
		for _, kid := range kids {
			if !t.without(kid, c) {
				return false
			}
		}
	case nodeOr:
		for _, kid := range kids {
			if t.without(kid, c) {
				return true
			}
		}
		return false
	}
	return true
}

// atomOf recognises a condition on one column of the key.
func (t *Template) atomOf(e expr.Expr) (a atom, ok bool) {
	var one [1]expr.Expr
	operands := one[:]
	switch e := e.(type) {
	case expr.Cmp:
		a.op = [...]atomOp{expr.Eq: atomEq, expr.Ne: atomNe, expr.Lt: atomLt, expr.Le: atomLe,
			expr.Gt: atomGt, expr.Ge: atomGe}[e.Op]
		one[0] = e.R
		a.col, ok = t.column(e.L, false)
	case expr.In:
		if e.Not {
			a.op = atomNe
		}
		operands = e.List
		a.col, ok = t.column(e.X, false)
	case expr.BeginsWith:
		a.op, one[0] = atomBegins, e.Prefix
		a.col, ok = t.column(e.X, false)
	case expr.Not:
		x, isBegins := e.X.(expr.BeginsWith)
		if !isBegins {
			return a, false
		}
		a.op, one[0] = atomNotBegins, x.Prefix
		a.col, ok = t.column(x.X, false)
	case expr.IsNull:
		a.op, operands = atomNull, nil
		if e.Not {
			a.op = atomNotNull
		}
		a.col, ok = t.column(e.X, false)
	case expr.Contains:
		a.op, one[0] = atomEq, e.Item
		a.col, ok = t.column(e.X, true)
	default:
		return a, false
	}
	if !ok {
		return a, false
	}
	first := len(t.operands)
	for _, operand := range operands {
		if !IsConstant(operand) {
			return a, false
		}
		t.operands = append(t.operands, OperandOf(operand))
	}
	a.operands = slices.Clip(t.operands[first:])
	return a, true
}

// column finds a column of the key. One that holds elements of a list can only be asked
// for what the list contains, and the others only for the rest. The collation of the
// condition must be that of the key.
func (t *Template) column(e expr.Expr, each bool) (int, bool) {
	c, ok := e.(expr.Column)
	if !ok || c.Source != t.key.Source {
		return 0, false
	}
	for i, ordinal := range t.key.Ordinals {
		if ordinal == c.Ordinal && i < constantBit {
			return i, t.each(i) == each && t.key.Fields[i].Collation == c.Collation
		}
	}
	return 0, false
}
