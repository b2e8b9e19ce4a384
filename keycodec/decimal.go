package keycodec

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Decimal is a decimal number of any precision. It is a value, comparable with ==:
// 1.0 and 1.00 are the same Decimal. The zero value is the number 0.
//
// A number is 0.d1d2d3… × 100^exponent, with digits to the base of 100.
type Decimal struct {
	// Invariant: neither the first nor the last digit is 0; zero has no digits,
	// exponent 0 and is not negative.
	digits   string // one byte per digit, 0 to 99
	exponent int32
	negative bool
}

// maxExponent limits the exponent of a Decimal in both directions: more than two billion
// decimal places before or after the point, and more than NewDecimal can produce.
const maxExponent = 5 << 28

// plainPlaces is how many zeros String writes out next to the decimal point before it
// turns to the notation with an exponent.
const plainPlaces = 20

// NewDecimal returns coefficient × 10^-scale: NewDecimal(1234567, 2) is 12345.67.
func NewDecimal(coefficient int64, scale int32) Decimal {
	var buf [maxInt64Digits]byte
	digits, exponent := splitInt64(&buf, coefficient, scale)
	if len(digits) == 0 {
		return Decimal{}
	}
	return Decimal{string(digits), exponent, coefficient < 0}
}

// maxInt64Digits is the number of base-100 digits that an int64 can take: 19 decimal
// places, shifted by one.
const maxInt64Digits = 10

// splitInt64 writes the digits of coefficient × 10^-scale to buf and returns them with
// the exponent. The sign is the caller's.
func splitInt64(buf *[maxInt64Digits]byte, coefficient int64, scale int32) ([]byte, int32) {
	u := uint64(coefficient)
	if coefficient < 0 {
		u = -u
	}
	pos, places := len(buf), int64(scale)
	if places&1 != 0 { // the last decimal place is the first half of a digit
		places++
		pos--
		buf[pos] = byte(u%10) * 10
		u /= 10
	}
	for u > 0 {
		pos--
		buf[pos] = byte(u % 100)
		u /= 100
	}
	digits := buf[pos:]
	if len(digits) == 1 && digits[0] == 0 {
		return nil, 0
	}
	exponent := int32(int64(len(digits)) - places/2)
	for len(digits) > 0 && digits[len(digits)-1] == 0 {
		digits = digits[:len(digits)-1]
	}
	return digits, exponent
}

// ParseDecimal reads a decimal number: an optional sign, decimal digits with at most one
// point among them, and an optional exponent ("e" or "E", an optional sign, digits).
func ParseDecimal(s string) (Decimal, error) {
	bad := func() (Decimal, error) {
		return Decimal{}, fmt.Errorf("keycodec: %q is not a decimal number", s)
	}
	mantissa, negative := strings.CutPrefix(s, "-")
	if !negative {
		mantissa = strings.TrimPrefix(mantissa, "+")
	}
	shift := int64(0)
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		var err error
		shift, err = strconv.ParseInt(mantissa[i+1:], 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return bad()
		}
		// The largest and the smallest int64 are far out of range, also if a sum overflows.
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	places := whole + fraction
	if places == "" || strings.Trim(places, "0123456789") != "" {
		return bad()
	}
	point := int64(len(whole)) + shift
	significant := strings.TrimLeft(places, "0")
	point -= int64(len(places) - len(significant))
	significant = strings.TrimRight(significant, "0")
	if significant == "" {
		return Decimal{}, nil
	}
	exponent := (point + point&1) / 2
	if exponent > maxExponent || exponent < -maxExponent {
		return Decimal{}, fmt.Errorf("keycodec: the exponent of %q is out of range", s)
	}
	return Decimal{pack(significant, point), int32(exponent), negative}, nil
}

// pack joins decimal places. The first stands point places before the decimal
// point (0.places × 10^point), to digits of base 100.
func pack(places string, point int64) string {
	digits := make([]byte, 0, len(places)/2+2)
	if point&1 != 0 {
		digits = append(digits, places[0]-'0')
		places = places[1:]
	}
	for ; len(places) >= 2; places = places[2:] {
		digits = append(digits, (places[0]-'0')*10+places[1]-'0')
	}
	if places != "" {
		digits = append(digits, (places[0]-'0')*10)
	}
	return string(digits)
}

// Sign returns -1, 0 or +1.
func (d Decimal) Sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// Compare returns -1, 0 or +1, as d is less than, equal to or greater than other.
func (d Decimal) Compare(other Decimal) int {
	if c := cmp.Compare(d.Sign(), other.Sign()); c != 0 {
		return c
	}
	c := cmp.Compare(d.exponent, other.exponent)
	if c == 0 {
		c = strings.Compare(d.digits, other.digits)
	}
	return c * d.Sign()
}

// String returns the shortest text that ParseDecimal reads as d, without an exponent
// unless that takes many zeros: "12345.67", "-0.001", "1.5E+100".
func (d Decimal) String() string { return string(d.append(nil)) }

func (d Decimal) append(dst []byte) []byte {
	if d.digits == "" {
		return append(dst, '0')
	}
	if d.negative {
		dst = append(dst, '-')
	}
	places := make([]byte, 0, 2*len(d.digits))
	for i := range len(d.digits) {
		places = append(places, '0'+d.digits[i]/10, '0'+d.digits[i]%10)
	}
	point := 2 * int64(d.exponent)
	if places[0] == '0' {
		places = places[1:]
		point--
	}
	if places[len(places)-1] == '0' {
		places = places[:len(places)-1]
	}
	zeros := point - int64(len(places)) // zeros between the places and the point
	switch n := int(point); {
	case point < -plainPlaces || zeros > plainPlaces:
		return appendScientific(dst, places, point-1)
	case point <= 0:
		dst = append(dst, "0."...)
		dst = append(dst, strings.Repeat("0", -n)...)
		return append(dst, places...)
	case zeros >= 0:
		dst = append(dst, places...)
		return append(dst, strings.Repeat("0", int(zeros))...)
	default:
		dst = append(append(dst, places[:n]...), '.')
		return append(dst, places[n:]...)
	}
}

func appendScientific(dst, places []byte, exponent int64) []byte {
	dst = append(dst, places[0])
	if len(places) > 1 {
		dst = append(append(dst, '.'), places[1:]...)
	}
	dst = append(dst, 'E')
	if exponent > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, exponent, 10)
}
