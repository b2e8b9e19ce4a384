package sql_test

import (
	"strconv"
	"testing"
)

// BenchmarkPrepareSimple parses, binds and plans a text that the session has not seen, over a
// table with two indexes.
func BenchmarkPrepareSimple(b *testing.B) {
	s := openSession(b)
	exec(b, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c TEXT)")
	exec(b, s, "CREATE INDEX by_a ON t (a)")
	exec(b, s, "CREATE INDEX by_b ON t (b)")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		text := "SELECT a, b FROM t WHERE a > " + strconv.Itoa(n) + " AND b = 3"
		ok(b, second(s.Prepare(text)))
	}
}
