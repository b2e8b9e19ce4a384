package expr

import (
	"fmt"
	"iter"
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

// Has reports whether is holds for an expression or for something in it.
func Has(e Expr, is func(Expr) bool) (found bool) {
	Walk(e, func(x Expr) bool {
		found = found || is(x)
		return !found
	})
	return found
}

// HasSubquery reports whether there is a subquery in an expression, which may be nil.
func HasSubquery(e Expr) bool {
	return Has(e, func(x Expr) bool {
		_, ok := x.(Subquery)
		return ok
	})
}

// Columns iterates over the columns in an expression, which may be nil.
func Columns(e Expr) iter.Seq[Column] {
	return func(yield func(Column) bool) {
		more := true
		Walk(e, func(x Expr) bool {
			if c, ok := x.(Column); ok && more {
				more = yield(c)
			}
			return more
		})
	}
}

// Terms appends the terms of an AND, also of one in it; nil has none.
func Terms(dst []Expr, e Expr) []Expr {
	and, ok := e.(And)
	switch {
	case e == nil:
		return dst
	case !ok:
		return append(dst, e)
	case dst == nil:
		dst = make([]Expr, 0, len(and.Terms))
	}
	for _, t := range and.Terms {
		dst = Terms(dst, t)
	}
	return dst
}

// AllOf is the opposite of Terms; nil of nothing.
func AllOf(terms []Expr) Expr {
	switch len(terms) {
	case 0:
		return nil
	case 1:
		return terms[0]
	}
	return And{Terms: slices.Clone(terms)}
}

// Map returns the expression with everything in it replaced by what f returns for it, operands
// first. f is given expressions whose operands are replaced already. What does not change is
// shared with the expression. Nil stays nil.
func Map(e Expr, f func(Expr) Expr) Expr { return (&mapping{after: f}).of(e) }

// Replace returns the expression with the parts replaced for which f returns true: the outermost
// ones, f is not called for their operands. What does not change is shared with the expression.
// Nil stays nil.
func Replace(e Expr, f func(Expr) (Expr, bool)) Expr { return (&mapping{before: f}).of(e) }

// mapping is what Map and Replace do; one function is set.
type mapping struct {
	before func(Expr) (Expr, bool)
	after  func(Expr) Expr
}

func (m *mapping) of(e Expr) Expr {
	if e == nil {
		return nil
	}
	if m.before != nil {
		if out, ok := m.before(e); ok {
			return out
		}
	}
	e = m.operands(e)
	if m.after != nil {
		e = m.after(e)
	}
	return e
}

// operands returns an expression with its operands mapped.
func (m *mapping) operands(e Expr) Expr {
	switch x := e.(type) { // the most frequent ones, without a list
	case Const, Param, Column, Slot, Agg:
		return e
	case Cmp:
		if l, r := m.of(x.L), m.of(x.R); !same(x.L, l) || !same(x.R, r) {
			return Cmp{x.Op, l, r}
		}
		return e
	case Arith:
		if l, r := m.of(x.L), m.of(x.R); !same(x.L, l) || !same(x.R, r) {
			return Arith{x.Op, l, r}
		}
		return e
	case In: // its list may be long
		l, list := m.of(x.X), m.list(x.List)
		switch {
		case list != nil:
			return In{l, list, x.Not}
		case !same(x.X, l):
			return In{l, x.List, x.Not}
		}
		return e
	}
	var room [4]Expr
	if children := m.list(AppendChildren(room[:0], e)); children != nil {
		return withChildren(e, children)
	}
	return e
}

// list maps the expressions of a list; it returns nil if none of them changes.
func (m *mapping) list(list []Expr) (out []Expr) {
	for i, item := range list {
		replaced := m.of(item)
		if out == nil && !same(item, replaced) {
			out = slices.Clone(list)
		}
		if out != nil {
			out[i] = replaced
		}
	}
	return out
}

// MapColumns is Map that replaces columns.
func MapColumns(e Expr, f func(Column) Expr) Expr {
	return Map(e, func(x Expr) Expr {
		if c, ok := x.(Column); ok {
			return f(c)
		}
		return x
	})
}

// Rewrite is Map with a function that may fail: the first error ends it.
func Rewrite(e Expr, f func(Expr) (Expr, error)) (Expr, error) {
	var failed error
	out := Map(e, func(x Expr) Expr {
		if failed == nil {
			x, failed = f(x)
		}
		return x
	})
	if failed != nil {
		return nil, failed
	}
	return out, nil
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
