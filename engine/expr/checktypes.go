package expr

import (
	"fmt"
	"slices"
)

// Type is what is known of the values of an expression before there is a row.
type Type struct {
	Kind    Kind // KindNull: nothing is known
	Element Kind // of a list: the kind of its elements, KindNull if it is not known
	// Columns are those of a subquery, if they are known: a row may be compared with them.
	Columns []Typed
}

// Typed is an expression with its type.
type Typed struct {
	Expr
	Type
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

// CheckTypes is Typing.Check of an expression without parameters and subqueries; column gives the
// types of columns. It refuses trees that Compile refuses for their depth.
func CheckTypes(e Expr, column func(Column) Type) (Type, error) {
	if err := checkDepth(e, MaxDepth); err != nil {
		return Type{}, err
	}
	t := Typing{Leaf: func(e Expr) Type {
		if c, ok := e.(Column); ok {
			return column(c)
		}
		return Type{}
	}}
	return t.Check(e)
}

// Typing finds the types of expressions.
type Typing struct {
	// Leaf returns the type of a column, a parameter, an aggregate or a subquery.
	Leaf func(Expr) Type
	// Compared, if not nil, is called for each parameter that is compared with a known kind.
	Compared func(Param, Kind)
	// unchecked makes of what is wrong something of an unknown kind.
	unchecked bool
}

// Check reports the first operand of a kind that its operator does not take, as a *TypeError, and
// returns the type of the expression. What passes can fail for single rows only: for numbers
// that get too long, and the like. Unlike Compile it refuses calls of coalesce whose
// arguments cannot be compared with each other. Operands of unknown kinds pass.
func (t Typing) Check(e Expr) (Type, error) {
	x, err := t.of(e)
	return x.Type, err
}

// TypeOf returns the type of an expression that has passed Check, as far as it is known.
func (t Typing) TypeOf(e Expr) Type {
	t.unchecked = true
	x, _ := t.of(e)
	return x.Type
}

// Comparable reports, as Check does for a comparison at an expression, whether x and y can be
// compared.
func (t Typing) Comparable(at, x, y Expr) error {
	l, err := t.of(x)
	if err != nil {
		return err
	}
	r, err := t.of(y)
	if err != nil {
		return err
	}
	return t.compare(at, &l, &r)
}

// typed is an expression with its type, with its items if it is a row, and with all kinds
// that are known of its elements if it may be a list.
type typed struct {
	Typed
	items    []typed
	elements []Kind
}

// of checks an expression. Each operand is checked once.
func (t *Typing) of(e Expr) (out typed, err error) {
	out.Expr = e
	if t.unchecked && IsCondition(e) {
		out.Kind = KindBool
		return out, nil
	}
	switch e := e.(type) {
	case Const:
		out.Type = typeOfValue(e.Value)
	case Column, Param, Slot, Agg, Subquery, Apply:
		out.Type = t.Leaf(e)
	case Row, Arith, Func, Cast, Case, IsDistinct, Contains:
		return t.ofOperands(e)
	default:
		out.Kind = KindBool
		return out, t.checkCondition(e)
	}
	out.elements = elementsOf(e, out.Type, nil)
	return out, nil
}

// ofOperands is of for what has operands and is no condition, or takes no rows.
func (t *Typing) ofOperands(e Expr) (out typed, err error) {
	var room [3]Expr
	var space [3]typed
	children, args := AppendChildren(room[:0], e), space[:]
	if len(children) > len(args) {
		args = make([]typed, len(children))
	}
	args = args[:len(children)]
	for i, child := range children {
		if args[i], err = t.of(child); err != nil && !t.unchecked {
			return typed{}, err
		}
	}
	out.Expr = e
	switch e := e.(type) {
	case Row:
		out.items = slices.Clone(args)
		return out, nil
	case Arith:
		out.Type, err = typeOfArith(e, args)
	default:
		if err = wantValues(e, args); err == nil {
			out.Type, err = t.ofValues(e, args)
		}
	}
	if err != nil {
		return typed{Typed: Typed{Expr: e}}, err
	}
	out.elements = elementsOf(e, out.Type, args)
	return out, nil
}

// ofValues returns the type of what takes no rows.
func (t *Typing) ofValues(e Expr, args []typed) (Type, error) {
	switch e := e.(type) {
	case Func:
		return typeOfCall(e, args)
	case Cast:
		return typeOfCast(e, args[0])
	case Case:
		return t.typeOfCase(e, args)
	case Contains:
		return Type{Kind: KindBool}, checkContains(e, args)
	}
	return Type{Kind: KindBool}, t.compare(e, &args[0], &args[1])
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
func (t *Typing) checkCondition(e Expr) error {
	what, kinds, compares := "", []Kind(nil), true
	switch e := e.(type) {
	case And, Or, Not:
		what, kinds, compares = "a condition", []Kind{KindBool}, false
	case IsNull:
		compares = false
	case In:
		_, constant := e.X.(Const) // is in no result without rows
		compares = !(constant && len(e.List) > 0 && isSubquery(e.List[0]))
	case BeginsWith:
		what, kinds = "a text or bytes", []Kind{KindString, KindBytes}
	case Like:
		what, kinds = "a text", []Kind{KindString}
	}
	var room [3]Expr
	var args [2]typed // the first one, and the present one
	for i, child := range AppendChildren(room[:0], e) {
		arg := &args[min(i, 1)]
		var err error
		if *arg, err = t.of(child); err == nil && kinds != nil {
			err = wantKinds(e, args[min(i, 1):][:1], what, kinds...)
		}
		if err == nil && i > 0 && compares {
			err = t.compare(e, &args[0], arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isSubquery(e Expr) bool {
	switch e.(type) {
	case Subquery, Apply:
		return true
	}
	return false
}

// compare checks that two operands, or rows, can be compared.
func (t *Typing) compare(at Expr, x, y *typed) error {
	switch {
	case len(x.items) > 0 && len(y.items) > 0:
		if len(x.items) != len(y.items) {
			return mistyped(at, "rows of %d and %d values", len(x.items), len(y.items))
		}
		for i := range x.items {
			if err := t.compare(at, &x.items[i], &y.items[i]); err != nil {
				return err
			}
		}
		return nil
	case len(x.items) > 0 && len(x.items) == len(y.Columns):
		for i, c := range y.Columns {
			if err := t.compare(at, &x.items[i], &typed{Typed: c}); err != nil {
				return err
			}
		}
		return nil
	case len(x.items) > 0 || len(y.items) > 0:
		if isPlaceholder(x.Expr) || isPlaceholder(y.Expr) {
			return nil // its columns are not known here
		}
		return mistyped(at, "a row is compared with a value")
	}
	t.note(x.Expr, y.Kind)
	t.note(y.Expr, x.Kind)
	return wantComparable(at, *x, *y)
}

// isPlaceholder reports whether an expression may stand for rows.
func isPlaceholder(e Expr) bool {
	_, param := e.(Param)
	return param || isSubquery(e)
}

// note takes note of what a parameter is compared with.
func (t *Typing) note(e Expr, k Kind) {
	if p, ok := e.(Param); ok && k != KindNull && t.Compared != nil {
		t.Compared(p, k.class())
	}
}

// wantValues checks that operands are no rows.
func wantValues(at Expr, args []typed) error {
	for _, a := range args {
		if len(a.items) > 0 {
			return mistyped(at, "%s is a row, not a value", a)
		}
	}
	return nil
}

// wantComparable checks that two values can be compared.
func wantComparable(at Expr, x, y typed) error {
	if mayCompare(x.Kind, y.Kind) {
		return nil
	}
	return mistyped(at, "%s (%s) and %s (%s) cannot be compared", x, x.Kind.Phrase(), y,
		y.Kind.Phrase())
}

func checkContains(e Contains, args []typed) error {
	list, item := args[0], args[1]
	if err := wantKinds(e, args[:1], "a list", KindList); err != nil {
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
	out := widest(args)
	if out.Kind == KindNull {
		out.Kind = KindInt // some number, at least
	}
	return out, nil
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
