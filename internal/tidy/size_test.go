package tidy_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits, with a little sense of where they come from: what fits on a screen, and
// what a reader finishes in one sitting.
const (
	maxFileLines  = 800
	maxFuncLines  = 70 // comment lines are not counted
	maxFiles      = 35 // of a package, without tests
	maxLineCols   = 100
	tabCols       = 4
	unbreakable   = 60 // a word this long (a URL, a hex string) excuses its line
	maxReadmeRows = 200
)

// vagueNames say nothing about what is inside.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}

func TestSizes(t *testing.T) { report(t, checkSizes(loadTree(t))) }

func TestFileNames(t *testing.T) { report(t, checkNames(loadTree(t))) }

func checkSizes(files tree) []finding {
	parsed, found := files.goFiles()
	sizes := map[string]int{}
	for _, g := range parsed {
		if !g.isTest() {
			sizes[g.dir()]++
		}
		if n := bytes.Count(g.src, []byte("\n")); n > maxFileLines {
			text := fmt.Sprintf("%d lines, limit %d", n, maxFileLines)
			found = append(found, finding{g.path, 0, text})
		}
		found = append(found, longLines(g.path, g.src)...)
		for _, d := range g.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := codeLines(g, fn); n > maxFuncLines {
				found = append(found, g.find(fn.Pos(),
					"function %s has %d lines, limit %d", fn.Name.Name, n, maxFuncLines))
			}
		}
	}
	for dir, n := range sizes {
		if n > maxFiles {
			text := fmt.Sprintf("%d files without tests, limit %d", n, maxFiles)
			found = append(found, finding{dir, 0, text})
		}
	}
	for _, name := range files.names(".sh") {
		found = append(found, longLines(name, files[name])...)
	}
	if n := bytes.Count(files["README.md"], []byte("\n")); n > maxReadmeRows {
		text := fmt.Sprintf("%d lines, limit %d", n, maxReadmeRows)
		found = append(found, finding{"README.md", 0, text})
	}
	return found
}

// codeLines counts the lines of a function from its signature to its closing brace,
// without those that hold only a comment.
func codeLines(g *goFile, fn *ast.FuncDecl) int {
	first, last := g.line(fn.Pos()), g.line(fn.Body.Rbrace)
	lines := bytes.Split(g.src, []byte("\n"))
	n := last - first + 1
	for _, group := range g.ast.Comments {
		if group.Pos() < fn.Pos() || group.End() > fn.End() {
			continue
		}
		for l := g.line(group.Pos()); l <= g.line(group.End()); l++ {
			text := bytes.TrimSpace(lines[l-1])
			if bytes.HasPrefix(text, []byte("//")) || bytes.HasPrefix(text, []byte("/*")) {
				n--
			}
		}
	}
	return n
}

func longLines(name string, src []byte) []finding {
	var found []finding
	for i, line := range strings.Split(string(src), "\n") {
		cols := utf8.RuneCountInString(line) + (tabCols-1)*strings.Count(line, "\t")
		if cols <= maxLineCols || longestWord(line) > unbreakable {
			continue
		}
		text := fmt.Sprintf("%d columns, limit %d", cols, maxLineCols)
		found = append(found, finding{name, i + 1, text})
	}
	return found
}

func longestWord(line string) int {
	n := 0
	for _, w := range strings.Fields(line) {
		n = max(n, utf8.RuneCountInString(w))
	}
	return n
}

func checkNames(files tree) []finding {
	var found []finding
	for name := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		stem := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".go"), "_test")
		for part := range strings.SplitSeq(path.Dir(name)+"/"+stem, "/") {
			if slices.Contains(vagueNames, part) {
				text := "name the file after what is in it, not " + part
				found = append(found, finding{name, 0, text})
			}
		}
	}
	return found
}
