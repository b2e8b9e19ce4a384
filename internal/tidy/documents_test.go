package tidy_test

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// maxDocWords bounds what people write in docs: what one reader finishes in an evening or two.
// It counts as wc -w does, without docs/promises.md and what kstone-bench writes into pages:
//
//	find docs -name '*.md' ! -name promises.md -exec cat {} + |
//		sed '/^<!-- measurements/,/^<!-- end of measurements/d' | wc -w
const maxDocWords = 50_000

const (
	generatedBegin = "<!-- measurements"
	generatedEnd   = "<!-- end of measurements"
)

func TestDocuments(t *testing.T) {
	files := loadTree(t)
	report(t, checkDocuments(files))
	t.Logf("docs have %d words, limit %d", docWords(files), maxDocWords)
}

// checkDocuments wants every page of docs to begin with its readers ("For …"), except decisions,
// which begin with their status, and all of them together to stay below maxDocWords.
func checkDocuments(files tree) (found []finding) {
	for _, name := range files.names(".md") {
		if path.Dir(name) == "docs/decisions" || !strings.HasPrefix(name, "docs/") {
			continue
		}
		_, body, _ := strings.Cut(string(files[name]), "\n")
		if !strings.HasPrefix(strings.TrimLeft(body, "\r\n"), "For ") {
			found = append(found, finding{name, 0, "does not begin with its readers (For …)"})
		}
	}
	if n := docWords(files); n > maxDocWords {
		text := fmt.Sprintf("%d words that are not generated, limit %d", n, maxDocWords)
		found = append(found, finding{"docs", 0, text})
	}
	return found
}

// docWords counts the words of docs that are not generated.
func docWords(files tree) (n int) {
	for _, name := range files.names(".md") {
		if !strings.HasPrefix(name, "docs/") || name == promisesPage {
			continue
		}
		generated := false
		for line := range strings.Lines(string(files[name])) {
			generated = generated || strings.HasPrefix(line, generatedBegin)
			if !generated {
				n += len(strings.Fields(line))
			}
			generated = generated && !strings.HasPrefix(line, generatedEnd)
		}
	}
	return n
}
