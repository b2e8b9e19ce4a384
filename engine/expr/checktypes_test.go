package expr_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/testutil"
)

// typedColumn is a column of a type, with values of it.
type typedColumn struct {
	name   string
	typ    expr.Type
	values []expr.Value
}

func list(values ...expr.Value) expr.Value { return expr.List(values) }

// typedColumns are columns of all types.
var typedColumns = []typedColumn{
	{"b", expr.Type{Kind: expr.KindBool}, []expr.Value{expr.Bool(true), expr.Bool(false)}},
	{"i", expr.Type{Kind: expr.KindInt}, []expr.Value{expr.Int(-3), expr.Int(5)}},
	{"u", expr.Type{Kind: expr.KindUint}, []expr.Value{expr.Uint(0), expr.Uint(1 << 63)}},
	{"f", expr.Type{Kind: expr.KindFloat}, []expr.Value{expr.Float(1), expr.Float(-4)}},
	{"d", expr.Type{Kind: expr.KindDecimal}, []expr.Value{expr.Scaled(15, 1)}},
	{"s", expr.Type{Kind: expr.KindString}, []expr.Value{expr.String(""), expr.String("añ")}},
	{"y", expr.Type{Kind: expr.KindBytes}, []expr.Value{expr.BytesOf("\x00\xff")}},
	{"t", expr.Type{Kind: expr.KindTime}, []expr.Value{expr.UnixTime(7, 0)}},
	{"k", expr.Type{Kind: expr.KindUUID}, []expr.Value{expr.UUID([16]byte{1})}},
	{"a", expr.Type{Kind: expr.KindIP}, []expr.Value{expr.IP(netip.MustParseAddr("::1"))}},
	{"p", expr.Type{Kind: expr.KindIPPrefix},
		[]expr.Value{expr.Prefix(netip.MustParsePrefix("10.0.0.0/8"))}},
	{"li", expr.Type{Kind: expr.KindList, Element: expr.KindInt},
		[]expr.Value{list(expr.Int(1)), list(), list(expr.Int(2), expr.Int(3))}},
	{"ls", expr.Type{Kind: expr.KindList, Element: expr.KindString},
		[]expr.Value{list(expr.String("x")), list()}},
}

func typeOfColumn(c expr.Column) expr.Type { return typedColumns[c.Ordinal].typ }

var castTypes = []expr.CastType{{Kind: expr.KindBool}, {Kind: expr.KindString},
	{Kind: expr.KindBytes}, {Kind: expr.KindUUID}, {Kind: expr.KindIP}, {Kind: expr.KindIPPrefix},
	{Kind: expr.KindInt, Bits: 8}, {Kind: expr.KindUint, Bits: 64},
	{Kind: expr.KindFloat, Bits: 64},
	{Kind: expr.KindTime, Places: 3}, {Kind: expr.KindDecimal, Places: -1},
	{Kind: expr.KindDecimal, Places: 2}}

// typeGenerator makes expressions without regard to types.
type typeGenerator struct{ *rand.Rand }

func (g typeGenerator) any(depth int) expr.Expr {
	if depth == 0 || g.IntN(3) == 0 {
		return g.leaf()
	}
	x := func() expr.Expr { return g.any(depth - 1) }
	switch g.IntN(16) {
	case 12:
		return expr.IsDistinct{L: x(), R: x()}
	case 13:
		return expr.Cast{X: x(), To: castTypes[g.IntN(len(castTypes))]}
	case 14:
		e := expr.Case{Whens: []expr.When{{If: x(), Then: x()}}, Else: x()}
		if g.IntN(2) == 0 {
			e.X = x()
		}
		return e
	case 0:
		return expr.Cmp{Op: expr.Op(g.IntN(6)), L: x(), R: x()}
	case 1:
		return expr.In{X: x(), List: g.several(depth, g.IntN(10)), Not: g.IntN(2) == 0}
	case 2:
		return expr.Between{X: x(), Lo: x(), Hi: x()}
	case 3:
		return expr.BeginsWith{X: x(), Prefix: x()}
	case 4:
		return expr.Like{X: x(), Pattern: x()}
	case 5:
		return expr.IsNull{X: x()}
	case 6:
		return expr.And{Terms: g.several(depth, 2)}
	case 7:
		return expr.Or{Terms: g.several(depth, 2)}
	case 8:
		return expr.Not{X: x()}
	case 9:
		return expr.Contains{X: x(), Item: x()}
	case 10:
		op := expr.ArithOp(g.IntN(6))
		if op == expr.Neg {
			return expr.Arith{Op: op, L: x()}
		}
		return expr.Arith{Op: op, L: x(), R: x()}
	case 11:
		n := 1 + g.IntN(2)
		return expr.Cmp{Op: expr.Op(g.IntN(6)), L: expr.Row{Items: g.several(depth, n)},
			R: expr.Row{Items: g.several(depth, n)}}
	}
	return g.call(depth)
}

func (g typeGenerator) several(depth, n int) []expr.Expr {
	out := make([]expr.Expr, n)
	for i := range out {
		out[i] = g.any(depth - 1)
	}
	return out
}

func (g typeGenerator) call(depth int) expr.Expr {
	names := expr.Functions()
	f := expr.Func{Name: names[g.IntN(len(names))]}
	for n := 1 + g.IntN(3); ; n = 1 + g.IntN(3) {
		if expr.CheckFunc(f.Name, n) == nil {
			f.Args = g.several(depth, n)
			break
		}
	}
	if f.Name == "shard" && g.IntN(4) > 0 {
		specs := []string{"mix64:16", "tidb:256", "none:3", "mix64"}
		f.Args[0] = expr.Const{Value: expr.String(specs[g.IntN(len(specs))])}
	}
	return f
}

