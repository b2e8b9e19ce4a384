package expr

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// maxArithDigits limits the digits of operands and results of decimal arithmetic.
const maxArithDigits = 2000

// divisionScale is the number of decimal places of a quotient of decimals.
const divisionScale = 18

func compileArith(e Arith) (valueFn, error) {
	nodes := maxIntNodes
	if v, ok := constantOf(e, &nodes); ok {
		return func(env) (Value, error) { return v, nil }, nil
	}
	return compileCalculation(e, false)
}

// constantOf returns the value of a calculation with nothing but constants, if it has one; nodes is
// how many of its nodes are left to be looked at.
func constantOf(e Expr, nodes *int) (v Value, ok bool) {
	if *nodes--; *nodes < 0 {
		return v, false
	}
	switch e := e.(type) {
	case Const:
		return e.Value, true
	case Arith:
		r := Value{}
		if v, ok = constantOf(e.L, nodes); ok && e.Op < Neg {
			r, ok = constantOf(e.R, nodes)
		}
		if !ok || e.Op > Neg {
			return v, false
		}
		v, err := Calculate(e.Op, v, r)
		return v, err == nil
	}
	return v, false
}

// compileCalculation compiles arithmetic. Covered says that it is an operand of a calculation that
// has an intFn, and needs none itself.
func compileCalculation(e Arith, covered bool) (valueFn, error) {
	if int(e.Op) >= len(arithNames) {
		return nil, fmt.Errorf("expr: unknown %s", e.Op)
	}
	r := e.R
	if e.Op == Neg {
		r = Const{Int(0)}
	}
	if e.L == nil || r == nil {
		return nil, fmt.Errorf("expr: the operator %s lacks an operand", e.Op)
	}
	var ints intFn
	if !covered {
		ints = compileInt(e)
	}
	left, err := compileOperand(e.L, covered || ints != nil)
	if err != nil {
		return nil, err
	}
	right, err := compileOperand(r, covered || ints != nil)
	if err != nil {
		return nil, err
	}
	op := e.Op
	return func(m env) (Value, error) {
		if ints != nil && m.get == nil {
			if x, ok := ints(m.row, m.params); ok {
				return Int(x), nil
			}
		}
		v, w, err := evalPair(m, left, right)
		if err != nil {
			return Value{}, err
		}
		return Calculate(op, v, w)
	}, nil
}

// compileOperand is compileValue of an operand of a calculation.
func compileOperand(e Expr, covered bool) (valueFn, error) {
	if a, ok := e.(Arith); ok && covered {
		return compileCalculation(a, true)
	}
	return compileValue(e)
}

// Calculate applies an operator to two values; Neg ignores the second. A NULL operand
// gives NULL. It fails with ErrType for operands that are no numbers and with ErrRange
// for decimals of thousands of digits.
func Calculate(op ArithOp, a, b Value) (Value, error) {
	switch {
	case op == Neg:
		return negate(a)
	case a.kind == KindInt && b.kind == KindInt: // most of all
		if v, ok := intArith(op, int64(a.n), int64(b.n)); ok {
			return v, nil
		}
	case a.kind == KindNull || b.kind == KindNull:
		return Value{}, nil
	case !a.kind.Numeric() || !b.kind.Numeric():
		return Value{}, fmt.Errorf("%w: %s %s %s", ErrType, a, op, b)
	case a.kind == KindFloat || b.kind == KindFloat:
		x, _ := a.AsFloat()
		y, _ := b.AsFloat()
		return floatArith(op, x, y), nil
	case a.kind == KindDecimal || b.kind == KindDecimal:
		return decimalArith(op, a, b)
	}
	x, xok := a.AsInt()
	y, yok := b.AsInt()
	if xok && yok {
		if v, ok := intArith(op, x, y); ok {
			return v, nil
		}
	}
	v, err := decimalArith(op, a, b)
	if err != nil || v.IsNull() {
		return v, err
	}
	return integral(v), nil
}

// integral returns a decimal without places as an int or uint if it fits.
func integral(v Value) Value {
	if i, ok := v.AsInt(); ok {
		return Int(i)
	}
	if u, ok := v.AsUint(); ok {
		return Uint(u)
	}
	return v
}

func negate(a Value) (Value, error) {
	switch a.kind {
	case KindNull:
		return a, nil
	case KindFloat:
		return Float(-math.Float64frombits(a.n)), nil
	}
	if a.kind == KindInt && int64(a.n) != math.MinInt64 {
		return Int(-int64(a.n)), nil
	}
	return Calculate(Sub, Int(0), a)
}

