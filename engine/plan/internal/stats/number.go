package stats

import "strconv"

// Grouped returns a number with commas between thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	from := 0
	if n < 0 {
		from = 1
	}
	for i := len(s) - 3; i > from; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
