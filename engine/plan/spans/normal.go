package spans

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// True and False are the predicates that hold for every row and for none.
var (
	True  expr.Expr = expr.Const{Value: expr.Bool(true)}
	False expr.Expr = expr.Const{Value: expr.Bool(false)}
)

// ColumnInfo describes a column of a predicate. It reports false for lists, and for columns
// that it does not know.
type ColumnInfo func(source, ordinal int) (keycodec.Field, bool)

// Normalise returns a predicate that is true of the same rows, and otherwise false or
// unknown. It is for conditions, where the two are the same; under a NOT they are not.
//
// NOT is gone, but in front of what cannot be turned around; BETWEEN, rows and LIKE
// with a fixed beginning have become comparisons. Comparisons of a column with something
// constant have the column on the left. Constant parts are replaced by their values, NULL
// among them by false. AND and OR do not contain their own kind, equal terms, or
// several lists of one column; lists are sorted, without repetition.
//
// Parameters stay: nothing depends on what they will be. The result may share parts with
// e, which is not changed.
func Normalise(e expr.Expr) expr.Expr { return NormaliseFor(e, nil, nil) }

// NormaliseFor is Normalise with more knowledge. With columns, constants become values
// of the column that they are compared with (x < 1.5 of an integer is x <= 1), and columns
// without NULLs are known. With params, parameters are replaced by their values. Both may
// be nil.
func NormaliseFor(e expr.Expr, columns ColumnInfo, params []expr.Value) expr.Expr {
	n := normaliser{columns: columns, params: params}
	return n.truth(e, true)
}

type normaliser struct {
	columns ColumnInfo
	params  []expr.Value
}

func isTrue(e expr.Expr) bool {
	c, ok := e.(expr.Const)
	return ok && c.Value == expr.Bool(true)
}

// IsFalse reports whether no row satisfies e, a constant: false or NULL.
func IsFalse(e expr.Expr) bool {
	c, ok := e.(expr.Const)
	return ok && (c.Value == expr.Bool(false) || c.IsNull())
}

// IsNull reports whether e is the constant NULL.
func IsNull(e expr.Expr) bool {
	c, ok := e.(expr.Const)
	return ok && c.IsNull()
}

// truth returns an expression that is true exactly where e is true or, without want, where
// e is false.
func (n *normaliser) truth(was expr.Expr, want bool) expr.Expr {
	switch e := was.(type) {
	case expr.Not:
		return n.truth(e.X, !want)
	case expr.And:
		return n.terms(e.Terms, want, want)
	case expr.Or:
		return n.terms(e.Terms, !want, want)
	case expr.Cmp:
		if want && n.isNormal(e) {
			return was
		}
		return n.comparison(e, want)
	case expr.Between:
		return n.between(e, want)
	case expr.In:
		return n.in(e, want)
	case expr.IsNull:
		return n.isNull(e, want)
	case expr.IsDistinct:
		return n.isDistinct(e, want)
	case expr.Like:
		return n.like(e, want)
	case expr.BeginsWith:
		e = expr.BeginsWith{X: n.operand(e.X), Prefix: n.operand(e.Prefix)}
		if IsNull(e.X) || IsNull(e.Prefix) {
			return False
		}
		return n.opaque(e, want)
	case expr.Contains:
		e = expr.Contains{X: n.operand(e.X), Item: n.operand(e.Item)}
		if IsNull(e.X) || IsNull(e.Item) {
			return False
		}
		return n.opaque(e, want)
	case expr.Column:
		return expr.Cmp{Op: expr.Eq, L: e, R: expr.Const{Value: expr.Bool(want)}}
	}
	return n.opaque(n.operand(was), want)
}

// opaque is for conditions that have no form of their own for the opposite.
func (n *normaliser) opaque(e expr.Expr, want bool) expr.Expr {
	if folded, ok := n.fold(e); ok {
		e = folded
	}
	if c, ok := e.(expr.Const); ok {
		t, err := expr.TruthOf(c.Value)
		switch {
		case err != nil: // left for the evaluation to report
		case t == expr.Unknown, (t == expr.True) != want:
			return False
		default:
			return True
		}
	}
	if want {
		return e
	}
	return expr.Not{X: e}
}

