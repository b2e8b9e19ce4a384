package keycodec

import (
	"bytes"
	"encoding/binary"
)

// Format: a decimal 0.d1d2d3… × 100^E is
//
//	zero              80
//	positive          A1+E (82 to C0) for E from -31 to 31,
//	                  81 or C1 and E as an int64-style u32 below and above,
//	                  then d+1 for each digit (01 to 64), then 00
//	negative          the complement of the positive number's bytes
//
// The first and the last digit are not 0, so a number has one encoding: 1.0 is 1.00.
//
// Why it sorts: positive numbers by exponent, then digit by digit; a number that ends
// (00) is below one that goes on. After SQLite4's key encoding, without type codes.

// On disk: the first bytes of decimals.
const (
	decimalZero  = 0x80
	decimalBase  = 0xa1 // exponent 0
	decimalTiny  = 0x81 // exponent below -inlineExponent follows in 4 bytes
	decimalHuge  = 0xc1 // exponent above inlineExponent follows in 4 bytes
	digitOffset  = 1    // added to each digit, so that 00 can end the number
	exponentBias = 1 << 31

	inlineExponent = 31
)

// AppendDecimal appends the ordered encoding of d. It takes about one byte for two
// decimal places, and two more.
func AppendDecimal(dst []byte, d Decimal) []byte {
	start := len(dst)
	if d.digits == "" {
		return append(dst, decimalZero)
	}
	dst = appendExponent(dst, d.exponent)
	for i := range len(d.digits) {
		dst = append(dst, d.digits[i]+digitOffset)
	}
	dst = append(dst, 0)
	if d.negative {
		return InvertFrom(dst, start)
	}
	return dst
}

// AppendScaled appends the ordered encoding of coefficient × 10^-scale, the same bytes
// as AppendDecimal(dst, NewDecimal(coefficient, scale)), without allocating.
func AppendScaled(dst []byte, coefficient int64, scale int32) []byte {
	var buf [maxInt64Digits]byte
	digits, exponent := splitInt64(&buf, coefficient, scale)
	if len(digits) == 0 {
		return append(dst, decimalZero)
	}
	start := len(dst)
	dst = appendExponent(dst, exponent)
	for _, d := range digits {
		dst = append(dst, d+digitOffset)
	}
	dst = append(dst, 0)
	if coefficient < 0 {
		return InvertFrom(dst, start)
	}
	return dst
}

func appendExponent(dst []byte, e int32) []byte {
	switch {
	case e > inlineExponent:
		dst = append(dst, decimalHuge)
	case e < -inlineExponent:
		dst = append(dst, decimalTiny)
	default:
		return append(dst, byte(decimalBase+e))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(e)^exponentBias)
}

// DecodeDecimal reads the decimal at the start of b and returns what follows it.
func DecodeDecimal(b []byte) (d Decimal, rest []byte, err error) {
	n, err := decimalLen(b, 0)
	if err != nil {
		return Decimal{}, nil, err
	}
	if n == 1 {
		return Decimal{}, b[1:], nil
	}
	mask := byte(0)
	if b[0] < decimalZero {
		mask, d.negative = 0xff, true
	}
	at := 1
	d.exponent = int32(b[0]^mask) - decimalBase
	if head := b[0] ^ mask; head == decimalTiny || head == decimalHuge {
		at = 5
		d.exponent = int32(binary.BigEndian.Uint32(b[1:]) ^ exponentBias)
		if mask != 0 {
			d.exponent = ^d.exponent
		}
		// Only exponents that do not fit the short form may use the long one.
		tiny := d.exponent >= -maxExponent && d.exponent < -inlineExponent
		huge := d.exponent <= maxExponent && d.exponent > inlineExponent
		if head == decimalTiny && !tiny || head == decimalHuge && !huge {
			return Decimal{}, nil, damaged("decimal", 1, "an exponent in its range", d.exponent)
		}
	}
	digits := make([]byte, 0, n-at-1)
	for i, c := range b[at : n-1] {
		c = c ^ mask - digitOffset
		if c > 99 {
			return Decimal{}, nil, damaged("decimal", at+i, "a digit of 01 to 64", hexByte(c+1))
		}
		digits = append(digits, c)
	}
	if len(digits) == 0 || digits[0] == 0 || digits[len(digits)-1] == 0 {
		return Decimal{}, nil, damaged("decimal", at, "no digit 0 at either end", "other")
	}
	d.digits = string(digits)
	return d, b[n:], nil
}

// decimalLen returns the length of the decimal at the start of b, its terminator
// included. It checks no more than it needs. mask is FF for a descending field.
func decimalLen(b []byte, mask byte) (int, error) {
	if len(b) == 0 {
		return 0, truncated("decimal", 1, 0)
	}
	head := b[0] ^ mask
	if head == decimalZero {
		return 1, nil
	}
	if head < decimalZero { // a negative number: complemented once more
		mask ^= 0xff
		head ^= 0xff
	}
	at := 1
	switch {
	case head == decimalTiny || head == decimalHuge:
		at = 5
	case head < decimalTiny || head > decimalHuge:
		return 0, damaged("decimal", 0, "a first byte of 3e to c1", hexByte(b[0]))
	}
	if len(b) < at {
		return 0, truncated("decimal", at, len(b))
	}
	i := bytes.IndexByte(b[at:], mask)
	if i < 0 {
		return 0, damaged("decimal", len(b), "a terminator", "the end")
	}
	return at + i + 1, nil
}
