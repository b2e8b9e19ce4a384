package keycodec_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestGoldenTuples reads the bytes of every type in every mode as they were first written.
// The file is never written again: if this fails, keys of existing databases are lost.
func TestGoldenTuples(t *testing.T) {
	const name = "testdata/tuples-v1.txt"
	list, err := os.ReadFile(name)
	ok(t, err)
	lines := 0
	for line := range strings.Lines(string(list)) {
		parts := strings.Split(strings.TrimRight(line, "\r\n"), " | ")
		if len(parts) != 3 {
			t.Fatalf("%s: line %q", name, line)
		}
		lines++
		form, text, want := parts[0], parts[1], unhex(t, parts[2])
		s := schemaOf(t, form)
		if got, err := s.Format(want); err != nil || got != text {
			t.Errorf("%s: %x reads as %q, error %v; want %q", form, want, got, err, text)
			continue
		}
		if got := must(s.Append(nil, must(s.Parse(text))...)); !bytes.Equal(got, want) {
			t.Errorf("%s: %q is %x, want %x", form, text, got, want)
		}
	}
	if lines < 600 {
		t.Errorf("%s has %d lines only", name, lines)
	}
}