// operand returns an expression whose value is wanted, with constant parts folded.
func (n *normaliser) operand(e expr.Expr) expr.Expr {
	switch e.(type) {
	case expr.Const, expr.Column, expr.Slot, nil:
		return e
	}
	return expr.Map(e, func(e expr.Expr) expr.Expr {
		if folded, ok := n.fold(e); ok {
			return folded
		}
		return e
	})
}

// fold returns the value of an expression whose operands are constants.
func (n *normaliser) fold(e expr.Expr) (folded expr.Expr, ok bool) {
	switch e := e.(type) {
	case expr.Const, expr.Column, expr.Slot, expr.Agg, expr.Subquery, expr.Apply, expr.Row:
		return nil, false
	case expr.Param:
		if e.Index < 0 || e.Index >= len(n.params) {
			return nil, false
		}
		return expr.Const{Value: n.params[e.Index]}, true
	}
	var room [4]expr.Expr
	for _, child := range expr.AppendChildren(room[:0], e) {
		if _, ok := child.(expr.Const); !ok {
			return nil, false
		}
	}
	v, err := expr.Eval(e, nil, nil)
	if err != nil {
		return nil, false
	}
	return expr.Const{Value: v}, true
}

// IsConstant reports whether an expression has the same value for every row.
func IsConstant(e expr.Expr) bool {
	switch e.(type) {
	case expr.Const, expr.Param:
		return true
	case expr.Column, expr.Slot:
		return false
	}
	return !expr.Has(e, func(e expr.Expr) bool {
		switch e.(type) {
		case expr.Column, expr.Slot, expr.Agg, expr.Subquery, expr.Apply, expr.Row:
			return true
		}
		return false
	})
}

// terms joins the terms of an AND, if and is set, or of an OR.
func (n *normaliser) terms(terms []expr.Expr, and, want bool) expr.Expr {
	out := make([]expr.Expr, 0, len(terms))
	for _, term := range terms {
		out = append(out, n.truth(term, want))
	}
	return junction(out, and)
}

// Conjuncts returns the terms of Normalise of the AND of normalised terms, whose slice it uses.
func Conjuncts(terms []expr.Expr) []expr.Expr {
	if slices.ContainsFunc(terms, dissolves(true)) {
		return expr.Terms(nil, junction(terms, true))
	}
	if len(terms) > 1 {
		terms = dropEqual(mergeLists(terms, true))
	}
	return terms
}

// junction returns the AND or OR of normalised terms, whose slice it uses.
func junction(terms []expr.Expr, and bool) expr.Expr {
	flat, decided := terms, false
	if slices.ContainsFunc(terms, dissolves(and)) {
		flat, decided = flatten(make([]expr.Expr, 0, len(terms)+4), terms, and)
	}
	switch {
	case decided && and:
		return False
	case decided:
		return True
	}
	if len(flat) > 1 {
		flat = dropEqual(mergeLists(flat, and))
	}
	switch {
	case len(flat) == 1:
		return flat[0]
	case len(flat) == 0 && and:
		return True
	case len(flat) == 0:
		return False
	case and:
		return expr.And{Terms: flat}
	}
	return expr.Or{Terms: flat}
}

// dissolves returns whether a term leaves an AND, or an OR, as itself: it is a constant, or of the
// same kind.
func dissolves(and bool) func(expr.Expr) bool {
	return func(term expr.Expr) bool {
		switch term.(type) {
		case expr.Const:
			return true
		case expr.And:
			return and
		case expr.Or:
			return !and
		}
		return false
	}
}

// flatten appends terms, those of the same kind inside them included. decided reports that
// one of them alone decides.
func flatten(dst, terms []expr.Expr, and bool) (out []expr.Expr, decided bool) {
	for _, term := range terms {
		var sub []expr.Expr
		switch e := term.(type) {
		case expr.And:
			if and {
				sub = e.Terms
			}
		case expr.Or:
			if !and {
				sub = e.Terms
			}
		case expr.Const:
			switch {
			case isTrue(e) && and, IsFalse(e) && !and:
				continue
			case isTrue(e), IsFalse(e):
				return dst, true
			}
		}
		if sub == nil {
			dst = append(dst, term)
		} else if dst, decided = flatten(dst, sub, and); decided {
			return dst, true
		}
	}
	return dst, false
}

