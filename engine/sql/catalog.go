package sql

import (
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/schema"
)

// catalog knows the tables that the names in a statement stand for. Implementations may
// be called concurrently.
type catalog interface {
	// Schema returns the table with exactly that name, nil if there is none. The same
	// pointer means that nothing has changed.
	Schema(name string) *schema.Table
	// Names returns the names of all tables.
	Names() []string
}

// nearest returns the candidate that a misspelt name is likely meant to be, "" if none is
// close: the smallest edit distance, at most a third of the name and never more than 3; of equal
// ones that with the longest common beginning.
func nearest(name string, candidates []string) string {
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

// hint returns the end of a message about an unknown name.
func hint(name string, candidates []string) string {
	if near := nearest(name, candidates); near != "" {
		return "; did you mean " + syntax.QuoteName(near) + "?"
	}
	return ""
}

// columnNames returns the columns of a table that are not dropped.
func columnNames(t *schema.Table) []string {
	var names []string
	for i := range t.Columns {
		if !t.Columns[i].Dropped {
			names = append(names, t.Columns[i].Name)
		}
	}
	return names
}

// indexNames returns the indexes of a table.
func indexNames(t *schema.Table) []string {
	var names []string
	for _, x := range t.Indexes {
		names = append(names, x.Name)
	}
	return names
}

// columnNamed returns the ordinal of a column: of the one with exactly that name, or else
// of the only one that differs in case; -1 if there is none.
func columnNamed(t *schema.Table, name string) int {
	if i := t.Column(name); i >= 0 {
		return i
	}
	found := -1
	for i := range t.Columns {
		if !t.Columns[i].Dropped && strings.EqualFold(t.Columns[i].Name, name) {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}
