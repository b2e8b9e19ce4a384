package expr

import (
	"fmt"
	"math"
)

func callAbs(args []Value) (Value, error) {
	v := args[0]
	if c, _ := Compare(v, Int(0)); c < 0 {
		return negate(v)
	}
	return v, nil
}

func callSign(args []Value) (Value, error) {
	v := args[0]
	if f := floatOf(v); v.kind == KindFloat && f != f {
		return Value{}, nil
	}
	c, _ := Compare(v, Int(0))
	return Int(int64(c)), nil
}

// roundBy returns round or trunc: to some places, which are before the point if negative, by half
// away from zero or by cutting off. The result is of the kind of the number.
func roundBy(by func(v Value, places int) (Value, bool)) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		v, places := args[0], int64(0)
		if len(args) == 2 {
			places, _ = args[1].AsInt()
		}
		places = max(-maxArithDigits, min(places, maxArithDigits))
		f := floatOf(v)
		switch {
		case v.kind == KindFloat && (f != f || math.IsInf(f, 0)):
			return v, nil
		case v.kind == KindFloat:
			d, ok := roundTo(v, -1)
			if ok {
				d, ok = by(d, int(places))
			}
			f, _ := d.AsFloat()
			return Float(f), outOfRange(v, ok)
		}
		out, ok := by(v, int(places))
		if v.kind != KindDecimal {
			out = integral(out)
		}
		return out, outOfRange(v, ok)
	}
}

func outOfRange(v Value, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrRange, v)
}

// integer returns floor or, with up, ceil, of the kind of the number.
func integer(up bool) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		v := args[0]
		if v.kind == KindFloat && up {
			return Float(math.Ceil(floatOf(v))), nil
		}
		if v.kind == KindFloat {
			return Float(math.Floor(floatOf(v))), nil
		}
		whole, ok := truncated(v)
		if c, _ := Compare(v, whole); !ok || c == 0 || (c > 0) != up {
			return decimalIf(v, whole), outOfRange(v, ok)
		}
		step := Int(-1)
		if up {
			step = Int(1)
		}
		whole, err := Calculate(Add, whole, step)
		return decimalIf(v, whole), err
	}
}

// decimalIf returns a whole number as a decimal if v is a decimal.
func decimalIf(v, whole Value) Value {
	if d, ok := whole.AsDecimal(); ok && v.kind == KindDecimal {
		return Decimal(d)
	}
	return whole
}

// ofFloat is for functions of real numbers: NULL where they are not defined.
func ofFloat(f func(float64) float64) func([]Value) (Value, error) {
	return func(args []Value) (Value, error) {
		x, _ := args[0].AsFloat()
		return defined(f(x), x), nil
	}
}

// defined returns a result, NULL if it is not a number although the operands are.
func defined(result float64, operands ...float64) Value {
	for _, x := range operands {
		if x != x {
			return Float(result)
		}
	}
	if result != result {
		return Value{}
	}
	return Float(result)
}

func sqrt(x float64) float64        { return math.Sqrt(x) }
func exponential(x float64) float64 { return math.Exp(x) }

func logarithm(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return math.Log(x)
}

func logarithm10(x float64) float64 {
	if x <= 0 {
		return math.NaN()
	}
	return math.Log10(x)
}

func callPower(args []Value) (Value, error) {
	x, _ := args[0].AsFloat()
	y, _ := args[1].AsFloat()
	return defined(math.Pow(x, y), x, y), nil
}
