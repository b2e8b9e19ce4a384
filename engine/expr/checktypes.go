package expr

import (
	"fmt"
	"slices"
)

// Type is what is known of the values of an expression before there is a row.
type Type struct {
	Kind    Kind // KindNull: nothing is known
	Element Kind // of a list: the kind of its elements, KindNull if it is not known
}

// TypeError reports an operand whose kind its operator does not take. It matches ErrType.
type TypeError struct {
	At      Expr // the expression with the operator
	Message string
}

// Error implements error.
func (e *TypeError) Error() string { return fmt.Sprintf("expr: %s: %s", e.At, e.Message) }

// Is makes errors.Is(err, ErrType) true.
func (e *TypeError) Is(target error) bool { return target == ErrType }

// CheckTypes reports the first operand of a kind that its operator does not take, as a
// *TypeError, and returns the type of the expression; column gives the types of columns.
// What passes can fail for single rows only: for numbers that get too long, and the like.
// Unlike Compile it refuses calls of coalesce whose arguments cannot be compared with each
// other. Operands of unknown kinds pass.
func CheckTypes(e Expr, column func(Column) Type) (Type, error) {
	if err := checkDepth(e, MaxDepth); err != nil {
		return Type{}, err
	}
	x, err := typing{column}.of(e)
	return x.Type, err
}

// TypeOf checks the operands of one expression, whose types are given in the order of Children,
// and returns the type of the expression. It knows functions, CAST, CASE, IS DISTINCT FROM
// and CONTAINS.
func TypeOf(e Expr, operands []Type) (Type, error) {
	args := make([]typed, len(operands))
	for i, child := range Children(e) {
		if _, row := child.(Row); row {
			return Type{}, mistyped(e, "%s is a row, not a value", child)
		}
		args[i] = typed{Expr: child, Type: operands[i]}
		if len(Children(child)) == 0 {
			args[i].elements = elementsOf(child, operands[i], nil)
		}
	}
	switch e := e.(type) {
	case Func:
		return typeOfCall(e, args)
	case Cast:
		return typeOfCast(e, args[0])
	case Case:
		return typeOfCase(e, args)
	case IsDistinct:
		return Type{Kind: KindBool}, checkDistinct(e, args)
	case Contains:
		return Type{Kind: KindBool}, checkContains(e, args[0], args[1])
	}
	return Type{}, nil
}

// typing finds the types of expressions.
type typing struct{ column func(Column) Type }

// typed is an expression with its type, with its items if it is a row, and with all kinds
// that are known of its elements if it may be a list.
type typed struct {
	Expr
	Type
	items    []typed
	elements []Kind
}

// of checks an expression. Each operand is checked once.
func (c typing) of(e Expr) (typed, error) {
	children := Children(e)
	args := make([]typed, len(children))
	for i, child := range children {
		var err error
		if args[i], err = c.of(child); err != nil {
			return typed{}, err
		}
	}
	out := typed{Expr: e}
	var err error
	switch e := e.(type) {
	case Const:
		out.Type = typeOfValue(e.Value)
	case Column:
		out.Type = c.column(e)
	case Row:
		out.items = args
	case Arith:
		out.Type, err = typeOfArith(e, args)
	case Func:
		out.Type, err = typeOfCall(e, args)
	case Cast:
		out.Type, err = typeOfCast(e, args[0])
	case Case:
		out.Type, err = typeOfCase(e, args)
	case Param, Slot, Agg, Subquery, Apply:
	default:
		out.Kind, err = KindBool, checkCondition(e, args)
	}
	out.elements = elementsOf(e, out.Type, args)
	return out, err
}

// elementsOf returns the kinds that elements of a list are known to have: several if a list
// is mixed, or if an expression is one of several lists.
func elementsOf(e Expr, t Type, args []typed) (kinds []Kind) {
	switch e := e.(type) {
	case Const:
		if e.kind == KindList {
			for element := range e.Elements() {
				kinds = append(kinds, element.kind)
			}
		}
		return kinds
	case Func:
		switch {
		case e.Name == "nullif":
			return args[0].elements
		case Chooses(e.Name):
			for _, a := range args {
				kinds = append(kinds, a.elements...)
			}
			return kinds
		}
	case Case:
		for _, a := range e.results(args) {
			kinds = append(kinds, a.elements...)
		}
		return kinds
	}
	if t.Element != KindNull {
		kinds = append(kinds, t.Element)
	}
	return kinds
}

