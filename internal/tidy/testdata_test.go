package tidy_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundledDataFacts counts, in the files themselves, what testdata/README.md and
// the README promise about them.
//
// Promise (manners): The bundled cities are what the documents say. Also `TestScripts` in
// `cmd/kstone-cli/internal/command`.
func TestBundledDataFacts(t *testing.T) {
	for _, c := range []struct {
		file       string
		keyFields  []string
		rows, keys int
	}{
		{"cities.jsonl.gz", []string{"country", "region", "county", "city"}, 171_075, 170_465},
		{"earthquakes.jsonl.gz", []string{"net", "time", "code"}, 1_707, 1_707},
	} {
		rows, keys := countRows(t, c.file, c.keyFields)
		if rows != c.rows || keys != c.keys {
			t.Errorf("%s: %d rows with %d keys, want %d and %d", c.file, rows, keys, c.rows, c.keys)
		}
		readme, err := os.ReadFile(filepath.Join("..", "..", "testdata", "README.md"))
		ok(t, err)
		if !strings.Contains(string(readme), "`"+c.file+"` | "+thousands(c.rows)) {
			t.Errorf("testdata/README.md gives %s other than %s rows", c.file, thousands(c.rows))
		}
	}
}

// countRows returns the number of rows and of distinct keys of a bundled file.
func countRows(t *testing.T, name string, keyFields []string) (rows, keys int) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", name))
	ok(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ok(t, err)
	seen := map[string]bool{}
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		var key strings.Builder
		for _, field := range keyFields {
			// Every file writes its rows the same way, so no parser is needed.
			_, rest, ok := strings.Cut(lines.Text(), `"`+field+`": `)
			if !ok {
				t.Fatalf("%s row %d has no field %s", name, rows+1, field)
			}
			value, _, _ := strings.Cut(rest, `, "`)
			key.WriteString(value + "\x00")
		}
		seen[key.String()] = true
		rows++
	}
	ok(t, lines.Err())
	return rows, len(seen)
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
