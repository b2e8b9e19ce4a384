package expr

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// Children returns the direct operands of an expression, in the order of the text form.
func Children(e Expr) []Expr { return AppendChildren(nil, e) }

// AppendChildren is Children that may use the memory of dst, which is empty.
func AppendChildren(dst []Expr, e Expr) []Expr {
	switch e := e.(type) {
	case Cmp:
		return append(dst, e.L, e.R)
	case In:
		return append(append(dst, e.X), e.List...)
	case Between:
		return append(dst, e.X, e.Lo, e.Hi)
	case BeginsWith:
		return append(dst, e.X, e.Prefix)
	case Like:
		return append(dst, e.X, e.Pattern)
	case IsNull:
		return append(dst, e.X)
	case And:
		return e.Terms
	case Or:
		return e.Terms
	case Not:
		return append(dst, e.X)
	case Row:
		return e.Items
	case Contains:
		return append(dst, e.X, e.Item)
	case Arith:
		if e.R == nil {
			return append(dst, e.L)
		}
		return append(dst, e.L, e.R)
	case Func:
		return e.Args
	case IsDistinct:
		return append(dst, e.L, e.R)
	case Cast:
		return append(dst, e.X)
	case Case:
		return e.children(dst)
	case Apply:
		return e.Args
	}
	return nil
}

// children appends X if there is one, the branches, and Else.
func (e Case) children(dst []Expr) []Expr {
	if e.X != nil {
		dst = append(dst, e.X)
	}
	for _, w := range e.Whens {
		dst = append(dst, w.If, w.Then)
	}
	return append(dst, e.Else)
}

// caseOf returns the Case whose children are given.
func caseOf(c []Expr, simple bool) (e Case) {
	if simple {
		e.X, c = c[0], c[1:]
	}
	for ; len(c) > 1; c = c[2:] {
		e.Whens = append(e.Whens, When{c[0], c[1]})
	}
	e.Else = c[0]
	return e
}

// Walk calls visit for an expression and everything in it, parents first. Where visit
// returns false, the operands are left out.
func Walk(e Expr, visit func(Expr) bool) {
	if e == nil || !visit(e) {
		return
	}
	switch e := e.(type) { // the most frequent ones, without a list
	case Const, Param, Column, Slot:
		return
	case Cmp:
		Walk(e.L, visit)
		Walk(e.R, visit)
		return
	case Arith:
		Walk(e.L, visit)
		Walk(e.R, visit)
		return
	case Not:
		Walk(e.X, visit)
		return
	case Cast:
		Walk(e.X, visit)
		return
	case IsNull:
		Walk(e.X, visit)
		return
	case In:
		Walk(e.X, visit)
		for _, child := range e.List {
			Walk(child, visit)
		}
		return
	}
	var room [4]Expr
	for _, child := range AppendChildren(room[:0], e) {
		Walk(child, visit)
	}
}

// Rewrite returns the expression with everything in it replaced by what f returns for it,
// operands first. f is given expressions whose operands are replaced already. The first
// error ends it. What does not change is shared with the expression.
func Rewrite(e Expr, f func(Expr) (Expr, error)) (Expr, error) {
	switch x := e.(type) { // the most frequent ones, without a list
	case Const, Param, Column, Slot, Agg:
		return f(e)
	case Cmp:
		l, r, changed, err := rewritePair(x.L, x.R, f)
		if err != nil {
			return nil, err
		}
		if changed {
			e = Cmp{x.Op, l, r}
		}
		return f(e)
	case Arith:
		if x.R == nil {
			break
		}
		l, r, changed, err := rewritePair(x.L, x.R, f)
		if err != nil {
			return nil, err
		}
		if changed {
			e = Arith{x.Op, l, r}
		}
		return f(e)
	case In: // its list may be long
		out, changed, err := rewriteIn(x, f)
		if err != nil {
			return nil, err
		}
		if changed {
			e = out
		}
		return f(e)
	}
	var room [4]Expr
	children := AppendChildren(room[:0], e)
	var replaced []Expr
	for i, child := range children {
		out, err := Rewrite(child, f)
		if err != nil {
			return nil, err
		}
		if replaced == nil && !same(child, out) {
			replaced = slices.Clone(children)
		}
		if replaced != nil {
			replaced[i] = out
		}
	}
	if replaced != nil {
		e = withChildren(e, replaced)
	}
	return f(e)
}

// rewriteIn rewrites the operands of an IN, and reports whether they have changed.
func rewriteIn(e In, f func(Expr) (Expr, error)) (out In, changed bool, err error) {
	out = e
	if out.X, err = Rewrite(e.X, f); err != nil {
		return In{}, false, err
	}
	owned := false
	for i, item := range e.List {
		replaced, err := Rewrite(item, f)
		if err != nil {
			return In{}, false, err
		}
		if !owned && !same(item, replaced) {
			out.List, owned = slices.Clone(e.List), true
		}
		if owned {
			out.List[i] = replaced
		}
	}
	return out, owned || !same(e.X, out.X), nil
}