func typeOfValue(v Value) Type {
	t := Type{Kind: v.kind}
	if v.kind != KindList {
		return t
	}
	for e := range v.Elements() {
		if !mayCompare(t.Element, e.kind) {
			return Type{Kind: KindList}
		}
		t.Element = e.kind.class()
	}
	return t
}

// mayCompare reports whether values of two kinds can be compared, as far as they are known.
func mayCompare(a, b Kind) bool {
	return a == KindNull || b == KindNull || a.class() == b.class()
}

func mistyped(at Expr, format string, a ...any) error {
	return &TypeError{at, fmt.Sprintf(format, a...)}
}

// wantKinds checks that operands are of one of some kinds, KindInt being that of all numbers.
func wantKinds(at Expr, args []typed, what string, kinds ...Kind) error {
	for _, a := range args {
		if a.Kind != KindNull && !slices.Contains(kinds, a.Kind.class()) {
			return mistyped(at, "%s is %s, not %s", a, a.Kind.Phrase(), what)
		}
	}
	return nil
}

// checkCondition checks the operands of an expression that is true, false or unknown.
func checkCondition(e Expr, args []typed) error {
	switch e := e.(type) {
	case Cmp, In, Between:
		return wantComparable(e, args[0], args[1:]...)
	case IsDistinct:
		return checkDistinct(e, args)
	case BeginsWith:
		if err := wantKinds(e, args, "a text or bytes", KindString, KindBytes); err != nil {
			return err
		}
		return wantComparable(e, args[0], args[1])
	case Like:
		return wantKinds(e, args, "a text", KindString)
	case And, Or, Not:
		return wantKinds(e, args, "a condition", KindBool)
	case Contains:
		return checkContains(e, args[0], args[1])
	}
	return nil
}

// wantComparable checks that an operand, or a row, can be compared with others.
func wantComparable(at Expr, x typed, others ...typed) error {
	for _, y := range others {
		switch y.Expr.(type) {
		case Subquery, Apply:
			if len(x.items) > 0 {
				continue // its columns are not known here
			}
		}
		if len(x.items) != len(y.items) {
			return mistyped(at, "%s cannot be compared with %s", x, y)
		}
		for i := range x.items {
			if err := wantComparable(at, x.items[i], y.items[i]); err != nil {
				return err
			}
		}
		if !mayCompare(x.Kind, y.Kind) {
			return mistyped(at, "%s (%s) and %s (%s) cannot be compared", x,
				x.Kind.Phrase(), y, y.Kind.Phrase())
		}
	}
	return nil
}

func checkContains(e Contains, list, item typed) error {
	if err := wantKinds(e, []typed{list}, "a list", KindList); err != nil {
		return err
	}
	for _, k := range list.elements {
		if !mayCompare(k, item.Kind) {
			return mistyped(e, "an element of %s (%s) and %s (%s) cannot be compared", list,
				k.Phrase(), item, item.Kind.Phrase())
		}
	}
	return nil
}

// typeOfArith ignores that integers that overflow become decimals.
func typeOfArith(e Arith, args []typed) (Type, error) {
	if err := wantKinds(e, args, "a number", KindInt); err != nil {
		return Type{}, err
	}
	return widest(args), nil
}

// widest returns the type of the result of a calculation, nothing if an operand is unknown.
func widest(args []typed) Type {
	out := Type{Kind: KindInt}
	for _, a := range args {
		switch {
		case a.Kind == KindNull || a.Kind == KindFloat:
			return a.Type
		case a.Kind == KindDecimal:
			out.Kind = KindDecimal
		}
	}
	return out
}

// typeOfCoalesce requires arguments that can be compared with each other.
func typeOfCoalesce(e Expr, args []typed) (Type, error) {
	known := slices.DeleteFunc(slices.Clone(args), func(a typed) bool { return a.Kind == KindNull })
	if len(known) == 0 {
		return Type{}, nil
	}
	out := known[0].Type
	for _, a := range known[1:] {
		if !mayCompare(out.Kind, a.Kind) {
			return Type{}, mistyped(e, "%s is %s and %s is %s", known[0], out.Kind.Phrase(), a,
				a.Kind.Phrase())
		}
		if a.Element != out.Element {
			out.Element = KindNull
		}
	}
	if out.Kind.Numeric() {
		out = widest(known)
	}
	return out, nil
}
