package keycodec

import (
	"fmt"
	"math"
	"math/bits"
)

// Format: a fixed-scale decimal is its value times 10^scale, as an int64. The scale is
// part of the schema: numbers of different scales do not compare.

// Coefficient returns the integer c for which d is c × 10^-scale. It fails if d has more
// decimal places than that, or if c does not fit an int64; it never rounds. A scale of 2
// reaches to ±92,233,720,368,547,758.07, a scale of 8 to ±92,233,720,368.54775807.
func (d Decimal) Coefficient(scale int32) (int64, error) {
	if d.digits == "" {
		return 0, nil
	}
	// d is an integer of all its digits times 10^shift.
	shift := 2*(int64(d.exponent)-int64(len(d.digits))) + int64(scale)
	last := d.digits[len(d.digits)-1]
	if shift < -1 || shift == -1 && last%10 != 0 {
		return 0, fmt.Errorf("keycodec: %s has more than %d decimal places", d, scale)
	}
	low := uint64(0) // the absolute value
	for i := range len(d.digits) {
		base, digit := uint64(100), uint64(d.digits[i])
		if shift == -1 && i == len(d.digits)-1 { // the extra half digit is 0
			base, digit = 10, digit/10
		}
		over, product := bits.Mul64(low, base)
		sum, carry := bits.Add64(product, digit, 0)
		if over+carry != 0 {
			return 0, d.unfit(scale)
		}
		low = sum
	}
	for ; shift > 0; shift-- {
		if low > math.MaxInt64/10 {
			return 0, d.unfit(scale)
		}
		low *= 10
	}
	switch {
	case d.negative && low <= 1<<63:
		return int64(-low), nil
	case !d.negative && low <= math.MaxInt64:
		return int64(low), nil
	}
	return 0, d.unfit(scale)
}

func (d Decimal) unfit(scale int32) error {
	return fmt.Errorf("keycodec: %s is out of the range of %d decimal places", d, scale)
}

// AppendFixed appends the ordered encoding of d with scale decimal places, 8 bytes. It
// fails, with dst as it was, in the cases of Decimal.Coefficient. Without a Decimal,
// AppendInt64 of the coefficient is the same.
func AppendFixed(dst []byte, d Decimal, scale int32) ([]byte, error) {
	c, err := d.Coefficient(scale)
	if err != nil {
		return dst, err
	}
	return AppendInt64(dst, c), nil
}

// DecodeFixed reads the decimal of scale decimal places at the start of b and returns
// what follows it.
func DecodeFixed(b []byte, scale int32) (d Decimal, rest []byte, err error) {
	c, rest, err := DecodeInt64(b)
	if err != nil {
		return Decimal{}, nil, err
	}
	return NewDecimal(c, scale), rest, nil
}
