// Package golden compares what a test has made with a file.
package golden

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check fails the test unless got is the content of the file in testdata; with the flag
// -update it writes the file instead.
func Check(t *testing.T, file string, got []byte) {
	t.Helper()
	name := filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !bytes.Equal(a[i], b[i]) {
			t.Fatalf("%s differs in line %d:\n got %.200s\nwant %.200s", name, i+1,
				line(a, i), line(b, i))
		}
	}
}

func line(all [][]byte, i int) []byte {
	if i < len(all) {
		return all[i]
	}
	return []byte("(the end)")
}
