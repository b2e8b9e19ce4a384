package expr

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/keycodec/shard"
)

// Type is what is known of the values of an expression before there is a row.
type Type struct {
	Kind    Kind // KindNull: nothing is known
	Element Kind // of a list: the kind of its elements, KindNull if it is not known
}

// TypeError says which operator cannot take which operand. It matches ErrType.
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

// of checks an expression. Each operand is looked at once.
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
	case Param, Slot, Agg, Subquery:
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
		switch e.Name {
		case "nullif":
			return args[0].elements
		case "coalesce":
			for _, a := range args {
				kinds = append(kinds, a.elements...)
			}
			return kinds
		}
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

// kindText is a kind in words.
func kindText(k Kind) string {
	switch k.class() {
	case KindBool:
		return "a bool"
	case KindInt:
		return "a number"
	case KindString:
		return "a text"
	}
	return "of type " + k.String()
}

// wantKinds checks that operands are of one of some kinds, KindInt being that of all numbers.
func wantKinds(at Expr, args []typed, what string, kinds ...Kind) error {
	for _, a := range args {
		if a.Kind != KindNull && !slices.Contains(kinds, a.Kind.class()) {
			return mistyped(at, "%s is %s, not %s", a, kindText(a.Kind), what)
		}
	}
	return nil
}

// checkCondition checks the operands of what is true, false or unknown.
func checkCondition(e Expr, args []typed) error {
	switch e := e.(type) {
	case Cmp, In, Between:
		return wantComparable(e, args[0], args[1:]...)
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
		if len(x.items) != len(y.items) {
			return mistyped(at, "%s cannot be compared with %s", x, y)
		}
		for i := range x.items {
			if err := wantComparable(at, x.items[i], y.items[i]); err != nil {
				return err
			}
		}
		if !mayCompare(x.Kind, y.Kind) {
			return mistyped(at, "%s is %s and %s is %s: they cannot be compared", x,
				kindText(x.Kind), y, kindText(y.Kind))
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
			return mistyped(e, "an element of %s is %s and %s is %s: they cannot be compared", list,
				kindText(k), item, kindText(item.Kind))
		}
	}
	return nil
}

// typeOfArith leaves out what becomes of integers that are too large.
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

// typeOfCall checks the arguments of a function.
func typeOfCall(e Func, args []typed) (Type, error) {
	if err := CheckFunc(e.Name, len(args)); err != nil {
		return Type{}, err
	}
	integer, text := Type{Kind: KindInt}, Type{Kind: KindString}
	switch e.Name {
	case "lower", "upper", "trim", "concat":
		return text, wantKinds(e, args, "a text", KindString)
	case "length":
		return integer, wantKinds(e, args, "a text, bytes or a list", KindString, KindBytes,
			KindList)
	case "abs":
		return args[0].Type, wantKinds(e, args, "a number", KindInt)
	case "substr":
		return text, checkSubstr(e, args)
	case "coalesce":
		return typeOfCoalesce(e, args)
	case "nullif": // values that cannot be compared are different
		return args[0].Type, nil
	case "shard", "tidb_shard":
		return integer, checkShard(e, args)
	}
	return Type{}, nil
}

func checkSubstr(e Func, args []typed) error {
	if err := wantKinds(e, args[:1], "a text", KindString); err != nil {
		return err
	}
	for _, a := range args[1:] {
		c, ok := a.Expr.(Const)
		if _, whole := c.AsInt(); ok && !c.IsNull() && !whole {
			return mistyped(e, "%s is no integer", a)
		}
	}
	return wantKinds(e, args[1:], "a number", KindInt)
}

// typeOfCoalesce wants arguments that can be compared with each other.
func typeOfCoalesce(e Func, args []typed) (Type, error) {
	known := slices.DeleteFunc(slices.Clone(args), func(a typed) bool { return a.Kind == KindNull })
	if len(known) == 0 {
		return Type{}, nil
	}
	out := known[0].Type
	for _, a := range known[1:] {
		if !mayCompare(out.Kind, a.Kind) {
			return Type{}, mistyped(e, "%s is %s and %s is %s", known[0], kindText(out.Kind), a,
				kindText(a.Kind))
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

// samples are a value of each kind that a shard function may or may not take.
var samples = map[Kind]Value{
	KindBool: Bool(true), KindInt: Int(1), KindUint: Uint(1), KindFloat: Float(1),
	KindString: String("a"), KindBytes: BytesOf("a"), KindTime: UnixTime(0, 0),
	KindUUID: UUID([16]byte{}), KindDecimal: Scaled(15, 1), KindIP: {kind: KindIP, family: 4},
	KindIPPrefix: {kind: KindIPPrefix, family: 4}, KindList: List(nil),
}

// checkShard asks the shard function itself whether it takes values of the kind.
func checkShard(e Func, args []typed) error {
	spec, value := shard.Spec{Function: shard.Tidb, Count: shard.TidbCount}, args[0]
	if e.Name == "shard" {
		value = args[1]
		if err := wantKinds(e, args[:1], "a shard function", KindString); err != nil {
			return err
		}
		text, ok := e.Args[0].(Const)
		if !ok || text.IsNull() {
			return nil
		}
		var err error
		if spec, err = shard.ParseSpec(text.s); err != nil {
			return mistyped(e, "%v", err)
		}
	}
	sample, ok := samples[value.Kind]
	if !ok {
		return nil
	}
	if _, err := Bucket(spec, sample); err != nil {
		return mistyped(e, "%s is %s, which has no bucket", value, kindText(value.Kind))
	}
	return nil
}
