// Package golden compares what a test has made with a file.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check returns an error unless got is the content of the file in testdata; with the
// flag -update it writes the file instead.
func Check(file string, got []byte) error {
	name := filepath.Join("testdata", file)
	if *update {
		return errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(name, got, 0o644))
	}
	want, err := os.ReadFile(name)
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := 0; ; i++ {
		if x, y := line(a, i), line(b, i); !bytes.Equal(x, y) {
			return fmt.Errorf("%s, line %d:\n got %.200s\nwant %.200s", name, i+1, x, y)
		}
	}
}

func line(all [][]byte, i int) []byte {
	if i < len(all) {
		return all[i]
	}
	return []byte("(the end)")
}
