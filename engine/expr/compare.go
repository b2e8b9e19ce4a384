package expr

import (
	"cmp"
	"math"
	"strings"
	"unsafe"

	"github.com/kstonedb/kstone/keycodec"
)

// Compare compares two values: c is -1, 0 or +1. ok is false if they cannot be compared:
// if one is NULL, or if they are neither of one kind nor both numbers.
//
// Numbers compare by their exact values, an integer with a float as well. NaN is equal to
// itself and less than every other number. false is less than true; texts and byte
// strings go by their bytes, IPv4 before IPv6, lists element by element.
func Compare(a, b Value) (c int, ok bool) {
	switch {
	case a.kind == b.kind:
		if a.kind == KindNull {
			return 0, false
		}
		return compareSame(a, b), true
	case a.kind.Numeric() && b.kind.Numeric():
		return compareNumbers(a, b), true
	}
	return 0, false
}

// Order compares two values of any kinds, for sorting: NULL first, then bool, numbers,
// text and the other kinds in the order of their constants. Values are equal under Order
// if they are both NULL or equal under Compare.
func Order(a, b Value) int {
	if c, ok := Compare(a, b); ok {
		return c
	}
	return cmp.Compare(a.kind.class(), b.kind.class())
}

// class is the kind, one for all numbers.
func (k Kind) class() Kind {
	if k.Numeric() {
		return KindInt
	}
	return k
}

// compareSame compares values of one kind.
func compareSame(a, b Value) int {
	switch a.kind {
	case KindInt:
		return cmp.Compare(int64(a.n), int64(b.n))
	case KindFloat:
		return cmp.Compare(math.Float64frombits(a.n), math.Float64frombits(b.n))
	case KindString, KindBytes:
		return strings.Compare(a.s, b.s)
	case KindTime:
		if c := cmp.Compare(int64(a.n), int64(b.n)); c != 0 {
			return c
		}
		return cmp.Compare(a.m, b.m)
	case KindDecimal:
		return compareDecimals(a, b)
	case KindList:
		return compareLists(a, b)
	}
	// Bool, uint, UUID, address, prefix.
	if c := cmp.Compare(a.family, b.family); c != 0 {
		return c
	}
	if c := cmp.Compare(a.n, b.n); c != 0 {
		return c
	}
	if c := cmp.Compare(a.m, b.m); c != 0 {
		return c
	}
	return cmp.Compare(a.places, b.places)
}

// compareNumbers compares numbers of different kinds.
func compareNumbers(a, b Value) int {
	switch {
	case b.kind == KindFloat:
		return compareFloat(a, math.Float64frombits(b.n))
	case a.kind == KindFloat:
		return -compareFloat(b, math.Float64frombits(a.n))
	case a.kind == KindDecimal || b.kind == KindDecimal:
		return compareDecimals(a, b)
	case a.kind == KindInt: // b is a uint
		if int64(a.n) < 0 {
			return -1
		}
		return cmp.Compare(a.n, b.n)
	}
	if int64(b.n) < 0 {
		return 1
	}
	return cmp.Compare(a.n, b.n)
}

// compareFloat compares an integer or decimal with a float.
func compareFloat(a Value, f float64) int {
	switch {
	case f != f:
		return 1
	case math.IsInf(f, 0):
		return -int(math.Copysign(1, f))
	}
	// Rounding is monotonic: what rounds to less than f is less than f.
	near, _ := a.AsFloat()
	if c := cmp.Compare(near, f); c != 0 {
		return c
	}
	switch {
	case f == math.Trunc(f) && f >= -1<<63 && f < 1<<63:
		return Order(a, Int(int64(f)))
	case f == math.Trunc(f) && f >= 0 && f < 1<<64:
		return Order(a, Uint(uint64(f)))
	}
	return Order(a, exactDecimal(f))
}

// compareDecimals compares integers and decimals, at least one of them a decimal.
func compareDecimals(a, b Value) int {
	if a.s == "" && b.s == "" && a.kind != KindUint && b.kind != KindUint {
		return compareScaled(int64(a.n), int64(b.n), int(a.places), int(b.places))
	}
	var x, y [64]byte
	ax, by := a.s, b.s
	if ax == "" {
		ax = view(a.appendOrdered(x[:0]))
	}
	if by == "" {
		by = view(b.appendOrdered(y[:0]))
	}
	return cmp.Compare(ax, by) // strings.Compare would make the buffers escape
}

// view returns b as a string that shares its bytes.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// compareScaled compares a × 10^-x with b × 10^-y.
func compareScaled(a, b int64, x, y int) int {
	if x == y || (a < 0) != (b < 0) {
		return cmp.Compare(a, b)
	}
	scale := max(x, y)
	ahi, alo := mulAbs(a, pow10[scale-x])
	bhi, blo := mulAbs(b, pow10[scale-y])
	c := cmp.Compare(ahi, bhi)
	if c == 0 {
		c = cmp.Compare(alo, blo)
	}
	if a < 0 {
		return -c
	}
	return c
}

func compareLists(a, b Value) int {
	x, y := a.s, b.s
	for x != "" && y != "" {
		var v, w Value
		v, x = nextElement(x)
		w, y = nextElement(y)
		if c := Order(v, w); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// Canonical returns the same number in the one form that equal numbers share: an integer
// that fits as an int, then as a uint, then as a decimal; NaN, infinities and nothing
// else as a float. So it does with the elements of a list; other values are returned as
// they are. a.Canonical() == b.Canonical() if and only if they are equal under Order,
// which is what tables by hash need.
func (v Value) Canonical() Value {
	switch v.kind {
	case KindFloat:
		if f := math.Float64frombits(v.n); f != f || math.IsInf(f, 0) {
			return v
		}
	case KindUint, KindDecimal:
	case KindList:
		b := make([]byte, 0, len(v.s))
		for e := range v.Elements() {
			b = appendElement(b, e.Canonical())
		}
		return Value{kind: KindList, s: view(b), n: v.n}
	default:
		return v
	}
	if i, ok := v.AsInt(); ok {
		return Int(i)
	}
	if u, ok := v.AsUint(); ok {
		return Uint(u)
	}
	if v.kind == KindFloat {
		return exactDecimal(math.Float64frombits(v.n))
	}
	return v
}

// compareUnder is Compare with texts compared under a collation.
func compareUnder(a, b Value, c keycodec.Collation) (int, bool) {
	if c != keycodec.CollateBytes && a.kind == KindString && b.kind == KindString {
		return CompareFolded(a.s, b.s, c), true
	}
	return Compare(a, b)
}
