package tidy_test

import (
	"fmt"
	"regexp"
	"testing"
)

// testName matches a test, benchmark or fuzz target that a document names in backquotes.
var testName = regexp.MustCompile("`((?:Test|Benchmark|Fuzz|Example)[A-Z][A-Za-z0-9_]*)`")

// testFunc matches the declaration of one.
var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)[A-Za-z0-9_]*)\(`)

func TestTestNames(t *testing.T) { report(t, checkTestNames(loadTree(t))) }

// checkTestNames wants every test that a document names to exist, so that a promise
// does not lose its proof when a test is renamed or removed.
func checkTestNames(files tree) []finding {
	known := map[string]bool{}
	for _, name := range files.names("_test.go") {
		for _, m := range testFunc.FindAllSubmatch(files[name], -1) {
			known[string(m[1])] = true
		}
	}
	var found []finding
	for _, name := range files.names(".md") {
		for i, line := range proseLines(string(files[name])) {
			for _, m := range testName.FindAllStringSubmatch(line, -1) {
				if !known[m[1]] {
					text := fmt.Sprintf("names %s, which no test file declares", m[1])
					found = append(found, finding{name, i + 1, text})
				}
			}
		}
	}
	return found
}
