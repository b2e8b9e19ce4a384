package composite

import (
	"math"
	"strconv"
	"strings"

	"github.com/kstonedb/kstone/keycodec"
)

// scaled returns the decimal in units of 10^-Scale. A value that is not a
// whole number of them, or does not fit, is refused: rounding or wrapping would make two values
// equal.
func (f Field) scaled(v any) (int64, error) {
	d, ok := v.(keycodec.Decimal)
	if !ok {
		return 0, f.mismatch(v)
	}
	least := keycodec.NewDecimal(math.MinInt64, int32(f.Scale))
	most := keycodec.NewDecimal(math.MaxInt64, int32(f.Scale))
	if d.Compare(least) < 0 || d.Compare(most) > 0 {
		return 0, f.refuse("%s is outside %s to %s, what 8 bytes hold of %d places", d, least,
			most, f.Scale)
	}
	// The text of a number within these bounds has an exponent only if the number is
	// smaller than any place counts.
	whole, fraction, _ := strings.Cut(d.String(), ".")
	if strings.Contains(whole+fraction, "E") || len(fraction) > f.Scale {
		return 0, f.refuse("%s has more than %d decimal places", d, f.Scale)
	}
	digits := whole + fraction + strings.Repeat("0", f.Scale-len(fraction))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, f.refuse("%s: %v", d, err)
	}
	return n, nil
}
