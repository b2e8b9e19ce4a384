package expr

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/kstonedb/kstone/keycodec"
)

// A decimal is held in one of two ways, so that equal numbers are equal with ==:
//
//	small  coefficient × 10^-scale, scale 0 to 18 and as small as possible, if the
//	       coefficient is an int64
//	large  the ordered encoding of keycodec in all other cases

const maxSmallScale = 18

// Decimal returns the value of a decimal number.
func Decimal(v keycodec.Decimal) Value {
	var buf [64]byte
	return DecimalOf(string(keycodec.AppendDecimal(buf[:0], v)))
}

// DecimalOf returns the decimal number whose ordered encoding (see package keycodec) is
// the whole of encoded, which it may keep. Requires: encoded is valid.
func DecimalOf(encoded string) Value {
	if c, scale, ok := smallOf(encoded); ok {
		return Value{kind: KindDecimal, n: uint64(c), places: scale}
	}
	return Value{kind: KindDecimal, s: encoded}
}

// Scaled returns the decimal coefficient × 10^-scale. It allocates nothing.
// Requires: 0 <= scale <= 18.
func Scaled(coefficient int64, scale int32) Value {
	for scale > 0 && coefficient%10 == 0 {
		coefficient /= 10
		scale--
	}
	return Value{kind: KindDecimal, n: uint64(coefficient), places: uint8(scale)}
}

// smallOf reads an ordered encoding as coefficient and smallest scale.
func smallOf(encoded string) (coefficient int64, scale uint8, ok bool) {
	if len(encoded) <= 1 {
		return 0, 0, true // zero
	}
	mask := byte(0)
	if encoded[0] < 0x80 {
		mask = 0xff
	}
	exponent := int(encoded[0]^mask) - 0xa1
	digits := encoded[1 : len(encoded)-1]
	if exponent < -9 || exponent > 10 || len(digits) > 10 {
		return 0, 0, false
	}
	u, carry := uint64(0), uint64(0)
	for i := range max(len(digits), exponent) {
		digit := uint64(0)
		if i < len(digits) {
			digit = uint64(digits[i]^mask) - 1
		}
		if i == len(digits)-1 && i >= exponent && digit%10 == 0 {
			carry, u = bits.Mul64(u, 10)
			digit /= 10
			scale = 1
		} else {
			carry, u = bits.Mul64(u, 100)
		}
		sum, over := bits.Add64(u, digit, 0)
		if carry != 0 || over != 0 {
			return 0, 0, false
		}
		u = sum
	}
	places := 2*max(len(digits)-exponent, 0) - int(scale)
	if places > maxSmallScale {
		return 0, 0, false
	}
	switch {
	case mask == 0 && u <= math.MaxInt64:
		return int64(u), uint8(places), true
	case mask != 0 && u <= 1<<63:
		return int64(-u), uint8(places), true
	}
	return 0, 0, false
}

// AsDecimal returns an integer or decimal as a decimal; ok is false for other kinds.
func (v Value) AsDecimal() (d keycodec.Decimal, ok bool) {
	switch v.kind {
	case KindInt:
		return keycodec.NewDecimal(int64(v.n), 0), true
	case KindUint:
		return v.decimal(), true
	case KindDecimal:
		return v.decimal(), true
	}
	return keycodec.Decimal{}, false
}

// AsScaled returns the coefficient of an integer or decimal at a scale of 0 to 18; ok is
// false if it has more decimal places, is too large, or is not such a number.
func (v Value) AsScaled(scale int32) (coefficient int64, ok bool) {
	coefficient = int64(v.n)
	switch {
	case v.kind == KindUint && v.n > math.MaxInt64, v.s != "":
		return 0, false
	case v.kind != KindDecimal && v.kind != KindInt && v.kind != KindUint:
		return 0, false
	}
	up := scale - int32(v.places)
	if up < 0 {
		return 0, false
	}
	hi, lo := mulAbs(coefficient, pow10[up])
	switch {
	case hi != 0, lo > 1<<63, lo == 1<<63 && coefficient > 0:
		return 0, false
	case coefficient < 0:
		return int64(-lo), true
	}
	return int64(lo), true
}