func (g typeGenerator) leaf() expr.Expr {
	i := g.IntN(len(typedColumns))
	if g.IntN(2) == 0 {
		return expr.Column{Ordinal: i, Name: typedColumns[i].name}
	}
	switch values := typedColumns[i].values; g.IntN(12) {
	case 0:
		return expr.Const{}
	case 1:
		return expr.Const{Value: list(expr.Int(1), expr.String("a"))}
	default:
		return expr.Const{Value: values[g.IntN(len(values))]}
	}
}

func (g typeGenerator) row() []expr.Value {
	row := make([]expr.Value, len(typedColumns))
	for i, c := range typedColumns {
		if g.IntN(6) > 0 {
			row[i] = c.values[g.IntN(len(c.values))]
		}
	}
	return row
}

// integers are the arguments of functions that are whole numbers.
var integers = map[string]int{"substr": 1, "left": 1, "right": 1, "lpad": 1, "rpad": 1, "round": 1,
	"trunc": 1, "repeat": 1}

// lenient reports whether an expression may fail for the values of some rows although the
// types are right: a calculated position that is no integer, or a calculated name of a
// shard function.
func lenient(e expr.Expr) (found bool) {
	expr.Walk(e, func(e expr.Expr) bool {
		f, ok := e.(expr.Func)
		var args []expr.Expr
		if at := integers[f.Name]; ok && at > 0 {
			args = f.Args[at:]
		} else if f.Name == "shard" {
			args = f.Args[:1]
		}
		for _, a := range args {
			_, constant := a.(expr.Const)
			found = found || !constant
		}
		return !found
	})
	return found
}

// TestCheckTypesIsWhatEvaluationSays checks that no row makes an expression fail whose types
// were found right, and that for most others there is a row for which they fail.
//
// Promise (tables): A condition of an index that passes the check of types never fails for the
// kind of a value, and what is refused does; an index from before that refuses rows says so and
// can be dropped. Also `TestCheckTypesOfElements`, `TestIndexesThatRefuseEveryRowCanBeDropped`.
func TestCheckTypesIsWhatEvaluationSays(t *testing.T) {
	const trees = 60_000
	seed := testutil.Seed(t)
	g := typeGenerator{rand.New(rand.NewPCG(seed, 0))}
	right, wrong, proved := 0, 0, 0
	for range trees {
		e := g.any(1 + g.IntN(3))
		p, err := expr.Compile(e)
		if err != nil {
			continue
		}
		typ, err := expr.CheckTypes(e, typeOfColumn)
		if err != nil {
			if !errors.Is(err, expr.ErrType) {
				t.Fatalf("%s: %v", e, err)
			}
			wrong++
			if failsSomewhere(g, p) {
				proved++
			}
			continue
		}
		if right++; lenient(e) {
			continue
		}
		for range 20 {
			row := g.row()
			v, err := p.Value(row, nil)
			if errors.Is(err, expr.ErrType) {
				t.Fatalf("%s passes, but for %v: %v", e, row, err)
			}
			known := !v.IsNull() && typ.Kind != expr.KindNull
			if known && v.Kind() != typ.Kind && !(v.Kind().Numeric() && typ.Kind.Numeric()) {
				t.Fatalf("%s is %s, but for %v it is %s", e, typ.Kind, row, v)
			}
		}
	}
	t.Logf("%d right, %d wrong; %d of these fail for one of some random rows", right, wrong, proved)
	if right < trees/10 || proved < wrong*6/10 {
		t.Error("the check is too strict, or the test too weak")
	}
}

func failsSomewhere(g typeGenerator, p expr.Program) bool {
	for range 40 {
		if _, err := p.Value(g.row(), nil); err != nil {
			return true
		}
	}
	return false
}

// Elements of a list are compared with what is looked for, also if the list is mixed or one
// of several, and goes through a function.
func TestCheckTypesOfElements(t *testing.T) {
	mixed := expr.Const{Value: list(expr.Int(1), expr.String("a"))}
	numbers := expr.Const{Value: list(expr.Int(1))}
	texts := expr.Const{Value: list(expr.String("a"))}
	call := func(name string, args ...expr.Expr) expr.Expr {
		return expr.Func{Name: name, Args: args}
	}
	for _, c := range []struct {
		list  expr.Expr
		right bool
	}{
		{numbers, true}, {texts, false}, {mixed, false},
		{call("nullif", numbers, texts), true}, {call("nullif", mixed, numbers), false},
		{call("coalesce", numbers, numbers), true}, {call("coalesce", numbers, texts), false},
		{call("nullif", call("coalesce", numbers, mixed), texts), false},
	} {
		e := expr.Contains{X: c.list, Item: expr.Const{Value: expr.Int(1)}}
		if _, err := expr.CheckTypes(e, typeOfColumn); (err == nil) != c.right {
			t.Errorf("%s: %v", e, err)
		}
	}
}

// TestCheckTypesLooksAtOperandsOnce checks that deep trees take no exponential time.
func TestCheckTypesLooksAtOperandsOnce(t *testing.T) {
	i := expr.Column{Ordinal: 1, Name: "i"}
	var sum, choice, compared expr.Expr = i, i, i
	for range (expr.MaxDepth - 2) / 2 {
		sum = expr.Arith{Op: expr.Add, L: sum, R: i}
		choice = expr.Func{Name: "coalesce", Args: []expr.Expr{i, choice}}
		compared = expr.Case{Whens: []expr.When{
			{If: expr.In{X: compared, List: []expr.Expr{i, i}}, Then: i}}, Else: expr.Const{}}
	}
	for _, e := range []expr.Expr{sum, choice, compared} {
		if typ, err := expr.CheckTypes(e, typeOfColumn); err != nil || typ.Kind != expr.KindInt {
			t.Error(typ, err)
		}
	}
}
