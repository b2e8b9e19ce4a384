package command

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kstonedb/kstone/engine/sql"
)

// TestStatementsOfALongInput: an input beyond the limit of a text comes in whole statements,
// with the number of lines before each text, and nothing of it is lost.
func TestStatementsOfALongInput(t *testing.T) {
	var input strings.Builder
	long := strings.Repeat("x; -- 'y'' \n", 9000) // in quotes, longer than a read
	for i := range 20 {
		fmt.Fprintf(&input, "INSERT INTO t VALUES (%d, '%s;\n'); -- done; '\n\n", i,
			strings.ReplaceAll(long, "'", "''"))
	}
	input.WriteString("SELECT 1 FROM t")
	s := &statements{in: bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(input.String())),
		64<<10)}
	var all strings.Builder
	n, texts := 0, 0
	for more := true; more; texts++ {
		var text string
		var before int
		var err error
		if text, before, more, err = s.next(); err != nil {
			t.Fatal(err)
		}
		if want := strings.Count(all.String(), "\n"); before != want {
			t.Errorf("text %d: %d lines before it, want %d", texts, before, want)
		}
		parts, err := sql.Split(text)
		if err != nil {
			t.Fatalf("text %d: %v", texts, err)
		}
		n += len(parts)
		all.WriteString(text)
	}
	if n != 21 || texts < 3 || all.String() != input.String() {
		t.Errorf("%d statements in %d texts, %d of %d bytes", n, texts, all.Len(), input.Len())
	}
}

// TestPlaceInALongInput: an error names the line of the input, not of the text it was cut from.
func TestPlaceInALongInput(t *testing.T) {
	_, err := sql.Split("SELECT 1;\nSELEC")
	var e *sql.Error
	if !errors.As(placed(err, 1000), &e) || e.Line != 1002 {
		t.Errorf("%v", err)
	}
}

// TestLinesOfAScript: the work for a line of a statement does not depend on the lines before it.
func TestLinesOfAScript(t *testing.T) {
	allocs := testing.AllocsPerRun(1, func() {
		var u unfinished
		line := "INSERT INTO t VALUES\n"
		for i := range 2000 {
			if !u.add(line) {
				t.Fatalf("line %d ends a statement", i)
			}
			line = "  ('x;'), -- ;\n"
		}
		if u.add("('y'); -- z\n") {
			t.Error("a statement does not end")
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations", allocs)
	}
}
