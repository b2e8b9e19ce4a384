package syntax

import (
	"slices"
	"strings"
)

// Nearest returns the candidate that a misspelt name is likely meant to be, "" if none is
// close: the smallest edit distance, at most a third of the name and never more than 3; of equal
// ones that with the longest common beginning.
func Nearest(name string, candidates []string) string {
	best, limit, common := "", min(3, (len(name)+1)/3), -1
	name = strings.ToLower(name)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d, n := distance(name, strings.ToLower(c), limit), commonPrefix(name, strings.ToLower(c))
		if d < limit || d == limit && n > common {
			best, limit, common = c, d, n
		}
	}
	return best
}

// commonPrefix is how many bytes two texts begin with together.
func commonPrefix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// distance is the number of characters to insert, delete, replace or exchange with their
// neighbour that turn a into b (optimal string alignment); more than limit is not exact.
func distance(a, b string, limit int) int {
	s, t := []rune(a), []rune(b)
	if len(s)-len(t) > limit || len(t)-len(s) > limit {
		return limit + 1
	}
	rows := [3][]int{make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)}
	before, last, next := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := range s {
		next[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(t)]
}