// fewTerms is up to how many terms equal ones are looked for.
const fewTerms = 32

// dropEqual removes repeated terms in place.
func dropEqual(terms []expr.Expr) []expr.Expr {
	if len(terms) > fewTerms {
		return terms
	}
	kept := terms[:0]
	for _, term := range terms {
		if !slices.ContainsFunc(kept, func(e expr.Expr) bool { return expr.Equal(e, term) }) {
			kept = append(kept, term)
		}
	}
	return kept
}

// mergeLists joins x = 1 OR x IN (2, 3) to x IN (1, 2, 3), and x <> 1 AND x NOT IN (2, 3)
// likewise, in place.
func mergeLists(terms []expr.Expr, and bool) []expr.Expr {
	var room [8]columnList
	lists, first := room[:0], map[expr.Column]int(nil)
	if len(terms) > fewTerms {
		first = make(map[expr.Column]int)
	}
	find := func(c expr.Column) int {
		if first != nil {
			if at, ok := first[c]; ok {
				return at
			}
			return -1
		}
		return slices.IndexFunc(lists, func(l columnList) bool { return l.column == c })
	}
	kept := terms[:0]
	for _, term := range terms {
		c, ok := isList(term, and)
		if at := -1; ok {
			if at = find(c); at >= 0 {
				l := &lists[at]
				if l.items == nil {
					l.items = appendItems(nil, kept[l.at])
				}
				l.items = appendItems(l.items, term)
				continue
			}
			if first != nil {
				first[c] = len(lists)
			}
			lists = append(lists, columnList{column: c, at: len(kept)})
		}
		kept = append(kept, term)
	}
	for _, l := range lists {
		if l.items != nil {
			kept[l.at] = list(l.column, l.items, and)
		}
	}
	return kept
}

// columnList collects the lists of a column. The first one stands at a place of the terms.
type columnList struct {
	column expr.Column
	at     int
	items  []expr.Expr // of all of them, if there are others
}

// isList reports whether e is x = 1 or x IN (…), or with not their opposites.
func isList(e expr.Expr, not bool) (c expr.Column, ok bool) {
	switch e := e.(type) {
	case expr.Cmp:
		c, ok = e.L.(expr.Column)
		equal := e.Op == expr.Eq && !not || e.Op == expr.Ne && not
		return c, ok && equal && IsConstant(e.R)
	case expr.In:
		c, ok = e.X.(expr.Column)
		return c, ok && e.Not == not && !slices.ContainsFunc(e.List,
			func(item expr.Expr) bool { return !IsConstant(item) })
	}
	return c, false
}

// appendItems appends what a column is compared with by what isList has found.
func appendItems(dst []expr.Expr, e expr.Expr) []expr.Expr {
	switch e := e.(type) {
	case expr.Cmp:
		return append(dst, e.R)
	case expr.In:
		return append(dst, e.List...)
	}
	return dst
}

// list returns x IN (items), or NOT IN, with the constants sorted and without repetition
// in front of the other items.
func list(x expr.Expr, items []expr.Expr, not bool) expr.Expr {
	values := make([]expr.Value, 0, len(items))
	out := make([]expr.Expr, 0, len(items))
	for _, item := range items {
		if c, ok := item.(expr.Const); ok {
			values = append(values, c.Value)
		}
	}
	slices.SortStableFunc(values, expr.Order)
	for i, v := range values {
		if i == 0 || expr.Order(values[i-1], v) != 0 {
			out = append(out, expr.Const{Value: v})
		}
	}
	for _, item := range items {
		if _, ok := item.(expr.Const); !ok {
			out = append(out, item)
		}
	}
	if len(out) == 1 {
		op := expr.Eq
		if not {
			op = expr.Ne
		}
		return expr.Cmp{Op: op, L: x, R: out[0]}
	}
	return expr.In{X: x, List: out, Not: not}
}