// rewritePair rewrites two operands, and reports whether they have changed.
func rewritePair(l, r Expr, f func(Expr) (Expr, error)) (l2, r2 Expr, changed bool, err error) {
	if l2, err = Rewrite(l, f); err != nil {
		return nil, nil, false, err
	}
	if r2, err = Rewrite(r, f); err != nil {
		return nil, nil, false, err
	}
	return l2, r2, !same(l, l2) || !same(r, r2), nil
}

// same reports whether two expressions are known to be the same: one in memory, equal leaves, or
// nodes with the same operands.
func same(a, b Expr) bool {
	if Shared(a, b) {
		return true
	}
	switch a := a.(type) {
	case Const, Param, Column, Slot, Agg:
		switch b.(type) {
		case Const, Param, Column, Slot, Agg:
			return a == b
		}
	case In:
		b, ok := b.(In)
		return ok && a.Not == b.Not && same(a.X, b.X) && sameList(a.List, b.List)
	}
	return false
}

// Shared reports whether two expressions are one in memory.
func Shared(a, b Expr) bool {
	return *(*[2]uintptr)(unsafe.Pointer(&a)) == *(*[2]uintptr)(unsafe.Pointer(&b))
}

func withChildren(e Expr, c []Expr) Expr {
	switch e := e.(type) {
	case Cmp:
		return Cmp{e.Op, c[0], c[1]}
	case In:
		return In{c[0], c[1:], e.Not}
	case Between:
		return Between{c[0], c[1], c[2], e.Not}
	case BeginsWith:
		return BeginsWith{c[0], c[1]}
	case Like:
		return Like{c[0], c[1], e.Escape, e.Fold, e.Not}
	case IsNull:
		return IsNull{c[0], e.Not}
	case And:
		return And{c}
	case Or:
		return Or{c}
	case Not:
		return Not{c[0]}
	case Row:
		return Row{c}
	case Contains:
		return Contains{c[0], c[1]}
	case Arith:
		if len(c) == 1 {
			return Arith{e.Op, c[0], nil}
		}
		return Arith{e.Op, c[0], c[1]}
	case Func:
		return Func{e.Name, c, e.Pos}
	case IsDistinct:
		return IsDistinct{c[0], c[1], e.Not}
	case Cast:
		return Cast{c[0], e.To, e.Pos}
	case Case:
		return caseOf(c, e.X != nil)
	case Apply:
		e.Args = c
		return e
	}
	return e
}

// Equal reports whether two expressions are the same tree. Subqueries are equal if their
// queries are the same pointer.
func Equal(a, b Expr) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	switch a := a.(type) { // the most frequent ones, without a list
	case Cmp:
		b, ok := b.(Cmp)
		return ok && a.Op == b.Op && Equal(a.L, b.L) && Equal(a.R, b.R)
	case Column:
		b, ok := b.(Column)
		return ok && a == b
	case Const:
		b, ok := b.(Const)
		return ok && a == b
	case In: // lists may be long, and are often one and the same
		if b, ok := b.(In); ok && sameList(a.List, b.List) {
			return a.Not == b.Not && Equal(a.X, b.X)
		}
	}
	var room, other [4]Expr
	x, y := AppendChildren(room[:0], a), AppendChildren(other[:0], b)
	if len(x) != len(y) || !equalNode(a, b) {
		return false
	}
	for i := range x {
		if !Equal(x[i], y[i]) {
			return false
		}
	}
	return true
}

// sameList reports whether two lists are one in memory.
func sameList(a, b []Expr) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

// equalNode compares everything but the operands.
func equalNode(a, b Expr) bool {
	switch a := a.(type) {
	case In:
		b, ok := b.(In)
		return ok && a.Not == b.Not
	case Between:
		b, ok := b.(Between)
		return ok && a.Not == b.Not
	case Like:
		b, ok := b.(Like)
		return ok && a.Not == b.Not && a.Escape == b.Escape && a.Fold == b.Fold
	case IsNull:
		b, ok := b.(IsNull)
		return ok && a.Not == b.Not
	case Arith:
		b, ok := b.(Arith)
		return ok && a.Op == b.Op
	case Func:
		b, ok := b.(Func)
		return ok && a.Name == b.Name
	case IsDistinct:
		b, ok := b.(IsDistinct)
		return ok && a.Not == b.Not
	case Cast:
		b, ok := b.(Cast)
		return ok && a.To == b.To
	case Case:
		b, ok := b.(Case)
		return ok && (a.X == nil) == (b.X == nil)
	case Apply:
		b, ok := b.(Apply)
		return ok && a.Query == b.Query && a.Kind == b.Kind
	case Const, Param, Column, Slot, Agg, Subquery:
		return a == b
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b)
}

// checkDepth refuses trees that are nested too deeply, or lack an operand.
func checkDepth(e Expr, left int) error {
	switch {
	case e == nil:
		return fmt.Errorf("expr: an operand is missing")
	case left == 0:
		return fmt.Errorf("expr: nested more than %d deep", MaxDepth)
	}
	var room [4]Expr
	for _, child := range AppendChildren(room[:0], e) {
		if err := checkDepth(child, left-1); err != nil {
			return err
		}
	}
	return nil
}