// AppendOrdered appends the ordered encoding (see package keycodec) of a decimal or
// integer to dst.
func (v Value) appendOrdered(dst []byte) []byte {
	switch {
	case v.s != "":
		return append(dst, v.s...)
	case v.kind == KindUint && v.n > math.MaxInt64:
		return keycodec.AppendDecimal(dst, v.decimal())
	}
	return keycodec.AppendScaled(dst, int64(v.n), int32(v.places))
}

// AppendDecimal appends the ordered encoding (see package keycodec) of an integer or
// decimal to dst; ok is false, and dst as it was, for other kinds.
func (v Value) AppendDecimal(dst []byte) (out []byte, ok bool) {
	if v.kind != KindDecimal && v.kind != KindInt && v.kind != KindUint {
		return dst, false
	}
	return v.appendOrdered(dst), true
}

// decimal returns an integer or decimal as a decimal.
func (v Value) decimal() keycodec.Decimal {
	switch {
	case v.s != "":
		d, _, _ := keycodec.DecodeDecimal(unsafe.Slice(unsafe.StringData(v.s), len(v.s)))
		return d
	case v.kind == KindUint && v.n > math.MaxInt64:
		d, _ := keycodec.ParseDecimal(strconv.FormatUint(v.n, 10))
		return d
	}
	return keycodec.NewDecimal(int64(v.n), int32(v.places))
}

// decimalFloat returns the float64 nearest to a decimal.
func (v Value) decimalFloat() float64 {
	c := int64(v.n)
	switch {
	case v.s == "" && v.places == 0:
		return float64(c)
	case v.s == "" && c > -1<<53 && c < 1<<53:
		return float64(c) / float64(pow10[v.places]) // both exact, so correctly rounded
	}
	f, _ := strconv.ParseFloat(v.decimal().String(), 64) // out of range: ±Inf, as it should
	return f
}

// exactDecimal returns the decimal that is exactly a finite float.
func exactDecimal(f float64) Value {
	_, exponent := math.Frexp(f)
	places := max(0, 53-exponent) // as many as the last binary digit has
	d, err := keycodec.ParseDecimal(strconv.FormatFloat(f, 'f', places, 64))
	if err != nil {
		return Value{}
	}
	return Decimal(d)
}

// uintOfDecimal returns a large decimal as a uint64.
func uintOfDecimal(v Value) (uint64, bool) {
	u, err := strconv.ParseUint(v.decimal().String(), 10, 64)
	return u, err == nil
}

// pow10 holds the powers of ten up to 10^19.
var pow10 = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// mulAbs returns |a| × b as 128 bits.
func mulAbs(a int64, b uint64) (hi, lo uint64) {
	u := uint64(a)
	if a < 0 {
		u = -u
	}
	return bits.Mul64(u, b)
}

// bigOf returns an integer or decimal as coefficient × 10^-scale. ok is false if it has
// so many places that arithmetic is refused.
func bigOf(v Value) (c *big.Int, scale int, ok bool) {
	switch {
	case v.kind == KindUint:
		return new(big.Int).SetUint64(v.n), 0, true
	case v.s == "":
		return big.NewInt(int64(v.n)), int(v.places), true
	}
	return bigOfText(v.decimal().String())
}

// ValidDecimal reports whether encoded is the ordered encoding of a decimal, all of it.
// It allocates nothing.
func ValidDecimal(encoded string) bool {
	if len(encoded) < 3 {
		return encoded == "\x80"
	}
	mask := byte(0)
	if encoded[0] < 0x80 {
		mask = 0xff
	}
	digits := encoded[1 : len(encoded)-1]
	switch head := encoded[0] ^ mask; {
	case head == 0x81 || head == 0xc1: // the exponent follows
		if len(encoded) < 7 {
			return false
		}
		exponent := int32(binary.BigEndian.Uint32(bytesOf(encoded[1:])) ^ 1<<31)
		if mask != 0 {
			exponent = ^exponent
		}
		const last = 5 << 28
		tiny := head == 0x81 && exponent >= -last && exponent < -31
		if !tiny && !(head == 0xc1 && exponent <= last && exponent > 31) {
			return false
		}
		digits = digits[4:]
	case head < 0x82 || head > 0xc0:
		return false
	}
	for i := range len(digits) {
		if d := (digits[i] ^ mask) - 1; d > 99 {
			return false
		}
	}
	first, end := digits[0]^mask, digits[len(digits)-1]^mask
	return first != 1 && end != 1 && encoded[len(encoded)-1] == mask
}
