package tidy_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modulePath prefixes the import path of every package of this module.
const modulePath = "github.com/kstonedb/kstone"

// finding is one violation of one rule.
type finding struct {
	path string // slash-separated, relative to the module's root
	line int    // 0 for the file as a whole
	text string
}

func (f finding) String() string {
	if f.line == 0 {
		return f.path + ": " + f.text
	}
	return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text)
}

// tree is a set of source files; content by path relative to the root. Files under
// testdata are present by name, so that links to them resolve, but have nil content.
type tree map[string][]byte

// goFile is a parsed Go file.
type goFile struct {
	path string
	src  []byte
	fset *token.FileSet
	ast  *ast.File
}

func (g *goFile) isTest() bool { return strings.HasSuffix(g.path, "_test.go") }
func (g *goFile) dir() string  { return path.Dir(g.path) }

func (g *goFile) line(p token.Pos) int { return g.fset.Position(p).Line }

func (g *goFile) find(p token.Pos, format string, args ...any) finding {
	return finding{g.path, g.line(p), fmt.Sprintf(format, args...)}
}

// goFiles parses every Go file of the tree, build tags or not. A file that does not
// parse becomes a finding.
func (t tree) goFiles() (files []*goFile, bad []finding) {
	for _, name := range t.names(".go") {
		g := &goFile{path: name, src: t[name], fset: token.NewFileSet()}
		f, err := parser.ParseFile(g.fset, name, g.src, parser.ParseComments)
		if err != nil {
			bad = append(bad, finding{name, 0, err.Error()})
			continue
		}
		g.ast = f
		files = append(files, g)
	}
	return files, bad
}

// names lists the files that have content and the given extension, sorted.
func (t tree) names(ext string) []string {
	var out []string
	for name, src := range t {
		if src != nil && strings.HasSuffix(name, ext) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// loadTree reads the module from disk. Dot directories and build output stay out.
func loadTree(t *testing.T) tree {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatalf("the module's root is not two directories up: %v", err)
	}
	files := tree{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel != "." && (d.Name()[0] == '.' || rel == "bin" || rel == "build") {
				return filepath.SkipDir
			}
			return nil
		}
		files[rel] = nil
		switch path.Ext(rel) {
		case ".go", ".md", ".sh":
			if inTestdata(rel) && path.Ext(rel) != ".md" {
				return nil
			}
			src, err := os.ReadFile(p)
			files[rel] = append([]byte{}, bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n"))...)
			return err
		}
		return nil
	})
	ok(t, err)
	if len(files.names(".go")) < 10 || files["README.md"] == nil {
		t.Fatalf("the tree at %s is not this module: %d files", root, len(files))
	}
	return files
}

func inTestdata(p string) bool { return strings.Contains("/"+p, "/testdata/") }

// report fails the test once per finding.
func report(t *testing.T, found []finding) {
	t.Helper()
	for _, f := range found {
		t.Error(f)
	}
}
