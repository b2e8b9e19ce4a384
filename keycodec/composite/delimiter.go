package composite

import (
	"fmt"
	"slices"
)

// Delimiter is what stands between the shard, and between the fields.
type Delimiter uint8

// The delimiters. Fields of fixed width need none, so with them all four are equally
// safe. Strings of variable length that other fields follow must not contain a byte up to
// the delimiter's first, which UnitSeparator makes bytes below 20, NullByte and DoubleByte
// the zero byte; HighByte cannot order them at all.
const (
	UnitSeparator Delimiter = iota // 1F
	NullByte                       // 00
	HighByte                       // FF
	DoubleByte                     // 00 01
)

// On disk: the bytes, and the names in stored schemas.
var (
	delimiterBytes = [...]string{"\x1f", "\x00", "\xff", "\x00\x01"}
	delimiterNames = [...]string{"UNIT_SEPARATOR", "NULL_BYTE", "HIGH_BYTE", "DOUBLE_BYTE"}
)

// String returns "UNIT_SEPARATOR", "NULL_BYTE", "HIGH_BYTE" or "DOUBLE_BYTE".
func (d Delimiter) String() string {
	if d.valid() {
		return delimiterNames[d]
	}
	return fmt.Sprintf("delimiter %d", uint8(d))
}

// ParseDelimiter returns the delimiter with that name.
func ParseDelimiter(name string) (Delimiter, error) {
	i := slices.Index(delimiterNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("composite: unknown delimiter %q; there are UNIT_SEPARATOR,"+
			" NULL_BYTE, HIGH_BYTE, DOUBLE_BYTE", name)
	}
	return Delimiter(i), nil
}

func (d Delimiter) valid() bool { return d <= DoubleByte }

// bytes returns what is written. Requires: d is valid.
func (d Delimiter) bytes() string { return delimiterBytes[d] }
