// Package figure writes numbers, sizes and times for people.
package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a number with commas between its thousands.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	out := digits
	for i := len(digits) - 3; i > 0; i -= 3 {
		out = out[:i] + "," + out[i:]
	}
	return sign + out
}

// Rows writes a number of rows.
func Rows(n int64) string { return Plural(n, "row") }

// Plural writes a number of things, which a word of the rules names: items, entries, keys.
func Plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok && !strings.HasSuffix(stem, "e") {
		return Count(n) + " " + stem + "ies"
	}
	return Count(n) + " " + what + "s"
}

// Bytes writes a size in the unit that fits.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/(1<<10), 0
	for v >= 1000 && unit < 4 {
		v /= 1 << 10
		unit++
	}
	digits := 1
	if v >= 100 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + string("KMGTP"[unit]) + "iB"
}

// units are the units of ParseBytes, in lower case.
var units = map[string]int64{
	"": 1, "b": 1,
	"k": 1 << 10, "kib": 1 << 10, "kb": 1e3,
	"m": 1 << 20, "mib": 1 << 20, "mb": 1e6,
	"g": 1 << 30, "gib": 1 << 30, "gb": 1e9,
	"t": 1 << 40, "tib": 1 << 40, "tb": 1e12,
}

// ParseBytes reads a size: a whole number and a unit, in which 1K and 1KiB are 1024 and 1KB
// is 1000 bytes. Upper and lower case are the same.
func ParseBytes(text string) (int64, error) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	unit, known := units[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size: want a number with a unit, as 64KiB, 50MB or 2G",
			text)
	}
	return n * unit, nil
}

// Duration writes a duration with three significant digits at most.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// PerSecond writes a rate.
func PerSecond(n int64, d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return Count(int64(float64(n)/d.Seconds())) + "/s"
}
