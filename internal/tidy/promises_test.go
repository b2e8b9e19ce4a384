package tidy_test

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/promises.md")

const promisesPage = "docs/promises.md"

const promisesHead = `# Promises

For everybody who relies on kstone, and for contributors. A test fails when the promise is broken.
This page is made of the comments of the tests: change them, then run ` + "`make golden`" + `.
`

// subjects are what promises are about, with their headings, in the order of the page.
var subjects = [][2]string{
	{"durability", "Durability and crashes"},
	{"disks", "Failing disks"},
	{"damage", "Damage"},
	{"reads and writes", "What readers and writers see"},
	{"new keys", "Which keys are new"},
	{"history", "Changes and the retained log"},
	{"readers", "Readers beside the writer"},
	{"shipping", "Shipping and restore"},
	{"sql", "The query language"},
	{"keys", "Keys of several fields"},
	{"plans", "Plans of queries"},
	{"tables", "Tables and indexes"},
	{"manners", "Manners"},
	{"tests", "The tests themselves"},
}

// promiseLine matches the first line of a promise, which goes on to the next one, to an empty line
// or to the end of the comment.
var promiseLine = regexp.MustCompile(`^// Promise \(([^)]*)\): (.*)$`)

// TestPromises compares the page of promises with the comments of the tests.
func TestPromises(t *testing.T) {
	files := loadTree(t)
	page, found := pageOfPromises(files)
	report(t, found)
	if *update {
		name := filepath.Join("..", "..", filepath.FromSlash(promisesPage))
		ok(t, os.WriteFile(name, []byte(page), 0o644))
		return
	}
	if page != string(files[promisesPage]) {
		t.Errorf("%s is not what the tests promise; `make golden` writes it", promisesPage)
	}
}

// pageOfPromises returns the page: a table for each subject, in the order of the source.
func pageOfPromises(files tree) (page string, found []finding) {
	parsed, _ := files.goFiles()
	rows := map[string][]string{}
	for _, g := range parsed {
		if !g.isTest() {
			continue
		}
		for _, d := range g.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Doc != nil {
				found = append(found, promisesOf(g, fn, rows)...)
			}
		}
	}
	var b strings.Builder
	b.WriteString(promisesHead)
	for _, s := range subjects {
		fmt.Fprintf(&b, "\n## %s\n\n| promise | tests |\n|---|---|\n", s[1])
		b.WriteString(strings.Join(rows[s[0]], ""))
	}
	return b.String(), found
}

// promisesOf adds the promises of a test to the rows of their subjects.
func promisesOf(g *goFile, fn *ast.FuncDecl, rows map[string][]string) (found []finding) {
	var subject, text string
	end := func() {
		if text == "" {
			return
		}
		what, also, _ := strings.Cut(text, ". Also ")
		tests := fmt.Sprintf("`%s` in `%s`", fn.Name.Name, g.dir())
		if also != "" {
			tests += "; also " + strings.TrimSuffix(also, ".")
		}
		row := fmt.Sprintf("| %s | %s |\n", strings.TrimSuffix(what, "."), tests)
		rows[subject], text = append(rows[subject], row), ""
	}
	for _, c := range fn.Doc.List {
		m := promiseLine.FindStringSubmatch(c.Text)
		switch {
		case m != nil:
			end()
			if subject, text = m[1], m[2]; !isSubject(subject) {
				found = append(found, g.find(c.Pos(), "no subject of promises is %q", subject))
			}
		case c.Text == "//":
			end()
		case text != "":
			text += " " + strings.TrimSpace(strings.TrimPrefix(c.Text, "//"))
		}
	}
	end()
	return found
}

func isSubject(name string) bool {
	for _, s := range subjects {
		if s[0] == name {
			return true
		}
	}
	return false
}