func floatArith(op ArithOp, x, y float64) Value {
	switch op {
	case Add:
		return Float(x + y)
	case Sub:
		return Float(x - y)
	case Mul:
		return Float(x * y)
	}
	if y == 0 {
		return Value{}
	}
	if op == Div {
		return Float(x / y)
	}
	return Float(math.Mod(x, y))
}

// intArith calculates with int64; ok is false if the result does not fit.
func intArith(op ArithOp, x, y int64) (v Value, ok bool) {
	switch op {
	case Add:
		sum := x + y
		return Int(sum), (sum > x) == (y > 0)
	case Sub:
		diff := x - y
		return Int(diff), (diff < x) == (y > 0)
	case Mul:
		return mulInts(x, y)
	case Div:
		switch {
		case y == 0:
			return Value{}, true
		case y == -1:
			return Int(-x), x != math.MinInt64
		}
		return Int(x / y), true
	}
	switch y {
	case 0:
		return Value{}, true
	case -1:
		return Int(0), true
	}
	return Int(x % y), true
}

func mulInts(x, y int64) (Value, bool) {
	u := uint64(y)
	if y < 0 {
		u = -u
	}
	hi, lo := mulAbs(x, u)
	if hi != 0 || bits.Len64(lo) == 64 {
		return Value{}, false
	}
	return Int(x * y), true
}

func decimalArith(op ArithOp, a, b Value) (Value, error) {
	x, xs, xok := bigOf(a)
	y, ys, yok := bigOf(b)
	if !xok || !yok {
		return Value{}, fmt.Errorf("%w: %s %s %s", ErrRange, a, op, b)
	}
	scale := max(xs, ys)
	if op == Mul {
		return fromBig(x.Mul(x, y), xs+ys)
	}
	scaleUp(x, scale-xs)
	scaleUp(y, scale-ys)
	switch op {
	case Add:
		return fromBig(x.Add(x, y), scale)
	case Sub:
		return fromBig(x.Sub(x, y), scale)
	}
	switch {
	case y.Sign() == 0:
		return Value{}, nil
	case op == Mod:
		return fromBig(x.Rem(x, y), scale)
	case a.kind != KindDecimal && b.kind != KindDecimal:
		return fromBig(x.Quo(x, y), 0)
	}
	scaleUp(x, divisionScale)
	return fromBig(divideEven(x, y), divisionScale)
}

func scaleUp(x *big.Int, places int) {
	if places > 0 {
		x.Mul(x, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
	}
}

// divideEven returns x / y, rounded half to even.
func divideEven(x, y *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	twice := new(big.Int).Abs(r)
	twice.Lsh(twice, 1)
	c := twice.CmpAbs(y)
	if c > 0 || (c == 0 && q.Bit(0) == 1) {
		step := int64(1)
		if x.Sign() != y.Sign() {
			step = -1
		}
		q.Add(q, big.NewInt(step))
	}
	return q
}

// fromBig returns x × 10^-scale as a decimal value.
func fromBig(x *big.Int, scale int) (Value, error) {
	if x.IsInt64() && scale >= 0 && scale <= maxSmallScale {
		return Scaled(x.Int64(), int32(scale)), nil
	}
	text := x.String()
	if len(text) > 2*maxArithDigits {
		return Value{}, fmt.Errorf("%w: %d digits", ErrRange, len(text))
	}
	d, err := keycodec.ParseDecimal(text + "e" + strconv.Itoa(-scale))
	if err != nil {
		return Value{}, fmt.Errorf("%w: %w", ErrRange, err)
	}
	return Decimal(d), nil
}

// bigOfText reads the text form of a decimal as coefficient × 10^-scale, scale >= 0.
func bigOfText(text string) (c *big.Int, scale int, ok bool) {
	mantissa, exponent, _ := strings.Cut(text, "E")
	if exponent != "" {
		e, err := strconv.Atoi(exponent)
		if err != nil {
			return nil, 0, false
		}
		scale = -e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	scale += len(fraction)
	digits := whole + fraction
	if len(digits) > maxArithDigits || scale > maxArithDigits || scale < -maxArithDigits {
		return nil, 0, false
	}
	c, ok = new(big.Int).SetString(digits, 10)
	if ok && scale < 0 {
		scaleUp(c, -scale)
		scale = 0
	}
	return c, scale, ok
}
