package sql_test

import (
	"runtime"
	"strings"
	"testing"
)

// TestMemoryOfInserts: the memory that it takes to bind the text of many rows grows with the text.
func TestMemoryOfInserts(t *testing.T) {
	s := openSession(t)
	exec(t, s, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
	text := "INSERT INTO t VALUES (1, 2)" + strings.Repeat(", (1, 2)", 1000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stmt, err := s.Prepare(text)
	ok(t, err)
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(stmt)
	const most = 1000 // bytes for each of the text
	if took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); took > most {
		t.Errorf("%d bytes for each of the text, at most %d are expected", took, most)
	}
}
