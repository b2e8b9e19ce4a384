package tidy_test

import (
	"bytes"
	"strings"
	"testing"
)

// exampleFile holds the Example whose body and output the README shows.
const exampleFile = "engine/example_test.go"

func TestReadmeExample(t *testing.T) { report(t, checkReadmeExample(loadTree(t))) }

// checkReadmeExample wants the first Go block of the README, and the block after it, to
// be part of the testable example, so that what the README shows compiles and prints
// what it says.
func checkReadmeExample(files tree) []finding {
	example, ok := files[exampleFile]
	if !ok {
		return nil // there is no engine to show
	}
	_, rest, ok := strings.Cut(string(files["README.md"]), "\n```go\n")
	code, rest, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		return []finding{{"README.md", 0, "no Go block"}}
	}
	var found []finding
	if !bytes.Contains(example, []byte(prefixLines(code, "\t"))) {
		found = append(found, finding{"README.md", 0, "the Go block is not part of " + exampleFile})
	}
	_, rest, _ = strings.Cut(rest, "```\n")
	output, _, _ := strings.Cut(rest, "```\n")
	if output == "" || !bytes.Contains(example, []byte(prefixLines(output, "\t// "))) {
		found = append(found, finding{"README.md", 0, "the output is not that of " + exampleFile})
	}
	return found
}

// prefixLines puts prefix before every line that is not empty.
func prefixLines(text, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString(prefix)
		}
		b.WriteString(line)
	}
	return b.String()
}
